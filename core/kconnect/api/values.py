"""Convert values between schema types, turn them into text and back: Java's `Values`.

Used by the simple header converter and by transforms such as Cast. The text parser is in values_parser.py, the text
writer in values_text.py. Source: o.a.k.connect.data.Values.

Differs: dates and times are read and written in UTC, where Java uses the worker's time zone; a time of day beyond
23:59:59.999, which Java's lenient parser accepts, stays text.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from kconnect.api.logical import Date, Decimal, Time, Timestamp
from kconnect.api.schema import Schema, SchemaAndValue, Struct
from kconnect.api.schema_builder import SchemaBuilder
from kconnect.api.schema_types import Type
from kconnect.api.values_parser import parse
from kconnect.api.values_text import single_precision, text_of
from kconnect.errors import DataError

_NO_NULL = "Unable to convert a null value to a schema that requires a value"
_MILLIS_PER_DAY = 24 * 60 * 60 * 1000
_MIDNIGHT = datetime.time(tzinfo=datetime.UTC)


def parse_string(text: str | None) -> SchemaAndValue | None:
    """The most likely meaning of a text: number, boolean, date, time, list, map; or just the text.

    Shape: numbers get the narrowest type that fits them, `[..]` and `{..}` are read as JSON-like lists and maps if they
    are well formed. None returns SchemaAndValue.NULL, the text `null` returns None, as in Java.
    """
    if text is None:
        return SchemaAndValue.NULL
    return parse(text, convert_to)


def infer_schema(value: Any) -> Schema | None:
    """The schema of a plain Python value; None if it cannot be inferred (None, empty or mixed lists, dates).

    Differs: Python has one int and one float, which become INT64 (None beyond 64 bits) and FLOAT64.
    Errors: SchemaBuilderError for a list or dict of nothing but None, as in Java.
    """
    if isinstance(value, bool):
        return Schema.BOOLEAN_SCHEMA
    if isinstance(value, int):
        return Schema.INT64_SCHEMA if -(1 << 63) <= value < 1 << 63 else None
    if isinstance(value, str):
        return Schema.STRING_SCHEMA
    if isinstance(value, float):
        return Schema.FLOAT64_SCHEMA
    if isinstance(value, bytes):
        return Schema.BYTES_SCHEMA
    if isinstance(value, Struct):
        return value.schema
    if isinstance(value, list):
        item = _common_schema(value)
        return None if item is None else SchemaBuilder.array(item).build()
    if isinstance(value, dict):
        key, item = _common_schema(list(value)), _common_schema(list(value.values()))
        return None if key is None or item is None else SchemaBuilder.map(key, item).build()
    return None


def convert_to(to_schema: Schema, from_schema: Schema | None, value: Any) -> Any:
    """The value as the type of `to_schema`. Errors: DataError if it cannot be converted. Source: Values.convertTo."""
    if value is None:
        if to_schema.is_optional:
            return None
        raise DataError(_NO_NULL)
    logical = _TO_LOGICAL.get(to_schema.name or "")
    if logical is not None and logical[0] is to_schema.type:
        return logical[1](from_schema, value)
    if to_schema.type is Type.BYTES:
        return _convert_to_bytes(to_schema, value)
    return _TO_TYPE[to_schema.type](from_schema, value)


def convert_to_boolean(schema: Schema | None, value: Any) -> bool | None:
    """A boolean: of a number whether it is not 0, of text its meaning."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        parsed = parse_string(value)
        if parsed is not None and isinstance(parsed.value, bool):
            return parsed.value
    return _as_long(value, schema) != 0


def convert_to_byte(schema: Schema | None, value: Any) -> int | None:
    """An INT8; wider values are cut to their low bits, as by a Java cast."""
    return None if value is None else _cut(_as_long(value, schema), 8)


def convert_to_short(schema: Schema | None, value: Any) -> int | None:
    """An INT16; wider values are cut to their low bits."""
    return None if value is None else _cut(_as_long(value, schema), 16)


def convert_to_integer(schema: Schema | None, value: Any) -> int | None:
    """An INT32; wider values are cut to their low bits."""
    return None if value is None else _cut(_as_long(value, schema), 32)


def convert_to_long(schema: Schema | None, value: Any) -> int | None:
    """An INT64; a fraction is cut off."""
    return None if value is None else _as_long(value, schema)


def convert_to_float(schema: Schema | None, value: Any) -> float | None:
    """A FLOAT32, rounded to single precision."""
    return None if value is None else single_precision(_as_double(value, schema))


