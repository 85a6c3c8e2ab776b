"""What SqlSource sets on connections of psycopg, and the only importer of it."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, DataError, ServerCursor, postgres
from psycopg.adapt import Transformer
from psycopg.pq import Format
from psycopg.types.string import TextLoader

from kconnect.builtin.connectors.sql.sql_postgres_types import text_types
from kconnect.builtin.connectors.sql.sql_values import Unreadable

# JSON, intervals, addresses, ranges and the like; elements of arrays too
_AS_TEXT = text_types([known.oid for known in postgres.types])


class _Cursor(ServerCursor[Any]):
    """Gives rows also where Python lacks one of their values."""

    def fetchmany(self, size: int = 0) -> list[Any]:
        try:
            return super().fetchmany(size)
        except DataError as err:
            if err.sqlstate is not None or (rows := self.pgresult) is None:  # the server's: it has fetched nothing
                raise
            return self._row_by_row(rows)

    def _row_by_row(self, rows: Any) -> list[Any]:  # libpq's result
        """The rows that were fetched. Python has no dates that are infinite, before Christ or too late."""
        loaders, columns = Transformer(self), range(rows.nfields)
        loads = [loaders.get_loader(rows.ftype(at), Format(rows.fformat(at))).load for at in columns]

        def value(row: int, column: int) -> Any:
            given = rows.get_value(row, column)
            try:
                return None if given is None else loads[column](given)
            except DataError as err:
                return Unreadable(bytes(given).decode(errors="replace"), str(err))

        return [tuple(value(row, column) for column in columns) for row in range(rows.ntuples)]

    def __del__(self, *_: Any) -> None:
        """Nothing to say: of a cursor that SQLAlchemy leaves with a lost connection psycopg would warn."""


def prepare(connection: Connection[Any], _record: object) -> None:
    """A listener of SQLAlchemy's event `connect`: what Connect has no type for is read as text."""
    connection.server_cursor_factory = _Cursor
    for number in _AS_TEXT:
        connection.adapters.register_loader(number, TextLoader)
