"""A few bytes for each row of a column, as 64-bit numbers: the first byte is the lowest, bytes beyond the length are 0.

Arrow works on such numbers at less than a nanosecond each; a Python step for each value takes a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

WORD: Final = 8
_ONES: Final = 0x0101010101010101
_EMPTY: Final = pa.scalar(b"", pa.binary())
# (a value of more bits than this, the bits to move, by how many): opens a gap of one bit after each seven
_SPREAD: Final = (
    (28, 0x00FFFFFFF0000000, 4),
    (14, 0x0FFFC0000FFFC000, 2),
    (7, 0x3F803F803F803F80, 1),
)


@lru_cache(maxsize=1024)
def number(value: int) -> pa.Scalar:
    """A constant of Arrow's. To guess the type of a Python value, pyarrow takes 30 us."""
    return pa.scalar(value, pa.uint64())


@dataclass(frozen=True, slots=True)
class ByteWords:
    """Up to eight bytes a row. `words` and `lengths` are uint64 columns, or one number for all rows."""

    words: pa.Array | int
    lengths: pa.Array | int
    most: int

    def in_rows(self, present: pa.BooleanArray | None) -> ByteWords:
        """The same, with no bytes in the other rows."""
        if present is None:
            return self
        nothing = number(0)
        return ByteWords(
            pc.if_else(present, _operand(self.words), nothing),
            pc.if_else(present, _operand(self.lengths), nothing),
            self.most,
        )

    def then(self, after: ByteWords) -> ByteWords | None:
        """Both, one after the other; None if that may be more than eight bytes."""
        most = self.most + after.most
        if most > WORD:
            return None
        if isinstance(self.lengths, int):
            moved = _shifted(after.words, 8 * self.lengths)
        else:
            moved = pc.shift_left(_operand(after.words), pc.shift_left(self.lengths, number(3)))
        return ByteWords(_sum(self.words, moved), _sum(self.lengths, after.lengths), most)

    def binary(self, rows: int) -> pa.BinaryArray | pa.Scalar:
        """A binary column, or one value for all rows."""
        if isinstance(self.words, int) and isinstance(self.lengths, int):
            return pa.scalar(self.words.to_bytes(WORD, "little")[: self.lengths], pa.binary())
        words, lengths = _column(self.words, rows), _column(self.lengths, rows)
        data = flat(words, pa.uint8(), WORD)
        if self.lengths != WORD:
            # as many set bits for each row as it has bytes
            bits = pc.subtract(pc.shift_left(number(1), lengths), number(1)).cast(pa.uint8(), safe=False)
            data = data.filter(pa.Array.from_buffers(pa.bool_(), rows * WORD, [None, bits.buffers()[1]]))
        return spans_of(bounds(lengths, data.offset), data.buffers()[1])


Piece: TypeAlias = ByteWords | pa.Array
"""What a row consists of: words, or a binary column, in which null is no bytes."""


def constant(data: bytes) -> list[Piece]:
    """The same bytes in each row."""
    parts = [data[start : start + WORD] for start in range(0, len(data), WORD)]
    return [ByteWords(int.from_bytes(part, "little"), len(part), len(part)) for part in parts]


