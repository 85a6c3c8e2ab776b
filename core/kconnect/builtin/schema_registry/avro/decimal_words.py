"""Decimals of Arrow, 16 bytes with the lowest first, as Avro has them: as few bytes as hold them, the highest first."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import DataError
from kconnect.builtin.schema_registry.avro.byte_words import WORD, ByteWords, flat, number, reversed_bytes, sign_of
from kconnect.builtin.schema_registry.avro.column_rules import Present

SIZE = 2 * WORD
# 10**38 is more than fits: the upper half of such a number, and the lower
_TOO_HIGH, _TOO_LOW = divmod(10**38, 1 << 64)


def decimal_words(column: pa.Decimal128Array) -> tuple[pa.UInt64Array, list[ByteWords]]:
    """How many bytes each number takes, and these bytes; null is 0."""
    low, high = _halves(column)
    lengths = _lengths(low, high)
    over = pc.subtract(pc.max_element_wise(lengths, number(WORD)), number(WORD))
    is_wide = pc.not_equal(over, number(0))
    if not is_wide.true_count:
        return lengths, [_first(low, lengths)]
    first = _first(pc.if_else(is_wide, high, low), pc.if_else(is_wide, over, lengths))
    return lengths, [first, ByteWords(reversed_bytes(low), WORD, WORD).in_rows(is_wide)]


def fixed_decimal_words(column: pa.Decimal128Array, size: int) -> list[ByteWords]:
    """The bytes of each number, filled up with its sign. Errors: DataError for one that needs more."""
    low, high = _halves(column)
    if (pc.max(_lengths(low, high)).as_py() or 0) > size or size > SIZE:
        raise DataError(f"A number does not fit the Avro type fixed of {size} bytes")
    if size <= WORD:
        return [_first(low, size)]
    return [_first(high, size - WORD), ByteWords(reversed_bytes(low), WORD, WORD)]


def decimals_of(
    low: pa.UInt64Array, high: pa.UInt64Array, kind: pa.Decimal128Type, present: Present
) -> pa.Decimal128Array:
    """The numbers of these halves, null where not present. Errors: OverflowError beyond 38 digits."""
    sign = sign_of(high)
    above, below = pc.bit_wise_xor(high, sign), pc.bit_wise_xor(low, sign)  # of a negative number: less by one
    too_low = pc.subtract(number(_TOO_LOW), pc.shift_right(high, number(63)))
    is_edge = pc.and_(pc.equal(above, number(_TOO_HIGH)), pc.greater_equal(below, too_low))
    if pc.any(pc.or_(pc.greater(above, number(_TOO_HIGH)), is_edge)).as_py():
        raise OverflowError("more than 38 digits")
    rows = len(low)
    places = pa.arange(0, 2 * rows)
    from_high = pc.multiply(pc.bit_wise_and(places, pa.scalar(1, pa.int64())), pa.scalar(rows, pa.int64()))
    order = pc.add(pc.shift_right(places, pa.scalar(1, pa.int64())), from_high)
    words = pa.concat_arrays([low, high]).take(order)
    return pa.Array.from_buffers(kind, rows, [None if present is None else present.buffers()[1], words.buffers()[1]])


def _halves(column: pa.Decimal128Array) -> tuple[pa.UInt64Array, pa.UInt64Array]:
    words = flat(column, pa.uint64(), 2)
    places = pa.arange(0, len(words), 2)
    halves = words.take(places), words.take(pc.add(places, pa.scalar(1, pa.int64())))
    if not column.null_count:
        return halves
    # not fill_null, which makes another type of a decimal with a negative scale
    low, high = (pc.if_else(column.is_valid(), half, number(0)) for half in halves)
    return low, high


def _lengths(low: pa.UInt64Array, high: pa.UInt64Array) -> pa.UInt64Array:
    """One byte, and one more for each that the bits and the sign need."""
    sign = sign_of(high)
    above, below = pc.bit_wise_xor(high, sign), pc.bit_wise_xor(low, sign)
    is_long = pc.not_equal(above, number(0))
    long = pa.repeat(number(WORD + 1), len(low)) if is_long.true_count else None
    short = pa.repeat(number(1), len(low))
    for size in range(1, WORD + 1):
        least = number(1 << (8 * size - 1))
        short = pc.add(short, pc.greater_equal(below, least).cast(pa.uint64()))
        if long is not None and size < WORD:
            long = pc.add(long, pc.greater_equal(above, least).cast(pa.uint64()))
    return short if long is None else pc.if_else(is_long, long, short)


def _first(words: pa.UInt64Array, lengths: pa.UInt64Array | int) -> ByteWords:
    """The lowest bytes of each word, in the other order."""
    unused = pc.shift_left(
        pc.subtract(number(WORD), number(lengths) if isinstance(lengths, int) else lengths), number(3)
    )
    return ByteWords(reversed_bytes(pc.shift_left(words, unused)), lengths, WORD)
