"""Reads Avro into Arrow columns, with the values that fastavro and avro_values.py give row by row.

A schema becomes a tree of readers once. Each of them reads its value in all rows at once and leaves the cursor behind
it. What cannot be read so goes by records, bytes that are wrong as well: there the error names its record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import DataError, Date, Decimal, Schema, Time, Timestamp, Type
from kconnect.api.columns import arrow_type
from kconnect.builtin.schema_registry.avro.avro_cursor import AvroBytes, AvroCursor, read_elements
from kconnect.builtin.schema_registry.avro.avro_names import is_union
from kconnect.builtin.schema_registry.avro.avro_schema import AvroType
from kconnect.builtin.schema_registry.avro.byte_words import WORD, number, reversed_bytes, sign_of
from kconnect.builtin.schema_registry.avro.column_rules import KEY_TYPES, NotInColumns, Present, refuse_repeated_keys
from kconnect.builtin.schema_registry.avro.decimal_words import decimals_of
from kconnect.builtin.schema_registry.avro.schema_from_avro import optional_branch
from kconnect.builtin.schema_registry.registry.wire import HEAD_SIZE

# What Python's dates and times can say: days and ms
_LEAST_AND_MOST: Final = {
    Date.LOGICAL_NAME: (-719_162, 2_932_896),
    Time.LOGICAL_NAME: (0, 86_399_999),
    Timestamp.LOGICAL_NAME: (-62_135_596_800_000, 253_402_300_799_999),
}


class ColumnReader:
    """Reads columns of one Avro schema as its Connect schema."""

    def __init__(self, schema: Schema, avro: AvroType) -> None:
        """Errors: NotInColumns."""
        self._reader = _reader(schema, avro)
        self._is_raw = avro.kind == "bytes"  # Confluent's form of top-level bytes has no length before them

    def read(self, column: pa.BinaryArray) -> pa.Array:
        """The values of rows without nulls, each with a head before it, which is not looked at.

        Errors: NotInColumns; DataError, OverflowError and pa.ArrowException for bytes that are none of this schema.
        """
        source = AvroBytes(column)
        begin, ends = source.bounds.slice(0, len(column)), source.bounds.slice(1)
        cursor = AvroCursor(source, pc.add(begin, number(HEAD_SIZE)), ends)
        cursor.finish()
        if self._is_raw and isinstance(self._reader, _Sized):
            made = self._reader.sized(cursor, pc.subtract(ends, cursor.places), None)
        else:
            made = self._reader.read(cursor, None)
        cursor.finish()
        return made


def head_of_all(column: pa.BinaryArray) -> bytes | None:
    """The head of the wire format that all rows have; None where they differ, or one has none, or is null."""
    if column.null_count:
        return None
    heads = pc.binary_slice(column, 0, HEAD_SIZE)
    if pc.any(pc.not_equal(heads, heads[0])).as_py():
        return None
    found: bytes = heads[0].as_py()
    return found


class _Reader(ABC):
    size: int | None = None
    """Bytes of each value, if that is always the same."""
    is_number = False
    """Whether a value is one number of Avro, and nothing else."""

    @abstractmethod
    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        """The next value of each row; null where it is not present."""


def _nulled(column: pa.Array, present: Present) -> pa.Array:
    return column if present is None else pc.if_else(present, column, pa.scalar(None, column.type))


class _Sized(_Reader):
    """Bytes, after their length if that is not always the same."""

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        if self.size is None:
            return self.sized(cursor, cursor.lengths(present), present)
        sizes = number(self.size)
        if present is None:
            return self.sized(cursor, pa.repeat(sizes, len(cursor)), None)
        return self.sized(cursor, pc.if_else(present, sizes, number(0)), present)

    @abstractmethod
    def sized(self, cursor: AvroCursor, sizes: pa.UInt64Array, present: Present) -> pa.Array:
        """A value of each row, as many bytes long as `sizes` says."""


class _Whole(_Reader):
    is_number = True

    def __init__(self, schema: Schema) -> None:
        self._arrow = arrow_type(schema)
        self._range = _LEAST_AND_MOST.get(schema.name or "")
        self._spare = {Type.INT8: 56, Type.INT16: 48}.get(schema.type)

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        found = cursor.longs(present)
        if self._range is not None and len(found):
            ends = pc.min_max(found).as_py()
            if ends["min"] < self._range[0] or ends["max"] > self._range[1]:
                raise DataError("A date or time is out of range")
        if self._spare is not None:  # Java's byteValue(): what is above is cut off
            spare = pa.scalar(self._spare, pa.int64())
            found = pc.shift_right(pc.shift_left(found, spare), spare)
        bits = pa.int32() if self._arrow.bit_width == 32 else pa.int64()
        if self._range is not None:
            found = found.cast(bits)
        return _nulled(found.cast(self._arrow), present)


class _Floating(_Reader):
    def __init__(self, kind: str) -> None:
        self.size = 4 if kind == "float" else 8

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        words = cursor.fixed(self.size or 0, present)
        if self.size == WORD:
            return _nulled(words.view(pa.float64()), present)
        half = pc.bit_wise_and(words, number(0xFFFFFFFF)).cast(pa.uint32())
        return _nulled(half.view(pa.float32()), present)


class _Boolean(_Reader):
    size = 1

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        found = cursor.numbers(present)
        if (pc.max(found).as_py() or 0) > 1:
            raise DataError("A boolean is neither 0 nor 1")
        return _nulled(found.cast(pa.bool_()), present)


class _Spans(_Sized):
    """Text and bytes."""

    def __init__(self, schema: Schema, size: int | None = None) -> None:
        self._arrow = arrow_type(schema)
        self.size = size

    def sized(self, cursor: AvroCursor, sizes: pa.UInt64Array, present: Present) -> pa.Array:
        return cursor.spans(sizes, present).cast(self._arrow)  # raises for what is no UTF-8


class _Decimals(_Sized):
    def __init__(self, schema: Schema, size: int | None) -> None:
        self._arrow = arrow_type(schema)
        self.size = size

    def sized(self, cursor: AvroCursor, sizes: pa.UInt64Array, present: Present) -> pa.Array:
        begin = cursor.places
        cursor.skip(sizes)
        ends = pc.min_max(_nulled(sizes, present)).as_py()
        if ends["min"] == 0 or (ends["max"] or 0) > 2 * WORD:
            raise NotInColumns
        over = pc.subtract(pc.max_element_wise(sizes, number(WORD)), number(WORD))
        is_wide = pc.not_equal(over, number(0))
        first = reversed_bytes(cursor.words_at(begin)).view(pa.int64())
        spare = pc.subtract(number(64), pc.shift_left(pc.if_else(is_wide, over, sizes), number(3)))
        top = pc.shift_right(first, spare.cast(pa.int64()))  # with its sign
        low, high = top, sign_of(first.view(pa.uint64())).view(pa.int64())
        if is_wide.true_count:
            last = reversed_bytes(cursor.words_at(pc.add(begin, over))).view(pa.int64())
            low, high = pc.if_else(is_wide, last, low), pc.if_else(is_wide, top, high)
        if present is not None:
            zero = pa.scalar(0, pa.int64())
            low, high = pc.if_else(present, low, zero), pc.if_else(present, high, zero)
        return decimals_of(low.view(pa.uint64()), high.view(pa.uint64()), self._arrow, present)


class _Enum(_Reader):
    is_number = True

    def __init__(self, avro: AvroType) -> None:
        self._symbols = pa.array(avro.symbols, pa.string())

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        return self._symbols.take(_nulled(cursor.longs(present), present))  # raises for one that does not exist


class _Nullable(_Reader):
    """A union of one schema and, maybe, null."""

    def __init__(self, index: int, count: int, inner: _Reader) -> None:
        self._index = index
        self._count = count
        self._inner = inner

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        marks = _marks(cursor, self._count, present)
        here = pc.equal(marks, number(self._index))
        if present is not None:
            here = pc.and_(here, present)
        return self._inner.read(cursor, None if here.true_count == len(cursor) else here)


def _marks(cursor: AvroCursor, branches: int, present: Present) -> pa.UInt64Array:
    """Which branch of a union each row has."""
    marks = cursor.lengths(present)
    if (pc.max(marks).as_py() or 0) >= branches:
        raise DataError("A union has no such branch")
    return marks


class _Union(_Reader):
    """A struct in which the field of the branch is the value."""

    def __init__(self, schema: Schema, avro: AvroType, members: Sequence[tuple[int, _Reader]]) -> None:
        self._arrow = arrow_type(schema)
        self._count = len(avro.branches)
        self._members = members

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        marks = _marks(cursor, self._count, present)
        children = []
        is_any = pa.repeat(pa.scalar(False, pa.bool_()), len(cursor))
        for (index, reader), entry in zip(self._members, self._arrow, strict=True):
            here = pc.equal(marks, number(index))
            if present is not None:
                here = pc.and_(here, present)
            is_any = pc.or_(is_any, here)
            children.append(reader.read(cursor, here) if here.true_count else pa.nulls(len(cursor), entry.type))
        return pa.StructArray.from_arrays(children, fields=list(self._arrow), mask=pc.invert(is_any))


class _Struct(_Reader):
    def __init__(self, kind: pa.StructType, parts: Sequence[_Reader]) -> None:
        self._arrow = kind
        self._parts = parts

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        children = [part.read(cursor, present) for part in self._parts]
        mask = None if present is None else pc.invert(present)
        if not children:
            return pa.array([{}] * len(cursor), self._arrow, mask=mask)
        return pa.StructArray.from_arrays(children, fields=list(self._arrow), mask=mask)


class _List(_Reader):
    def __init__(self, kind: pa.DataType, item: _Reader) -> None:
        self._arrow = kind
        self._item = item

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        offsets, elements = read_elements(self._item, cursor, present)
        return _in_lists(self._arrow, offsets, elements, present)


def _in_lists(kind: pa.DataType, offsets: pa.Int32Array, elements: pa.Array, present: Present) -> pa.Array:
    valid = None if present is None else present.buffers()[1]
    return pa.Array.from_buffers(kind, len(offsets) - 1, [valid, offsets.buffers()[1]], children=[elements])


class _Map(_Reader):
    def __init__(self, kind: pa.MapType, key: _Reader, value: _Reader) -> None:
        self._arrow = kind
        self._entry = pa.struct([kind.key_field, kind.item_field])
        self._item = _Struct(self._entry, [key, value])

    def read(self, cursor: AvroCursor, present: Present) -> pa.Array:
        offsets, entries = read_elements(self._item, cursor, present)
        refuse_repeated_keys(_in_lists(pa.list_(self._entry), offsets, entries, present), entries.field(0))
        return _in_lists(self._arrow, offsets, entries, present)


def _reader(schema: Schema | None, avro: AvroType) -> _Reader:
    if schema is None:
        raise NotInColumns
    if avro.kind == "union":
        if is_union(schema) and optional_branch(avro) is None:
            return _union(schema, avro)
        index = next(index for index, branch in enumerate(avro.branches) if branch.kind != "null")
        return _Nullable(index, len(avro.branches), _reader(schema, avro.branches[index]))
    kind = schema.type
    if kind is Type.STRUCT:
        parts = [_reader(field.schema, entry.type) for entry, field in zip(avro.fields, schema.fields, strict=True)]
        return _Struct(arrow_type(schema), parts)
    if kind is Type.ARRAY:
        return _List(arrow_type(schema), _element(schema.value_schema, avro.inner))
    if kind is Type.MAP:
        return _map(schema, avro)
    return _scalar(schema, avro)


def _scalar(schema: Schema, avro: AvroType) -> _Reader:
    size = avro.size if avro.kind == "fixed" else None
    if schema.name == Decimal.LOGICAL_NAME:
        return _Decimals(schema, size)
    if avro.kind in ("float", "double"):
        return _Floating(avro.kind)
    if avro.kind in ("int", "long"):
        return _Whole(schema)
    if avro.kind == "boolean":
        return _Boolean()
    if avro.kind == "enum":
        return _Enum(avro)
    return _Spans(schema, size)


def _union(schema: Schema, avro: AvroType) -> _Reader:
    indexes = [index for index, branch in enumerate(avro.branches) if branch.kind != "null"]
    members = [
        (index, _reader(field.schema, avro.branches[index]))
        for index, field in zip(indexes, schema.fields, strict=True)
    ]
    return _Union(schema, avro, members)


def _map(schema: Schema, avro: AvroType) -> _Reader:
    if schema.key_schema is None or schema.key_schema.type not in KEY_TYPES:
        raise NotInColumns
    kind = arrow_type(schema)
    if avro.kind == "map":
        return _Map(kind, _Spans(schema.key_schema), _reader(schema.value_schema, avro.inner))
    names = [entry.name for entry in avro.inner.fields]
    if names != ["key", "value"]:
        raise NotInColumns
    key, value = (entry.type for entry in avro.inner.fields)
    return _Map(kind, _reader(schema.key_schema, key), _reader(schema.value_schema, value))


def _element(schema: Schema | None, avro: AvroType) -> _Reader:
    """For what has one byte at least. Errors: NotInColumns for what may have none."""
    if _is_empty(avro):
        raise NotInColumns
    return _reader(schema, avro)


def _is_empty(avro: AvroType) -> bool:
    if avro.kind == "record":
        return all(_is_empty(entry.type) for entry in avro.fields)
    return avro.kind == "null" or (avro.kind == "fixed" and not avro.size)
