"""Rows of files and of a database stream through SparkSource, while Python processes, worker and broker die."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from kconnect.java.devbroker import DevBroker
from kit.debezium import debezium_plugin_path
from kit.distributed_worker import Distributed
from kit.postgres import Door, socket_of
from kit.topics import committed_values, create_topic
from kit.waiting import eventually

__all__ = ["Feed", "SourceRun", "assert_each_once", "ids_in", "write_rows"]

_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def write_rows(folder: Path, first: int, count: int) -> None:
    """A Parquet file of numbers, which is there at once."""
    rows = pa.table({"id": pa.array(range(first, first + count), pa.int64())})
    hidden = folder / f".{first}"
    pq.write_table(rows, hidden)
    hidden.rename(folder / f"{first:09}.parquet")


def ids_in(folder: Path) -> list[int]:
    """All in a table of Parquet files, in order: a reader that knows nothing of us."""
    try:
        files = [file for file in folder.glob("*.parquet") if file.stat().st_size]
        return sorted(number for file in files for number in pq.read_table(file)["id"].to_pylist())
    except FileNotFoundError:  # a query that writes all rows again has just removed it
        return []


class Feed:
    """Writes files with so many rows in all at a rate, and a tenth of them into a database. A context manager."""

    def __init__(self, folder: Path, uri: str, count: int, rate: int) -> None:
        self._folder, self._uri, self._count, self._rate = folder, uri, count, rate
        self.in_database = count // 10
        self.written = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-feed")

    def _run(self) -> None:
        began, inserted = time.monotonic(), 0
        with psycopg.connect(self._uri, autocommit=True) as connection:
            while self.written < self._count and not self._stop.wait(0.5):
                due = min(self._count, int((time.monotonic() - began) * self._rate))
                if due > self.written:
                    write_rows(self._folder, self.written, due - self.written)
                    self.written = due
                # In one statement, so that no lower number is committed after a higher one
                connection.execute(
                    "INSERT INTO numbers SELECT n FROM generate_series(%s::bigint, %s::bigint) n",
                    (inserted, due // 10 - 1),
                )
                inserted = due // 10

    def __enter__(self) -> Feed:
        with psycopg.connect(self._uri, autocommit=True) as connection:
            connection.execute("CREATE TABLE numbers (id bigint PRIMARY KEY)")
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(60)


class SourceRun:
    """A worker of a cluster with exactly-once sources: one reads files, one a table. A context manager."""

    def __init__(self, folder: Path, broker: DevBroker, name: str, uri: str, seed: int) -> None:
        self.broker, self._chance, self._uri = broker, random.Random(seed), uri
        self.folder = folder / "in"
        self.folder.mkdir()
        self.topics = {kind: f"{name}-{kind}" for kind in ("files", "rows")}
        for topic in self.topics.values():
            create_topic(broker.bootstrap, topic, partitions=2)
        self._door = Door(socket_of(uri))
        jar = next((debezium_plugin_path() / "debezium-connector-postgres").glob("postgresql-*.jar"))
        settings = {"exactly.once.source.support": "enabled", "kconnect.slots": "1", "spark.jars": str(jar)}
        settings |= {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
        self.worker = Distributed(folder, broker.bootstrap, f"{name}-group", {**_JSON, **settings})
        self.kills: dict[str, int] = {}

    def connectors(self) -> dict[str, dict[str, str]]:
        shared = {"connector.class": "SparkSource", "spark.trigger.ms": "200", "errors.restart.max": "1000"}
        shared |= {
            "errors.restart.backoff.ms": "1000",
            "errors.restart.backoff.max.ms": "5000",
            "delivery.guarantee": "exactly_once",
        }
        database = {
            "spark.format": "jdbc",
            "spark.options.url": f"jdbc:postgresql://127.0.0.1:{self._door.port}/postgres",
            "spark.options.user": "postgres",
            "spark.options.driver": "org.postgresql.Driver",
            "spark.options.dbtable": "numbers",
            "cursor.column": "id",
            "spark.max.records": "2000",
        }
        files = {"spark.format": "parquet", "spark.schema": "id bigint", "spark.options.path": str(self.folder)}
        files["spark.options.maxFilesPerTrigger"] = "20"
        return {
            "files": {**shared, **files, "topic": self.topics["files"]},
            "rows": {**shared, **database, "topic": self.topics["rows"]},
        }

    def __enter__(self) -> SourceRun:
        self._door.__enter__()
        self.worker.start(120)
        with self.worker.client() as client:
            for name, config in self.connectors().items():
                client.put_connector_config(name, config)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.__exit__(kind, err, trace)
        self._door.__exit__()

    def kill(self, what: str) -> None:
        """SIGKILL to a Python process of Spark that chance picks, or to worker or broker, which start again."""
        self.kills[what] = self.kills.get(what, 0) + 1
        if what == "worker":
            self.worker.kill()
            self.worker.start(120)
        elif what == "broker":
            self.broker.kill()
            self.broker.start()
        else:
            processes = eventually(self._python_processes, 60.0, "Spark has Python processes")
            with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                self._chance.choice(processes).kill()

    def _python_processes(self) -> list[psutil.Process]:
        """Slots, and processes that send rows of queries."""
        return self.worker.slots()

    def count(self, kind: str) -> int:
        return len(committed_values(self.broker.bootstrap, self.topics[kind], 120))

    def await_count(self, kind: str, count: int, within_s: float) -> None:
        def seen() -> bool:
            found = self.count(kind)
            assert found >= count, f"{found} of {count} in {kind}; {self.worker.log_text()[-3000:]}"
            return True

        eventually(seen, within_s, f"{kind} has {count} rows", pause_s=1.0)


def assert_each_once(broker: DevBroker, topic: str, count: int) -> None:
    """Each number below `count` is in the topic once. Errors: AssertionError that says what is missing or doubled."""
    ids = [json.loads(value)["id"] for value in committed_values(broker.bootstrap, topic, 300) if value is not None]
    unique = set(ids)
    missing = sorted(set(range(count)) - unique)
    assert (len(ids), len(unique)) == (count, count), (
        f"{topic}: {len(ids)} records, {len(unique)} different ones of {count}; missing: {missing[:5]}"
    )
