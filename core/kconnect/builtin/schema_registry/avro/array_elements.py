"""Reads the elements of Avro's arrays and maps, of all rows, into one column.

An element begins where the one before it ends. Of values with a fixed size, and of whole numbers, all ends are known
at once; of other ones the first elements of all rows are read, then the second ones, ..: batches in which that takes
many turns go by records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import DataError
from kconnect.builtin.schema_registry.avro.avro_cursor import AvroCursor
from kconnect.builtin.schema_registry.avro.byte_words import bounds, number
from kconnect.builtin.schema_registry.avro.column_rules import NotInColumns, Present

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
