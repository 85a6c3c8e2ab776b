"""What columns a table or a query gives: by PostgreSQL's type numbers, by SQLAlchemy's inspector, or by the values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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
        return _by_type_numbers(connection, table, select)
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


def unknown_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Columns of which only the names are known: their values tell the types."""
    return tuple(Column(name, "any") for name in names)


# --- PostgreSQL. Source: the types that its driver for Java gives these ---

_POSTGRES_KINDS: Final[Mapping[int, str]] = {
    16: "bool",
    17: "bytes",
    20: "int64",
    21: "int16",
    23: "int32",
    26: "int64",  # oid
    700: "float32",
    701: "float64",
    790: "float64",  # money
    1700: "decimal",
    1082: "date",
    1083: "time",
    1266: "time",  # with a zone, which is dropped
    1114: "timestamp",
    1184: "timestamptz",
    # "char", name, text, json, xml, unknown, bpchar, varchar, uuid, jsonb
    **dict.fromkeys((18, 19, 25, 114, 142, 705, 1042, 1043, 2950, 3802), "string"),
}
_BIT: Final = 1560
TEXT_TYPES: Final = (114, 142, 2950, 3802, 790, 1186, 869, 650, 829)
"""Numbers of types that are read as their text, not as Python's values."""

_ATTRIBUTES = (
    "SELECT a.attrelid, a.attnum, a.attnotnull, a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE "
    "'nextval(%%', false) FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid "
    "AND d.adnum = a.attnum WHERE a.attrelid = ANY(%s)"
)


def _by_type_numbers(connection: sa.Connection, table: TableId | None, select: str) -> Description:
    nothing = f"{select} WHERE 1=0" if table is not None else f"SELECT * FROM ({select}) AS kconnect_query WHERE 1=0"
    result = connection.execution_options(no_parameters=True).exec_driver_sql(nothing)
    cursor: Any = result.cursor  # the driver's
    described = list(cursor.description)
    sources = _sources(cursor, len(described))
    bits = {index for index, column in enumerate(described) if column[1] == _BIT and _is_one_bit(cursor, index)}
    result.close()
    other = [column[1] for column in described if column[1] not in _POSTGRES_KINDS]
    enums = _enums(connection, other) if other else set()
    known = {
        (relation, number): (is_required, counts)
        for relation, number, is_required, counts in (
            connection.exec_driver_sql(_ATTRIBUTES, (sorted({r for r, _ in sources if r}),)) if sources else ()
        )
    }
    columns, autoincrement = [], None
    for index, column in enumerate(described):
        is_required, counts = known.get(sources[index], (False, False)) if sources else (False, False)
        kind = _POSTGRES_KINDS.get(column[1]) or ("string" if column[1] in enums else "other")
        if index in bits:
            kind = "bool"
        columns.append(Column(column[0], kind, not is_required, column[4] or 0, column[5] or 0, f"type {column[1]}"))
        if counts and autoincrement is None:
            autoincrement = column[0]
    return Description(tuple(columns), autoincrement)


def _is_one_bit(cursor: Any, index: int) -> bool:  # the driver's cursor
    """Whether a column is bit(1), which Java takes for a boolean."""
    result = getattr(cursor, "pgresult", None)
    return result is not None and result.fmod(index) == 1


def _sources(cursor: Any, count: int) -> list[tuple[int, int]]:  # the driver's cursor
    """For each column its table and number in it, zeros for an expression; empty if the driver does not tell."""
    result = getattr(cursor, "pgresult", None)
    return [(result.ftable(index), result.ftablecol(index)) for index in range(count)] if result is not None else []


def _enums(connection: sa.Connection, numbers: Sequence[int]) -> set[int]:
    rows = connection.exec_driver_sql(
        "SELECT oid FROM pg_catalog.pg_type WHERE typtype = 'e' AND oid = ANY(%s)", (list(numbers),)
    )
    return {row[0] for row in rows}


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
        has_zone = bool(given.timezone)
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
    return Column(name, "any" if kind == "sqlite" else "other", is_optional, type_name=text)


def _of_mysql(text: str, given: Any) -> str | None:  # SQLAlchemy's type
    """What a type is that only MySQL has, or that its driver for Java gives in its own way; None for others.

    Unsigned whole numbers take the next size. Source: GenericDatabaseDialect.addFieldToSchema. Differs: a YEAR is a
    number, where Java's driver makes a date of it.
    """
    if text in ("FLOAT", "YEAR"):
        return "float32" if text == "FLOAT" else "int32"
    if text == "BIT":
        return "int8" if (given.length or 1) == 1 else None
    if not re.fullmatch(r"(TINY|SMALL|MEDIUM|BIG)?INT(EGER)?", text):
        return None
    sizes = ["int8", "int16", "int32", "int64", "int64"]
    place = {"TINYINT": 0, "SMALLINT": 1, "BIGINT": 3}.get(text, 2)
    return sizes[place + bool(getattr(given, "unsigned", False))]