def convert_to_double(schema: Schema | None, value: Any) -> float | None:
    """A FLOAT64."""
    return None if value is None else _as_double(value, schema)


def convert_to_string(schema: Schema | None, value: Any) -> str | None:
    """The value as text that `parse_string` reads back: lists and maps JSON-like, bytes as base64.

    `schema` distinguishes single from double precision. Errors: DataError for an object that is not a Connect value.
    """
    return None if value is None else text_of(value, schema)


def convert_to_list(schema: Schema | None, value: Any) -> list[Any]:
    """A list, also out of text that is one."""
    found: list[Any] = _container(value, list, "Schema{ARRAY}")
    return found


def convert_to_map(schema: Schema | None, value: Any) -> dict[Any, Any]:
    """A dict, also out of text that is one."""
    found: dict[Any, Any] = _container(value, dict, "Schema{MAP}")
    return found


def convert_to_struct(schema: Schema | None, value: Any) -> Struct:
    """A struct; nothing else can become one."""
    if value is None:
        raise DataError(_NO_NULL)
    if isinstance(value, Struct):
        return value
    raise DataError(_no_way(value, "Schema{STRUCT}"))


def convert_to_date(schema: Schema | None, value: Any) -> datetime.date:
    """A date: of a timestamp its day, of a number the days since 1970-01-01."""
    value = _temporal(value)
    if isinstance(value, datetime.datetime) and _is(schema, Timestamp.LOGICAL_NAME):
        millis = Timestamp.from_logical(Timestamp.SCHEMA, value)
        # Java divides towards zero, so an instant before 1970 falls on the day after.
        return Date.to_logical(Date.SCHEMA, int(decimal.Decimal(millis) / _MILLIS_PER_DAY))
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) and _is(schema, Date.LOGICAL_NAME):
        return value
    return Date.to_logical(Date.SCHEMA, _cut(_as_long(value, schema), 32))


def convert_to_time(schema: Schema | None, value: Any) -> datetime.time:
    """A time of day: of a timestamp its time in UTC, of a number the ms since midnight."""
    value = _temporal(value)
    if isinstance(value, datetime.datetime) and _is(schema, Timestamp.LOGICAL_NAME):
        millis = Timestamp.from_logical(Timestamp.SCHEMA, value)
        return Time.to_logical(Time.SCHEMA, millis % _MILLIS_PER_DAY)
    if isinstance(value, datetime.time) and _is(schema, Time.LOGICAL_NAME):
        return value
    return Time.to_logical(Time.SCHEMA, _cut(_as_long(value, schema), 32))


def convert_to_timestamp(schema: Schema | None, value: Any) -> datetime.datetime:
    """An instant: of a date its midnight in UTC, of a number the ms since the epoch."""
    value = _temporal(value)
    if isinstance(value, datetime.datetime):
        if _is(schema, Timestamp.LOGICAL_NAME):
            return value
    elif isinstance(value, datetime.date):
        if _is(schema, Date.LOGICAL_NAME):
            return datetime.datetime.combine(value, _MIDNIGHT)
    elif isinstance(value, datetime.time) and _is(schema, Time.LOGICAL_NAME):
        return Timestamp.to_logical(Timestamp.SCHEMA, Time.from_logical(Time.SCHEMA, value))
    return Timestamp.to_logical(Timestamp.SCHEMA, _as_long(value, schema))


def convert_to_decimal(schema: Schema | None, value: Any, scale: int) -> decimal.Decimal:
    """A decimal: bytes are the unscaled number with that scale; numbers and text are parsed.

    As in Java the scale is used for bytes only; other values keep their digits.
    """
    if value is None:
        raise DataError(_NO_NULL)
    target = Decimal.schema(scale)
    if isinstance(value, bytes):
        return Decimal.to_logical(target, value)
    if isinstance(value, decimal.Decimal):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _parsed_decimal(text_of(float(value), None), value)
    if isinstance(value, str):
        return _parsed_decimal(value, value)
    raise DataError(_no_way(value, target))


