"""What columns a table or a query gives: by the driver's type numbers, by SQLAlchemy's inspector, or by the values.

Of MySQL and MariaDB it is what their protocol says of a result, for tables and queries alike.

Source: GenericDatabaseDialect.addFieldToSchema over the types of MySQL's driver for Java. Differs: a YEAR is a number,
where that driver makes a date of it; a BIT of several bits is a number, and geometry is text, where that one fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kconnect.builtin.connectors.sql import sql_postgres_types
from kconnect.builtin.connectors.sql.sql_columns import Column
from kconnect.builtin.connectors.sql.sql_dialect import kind_of
from kconnect.builtin.connectors.sql.sql_tables import TableId

if TYPE_CHECKING:
    import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class Description:
    """The columns of a source, and the first that the database counts up by itself."""

    columns: tuple[Column, ...]
    autoincrement: str | None = None


def describe(connection: sa.Connection, table: TableId | None, select: str) -> Description:
    """What a table's select gives, or a query, which may not end in a semicolon. Errors: the database's."""
    kind = kind_of(connection.dialect)
    if kind == "postgresql":
        what = f"SELECT * FROM {nested(select)}" if table is None else select
        return Description(*sql_postgres_types.described(connection, f"{what} WHERE 1=0"))
    if kind == "mysql" and table is not None:
        result = connection.execution_options(no_parameters=True).exec_driver_sql(f"{select} WHERE 1=0")
        by_fields = _mysql_described(result.cursor)
        result.close()
        if by_fields is not None:
            return Description(*by_fields)
    if table is not None:
        return _by_inspector(connection, table.name, table.schema or table.catalog or None)
    if kind == "sqlite":
        # A view knows the types of the columns that it takes from tables; a statement does not tell them
        connection.exec_driver_sql("DROP VIEW IF EXISTS temp.kconnect_query")
        connection.exec_driver_sql(f"CREATE TEMP VIEW kconnect_query AS {select}")
        try:
            return _by_inspector(connection, "kconnect_query", "temp")
        finally:
            connection.exec_driver_sql("DROP VIEW temp.kconnect_query")
    return Description(())


def nested(query: str) -> str:
    """A query as a table of another; it may end in a comment."""
    return f"({query}\n) AS kconnect_query"


def columns_of(cursor: Any, names: Sequence[str], kind: str) -> tuple[Column, ...]:  # the driver's cursor
    """Columns of a result that was not described before: where the driver does not tell types, their values do."""
    found = _mysql_described(cursor) if kind == "mysql" else None
    return _mysql_of_query(found[0]) if found is not None else tuple(Column(name, "any") for name in names)


def selected(columns: Sequence[Column], quote: Callable[[str], str], kind: str) -> str:
    """What stands between SELECT and FROM for a table of these columns."""
    return _mysql_selected(columns, quote) if kind == "mysql" else "*"


# --- other databases ---


def _by_inspector(connection: sa.Connection, name: str, schema: str | None) -> Description:
    from sqlalchemy import inspect

    inspector = inspect(connection)
    kind = kind_of(connection.dialect)
    found = inspector.get_columns(name, schema=schema)
    keys: list[str] = []
    if kind == "sqlite" and schema is None:
        keys = inspector.get_pk_constraint(name)["constrained_columns"]
    columns, autoincrement = [], None
    for column in found:
        made = _of_type(kind, column["name"], column["type"], bool(column.get("nullable", True)))
        # A key of one whole number is SQLite's row id: it counts up, and is never null whatever the table says
        is_row_id = keys == [column["name"]] and made.kind == "int64"
        if is_row_id:
            made = Column(made.name, made.kind, False, type_name=made.type_name)
        if autoincrement is None and (is_row_id or column.get("autoincrement") is True or column.get("identity")):
            autoincrement = column["name"]
        columns.append(made)
    return Description(tuple(columns), autoincrement)


def _of_type(kind: str, name: str, given: Any, is_optional: bool) -> Column:  # SQLAlchemy's type
    """A column by SQLAlchemy's type. Differs: whole numbers of SQLite are INT64, as its columns hold any."""
    import sqlalchemy as sa

    text = str(given.__class__.__name__).upper()
    if isinstance(given, sa.Numeric) and not isinstance(given, sa.Float):
        precision, scale = given.precision or 0, given.scale or 0
        if kind == "sqlite" and not precision:
            return Column(name, "float64", is_optional, type_name=text)
        return Column(name, "decimal", is_optional, precision, scale, text)
    if isinstance(given, sa.DateTime):
        has_zone = bool(given.timezone) or (kind == "mysql" and text == "TIMESTAMP")
        return Column(name, "timestamptz" if has_zone else "timestamp", is_optional, type_name=text)
    if isinstance(given, sa.Integer) and kind == "sqlite":
        return Column(name, "int64", is_optional, type_name=text)
    if kind == "mysql" and (wanted := _of_mysql(text, given)) is not None:
        return Column(name, wanted, is_optional, type_name=text)
    for types, wanted in (
        ((sa.Boolean,), "bool"),
        ((sa.BigInteger,), "int64"),
        ((sa.SmallInteger,), "int16"),
        ((sa.Integer,), "int32"),
        ((sa.REAL,), "float32"),
        ((sa.Float,), "float64"),
        ((sa.Date,), "date"),
        ((sa.Time,), "time"),
        ((sa.LargeBinary, sa.BINARY, sa.VARBINARY), "bytes"),
        ((sa.String, sa.Enum, sa.Uuid, sa.JSON), "string"),
    ):
        if isinstance(given, types):
            return Column(name, "float64" if wanted == "float32" and kind == "sqlite" else wanted, is_optional)
    return Column(name, "any" if kind == "sqlite" else "string", is_optional, type_name=text)


