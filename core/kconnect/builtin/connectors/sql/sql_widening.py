"""Columns that SqlSink makes wider, one task at a time, so that they take a value and keep all that they have.

Another task, whose view of the table is older, would make a column narrower again, and PostgreSQL round its values: it
looks again once it has the table alone.
"""

from __future__ import annotations

import contextlib
import decimal
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from kconnect.builtin.connectors.sql.sql_fit import MisfitError, TableColumn, fitted, wider
from kconnect.builtin.connectors.sql.sql_sink_database import SinkDatabase
from kconnect.builtin.types.leaf_columns import exact_decimal

log = logging.getLogger(__name__)


class Widening:
    """Widens over one connection. Threads: the task's."""

    def __init__(self, database: SinkDatabase, look: Callable[[Any, str, str], TableColumn | None]) -> None:
        """`look(cursor, table, column)`: the column as it is in the database now."""
        self._database, self._dialect = database, database.dialect
        self._look = look
        self._refused: set[tuple[str, str, str]] = set()  # tables, columns and types that stay as they are

    def forget(self) -> None:
        """What the database refused it may take now."""
        self._refused.clear()

    def widened(self, cursor: Any, table: str, column: TableColumn, value: Any, *, is_seen: bool) -> TableColumn | None:
        """The column as it takes the value now; None where it stays as it is. Errors: the driver's, if they may pass.

        MySQL ends the transaction: call it before all rows.
        """
        asked = table, column.name, column.type_name
        if self._dialect.name == "sqlite" or asked in self._refused or wider(column, value) is None:
            return None
        try:
            with self._alone(cursor, table):
                found = self._look(cursor, table, column.name)
                if found is None or _takes(found, value, is_seen=is_seen):
                    return found
                self._widen(cursor, table, found, value)
                found = self._look(cursor, table, column.name)
        except (self._database.driver.Error, _StaysError) as error:
            if self._may_pass(error):
                raise
            self._refused.add(asked)
            log.warning("Column %s of table %s is not made wider: %s", column.name, table, error)
            return None
        log.info("Column %s of table %s is %s now", column.name, table, found.type_name if found else "gone")
        return found

    def _may_pass(self, error: Exception) -> bool:
        return not isinstance(error, _StaysError) and self._database.may_pass(error)

    @contextlib.contextmanager
    def _alone(self, cursor: Any, table: str) -> Iterator[None]:
        """No other task changes the table meanwhile; in PostgreSQL what was done is undone behind an error."""
        if self._dialect.name == "mysql":
            cursor.execute("COMMIT")  # as ALTER does: a table that was looked at may not be held while others wait
            name = table.replace("\\", "\\\\").replace("'", "''")
            lock = f"SHA1(CONCAT(COALESCE(DATABASE(), ''), '.{name}'))"
            cursor.execute(f"SELECT GET_LOCK({lock}, @@lock_wait_timeout)")
            if cursor.fetchone()[0] != 1:
                raise _StaysError("another task changes the table all the time")
            try:
                yield
            finally:
                cursor.execute(f"SELECT RELEASE_LOCK({lock})")
                cursor.fetchall()
            return
        cursor.execute("SAVEPOINT kconnect_widen")
        try:
            cursor.execute(f"LOCK TABLE {self._dialect.name_of(table)} IN ACCESS EXCLUSIVE MODE")
            yield
        except (self._database.driver.Error, _StaysError) as error:
            if not self._may_pass(error):
                cursor.execute("ROLLBACK TO SAVEPOINT kconnect_widen")
            raise
        cursor.execute("RELEASE SAVEPOINT kconnect_widen")

    def _widen(self, cursor: Any, table: str, column: TableColumn, value: Any) -> None:
        """Errors: the driver's; _StaysError for a column that no statement of ours makes wider."""
        kind, dialect = wider(column, value), self._dialect
        if kind is None:
            raise _StaysError(f"it is {column.type_name} now")
        name, target = dialect.column(column.name), dialect.name_of(table)
        if kind == "float64":
            cursor.execute(f"SELECT 1 FROM {target} WHERE abs({name}) > {1 << 53} LIMIT 1")
            kind = "decimal" if cursor.fetchall() else kind
        if dialect.name == "postgresql":
            cursor.execute(f"ALTER TABLE {target} ALTER COLUMN {name} TYPE {dialect.types[kind]}")
            return
        cursor.execute(f"SHOW CREATE TABLE {target}")
        definition = definition_of(cursor.fetchone()[1], name, column.type_name)
        if definition is None:
            raise _StaysError("its definition cannot be read from SHOW CREATE TABLE")
        cursor.execute(f"ALTER TABLE {target} MODIFY COLUMN {name} {_mysql_type(column, kind, value)}{definition}")


class _StaysError(Exception):
    """A column cannot be made wider."""


def _takes(column: TableColumn, value: Any, *, is_seen: bool) -> bool:
    try:
        fitted(column, value, is_seen=is_seen)
    except MisfitError:
        return False
    return True


def definition_of(created: str, name: str, type_name: str) -> str | None:
    """What MySQL's CREATE TABLE says of a column behind its type: MODIFY drops what it does not repeat. Pure.

    `name`: in quotes. None where it cannot be found.
    """
    bare = name[1:-1].replace("``", "`") if name.startswith("`") else name
    names = {f"`{bare.replace('`', '``')}`", '"{}"'.format(bare.replace('"', '""')), bare}
    for line in created.split("\n"):
        given = re.match(r'\s+(`(?:[^`]|``)*`|"(?:[^"]|"")*"|\S+) ', line)
        rest = line[given.end() :] if given else ""
        if given and given[1] in names and rest.startswith(type_name):
            return rest[len(type_name) :].removesuffix(",")
    return None


def _mysql_type(column: TableColumn, kind: str, value: Any) -> str:
    """Errors: _StaysError for a number of more digits than its DECIMAL has."""
    if "zerofill" in column.type_name:
        raise _StaysError("it has ZEROFILL")
    if kind == "int64":
        return "BIGINT UNSIGNED" if column.is_unsigned and value >= 0 else "BIGINT"
    if kind != "decimal":
        return {"float64": "DOUBLE", "text": "LONGTEXT"}[kind]
    number = exact_decimal(value) if isinstance(value, float) else decimal.Decimal(value)
    if not number.is_finite():
        raise _StaysError(f"it is {column.type_name}, and the value {value}")
    _, digits, exponent = number.normalize(decimal.Context(prec=_MOST_DIGITS + _MOST_SCALE)).as_tuple()
    whole = column.precision - column.scale if column.precision is not None else _WHOLE_DIGITS[column.kind]
    whole = max(whole, len(digits) + int(exponent))
    scale = max(column.scale, -int(exponent))
    most = next((most for most in (_USUAL_DIGITS, _MOST_DIGITS) if whole + scale <= most), None)
    if most is None or scale > _MOST_SCALE:
        raise _StaysError(f"it would have {whole + scale} digits, {scale} behind the point")
    return f"DECIMAL({most},{scale})"


# Of MySQL's DECIMAL, and what other tables have at most
_MOST_DIGITS: Final = 65
_MOST_SCALE: Final = 30
_USUAL_DIGITS: Final = 38
_WHOLE_DIGITS: Final = {"int8": 3, "int16": 5, "int24": 8, "int32": 10, "int64": 20}
