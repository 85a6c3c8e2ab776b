"""Records stream into tables of three databases by plain inserts, exactly once; slots, worker and databases die."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from kconnect.java.devbroker import DevBroker
from kit.mariadb import MariaDb, mariadb
from kit.pgbouncer import pgbouncer
from kit.postgres import Database, database
from kit.standalone import Standalone
from kit.waiting import eventually

__all__ = ["DATABASES", "EXACTLY_ONCE", "SqlRun", "sql_run"]

DATABASES = ("postgresql", "mariadb", "sqlite")
EXACTLY_ONCE = {
    "connector.class": "SqlSink",
    "delivery.guarantee": "exactly_once",
    "auto.create": "true",
    "max.retries": "600",
    "retry.backoff.ms": "200",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_BACK_S = 240.0  # a worker and its slots, beside all else that this machine does
_FOUND = "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM numbers"


class SqlRun:
    """A worker with a SqlSink into each database; PostgreSQL's through a transaction pooler. A context manager."""

    def __init__(
        self,
        folder: Path,
        broker: DevBroker,
        topic: str,
        seed: int,
        servers: tuple[Database, MariaDb],
        urls: dict[str, dict[str, str]],
    ) -> None:
        self._postgres, self._mariadb = servers
        self._chance, self._file = random.Random(seed), folder / "numbers.db"
        self.kills: dict[str, int] = {}
        sinks = {
            f"{topic}-{kind}": {**EXACTLY_ONCE, **urls[kind], "topics": topic, "table.name.format": "numbers"}
            for kind in DATABASES
        }
        for config in sinks.values():
            config["tasks.max"] = "2"
        self.worker = Standalone(folder, broker.bootstrap, sinks, {"kconnect.slots": "2"})

    def __enter__(self) -> SqlRun:
        self.worker.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.__exit__(None, None, None)

    def kill(self, what: str) -> None:
        """SIGKILL to a slot that chance picks, to the worker, or to a server; all start again."""
        self.kills[what] = self.kills.get(what, 0) + 1
        if what == "worker":
            self.worker.kill()
            self.worker.start(_BACK_S, running=False)
        elif what == "slot":
            found = eventually(self.worker.slots, _BACK_S, "there is a slot")
            with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                self._chance.choice(found).kill()
        else:
            server = self._postgres if what == "postgresql" else self._mariadb
            server.kill()
            server.start()

    def found(self, kind: str) -> tuple[Any, ...]:
        """Rows, different records, the first and the last of a table; zeros while there is none."""
        asks: dict[str, Callable[[], tuple[Any, ...]]] = {
            "postgresql": self._in_postgres,
            "mariadb": lambda: self._mariadb.run(_FOUND, schema="shop")[0],
            "sqlite": self._in_sqlite,
        }
        try:
            return asks[kind]()
        except Exception as error:  # any driver's
            if "numbers" not in str(error):
                raise
            return 0, 0, None, None

    def _in_postgres(self) -> tuple[Any, ...]:
        with psycopg.connect(self._postgres.uri) as connection:
            return connection.execute(_FOUND).fetchone() or ()

    def _in_sqlite(self) -> tuple[Any, ...]:
        with closing(sqlite3.connect(self._file, timeout=60)) as connection:
            row: tuple[Any, ...] = connection.execute(_FOUND).fetchone()
        return row

    def await_rows(self, least: int, within_s: float) -> None:
        """Wait until each table has so many rows."""
        for kind in DATABASES:

            def has_them(kind: str = kind) -> bool:
                count = self.found(kind)[0]
                assert count >= least, f"{kind} has {count} rows; {self.worker.log_text()[-3000:]}"
                return True

            eventually(has_them, within_s, f"{kind} has {least} rows", pause_s=0.3)

    def assert_each_once(self, count: int) -> None:
        """Each record is in each table once. Errors: AssertionError that says what is missing or doubled."""
        for kind in DATABASES:
            assert self.found(kind) == (count, count, 0, count - 1), (
                f"{kind}: {self.found(kind)} of {count}\n{self.worker.log_text()[-6000:]}"
            )


@contextmanager
def sql_run(folder: Path, broker: DevBroker, topic: str, seed: int) -> Iterator[SqlRun]:
    """The servers, the pooler and the worker."""
    (folder / "mariadb").mkdir()
    (folder / "worker").mkdir()
    with database() as postgres, mariadb(folder / "mariadb") as maria, pgbouncer(folder, postgres.uri, 4) as pooler:
        maria.make_schema("shop")
        urls = {
            "postgresql": {"connection.url": pooler.url},
            "mariadb": maria.settings("shop"),
            "sqlite": {"connection.url": f"jdbc:sqlite:{folder / 'worker' / 'numbers.db'}"},
        }
        with SqlRun(folder / "worker", broker, topic, seed, (postgres, maria), urls) as run:
            yield run