def joined(pieces: Sequence[Piece], rows: int) -> pa.BinaryArray:
    """All pieces of each row, one after the other."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        both = last.then(piece) if isinstance(last, ByteWords) and isinstance(piece, ByteWords) else None
        if both is None:
            merged.append(piece)
        else:
            merged[-1] = both
    columns = [piece.binary(rows) if isinstance(piece, ByteWords) else piece for piece in merged]
    if not any(isinstance(column, pa.Array) for column in columns):
        columns.append(pa.repeat(_EMPTY, rows))
    if len(columns) == 1 and not columns[0].null_count:
        return columns[0]
    return pc.binary_join_element_wise(*columns, _EMPTY, null_handling="replace", null_replacement="")


def varints(numbers: pa.UInt64Array) -> list[Piece]:
    """Seven bits a byte, the lowest first; the highest bit of each byte but the last is set."""
    top = pc.max(numbers).as_py() or 0
    if top < 1 << 7:
        return [ByteWords(numbers, 1, 1)]
    bits = top.bit_length()
    if bits <= 56:
        return [_spread(numbers, bits)]
    rest = pc.shift_right(numbers, number(56))
    is_long = pc.not_equal(rest, number(0))
    first = _spread(pc.bit_wise_and(numbers, number((1 << 56) - 1)), 56)
    full = pc.bit_wise_or(first.words, number(0x80 * _ONES))
    whole = ByteWords(pc.if_else(is_long, full, first.words), pc.if_else(is_long, number(WORD), first.lengths), WORD)
    return [whole, _spread(rest, 8).in_rows(is_long)]


def _spread(numbers: pa.UInt64Array, bits: int) -> ByteWords:
    words = numbers
    for beyond, moved, by in _SPREAD:
        if bits > beyond:
            high = pc.bit_wise_and(words, number(moved))
            words = pc.add(words, high if by == 1 else pc.multiply(high, number((1 << by) - 1)))
    above = pc.shift_right(words, number(8))  # bytes that are not the last have something above them
    most = -(-bits // 7)
    for step in (1, 2, 4):
        if most > step + 1:
            above = pc.bit_wise_or(above, pc.shift_right(above, number(8 * step)))
    more = pc.bit_wise_and(pc.add(above, number(0x7F * _ONES)), number(0x80 * _ONES))
    return ByteWords(pc.bit_wise_or(words, more), pc.add(marked_bytes(more), number(1)), most)


def marked_bytes(marks: pa.UInt64Array) -> pa.UInt64Array:
    """How many bytes have their highest bit set, of words in which no other bit is."""
    return pc.shift_right(pc.multiply(pc.shift_right(marks, number(7)), number(_ONES)), number(56))


def zigzag(numbers: pa.Int64Array) -> pa.UInt64Array:
    """Signed numbers so that small ones stay small: 0, -1, 1, -2 are 0, 1, 2, 3."""
    unsigned = numbers.view(pa.uint64())
    return pc.bit_wise_xor(pc.shift_left(unsigned, number(1)), sign_of(unsigned))


def sign_of(words: pa.UInt64Array) -> pa.UInt64Array:
    """All bits set where the highest is, else none: Arrow does not shift a signed number by 63."""
    return pc.subtract(number(0), pc.shift_right(words, number(63)))


def reversed_bytes(words: pa.UInt64Array) -> pa.UInt64Array:
    """The eight bytes of each word in the other order."""
    for bits, low in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF)):
        up = pc.shift_left(pc.bit_wise_and(words, number(low)), number(bits))
        words = pc.bit_wise_or(up, pc.bit_wise_and(pc.shift_right(words, number(bits)), number(low)))
    return pc.bit_wise_or(pc.shift_left(words, number(32)), pc.shift_right(words, number(32)))


def flat(column: pa.Array, kind: pa.DataType, times: int) -> pa.Array:
    """The memory of a column of fixed width as one of a narrower type, `times` as long."""
    return pa.Array.from_buffers(kind, len(column) * times, [None, column.buffers()[1]], offset=column.offset * times)


def bounds(lengths: pa.UInt64Array, first: int = 0) -> pa.Int32Array:
    """Where each row begins, `first` being the beginning, and at last the end of all."""
    ends = pc.cumulative_sum(lengths, start=number(first)).cast(pa.int32())
    return pa.concat_arrays([pa.array([first], pa.int32()), ends])


def spans_of(offsets: pa.Int32Array, data: pa.Buffer | None) -> pa.BinaryArray:
    """The binary column of these offsets, which must be of an array that is no slice."""
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, offsets.buffers()[1], data])


def _shifted(words: pa.Array | int, bits: int) -> Any:
    if isinstance(words, int):
        return words << bits
    return pc.shift_left(words, number(bits)) if bits else words


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return pc.add(_operand(one), _operand(other))


def _operand(value: pa.Array | int) -> Any:
    return number(value) if isinstance(value, int) else value


def _column(value: pa.Array | int, rows: int) -> pa.Array:
    return pa.repeat(number(value), rows) if isinstance(value, int) else value
