"""The forms an instant may have in a record, and the way from one to another by way of ms since the epoch."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Final

from kconnect.api import ConnectError, DataError, Date, Schema, SchemaBuilder, Time, Timestamp, Type
from kconnect.java.compat.simple_date_format import DatePattern, format_instant, parse_instant
from kconnect.java.compat.to_string import java_class

STRING, UNIX, DATE, TIME, TIMESTAMP = "string", "unix", "Date", "Time", "Timestamp"
TARGETS: Final = (STRING, UNIX, DATE, TIME, TIMESTAMP)
UNITS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")

# How many of the unit are a ms, or how many ms the unit is
FINER: Final = {"nanoseconds": 1_000_000, "microseconds": 1000}
COARSER: Final = {"seconds": 1000}

_MILLIS_PER_DAY = 86_400_000
_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimestampFormat:
    """What a TimestampConverter was reported: the form to make, the unit of numbers, and the pattern of texts, if
    any.
    """

    target: str
    unit: str
    pattern: DatePattern | None


def target_schema(target: str, is_optional: bool) -> Schema:
    """The schema of a form."""
    return _SCHEMAS[target, is_optional]


def kind_of(schema: Schema) -> str:
    """The form that values of a schema have. Errors: ConnectError for a schema of no instants."""
    named = _NAMED.get(schema.name or "")
    if named is not None:
        return named
    if schema.type is Type.STRING:
        return STRING
    if schema.type is Type.INT64:
        return UNIX
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def converted(schema: Schema | None, value: Any, to: TimestampFormat) -> Any:
    """The value in the form asked for; None stays None, whatever its schema. Errors: DataError, ConnectError."""
    kind = None if schema is None else kind_of(schema)
    if value is None:
        return None
    return _from_millis(_to_millis(_inferred(value) if kind is None else kind, value, to), to)


def _inferred(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return TIMESTAMP
    if isinstance(value, int) and not isinstance(value, bool):
        return UNIX
    if isinstance(value, str):
        return STRING
    raise DataError(f"TimestampConverter does not support class {java_class(value)} objects as timestamps")


def _to_millis(kind: str, value: Any, given: TimestampFormat) -> int:
    if kind == STRING:
        return _read(value, given.pattern)
    if kind == UNIX:
        return _unix_millis(value, given.unit)
    if isinstance(value, datetime.datetime):
        return Timestamp.from_logical(Timestamp.SCHEMA, value)
    if isinstance(value, datetime.date):
        return Date.from_logical(Date.SCHEMA, value) * _MILLIS_PER_DAY
    if isinstance(value, datetime.time):
        return Time.from_logical(Time.SCHEMA, value)
    raise DataError(f"Expected {kind} to be a java.util.Date, but found class {java_class(value)}")


def _read(text: Any, pattern: DatePattern | None) -> int:
    if not isinstance(text, str):
        raise DataError(f"Expected string timestamp to be a String, but found class {java_class(text)}")
    if pattern is None:
        raise DataError(f"The text {text} can be read as a timestamp only with the setting 'format'")
    refused = pattern.refused_letters
    found = None if refused else parse_instant(pattern, text, datetime.datetime.now(datetime.UTC))
    if found is None:
        reason = f"; patterns with {' and '.join(refused)} are not read" if refused else ""
        raise DataError(f"Could not parse timestamp: value ({text}) does not match pattern ({pattern.text}){reason}")
    return found


def _unix_millis(value: Any, unit: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"Expected Unix timestamp to be a Long, but found class {java_class(value)}")
    if unit in FINER:
        return _towards_zero(value, FINER[unit])
    return _saturated(value * COARSER.get(unit, 1))


def _from_millis(millis: int, to: TimestampFormat) -> Any:
    if to.target == STRING:
        if to.pattern is None:
            raise DataError("An instant can be written as text only with the setting 'format'")
        return format_instant(to.pattern, millis)
    if to.target == UNIX:
        if to.unit in FINER:
            return _saturated(millis * FINER[to.unit])
        return _towards_zero(millis, COARSER.get(to.unit, 1))
    if to.target == DATE:
        return Date.to_logical(Date.SCHEMA, millis // _MILLIS_PER_DAY)
    if to.target == TIME:
        return Time.to_logical(Time.SCHEMA, millis % _MILLIS_PER_DAY)
    return Timestamp.to_logical(Timestamp.SCHEMA, millis)


def _towards_zero(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def _saturated(value: int) -> int:
    """The nearest number of 64 bits. Source: java.util.concurrent.TimeUnit."""
    return max(-_LONG_MAX - 1, min(value, _LONG_MAX))


_NAMED = {Timestamp.LOGICAL_NAME: TIMESTAMP, Date.LOGICAL_NAME: DATE, Time.LOGICAL_NAME: TIME}


def _both(target: str, builder: SchemaBuilder) -> dict[tuple[str, bool], Schema]:
    return {(target, False): builder.build(), (target, True): builder.optional().build()}


_SCHEMAS: dict[tuple[str, bool], Schema] = {
    **_both(STRING, SchemaBuilder.string()),
    **_both(UNIX, SchemaBuilder.int64()),
    **_both(DATE, Date.builder()),
    **_both(TIME, Time.builder()),
    **_both(TIMESTAMP, Timestamp.builder()),
}
