"""Values as Java's `toString()` writes them: what StringConverter and FileStreamSink put out."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kconnect.api import Schema, Struct, Type

__all__ = ["double_text", "float_text", "java_class", "java_text"]


def java_text(value: Any, schema: Schema | None = None) -> str:
    """The text of a Connect value; the schema tells single from double precision, where there is one.

    Source: String.valueOf over Connect's Java classes; dates as java.util.Date in UTC (Differs: Java takes the worker's zone).
    Differs: bytes are given as text (U+FFFD where they are no UTF-8); Java gives the address of the array.
    """
    if isinstance(value, str):
        return value
    writer = _WRITERS.get(type(value))
    return writer(value, schema) if writer is not None else str(value)


def double_text(value: float) -> str:
    """A 64-bit float as `Double.toString` writes it: 1.0, 1.0E7, 4.9E-324, NaN, -Infinity."""
    if not math.isfinite(value):
        return _not_finite(value)
    text = repr(value)
    return _in_java_form(text if _digits(text) > 1 else _two_digits(value, text, float))


def float_text(value: float) -> str:
    """A 32-bit float as `Float.toString` writes it; the value is rounded to single precision first."""
    if not math.isfinite(value):
        return _not_finite(value)
    try:
        single = _single(value)
    except OverflowError:  # beyond the largest float: Java's cast gives infinity
        return _not_finite(math.copysign(math.inf, value))
    text = repr(single)
    for digits in range(1, 10):  # nine digits tell all 32-bit floats apart
        text = f"{single:.{digits - 1}e}"
        if _single(float(text)) == single:
            break
    return _in_java_form(text if _digits(text) > 1 else _two_digits(single, text, lambda given: _single(float(given))))


def java_class(value: Any) -> str:
    """The name of the Java class a Java connector would have put here, for messages that must match Java's."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "java.lang.Integer" if -(1 << 31) <= value < 1 << 31 else "java.lang.Long"
    return _CLASSES.get(type(value), type(value).__qualname__)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _digits(text: str) -> int:
    """Significant digits of a number in Python's form."""
    return len(text.partition("e")[0].replace(".", "").strip("-").strip("0"))


def _two_digits(value: float, shortest: str, parse: Callable[[str], float]) -> str:
    """Java writes at least two digits, the nearest two to the value: 4.9E-324 where one digit, 5e-324, would do."""
    two = f"{value:.1e}"
    return two if parse(two) == value else shortest


def _in_java_form(text: str) -> str:
    """Shortest digits in Python's form to Java's: plain from 1.0E-3 up to 1.0E7, else with an exponent; never without a fraction."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent_text = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(exponent_text or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0.0"
    if -3 <= exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if 0 <= exponent < 7:
        digits = digits.ljust(exponent + 2, "0")
        return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


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
    return f"{_DAYS[when.weekday()]} {_MONTHS[when.month - 1]} {when:%d %H:%M:%S} UTC {when.year}"


def _date(value: datetime.date, _schema: Schema | None) -> str:
    return _java_date(datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC))


def _time(value: datetime.time, _schema: Schema | None) -> str:
    return _java_date(datetime.datetime.combine(datetime.date(1970, 1, 1), value, datetime.UTC))


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_WRITERS: dict[type, Callable[[Any, Schema | None], str]] = {
    type(None): lambda value, schema: "null",
    bool: lambda value, schema: "true" if value else "false",
    int: lambda value, schema: str(value),
    float: _float,
    bytes: lambda value, schema: value.decode("utf-8", "replace"),
    list: _list,
    dict: _map,
    Struct: _struct,
    Decimal: lambda value, schema: str(value),
    datetime.date: _date,
    datetime.time: _time,
    datetime.datetime: lambda value, schema: _java_date(value),
}

_CLASSES: dict[type, str] = {
    bool: "java.lang.Boolean",
    float: "java.lang.Double",
    str: "java.lang.String",
    bytes: "[B",
    list: "java.util.ArrayList",
    dict: "java.util.LinkedHashMap",
    Struct: "org.apache.kafka.connect.data.Struct",
    Decimal: "java.math.BigDecimal",
    datetime.date: "java.util.Date",
    datetime.time: "java.util.Date",
    datetime.datetime: "java.util.Date",
}