def _as_long(value: Any, schema: Schema | None) -> int:
    """Java's `Number.longValue`: floats saturate, decimals are cut to 64 bits. Source: Values.asLong."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _cut(value, 64)
    if isinstance(value, float):
        if value != value:
            return 0
        return int(value) if abs(value) < 2.0**63 else _saturated(value)
    if isinstance(value, str | decimal.Decimal):
        try:
            number = value if isinstance(value, decimal.Decimal) else _decimal(value)
        except ValueError as err:
            raise DataError(_no_way(value, schema or "a number")) from err
        # 10 ** 64 is a multiple of 2 ** 64: digits that far left do not reach the low 64 bits.
        return 0 if -Decimal.scale_of(number) >= 64 else _cut(int(number), 64)
    if schema is not None:
        if isinstance(value, datetime.datetime) and schema.name == Timestamp.LOGICAL_NAME:
            return Timestamp.from_logical(schema, value)
        if isinstance(value, datetime.date) and schema.name == Date.LOGICAL_NAME:
            return Date.from_logical(schema, value)
        if isinstance(value, datetime.time) and schema.name == Time.LOGICAL_NAME:
            return Time.from_logical(schema, value)
    raise DataError(_no_way(value, schema or "a number"))


def _saturated(value: float) -> int:
    return (1 << 63) - 1 if value > 0 else -(1 << 63)


def _as_double(value: Any, schema: Schema | None) -> float:
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return _float(value)
    if isinstance(value, str):
        try:
            return float(_decimal(value))
        except ValueError as err:
            raise DataError(_no_way(value, schema or "a number")) from err
    return float(_as_long(value, schema))


def _float(value: float | decimal.Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _decimal(text: str) -> decimal.Decimal:
    """A text as Java's BigDecimal reads it. Errors: ValueError."""
    from kconnect.api.values_parser import NUMBER

    if NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a decimal number")
    return decimal.Decimal(text)


def _parsed_decimal(text: str, value: Any) -> decimal.Decimal:
    try:
        return _decimal(text)
    except ValueError as err:
        raise DataError(_no_way(value, "a decimal number")) from err


def _temporal(value: Any) -> Any:
    """The value, out of text if need be, for the conversions to dates."""
    if value is None:
        raise DataError(_NO_NULL)
    if isinstance(value, str):
        parsed = parse_string(value)
        return None if parsed is None else parsed.value
    return value


def _is(schema: Schema | None, name: str) -> bool:
    """Whether a date's Python type may be used: schemaless, or its schema agrees."""
    return schema is None or schema.name == name


def _convert_to_bytes(schema: Schema, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, decimal.Decimal):
        return Decimal.from_logical(schema, value)
    raise DataError(_no_way(value, schema))


def _container(value: Any, kind: type, target: str) -> Any:  # an object of that kind
    if value is None:
        raise DataError(_NO_NULL)
    if isinstance(value, str):
        parsed = parse_string(value)
        value = None if parsed is None else parsed.value
    if isinstance(value, kind):
        return value
    raise DataError(_no_way(value, target))


def _common_schema(values: list[Any]) -> Schema | None:
    """The one schema type of all values, as bare as from Java's detector; None if they differ or there are none."""
    if not values:
        return None
    kinds: set[Type] = set()
    for value in values:
        if value is not None:
            schema = infer_schema(value)
            if schema is None:
                return None
            kinds.add(schema.type)
    if len(kinds) > 1:
        return None
    builder = SchemaBuilder.type(next(iter(kinds), None))  # type: ignore[arg-type]  # refused as Java does
    return (builder.optional() if None in values else builder).build()


def _cut(value: int, bits: int) -> int:
    """The low bits as a signed number: Java's narrowing cast."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _no_way(value: Any, target: object) -> str:
    return f"Unable to convert {value} ({type(value).__name__}) to {target}"


def _to_decimal(schema: Schema | None, value: Any) -> decimal.Decimal:
    return convert_to_decimal(schema, value, 0)


_TO_LOGICAL: dict[str, tuple[Type, Any]] = {
    Decimal.LOGICAL_NAME: (Type.BYTES, _to_decimal),
    Date.LOGICAL_NAME: (Type.INT32, convert_to_date),
    Time.LOGICAL_NAME: (Type.INT32, convert_to_time),
    Timestamp.LOGICAL_NAME: (Type.INT64, convert_to_timestamp),
}

_TO_TYPE: dict[Type, Any] = {
    Type.BOOLEAN: convert_to_boolean,
    Type.INT8: convert_to_byte,
    Type.INT16: convert_to_short,
    Type.INT32: convert_to_integer,
    Type.INT64: convert_to_long,
    Type.FLOAT32: convert_to_float,
    Type.FLOAT64: convert_to_double,
    Type.STRING: convert_to_string,
    Type.ARRAY: convert_to_list,
    Type.MAP: convert_to_map,
    Type.STRUCT: convert_to_struct,
}
