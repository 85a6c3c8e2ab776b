"""What SqlSource sets on connections of psycopg, and the only importer of it."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, DataError, ServerCursor, postgres
from psycopg.adapt import Transformer
from psycopg.pq import Format
from psycopg.types.string import TextLoader

from kconnect.builtin.connectors.sql.sql_postgres_types import text_types

# JSON, intervals, addresses, ranges and the like; elements of arrays too
_AS_TEXT = text_types([known.oid for known in postgres.types])


class _Cursor(ServerCursor[Any]):
    """Names the column of a value that Python has not."""

    def fetchmany(self, size: int = 0) -> list[Any]:
        """Errors: DataError that names the columns."""
        try:
            return super().fetchmany(size)
        except DataError as err:
            raise DataError(self._unreadable() or str(err)) from err

    def _unreadable(self) -> str:
        """The columns that have a value that Python has not, as dates that are infinite, before Christ or too late."""
        rows, loaders, found = self.pgresult, Transformer(self), list[str]()
        if rows is None:
            return ""
        for column in range(rows.nfields):
            load = loaders.get_loader(rows.ftype(column), Format(rows.fformat(column))).load
            for value in (rows.get_value(row, column) for row in range(rows.ntuples)):
                try:
                    if value is not None:
                        load(value)
                except DataError as err:
                    found.append(f"column {(rows.fname(column) or b'').decode()}: {err}")
                    break
        return "; ".join(found)

    def __del__(self, *_: Any) -> None:
        """Nothing to say: of a cursor that SQLAlchemy leaves with a lost connection psycopg would warn."""


def prepare(connection: Connection[Any], _record: object) -> None:
    """A listener of SQLAlchemy's event `connect`: what Connect has no type for is read as text."""
    connection.server_cursor_factory = _Cursor
    for number in _AS_TEXT:
        connection.adapters.register_loader(number, TextLoader)
