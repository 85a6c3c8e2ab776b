"""The kinds of Connect data, and which Python values are of each kind, or of a logical type by its name."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final


class Type(Enum):
    """The twelve kinds of Connect data; `.value` is Java's lower-case name. Source: o.a.k.connect.data.Schema.Type.

    Shape: the Python values are int (INT8..INT64), float (FLOAT32, FLOAT64), bool, str, bytes, list (ARRAY),
        dict (MAP) and Struct.
    """

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        """Whether values of this type contain no other values."""
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)

    def __str__(self) -> str:
        return self.name


def _int_check(bits: int) -> Callable[[Any], bool]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def fits(value: Any) -> bool:
        return isinstance(value, int) and low <= value <= high and not isinstance(value, bool)

    return fits


def _is_date(value: Any) -> bool:
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


def _is_instant(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


INT_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}

# STRUCT is defined in schema.py.
TYPE_CHECKS: Final[Mapping[Type, Callable[[Any], bool]]] = {
    **{kind: _int_check(bits) for kind, bits in INT_BITS.items()},
    Type.FLOAT32: lambda value: isinstance(value, float),
    Type.FLOAT64: lambda value: isinstance(value, float),
    Type.BOOLEAN: lambda value: isinstance(value, bool),
    Type.STRING: lambda value: isinstance(value, str),
    Type.BYTES: lambda value: isinstance(value, bytes),
    Type.ARRAY: lambda value: isinstance(value, list),
    Type.MAP: lambda value: isinstance(value, dict),
}

# As in Java only the name matters: a schema of that name accepts the logical class whatever its type is.
LOGICAL_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "org.apache.kafka.connect.data.Decimal": lambda value: isinstance(value, decimal.Decimal),
    "org.apache.kafka.connect.data.Date": _is_date,
    "org.apache.kafka.connect.data.Time": lambda value: isinstance(value, datetime.time),
    "org.apache.kafka.connect.data.Timestamp": _is_instant,
}
