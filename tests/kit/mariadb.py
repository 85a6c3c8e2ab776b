"""A real MariaDB server for tests, of Debian's package mariadb-server; it listens on 127.0.0.1 only."""

from __future__ import annotations

import getpass
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from kconnect.testing import ManualClock, SinkHarness, SourceHarness
from kit.ports import free_port
from kit.server_process import ServerProcess

__all__ = ["MariaDb", "dotted", "mariadb", "nothing_more", "sink_into", "source_of", "values_of"]

# A second alone on two cores
_START_S = 60.0
_USER, _PASSWORD = "connect", "test-secret-of-mariadb"


class MariaDb:
    """One server: `start()`, `stop()`, `kill()`, again and again; data and port stay. Threads: one."""

    def __init__(self, folder: Path, *, is_followed: bool = False) -> None:
        """`is_followed`: it keeps a log of its changes, row by row, which others may read."""
        self._folder = folder
        self._log = ["--skip-log-bin"]
        if is_followed:
            self._log = [
                f"--log-bin={folder / 'binlog'}",
                "--server-id=1",
                "--binlog-format=ROW",
                "--binlog-row-image=FULL",
            ]
        self._process = ServerProcess("MariaDB", folder / "log", self._answers)
        self.port = free_port()
        self._own = ["--no-defaults", f"--datadir={folder / 'data'}", f"--user={getpass.getuser()}"]

    def settings(self, schema: str) -> dict[str, str]:
        """Of a connector, for one database of the server."""
        return {
            "connection.url": f"jdbc:mariadb://127.0.0.1:{self.port}/{schema}",
            "connection.user": _USER,
            "connection.password": _PASSWORD,
        }

    def make(self) -> MariaDb:
        """Make the server's own tables, once."""
        command = ["mariadb-install-db", *self._own, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(command, check=True, capture_output=True, timeout=_START_S)
        return self

    def start(self) -> MariaDb:
        """Start, and wait until it answers."""
        own = [f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self._folder / 's'}", *self._log]
        own.append("--innodb-flush-log-at-trx-commit=2")  # commits outlive a kill, not a machine without power
        log = f"--log-error={self._folder / 'log'}"
        command = ["mariadbd", *self._own, *own, log, f"--pid-file={self._folder / 'pid'}"]
        self._process.start(command)
        return self

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def run(self, *statements: str | tuple[str, Sequence[Any]], schema: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements as the server's root; gives the rows of the last."""
        with closing(self._connection(schema)) as connection, connection.cursor() as cursor:
            for statement in statements:
                text, values = (statement, None) if isinstance(statement, str) else statement
                cursor.executemany(text, values) if values is not None else cursor.execute(text)
            return [tuple(row) for row in cursor.fetchall()]

    def make_schema(self, name: str) -> str:
        """A new database, which the connector's user may change; gives its name."""
        user = f"'{_USER}'@'127.0.0.1'"
        self.run(
            f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4",
            f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{_PASSWORD}'",
            f"GRANT ALL ON `{name}`.* TO {user}",
        )
        return name

    def _answers(self) -> bool:
        try:
            # Asked without PyMySQL, which leaves its socket open when nobody answers
            with socket.socket(socket.AF_UNIX) as door:
                door.connect(str(self._folder / "s"))
            self.run("SELECT 1")
        except (OSError, pymysql.err.OperationalError) as error:
            raise AssertionError(str(error)) from error
        return True

    def _connection(self, schema: str | None) -> Any:
        return pymysql.connect(unix_socket=str(self._folder / "s"), user="root", database=schema, autocommit=True)


@contextmanager
def mariadb(folder: Path, *, is_followed: bool = False) -> Iterator[MariaDb]:
    """A running server with its data in the folder; stops it at the end."""
    server = MariaDb(folder, is_followed=is_followed).make().start()
    try:
        yield server
    finally:
        server.stop()


def source_of(server: MariaDb, schema: str, **more: str) -> SourceHarness:
    """A SqlSource of a database. Keywords with `_` become keys with `.`."""
    return SourceHarness("SqlSource", {**server.settings(schema), "poll.interval.ms": "20", **dotted(more)})


def sink_into(server: MariaDb, schema: str, topic: str, clock: ManualClock | None = None, **more: str) -> SinkHarness:
    """A SqlSink into a database, which makes its tables."""
    config = {"topics": topic, "auto.create": "true", **server.settings(schema), **dotted(more)}
    return SinkHarness("SqlSink", config, clock=clock or ManualClock())


def values_of(record: Any) -> dict[str, Any]:
    return {field.name: record.value[field.name] for field in record.value_schema.fields}


def nothing_more(source: SourceHarness) -> bool:
    """Whether a dozen polls give nothing."""
    return not [record for _ in range(12) for record in source.poll_once()]


def dotted(more: dict[str, str]) -> dict[str, str]:
    """Keywords as keys of a config."""
    return {key.replace("_", "."): value for key, value in more.items()}
