"""What SqlSource sets on connections of psycopg, and the only importer of it."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, ServerCursor, postgres
from psycopg.types.string import TextLoader

from kconnect.builtin.connectors.sql.sql_postgres_types import text_types

# JSON, intervals, addresses, ranges and the like; elements of arrays too
_AS_TEXT = text_types([known.oid for known in postgres.types])


class _QuietCursor(ServerCursor[Any]):
    """SQLAlchemy leaves the cursor of a lost connection open, of which psycopg warns although nothing is left open."""

    def __del__(self, *_: Any) -> None:
        """Nothing to say."""


def prepare(connection: Connection[Any], _record: object) -> None:
    """A listener of SQLAlchemy's event `connect`: what Connect has no type for is read as text."""
    connection.server_cursor_factory = _QuietCursor
    for number in _AS_TEXT:
        connection.adapters.register_loader(number, TextLoader)
