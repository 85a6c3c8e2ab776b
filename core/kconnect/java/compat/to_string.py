"""Values as Java's `toString()` writes them: what StringConverter and FileStreamSink put out."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kconnect.api import Schema, Struct, Type
from kconnect.api.natural_values import natural
from kconnect.api.values_text import number_text
from kconnect.java.compat.simple_date_format.calendar import CUTOVER_YEAR, MILLIS_PER_DAY, moment_of


def java_text(value: Any, schema: Schema | None = None) -> str:
    """The text of a Connect value; the schema tells single from double precision, where there is one.

    Source: String.valueOf over Connect's Java classes; dates as java.util.Date.
    Differs: dates are in UTC, Java takes the worker's zone; bytes are given as text (U+FFFD where they are no UTF-8),
    Java gives the address of the array.
    """
    if type(value) is str:
        return value
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value, schema)
    made = natural(value)
    return str(value) if type(made) is type(value) else java_text(made, schema)


def double_text(value: float) -> str:
    """A 64-bit float as `Double.toString` writes it: 1.0, 1.0E7, 4.9E-324, NaN, -Infinity."""
    if 1e-3 <= value < 1e7:
        return repr(value)  # Python's spelling is Java's here: 0.2 us instead of 3 us
    return number_text(value)


def float_text(value: float) -> str:
    """A 32-bit float as `Float.toString` writes it; the value is rounded to single precision first."""
    return number_text(value, is_single=True)


def java_class(value: Any, schema: Schema | None = None) -> str:
    """The name of the Java class a Java connector would have put here, for messages that must match Java's.

    With the schema of a number the very class; without, what Java makes of such a literal.
    """
    if schema is not None and type(value) in (int, float):
        named = _NUMBERS.get((type(value), schema.type))
        if named is not None:
            return named
    if isinstance(value, int) and not isinstance(value, bool):
        return "java.lang.Integer" if -(1 << 31) <= value < 1 << 31 else "java.lang.Long"
    kind = type(value)
    return _CLASSES.get(kind) or f"{kind.__module__}.{kind.__qualname__}"


def _float(value: float, schema: Schema | None) -> str:
    return float_text(value) if schema is not None and schema.type is Type.FLOAT32 else double_text(value)


def _list(value: list[Any], schema: Schema | None) -> str:
    items = schema.value_schema if schema is not None and schema.type is Type.ARRAY else None
    return "[" + ", ".join([java_text(item, items) for item in value]) + "]"


def _map(value: dict[Any, Any], schema: Schema | None) -> str:
    typed = schema is not None and schema.type is Type.MAP
    keys, values = (schema.key_schema, schema.value_schema) if typed and schema else (None, None)
    return "{" + ", ".join([f"{java_text(key, keys)}={java_text(item, values)}" for key, item in value.items()]) + "}"


def _struct(value: Struct, _schema: Schema | None) -> str:
    parts = []
    for field in value.schema.fields:
        item = value.get_without_default(field)
        if item is not None:
            parts.append(f"{field.name}={java_text(item, field.schema)}")
    return "Struct{" + ",".join(parts) + "}"


def _java_date(when: datetime.datetime) -> str:
    when = when.astimezone(datetime.UTC)
    year, month, day = when.year, when.month, when.day
    if year <= CUTOVER_YEAR:  # in Java's calendar, which has other days before October 1582
        _, year, month, day, _ = moment_of((when.toordinal() - _EPOCH_ORDINAL) * MILLIS_PER_DAY)
    return f"{_DAYS[when.weekday()]} {_MONTHS[month - 1]} {day:02} {when:%H:%M:%S} UTC {year}"


def _date(value: datetime.date, _schema: Schema | None) -> str:
    return _java_date(datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC))


def _time(value: datetime.time, _schema: Schema | None) -> str:
    return _java_date(datetime.datetime.combine(datetime.date(1970, 1, 1), value, datetime.UTC))


_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_WRITERS: dict[type, Callable[[Any, Schema | None], str]] = {
    type(None): lambda value, schema: "null",
    bool: lambda value, schema: "true" if value else "false",
    int: lambda value, schema: str(value),
    float: _float,
    **dict.fromkeys((bytes, bytearray, memoryview), lambda value, schema: bytes(value).decode("utf-8", "replace")),
    list: _list,
    dict: _map,
    Struct: _struct,
    Decimal: lambda value, schema: str(value),
    datetime.date: _date,
    datetime.time: _time,
    datetime.datetime: lambda value, schema: _java_date(value),
}

_NUMBERS: dict[tuple[type, Type], str] = {
    (int, Type.INT8): "java.lang.Byte",
    (int, Type.INT16): "java.lang.Short",
    (int, Type.INT32): "java.lang.Integer",
    (int, Type.INT64): "java.lang.Long",
    (float, Type.FLOAT32): "java.lang.Float",
    (float, Type.FLOAT64): "java.lang.Double",
}

_CLASSES: dict[type, str] = {
    bool: "java.lang.Boolean",
    float: "java.lang.Double",
    str: "java.lang.String",
    bytes: "[B",
    bytearray: "[B",
    memoryview: "java.nio.HeapByteBuffer",
    list: "java.util.ArrayList",
    dict: "java.util.LinkedHashMap",
    Struct: "org.apache.kafka.connect.data.Struct",
    Decimal: "java.math.BigDecimal",
    datetime.date: "java.util.Date",
    datetime.time: "java.util.Date",
    datetime.datetime: "java.util.Date",
}
