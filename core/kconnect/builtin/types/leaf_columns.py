"""Columns of one value each, made to fit a type: numbers, texts, bytes, and times. Pure."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kconnect.api.plain_values import plain
from kconnect.builtin.types.iso_text import clock_of_iso

if TYPE_CHECKING:
    import pyarrow as pa


def leaf(column: pa.Array, kind: pa.DataType, *, reads: bool) -> pa.Array | None:
    """The column with this type; None if a value does not fit. `reads`: as of FitRules."""
    import pyarrow as pa

    try:
        if column.null_count != len(column) and not may_be(column.type, kind, reads=reads):
            return None
        if pa.types.is_temporal(kind):
            return _as_time(column, kind, reads)
        if pa.types.is_time(column.type) and pa.types.is_integer(kind):
            return column.cast(pa.time32("ms"), safe=not reads).cast(pa.int32()).cast(kind)
        if pa.types.is_duration(column.type):
            return column.cast(pa.int64()).cast(kind)
        if pa.types.is_temporal(column.type):  # to a text
            return pa.array([plain(value) for value in column.to_pylist()], kind)
        return _as_plain(column, kind, reads)
    except pa.ArrowException:
        return None


def may_be(old: pa.DataType, new: pa.DataType, *, reads: bool) -> bool:
    """Whether values of one type can be of the other, and mean the same."""
    import pyarrow as pa

    if old == new or pa.types.is_null(old):
        return True
    if pa.types.is_boolean(old) or pa.types.is_boolean(new):
        return reads and (is_text(old) or is_text(new))
    if _is_number(old):
        if pa.types.is_integer(old) and (is_date(new) or pa.types.is_time(new)):
            return True
        if pa.types.is_decimal(old):
            is_whole = old.scale == 0 and (pa.types.is_integer(new) or pa.types.is_float64(new))
            return pa.types.is_decimal(new) or is_whole or (reads and (_is_number(new) or is_text(new)))
        return _is_number(new) or (reads and is_text(new))
    if is_text(old):
        return is_text(new) or is_date(new) or (reads and not pa.types.is_duration(new))
    if is_date(old):
        return is_date(new) or (reads and is_text(new))
    if pa.types.is_duration(old):
        return bool(pa.types.is_integer(new))
    if pa.types.is_time(old):
        return bool(pa.types.is_time(new) or pa.types.is_integer(new) or is_text(new))
    return is_bytes(old) and (is_bytes(new) or (reads and is_text(new)))


def _as_plain(column: pa.Array, kind: pa.DataType, reads: bool) -> pa.Array:
    """Errors: ArrowException."""
    import pyarrow as pa
    import pyarrow.compute as pc

    old = column.type
    if pa.types.is_decimal(kind):
        # By the digits that one sees: 1.005 has three, and of an integer only those that it has need a place
        if not reads and pa.types.is_floating(old):
            exact = [None if value is None else exact_decimal(value) for value in column.to_pylist()]
            return _checked(pa.array(exact, kind), column)
        is_read = pa.types.is_decimal(old) or is_text(old)
        return _checked((column if is_read else column.cast(pa.string())).cast(kind), column)
    if pa.types.is_float64(kind) and (pa.types.is_integer(old) or (pa.types.is_decimal(old) and not reads)):
        return _as_doubles(column)
    made = column.cast(kind)
    if pa.types.is_floating(old) and pa.types.is_floating(kind) and kind.bit_width < old.bit_width:
        # Arrow rounds without a word, to infinity too; NaN is not equal to itself
        same = pc.is_finite(made) if reads else pc.equal(made.cast(old), column)
        if pc.any(pc.invert(pc.or_(same, pc.invert(pc.is_finite(column))))).as_py():
            raise pa.ArrowInvalid("it would be rounded")
    return made


def _checked(made: pa.Array, column: pa.Array) -> pa.Array:
    """The decimals that Arrow made of a column, if they are its values.

    Arrow (26.0) multiplies by the power of ten that the scale wants without a look at what 128 bits hold, or at the end
    of its table of powers: of the text 1.5E+41 it makes a decimal(38, 0) of other digits, of 2.5E-98 one of any. What
    it does look at are the last digits, so that a comparison as doubles tells the rest. Errors: ArrowInvalid.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    zeros = pc.equal(made, pa.scalar(Decimal(0), made.type))
    if pc.any(zeros).as_py() and not all(map(_is_zero, column.filter(zeros).to_pylist())):
        raise pa.ArrowInvalid("it would be rounded to zero")
    wanted = _roughly(column)
    apart = pc.greater(pc.abs(pc.subtract(made.cast(pa.float64()), wanted)), pc.multiply(pc.abs(wanted), 1e-9))
    if pc.any(pc.or_(apart, pc.invert(pc.is_finite(wanted)))).as_py():
        raise pa.ArrowInvalid("it has more digits than the decimal")
    return made