def _of_mysql(text: str, given: Any) -> str | None:  # SQLAlchemy's type
    """What a type is that only MySQL has, for drivers that do not tell; None for others. As `_mysql_column` has it."""
    if text in ("FLOAT", "YEAR"):
        return "float32" if text == "FLOAT" else "int32"
    if text == "BIT":
        length = given.length or 1
        return "int8" if length == 1 else "int64" if length < 64 else "unsigned"
    if not re.fullmatch(r"(TINY|SMALL|MEDIUM|BIG)?INT(EGER)?", text):
        return None
    place = {"TINYINT": 0, "SMALLINT": 1, "BIGINT": 3}.get(text, 2)
    return _SIZES[place + bool(getattr(given, "unsigned", False))]


# Numbers of types in the protocol, and flags of columns
_TINY, _SMALL, _INT, _FLOAT, _DOUBLE, _BIG, _MEDIUM, _DATE, _TIME, _YEAR = 1, 2, 3, 4, 5, 8, 9, 10, 11, 13
_TIMESTAMP, _DATETIME, _BIT, _OLD_DECIMAL, _DECIMAL, _GEOMETRY = 7, 12, 16, 0, 246, 255
_NOT_NULL, _UNSIGNED, _COUNTS, _LIST = 1, 32, 512, 256 | 2048
_BINARY_CHARSET = 63
_STRINGS = frozenset((15, 249, 250, 251, 252, 253, 254))

_MYSQL_KINDS: Final = {
    _FLOAT: "float32",
    _DOUBLE: "float64",
    _DATE: "date",
    _TIME: "time",
    _YEAR: "int32",
    _TIMESTAMP: "timestamptz",
    _DATETIME: "timestamp",
}
_WHOLE: Final = {_TINY: 0, _SMALL: 1, _MEDIUM: 2, _INT: 2, _BIG: 3}
_SIZES: Final = ("int8", "int16", "int32", "int64", "unsigned")
"""Kinds of whole numbers; those without sign take the next."""


def _mysql_described(cursor: Any) -> tuple[tuple[Column, ...], str | None] | None:  # the driver's cursor
    """The columns of its result, and the one that counts up by itself; None for a driver that tells too little."""
    fields = getattr(getattr(cursor, "_result", None), "fields", None)
    if fields is None:
        return None
    counting = next((field.name for field in fields if field.flags & _COUNTS), None)
    return tuple(_mysql_column(field) for field in fields), counting


def _mysql_of_query(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a query, which gives geometry as bytes, and a TIMESTAMP by the clock of the session's zone."""
    wall_clock = {"timestamptz": "timestamp"}
    return tuple(
        replace(one, kind="bytes" if one.type_name == "geometry" else wall_clock.get(one.kind, one.kind))
        for one in columns
    )


def _mysql_selected(columns: Sequence[Column], quote: Callable[[str], str]) -> str:
    """What stands between SELECT and FROM: geometry is asked for as text."""
    if all(column.type_name != "geometry" for column in columns):
        return "*"
    return ", ".join(
        f"ST_AsText({quote(column.name)}) AS {quote(column.name)}"
        if column.type_name == "geometry"
        else quote(column.name)
        for column in columns
    )


def _mysql_column(field: Any) -> Column:
    """The column of pymysql's description."""
    is_optional, number = not field.flags & _NOT_NULL, field.type_code
    if number in (_OLD_DECIMAL, _DECIMAL):
        precision = field.length - (field.scale > 0) - (not field.flags & _UNSIGNED)
        return Column(field.name, "decimal", is_optional, precision, field.scale, "decimal")
    if number == _BIT:
        kind = "int8" if field.length == 1 else "int64" if field.length < 64 else "unsigned"
        return Column(field.name, kind, is_optional, type_name=f"bit({field.length})")
    if number in _WHOLE:
        kind = _SIZES[_WHOLE[number] + bool(field.flags & _UNSIGNED)]
        return Column(field.name, kind, is_optional, type_name=kind)
    if number == _GEOMETRY:
        return Column(field.name, "string", is_optional, type_name="geometry")
    is_bytes = number in _STRINGS and field.charsetnr == _BINARY_CHARSET and not field.flags & _LIST
    return Column(field.name, "bytes" if is_bytes else _MYSQL_KINDS.get(number, "string"), is_optional)
