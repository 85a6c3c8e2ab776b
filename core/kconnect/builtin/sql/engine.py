"""DuckDB over one Arrow table, with the functions that Spark has and it has not."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import duckdb

from kconnect.api import DataError
from kconnect.builtin.sql.spark_macros import CAPITALS, MACROS

if TYPE_CHECKING:
    import pyarrow as pa

TABLE: Final = "records"

# One thread: a slot's tasks share its cores. Nothing outside of the records can be read or written, and a query cannot
# change that: the configuration is locked once the macros are there.
_CONFIG: Final[dict[str, Any]] = {
    "threads": 1,
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}


class Engine:
    """One connection to a database in memory, of its own for each transformation.

    Threads: the task's. Errors: DataError with DuckDB's first line.
    """

    def __init__(self) -> None:
        self._statements: dict[str, duckdb.Statement] = {}
        # Those that are there when Python ends are complained of on stderr, so they go before, closed or not
        weakref.finalize(self, self._statements.clear)
        self._connection = duckdb.connect(":memory:", config=_CONFIG)
        self._connection.execute("SET TimeZone = 'UTC'")
        capitals = ", ".join(f"'{letter}': '{several}'" for letter, several in CAPITALS.items())
        self._connection.execute(f"SET VARIABLE capitals = MAP {{{capitals}}}")
        for macro in MACROS:
            self._connection.execute(f"CREATE MACRO {macro}")
        self._connection.execute("SET lock_configuration = true")

    def use(self, table: pa.Table) -> None:
        """The rows that `records` names from now on."""
        self._connection.register(TABLE, table)

    def type_of(self, sql: str) -> str:
        """DuckDB's name of the type that an expression has over the rows."""
        try:
            return str(self._connection.sql(f"SELECT {sql} AS r FROM {TABLE}").types[0])
        except duckdb.Error as err:
            raise DataError(_first_line(err)) from None  # DuckDB's says no more than this, save for the query

    def evaluate(self, query: str) -> pa.Table:
        """The result; in the order of the rows, as there is one thread."""
        try:
            return self._connection.sql(query).to_arrow_table()
        except duckdb.Error as err:
            raise DataError(_first_line(err)) from None  # DuckDB's says no more than this, save for the query

    def row(self, query: str, values: list[Any]) -> tuple[Any, ...] | None:
        """The first row that a query gives for its parameters; None for none. The query is parsed once."""
        try:
            statement = self._statements.get(query)
            if statement is None:
                (statement,) = self._connection.extract_statements(query)
                self._statements[query] = statement
            found: list[tuple[Any, ...]] = self._connection.execute(statement, values).fetchall()
        except duckdb.Error as err:
            raise DataError(_first_line(err)) from None  # as above
        return found[0] if found else None

    def close(self) -> None:
        """Frees DuckDB's memory. Called once; nothing else may be called afterwards."""
        self._statements.clear()
        self._connection.close()
        del self._connection


def _first_line(err: duckdb.Error) -> str:
    """Errors that our own macros raise need no word before them: `[DIVIDE_BY_ZERO] Division by zero`."""
    return str(err).strip().split("\n", 1)[0].removeprefix("Invalid Input Error: ")
