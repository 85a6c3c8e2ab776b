"""What SqlSource sets on connections of psycopg, and the only importer of it."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, ServerCursor
from psycopg.types.string import TextLoader

from kconnect.builtin.connectors.sql.sql_describe import TEXT_TYPES


class _QuietCursor(ServerCursor[Any]):
    """SQLAlchemy leaves the cursor of a lost connection open, of which psycopg warns although nothing is left open."""

    def __del__(self, *_: Any) -> None:
        """Nothing to say."""


def prepare(connection: Connection[Any], _record: object) -> None:
    """A listener of SQLAlchemy's event `connect`: JSON and the like are read as text."""
    connection.server_cursor_factory = _QuietCursor
    for number in TEXT_TYPES:
        connection.adapters.register_loader(number, TextLoader)
