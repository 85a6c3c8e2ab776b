"""The columns of MySQL and MariaDB, by what its protocol says of a result: tables and queries alike.

Source: GenericDatabaseDialect.addFieldToSchema over the types of MySQL's driver for Java. Differs: a YEAR is a number,
where that driver makes a date of it; a BIT of several bits is a number, and geometry is text, where that one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from kconnect.builtin.connectors.sql.sql_columns import Column

# Numbers of types in the protocol, and flags of columns
_TINY, _SMALL, _INT, _FLOAT, _DOUBLE, _BIG, _MEDIUM, _DATE, _TIME, _YEAR = 1, 2, 3, 4, 5, 8, 9, 10, 11, 13
_TIMESTAMP, _DATETIME, _BIT, _OLD_DECIMAL, _DECIMAL, _GEOMETRY = 7, 12, 16, 0, 246, 255
_NOT_NULL, _UNSIGNED, _COUNTS, _LIST = 1, 32, 512, 256 | 2048
_BINARY_CHARSET = 63
_STRINGS = frozenset((15, 249, 250, 251, 252, 253, 254))

_KINDS: Final = {
    _FLOAT: "float32",
    _DOUBLE: "float64",
    _DATE: "date",
    _TIME: "time",
    _YEAR: "int32",
    _TIMESTAMP: "timestamp",
    _DATETIME: "timestamp",
}
_WHOLE: Final = {_TINY: 0, _SMALL: 1, _MEDIUM: 2, _INT: 2, _BIG: 3}
SIZES: Final = ("int8", "int16", "int32", "int64", "unsigned")
"""Kinds of whole numbers; those without sign take the next."""


def described(cursor: Any) -> tuple[tuple[Column, ...], str | None] | None:  # the driver's cursor
    """The columns of its result, and the one that counts up by itself; None for a driver that tells too little."""
    fields = getattr(getattr(cursor, "_result", None), "fields", None)
    if fields is None:
        return None
    counting = next((field.name for field in fields if field.flags & _COUNTS), None)
    return tuple(_column(field) for field in fields), counting


def of_query(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a query, which gives geometry as bytes."""
    return tuple(replace(one, kind="bytes") if one.type_name == "geometry" else one for one in columns)


def selected(columns: Sequence[Column], quote: Callable[[str], str]) -> str:
    """What stands between SELECT and FROM: geometry is asked for as text."""
    if all(column.type_name != "geometry" for column in columns):
        return "*"
    return ", ".join(
        f"ST_AsText({quote(column.name)}) AS {quote(column.name)}"
        if column.type_name == "geometry"
        else quote(column.name)
        for column in columns
    )


def _column(field: Any) -> Column:
    """The column of pymysql's description."""
    is_optional, number = not field.flags & _NOT_NULL, field.type_code
    if number in (_OLD_DECIMAL, _DECIMAL):
        precision = field.length - (field.scale > 0) - (not field.flags & _UNSIGNED)
        return Column(field.name, "decimal", is_optional, precision, field.scale, "decimal")
    if number == _BIT:
        kind = "int8" if field.length == 1 else "int64" if field.length < 64 else "unsigned"
        return Column(field.name, kind, is_optional, type_name=f"bit({field.length})")
    if number in _WHOLE:
        kind = SIZES[_WHOLE[number] + bool(field.flags & _UNSIGNED)]
        return Column(field.name, kind, is_optional, type_name=kind)
    if number == _GEOMETRY:
        return Column(field.name, "string", is_optional, type_name="geometry")
    is_bytes = number in _STRINGS and field.charsetnr == _BINARY_CHARSET and not field.flags & _LIST
    return Column(field.name, "bytes" if is_bytes else _KINDS.get(number, "string"), is_optional)