def _is_zero(value: Any) -> bool:
    return not Decimal(value)


def _roughly(column: pa.Array) -> pa.Array:
    """Numbers, or texts of such, as doubles."""
    import pyarrow as pa

    try:
        return column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:  # a text of more forms than Arrow reads as a double, as +1
        return pa.array([None if value is None else float(value) for value in column.to_pylist()], pa.float64())


def exact_decimal(value: float) -> Decimal:
    """The number that a float is: by its shortest digits (0.1), a whole one beyond 2 ** 53 by all that it has."""
    return Decimal(value) if math.isfinite(value) and abs(value) >= _EXACT else Decimal(repr(value))


_EXACT = float(1 << 53)


def _as_doubles(column: pa.Array) -> pa.Array:
    """Whole numbers as doubles, of which Arrow takes those up to 2 ** 53. Errors: ArrowInvalid for one that is none."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        try:
            return column.cast(pa.float64())
        except pa.ArrowInvalid:
            pass
    values = column.to_pylist()
    made = [None if value is None else float(value) for value in values]
    if any(value != double for value, double in zip(values, made, strict=True)):
        raise pa.ArrowInvalid("it would be rounded")
    return pa.array(made, pa.float64())


def _as_time(column: pa.Array, kind: pa.DataType, reads: bool) -> pa.Array:
    """Times of text are ISO 8601; numbers are what Connect's converters write: ms, or days of a date.

    Errors: ArrowException.
    """
    import pyarrow as pa

    old = column.type
    if pa.types.is_integer(old):
        if pa.types.is_date(kind):
            return column.cast(pa.int32()).cast(pa.date32()).cast(kind)
        if pa.types.is_time(kind):
            return column.cast(pa.int32()).cast(pa.time32("ms")).cast(kind)
        return _to_unit(column.cast(pa.int64()).cast(pa.timestamp("ms", tz="UTC")), kind, reads)
    if is_text(old):
        if pa.types.is_time(kind):
            return _clocks(column).cast(kind, safe=not reads)
        if pa.types.is_date(kind):
            return column.cast(pa.string()).cast(kind)
        return _to_unit(_instants(column), kind, reads)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(old):
        return _to_unit(column, kind, reads)
    return column.cast(kind, safe=not reads)


def _instants(column: pa.Array) -> pa.Array:
    """Texts as times, to the nanosecond or else to the microsecond; those without a zone are of UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.cast(pa.string())
    is_day = pc.match_substring_regex(texts, r"^\d{4}-\d\d-\d\d$")
    texts = pc.if_else(is_day, pc.binary_join_element_wise(texts, "T00:00:00Z", ""), texts)
    has_zone = pc.match_substring_regex(texts, r"(Z|[+-]\d\d(:?\d\d)?)$")
    texts = pc.if_else(has_zone, texts, pc.binary_join_element_wise(texts, "Z", ""))
    for unit in ("us", "ns"):
        try:
            return texts.cast(pa.timestamp(unit, tz="UTC"))
        except pa.ArrowInvalid:
            if unit == "ns":
                raise
    raise AssertionError


def _to_unit(column: pa.Array, kind: pa.DataType, reads: bool) -> pa.Array:
    """Times in another unit: earlier parts of it are cut off where that is allowed, before 1970 as well."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if reads and _UNITS.index(kind.unit) < _UNITS.index(column.type.unit):
        column = pc.floor_temporal(column, unit=_NAMES[kind.unit])
    return column.cast(pa.timestamp(kind.unit, tz=column.type.tz)).cast(kind)


_UNITS = ("s", "ms", "us", "ns")
_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _clocks(column: pa.Array) -> pa.Array:
    """Texts as times of day. Errors: ArrowInvalid."""
    import pyarrow as pa

    try:
        return pa.array([_clock(text) for text in column.to_pylist()], pa.time64("us"))
    except ValueError as error:
        raise pa.ArrowInvalid(f"{error}") from error


def _clock(text: str | None) -> Any:
    return None if text is None else clock_of_iso(text)


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_date(kind: pa.DataType) -> bool:
    """Whether it has days: a date or a time of one."""
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
