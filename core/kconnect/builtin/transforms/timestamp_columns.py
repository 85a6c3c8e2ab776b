"""Columns of instants from one form to another, where Arrow's kernels give what Java gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kconnect.api import Schema
from kconnect.builtin.transforms.date_columns import format_column, parse_column
from kconnect.builtin.transforms.timestamp_kinds import (
    COARSER,
    DATE,
    FINER,
    STRING,
    TIME,
    TIMESTAMP,
    UNIX,
    TimestampFormat,
    kind_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

# The years 1 to 9999, outside of which there is no datetime
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def converted_column(schema: Schema, column: pa.Array, to: TimestampFormat) -> pa.Array | None:
    """The column in the form asked for; None where each value has to be looked at. Errors: ConnectError, as records."""
    kind = kind_of(schema)
    if kind == to.target and kind in (DATE, TIME, TIMESTAMP):
        return column
    millis = _millis(kind, column, to)
    if millis is None:
        return None
    if to.target == STRING:
        return None if to.pattern is None else format_column(to.pattern, millis)
    if to.target == UNIX:
        return _scaled(millis, FINER.get(to.unit, 1), COARSER.get(to.unit, 1))
    return _moments(millis, to.target)


def _millis(kind: str, column: pa.Array, given: TimestampFormat) -> pa.Array | None:
    """The column as int64 ms since the epoch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == STRING:
        is_read = given.pattern is not None and not given.pattern.refused_letters
        return parse_column(given.pattern, column) if given.pattern is not None and is_read else None
    if kind == UNIX:
        return _scaled(column, COARSER.get(given.unit, 1), FINER.get(given.unit, 1))
    if pa.types.is_integer(column.type):
        return None  # a logical column may hold the plain type
    if kind == TIMESTAMP:
        return column.cast(pa.int64())
    numbers = column.cast(pa.int32()).cast(pa.int64())
    return pc.multiply(numbers, 86_400_000) if kind == DATE else numbers


def _scaled(column: pa.Array, factor: int, divisor: int) -> pa.Array | None:
    """Multiplied, or divided towards zero as Java's TimeUnit does; None where the result would not fit 64 bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if divisor != 1:
        return pc.divide(column, divisor)
    if factor == 1:
        return column
    try:
        return pc.multiply_checked(column, factor)
    except pa.ArrowInvalid:
        return None


def _moments(millis: pa.Array, target: str) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.min_max(millis).as_py()
    if found["min"] is not None and (found["min"] < _FIRST_MS or found["max"] > _LAST_MS):
        return None  # a DataError of the records outside
    instants = millis.cast(pa.timestamp("ms"))
    if target == TIMESTAMP:
        return millis.cast(pa.timestamp("ms", tz="UTC"))
    days = pc.floor_temporal(instants, unit="day")
    if target == DATE:
        return days.cast(pa.date32())
    return pc.subtract(millis, days.cast(pa.int64())).cast(pa.int32()).cast(pa.time32("ms"))
