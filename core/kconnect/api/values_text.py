"""Connect values as text, in the form that `values.parse_string` reads back; numbers as Java spells them."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import struct
from collections.abc import Iterable
from typing import Any

from kconnect.api.logical import Date, Time, Timestamp
from kconnect.api.schema import Schema, Struct
from kconnect.api.schema_types import Type
from kconnect.errors import DataError

_MILLIS_PER_DAY = 24 * 60 * 60 * 1000


def text_of(value: Any, schema: Schema | None = None, *, embedded: bool = False) -> str:
    """The text of a value; text and bytes inside lists and maps are quoted. The schema distinguishes FLOAT32 from
    FLOAT64.

    Errors: DataError for an object that is not a Connect value. Source: Values.append.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value, schema is not None and schema.type is Type.FLOAT32)
    if isinstance(value, int | decimal.Decimal):
        return str(value)
    if isinstance(value, str):
        return _quoted(value) if embedded else value
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = base64.b64encode(value).decode("ascii")
        return f'"{encoded}"' if embedded else encoded
    if isinstance(value, datetime.date | datetime.time):
        return _moment_text(_millis(value))
    return _container_text(value, schema)


def number_text(value: float, is_single: bool = False) -> str:
    """A float as Java's Double.toString, or Float.toString, writes it: 1.0, 1.0E7, 1.0E-4, NaN, -Infinity."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not is_single and _LONG <= value < _NO_POINT:  # such as seconds since 1970: 1.6 us, not 6.4
        whole, _, fraction = repr(value).partition(".")
        return f"{whole[0]}.{f'{whole[1:]}{fraction}'.rstrip('0') or '0'}E{len(whole) - 1}"
    if is_single:
        value = single_precision(value)
        if math.isinf(value):
            return number_text(value)
        # Nine digits distinguish all singles; Java uses the fewest that do, but at least two.
        text = next(text for places in range(1, 9) if single_precision(float(text := f"{value:.{places}e}")) == value)
    else:
        text = f"{value:.1e}"
        text = text if float(text) == value else repr(value)
    return _java_form(decimal.Decimal(text), value)


# From here on Java writes an exponent, and Python none up to there
_LONG, _NO_POINT = 1e7, 1e16


def single_precision(value: float | decimal.Decimal) -> float:
    """The FLOAT32 nearest to a number, as a Python float; infinite when it is too large.

    A Decimal is rounded once, straight to single precision; going through a double could round it twice.
    """
    try:
        double = float(value)
        single: float = struct.unpack("f", struct.pack("f", double))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    if isinstance(value, decimal.Decimal) and math.isfinite(single) and decimal.Decimal(double) != value:
        # The double was rounded: if it fell exactly between two singles, the decimal shows which is nearer.
        other = _next_single(single, math.inf if value > decimal.Decimal(double) else -math.inf)
        if double == (single + other) / 2:
            return other
    return single


def _next_single(single: float, toward: float) -> float:
    """The neighbour of a finite single on that side."""
    bits: int = struct.unpack("i", struct.pack("f", single))[0]
    if single == 0:
        step = struct.unpack("f", struct.pack("i", 1))[0]
        return math.copysign(step, toward)
    away = (toward > 0) == (single > 0)
    neighbour: float = struct.unpack("f", struct.pack("i", bits + 1 if away else bits - 1))[0]
    return single if math.isinf(neighbour) else neighbour


def _java_form(number: decimal.Decimal, value: float) -> str:
    """Digits laid out as Java does: plain from 0.001 to below 10 000 000, else one digit before the point and an E."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if number == 0:
        return f"{sign}0.0"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    power = number.adjusted()
    if -3 <= power < 7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        return f"{sign}{digits[: power + 1].ljust(power + 1, '0')}.{digits[power + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _container_text(value: Any, schema: Schema | None) -> str:
    if isinstance(value, list):
        inner = schema.value_schema if schema is not None and schema.type is Type.ARRAY else None
        return "[" + ",".join(text_of(item, inner, embedded=True) for item in value) + "]"
    if isinstance(value, dict):
        is_map = schema is not None and schema.type is Type.MAP
        keys, items = (schema.key_schema, schema.value_schema) if schema is not None and is_map else (None, None)
        return _entries((text_of(k, keys, embedded=True), text_of(v, items, embedded=True)) for k, v in value.items())
    if isinstance(value, Struct):
        fields = value.schema.fields
        return _entries((_quoted(f.name), text_of(value.get(f), f.schema, embedded=True)) for f in fields)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    raise DataError(f"Failed to serialize unexpected value type {name}: {value}")


def _entries(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{key}:{item}" for key, item in pairs) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _millis(value: datetime.date | datetime.time) -> int:
    """Java keeps all three as one class, an instant; so do we to choose the format."""
    if isinstance(value, datetime.datetime):
        return Timestamp.from_logical(Timestamp.SCHEMA, value)
    if isinstance(value, datetime.date):
        return Date.from_logical(Date.SCHEMA, value) * _MILLIS_PER_DAY
    return Time.from_logical(Time.SCHEMA, value)


def _moment_text(millis: int) -> str:
    """An instant as time, date or timestamp, whichever it looks like. Source: Values.dateFormatFor."""
    text = Timestamp.to_logical(Timestamp.SCHEMA, millis).isoformat(timespec="milliseconds")
    if millis < _MILLIS_PER_DAY:
        return f"{text[11:23]}Z"
    return text[:10] if millis % _MILLIS_PER_DAY == 0 else f"{text[:23]}Z"
