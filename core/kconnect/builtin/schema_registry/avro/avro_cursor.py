"""Reads the bytes of many rows at once, each from its own place: what is next in row one, row two, ..

All methods take what is `present`: the rows that have such a value, None for all. Others stay where they are and give
0 or null. Bytes beyond a row's end may be read by mistake, never used: whoever has a length checks it, and `finish`
finds every row that went too far.

`read_elements` reads the elements of arrays and maps, of all rows, into one column.

An element begins where the one before it ends. Of values with a fixed size, and of whole numbers, all ends are known
at once; of other ones the first elements of all rows are read, then the second ones, ..: batches in which that takes
many turns go by records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import DataError
from kconnect.builtin.schema_registry.avro.byte_words import WORD, bounds, flat, marked_bytes, number
from kconnect.builtin.schema_registry.avro.column_rules import NotInColumns, Present

_ONES: Final = 0x0101010101010101
_STOPS: Final = 0x80 * _ONES
# Takes out the gaps that byte_words.varints makes: (a value of more bytes than this, bits to move, by how many)
_CLOSE: Final = (
    (1, 0x7F007F007F007F00, 1),
    (2, 0x3FFF00003FFF0000, 2),
    (4, 0x0FFFFFFF00000000, 4),
)
# Measured: a turn takes 100 us and more, by records a byte takes 0.2 us; a batch may lose so many turns
_TURNS: Final = 300
_BYTES_A_TURN: Final = 500
_PAD: Final = pa.array([bytes(3 * WORD)], pa.binary())  # so that a word may be read at the very end


class AvroBytes:
    """The rows of a binary column as one piece of memory.

    `turns` is how often one element of all arrays may be read, until all of it goes by records.
    """

    def __init__(self, column: pa.BinaryArray) -> None:
        joined = pa.concat_arrays([column.cast(pa.binary()), _PAD])
        _, offsets, self.data = joined.buffers()
        whole = self.data.size // WORD
        self.words = pa.Array.from_buffers(pa.uint64(), whole, [None, self.data])
        self.bytes = pa.Array.from_buffers(pa.uint8(), whole * WORD, [None, self.data])
        self.turns = _TURNS + self.data.size // _BYTES_A_TURN
        self.bounds = pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, offsets]).cast(pa.uint64())

    @cached_property
    def stops(self) -> tuple[pa.UInt64Array, pa.UInt64Array]:
        """Gives, for each byte, how many before it are the last of a number; and where those are."""
        is_last = pc.less(self.bytes, pa.scalar(0x80, pa.uint8()))
        counted = pc.cumulative_sum(is_last.cast(pa.uint64()))
        before = pa.concat_arrays([pa.array([0], pa.uint64()), counted])
        return before, pc.indices_nonzero(is_last)


class AvroCursor:
    """A place in each row. Errors of all methods: DataError; pa.ArrowException for a place that cannot be."""

    def __init__(self, source: AvroBytes, places: pa.UInt64Array, ends: pa.UInt64Array) -> None:
        self.source = source
        self.places = places
        self.ends = ends

    def __len__(self) -> int:
        return len(self.places)

    def of_rows(self, rows: pa.BooleanArray) -> AvroCursor:
        """Where some of the rows are; `follow` brings back where they went."""
        return AvroCursor(self.source, self.places.filter(rows), self.ends.filter(rows))

    def follow(self, rows: pa.BooleanArray, other: AvroCursor) -> None:
        self.places = pc.replace_with_mask(self.places, rows, other.places)

    def finish(self) -> None:
        """Errors: DataError if a row went beyond its end."""
        if not pc.all(pc.less_equal(self.places, self.ends), min_count=0).as_py():
            raise DataError("A record ends in the middle of a value")

    def skip(self, lengths: Any) -> None:
        """Go on by so many bytes in each row. Errors: DataError beyond the row's end."""
        self.places = pc.add(self.places, lengths)
        self.finish()

    def longs(self, present: Present) -> pa.Int64Array:
        """Signed numbers of any length."""
        raw = self.numbers(present)
        sign = pc.subtract(number(0), pc.bit_wise_and(raw, number(1)))
        return pc.bit_wise_xor(pc.shift_right(raw, number(1)), sign).view(pa.int64())

    def lengths(self, present: Present) -> pa.UInt64Array:
        """Signed numbers that are not negative."""
        raw = self.numbers(present)
        if pc.any(pc.not_equal(pc.bit_wise_and(raw, number(1)), number(0)), min_count=0).as_py():
            raise DataError("A length is negative")
        return pc.shift_right(raw, number(1))

    def numbers(self, present: Present) -> pa.UInt64Array:
        """Unsigned numbers of any length: a signed one as zigzag has it."""
        first = self._in_rows(self.source.bytes.take(self.places), present, pa.scalar(0, pa.uint8()))
        if (pc.max(first).as_py() or 0) < 0x80:
            self._go_on(number(1), present)
            return first.cast(pa.uint64())
        words = self._in_rows(self.words(), present, number(0))
        stops = pc.bit_wise_and(pc.bit_wise_not(words), number(_STOPS))
        if pc.any(pc.equal(stops, number(0))).as_py():
            return self._long_numbers(words, stops, present)
        values, sizes = _until_stop(words, stops)
        self._go_on(sizes, present)
        return values

    def words(self) -> pa.UInt64Array:
        """The next eight bytes of each row, the first of them the lowest; the cursor stays."""
        return self.words_at(self.places)

    def words_at(self, places: pa.UInt64Array) -> pa.UInt64Array:
        """The eight bytes at any places: two whole words, moved and put together."""
        index = pc.shift_right(places, number(3))
        bits = pc.shift_left(pc.bit_wise_and(places, number(WORD - 1)), number(3))
        low = pc.shift_right(self.source.words.take(index), bits)
        above = pc.shift_left(self.source.words.take(pc.add(index, number(1))), number(1))
        return pc.bit_wise_or(low, pc.shift_left(above, pc.subtract(number(63), bits)))

    def fixed(self, size: int, present: Present) -> pa.UInt64Array:
        """The next bytes of each row, up to eight of them, as words; what is above them is not cut off."""
        words = self.words()
        self._go_on(number(size), present)
        return words

    def spans(self, lengths: pa.UInt64Array, present: Present) -> pa.BinaryArray:
        """The next so many bytes of each row, as a column."""
        begin = self.places
        self.skip(lengths)
        rows = len(self)
        if not rows:
            return pa.array([], pa.binary())
        # A binary column of these spans and of what lies between them; then without the latter
        offsets = pc.bit_wise_or(begin, pc.shift_left(self.places, number(32)))
        both = pa.Array.from_buffers(
            pa.binary(), 2 * rows - 1, [None, flat(offsets, pa.int32(), 2).buffers()[1], self.source.data]
        )
        evens = pa.Array.from_buffers(pa.bool_(), 2 * rows - 1, [None, pa.py_buffer(b"\x55" * (rows // 4 + 1))])
        made = both.filter(evens)
        if present is None:
            return made
        return pa.Array.from_buffers(made.type, rows, [present.buffers()[1], *made.buffers()[1:]])

    def _long_numbers(self, words: pa.UInt64Array, stops: pa.UInt64Array, present: Present) -> pa.UInt64Array:
        """Numbers of which some have nine or ten bytes."""
        is_long = pc.equal(stops, number(0))
        low, sizes = _until_stop(words, pc.if_else(is_long, number(1 << 63), stops))
        rest = pc.if_else(is_long, self.words_at(pc.add(self.places, number(WORD))), number(0))
        more = pc.bit_wise_and(pc.bit_wise_not(rest), number(0x8080))
        if pc.any(pc.equal(more, number(0))).as_py():
            raise DataError("A number has more than ten bytes")
        high, more_sizes = _until_stop(rest, more)
        self._go_on(pc.add(sizes, pc.if_else(is_long, more_sizes, number(0))), present)
        return pc.bit_wise_or(low, pc.shift_left(high, number(56)))

    def _go_on(self, sizes: Any, present: Present) -> None:
        """Without a check: `finish` sees to it, and no place is so far off that the next read fails in silence."""
        self.places = pc.add(self.places, self._in_rows(sizes, present, number(0)))

    def _in_rows(self, values: Any, present: Present, other: pa.Scalar) -> Any:
        return values if present is None else pc.if_else(present, values, other)


def _until_stop(words: pa.UInt64Array, stops: pa.UInt64Array) -> tuple[pa.UInt64Array, pa.UInt64Array]:
    """The numbers that end at the lowest marked byte, and how many bytes they have."""
    until = pc.bit_wise_xor(stops, pc.subtract(stops, number(1)))
    sizes = marked_bytes(pc.bit_wise_and(until, number(_STOPS)))
    values = pc.bit_wise_and(words, pc.bit_wise_and(until, number(0x7F * _ONES)))
    most = pc.max(sizes).as_py() or 0
    for beyond, moved, by in _CLOSE:
        if most > beyond:
            gap = pc.shift_right(pc.bit_wise_and(values, number(moved)), number(by))
            values = pc.subtract(values, gap if by == 1 else pc.multiply(gap, number((1 << by) - 1)))
    return values, sizes


# To look for the ends of numbers takes 2 ns for each byte of the batch: worth it where arrays are longer than this
_SEARCHED: Final = 8
_ZERO: Final = pa.scalar(0, pa.int64())


class ElementReader(Protocol):
    """What reads one element."""

    @property
    def size(self) -> int | None:
        """Bytes of each element, if that is always the same."""

    @property
    def is_number(self) -> bool:
        """Whether an element is one number of Avro, and nothing else."""

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        """The next element of each row."""


@dataclass(slots=True)
class _Found:
    """Elements in any order, with the row that each one is of and its place there."""

    rows: list[pa.Array] = field(default_factory=list)
    places: list[pa.Array] = field(default_factory=list)
    columns: list[pa.Array] = field(default_factory=list)

    def add(self, rows: pa.Array, places: pa.Array, column: pa.Array) -> None:
        self.rows.append(rows)
        self.places.append(places)
        self.columns.append(column)


def read_elements(item: ElementReader, cursor: AvroCursor, present: Present) -> tuple[pa.Int32Array, pa.Array]:
    """Where each row's elements begin, and all elements; the cursor is behind the arrays.

    Errors: NotInColumns; DataError and pa.ArrowException for bytes that are no array.
    """
    totals = pa.repeat(number(0), len(cursor))
    found = _Found()
    live = present
    while True:
        counts = _block(cursor, live)
        live = pc.greater(counts, number(0))
        if not live.true_count:
            break
        inside = cursor.of_rows(live)
        _read_block(item, inside, counts.filter(live), pc.indices_nonzero(live), totals.filter(live), found)
        cursor.follow(live, inside)
        totals = pc.add(totals, counts)
    offsets = bounds(totals)
    if not found.columns:
        return offsets, item.read(cursor.of_rows(live), None)  # of no row
    if len(found.columns) == 1:
        return offsets, found.columns[0]
    rows, places = pa.concat_arrays(found.rows), pa.concat_arrays(found.places)
    targets = pc.add(offsets.take(rows).cast(pa.uint64()), places)
    return offsets, pa.concat_arrays(found.columns).take(pc.inverse_permutation(targets.cast(pa.int64())))


def _block(cursor: AvroCursor, live: Present) -> pa.UInt64Array:
    """How many elements follow before the next such number; 0 after the last."""
    counts = cursor.longs(live)
    is_sized = pc.less(counts, _ZERO)
    if is_sized.true_count:
        cursor.longs(is_sized)  # bytes of the block, for those who skip it
        counts = pc.abs(counts)
    found = counts.view(pa.uint64())
    # before memory is taken for them: an element has one byte at least
    if not pc.all(pc.less_equal(pc.add(cursor.places, found), cursor.ends), min_count=0).as_py():
        raise DataError("An array ends in the middle of a block")
    return found


def _read_block(
    item: ElementReader, cursor: AvroCursor, counts: pa.UInt64Array, rows: pa.Array, before: pa.Array, found: _Found
) -> None:
    """One block of each row; `before` are the elements of earlier blocks."""
    most = pc.max(counts).as_py()
    if item.size is None and not (item.is_number and most > _SEARCHED):
        _in_turns(item, cursor, counts, rows, before, found)
        return
    first = bounds(counts)
    owners = pc.list_parent_indices(pa.ListArray.from_arrays(first, pa.nulls(first[-1].as_py())))
    places = pc.subtract(pa.arange(0, len(owners)).cast(pa.uint64()), first.take(owners).cast(pa.uint64()))
    begin, ends = cursor.places.take(owners), cursor.ends.take(owners)
    if item.size is not None:
        begin = pc.add(begin, pc.multiply(places, number(item.size)))
        cursor.skip(pc.multiply(counts, number(item.size)))
    else:
        begin = _number_places(cursor, begin, places)
        cursor.places = _number_places(cursor, cursor.places, counts)
        cursor.finish()
    column = item.read(AvroCursor(cursor.source, begin, ends), None)
    found.add(rows.take(owners), pc.add(before.take(owners), places), column)


def _number_places(cursor: AvroCursor, begin: pa.UInt64Array, after: pa.UInt64Array) -> pa.UInt64Array:
    """Where one is after so many numbers. Errors: pa.ArrowIndexError beyond the last byte of all."""
    stopped, stops = cursor.source.stops
    stop = pc.subtract(pc.add(stopped.take(begin), after), number(1))
    is_first = pc.equal(after, number(0))
    place = pc.add(stops.take(pc.if_else(is_first, number(0), stop)), number(1))
    return pc.if_else(is_first, begin, place)


def _in_turns(
    item: ElementReader, cursor: AvroCursor, counts: pa.UInt64Array, rows: pa.Array, before: pa.Array, found: _Found
) -> None:
    most = pc.max(counts).as_py()
    cursor.source.turns -= most
    if cursor.source.turns < 0:
        raise NotInColumns
    for turn in range(most):
        live = pc.greater(counts, number(turn))
        inside = cursor.of_rows(live)
        column = item.read(inside, None)
        cursor.follow(live, inside)
        found.add(rows.filter(live), pc.add(before.filter(live), number(turn)), column)
