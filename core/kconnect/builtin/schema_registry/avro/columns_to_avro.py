"""Writes Arrow columns as Avro, byte for byte as avro_values.py and fastavro do row by row.

A schema becomes a tree of writers once. Each of them makes, for all rows at once, the pieces that a row consists of;
pieces are joined for whole records, and for the elements of arrays and maps, which then lie in the rows as they are.

Numbers, text, bytes and times come first: what each row of such a column consists of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from kconnect.api import DataError, Date, Decimal, Schema, Time, Timestamp, Type
from kconnect.api.columns import arrow_type, column_of
from kconnect.builtin.schema_registry.avro.avro_codec import AvroCodec
from kconnect.builtin.schema_registry.avro.avro_names import AvroOptions, is_union
from kconnect.builtin.schema_registry.avro.avro_schema import AvroType
from kconnect.builtin.schema_registry.avro.avro_values import (
    branch_of,
    constant_datum,
    has_own_unit,
    union_branches,
)
from kconnect.builtin.schema_registry.avro.byte_words import (
    ByteWords,
    Piece,
    bounds,
    constant,
    joined,
    number,
    spans_of,
    varints,
    zigzag,
)
from kconnect.builtin.schema_registry.avro.column_rules import KEY_TYPES, NotInColumns, Present, refuse_repeated_keys
from kconnect.builtin.schema_registry.avro.decimal_words import decimal_words, fixed_decimal_words

_WHOLE: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})
_TIMES: Final = frozenset({Date.LOGICAL_NAME, Time.LOGICAL_NAME, Timestamp.LOGICAL_NAME})
_ONE_BYTE: Final = 64
"""Zigzag numbers of one byte: branches of a union from here on go by records."""


class ColumnWriter:
    """Writes columns of one Connect schema with one Avro schema."""

    def __init__(self, schema: Schema, avro: AvroType, options: AvroOptions) -> None:
        """Errors: NotInColumns; DataError where the schemas do not fit."""
        self._is_raw = avro.kind == "bytes"  # Confluent's form of top-level bytes has no length before them
        self._takes_null = schema.is_optional
        self._writer = _Writers(options).of(schema, avro)

    def write(self, column: pa.Array, head: bytes) -> pa.BinaryArray:
        """The bytes of each row with `head` before them, null for a null row.

        Errors: NotInColumns; DataError, OverflowError and pa.ArrowException where a value cannot be written.
        """
        nulls = column.is_null() if column.null_count and self._takes_null else None
        if nulls is not None:
            column = column.drop_null()  # a tombstone: nothing of it is written
        if not len(column):
            return pa.nulls(0 if nulls is None else len(nulls), pa.binary())
        pieces = self._writer.pieces(column, None)
        if self._is_raw:
            pieces = pieces[1:]
        made = joined([*constant(head), *pieces], len(column))
        if nulls is None:
            return made
        places = pc.subtract(pc.cumulative_sum(pc.invert(nulls).cast(pa.int64())), 1)
        return made.take(pc.if_else(nulls, pa.scalar(None, pa.int64()), places))


# The Arrow type, its bits as a number, and how many bytes those are
FLOATS: Final = {"float": (pa.float32(), pa.uint32(), 4), "double": (pa.float64(), pa.uint64(), 8)}


class PieceWriter(ABC):
    """Writes one part of a schema, in all rows at once.

    Where it has nothing to write, as its parent is null, a row is null in the column and not `present`.
    """

    @abstractmethod
    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        """What each row consists of. Nulls of present rows are an error unless the writer says otherwise."""


def require_values(column: pa.Array, present: Present) -> None:
    if column.null_count > (0 if present is None else present.false_count):
        raise DataError("Found null value for non-optional schema")


def _filled(column: pa.Array, present: Present) -> pa.Array:
    """Something in rows that are not present: arithmetic needs it, and it is left out afterwards."""
    require_values(column, present)
    return column.fill_null(pa.scalar(0, column.type)) if column.null_count else column


class WholeNumbers(PieceWriter):
    """int and long; dates and times too."""

    def __init__(self, schema: Schema) -> None:
        self._arrow = arrow_type(schema)

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        kind = column.type
        if types.is_temporal(self._arrow):
            if kind != self._arrow:
                raise NotInColumns
            column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        elif not types.is_signed_integer(kind):
            raise NotInColumns
        elif kind.bit_width > self._arrow.bit_width:
            column = column.cast(self._arrow)  # raises for what does not fit
        return whole_numbers(_filled(column, present), present)


def whole_numbers(column: pa.Array, present: Present) -> list[Piece]:
    """Signed numbers as Avro has them, in the rows that are present."""
    return [masked(piece, present) for piece in varints(zigzag(column.cast(pa.int64())))]


def masked(piece: Piece, present: Present) -> Piece:
    return piece.in_rows(present) if isinstance(piece, ByteWords) else piece


class FloatingNumbers(PieceWriter):
    """float and double, from whole numbers as well."""

    def __init__(self, kind: str) -> None:
        self._arrow, self._bits, self._size = FLOATS[kind]

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        if not types.is_floating(column.type) and not types.is_signed_integer(column.type):
            raise NotInColumns
        column = _filled(column, present)
        if types.is_integer(column.type):
            column = column.cast(pa.float64(), safe=False)  # Python's way to a float of 32 bits too
        words = column.cast(self._arrow, safe=False).view(self._bits).cast(pa.uint64())
        return [ByteWords(words, self._size, self._size).in_rows(present)]


class Booleans(PieceWriter):
    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        if not types.is_boolean(column.type):
            raise NotInColumns
        require_values(column, present)
        words = column.fill_null(pa.scalar(False, pa.bool_())).cast(pa.uint64())
        return [ByteWords(words, 1, 1).in_rows(present)]


class Lengthy(PieceWriter):
    """Text and bytes: their length, then they."""

    def __init__(self, schema: Schema) -> None:
        self._is_kind = _is_text if schema.type is Type.STRING else _is_binary

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        data = self.data(column, present)
        return [*whole_numbers(_filled(pc.binary_length(data), present), present), data]

    def data(self, column: pa.Array, present: Present) -> pa.BinaryArray:
        if not self._is_kind(column.type):
            raise NotInColumns
        require_values(column, present)
        return column.cast(pa.binary())


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


class FixedBytes(Lengthy):
    """Bytes of one length."""

    def __init__(self, schema: Schema, size: int) -> None:
        super().__init__(schema)
        self._size = size

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        data = self.data(column, present)
        if pc.any(pc.not_equal(pc.binary_length(data), pa.scalar(self._size, pa.int32()))).as_py():
            raise DataError(f"Values do not fit the Avro type fixed of {self._size} bytes")
        return [data]


class Decimals(PieceWriter):
    def __init__(self, schema: Schema, size: int | None) -> None:
        self._arrow = arrow_type(schema)
        self._size = size

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        if not types.is_decimal(column.type) or column.type.scale != self._arrow.scale:
            raise NotInColumns
        require_values(column, present)
        column = column.cast(self._arrow)
        if self._size is not None:
            return [piece.in_rows(present) for piece in fixed_decimal_words(column, self._size)]
        lengths, words = decimal_words(column)
        return [masked(piece, present) for piece in [ByteWords(pc.shift_left(lengths, number(1)), 1, 1), *words]]


class Enums(PieceWriter):
    def __init__(self, avro: AvroType) -> None:
        self._symbols = pa.array(avro.symbols, pa.string())
        self._name = avro.name

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        if not _is_text(column.type):
            raise NotInColumns
        require_values(column, present)
        found = pc.index_in(column.cast(pa.string()), value_set=self._symbols)
        if found.null_count > column.null_count:
            raise DataError(f"A value is none of the symbols of {self._name}")
        return whole_numbers(_filled(found, present), present)


class _Nullable(PieceWriter):
    """A union for one schema and, unless that is required, null."""

    def __init__(self, index: int, null_index: int | None, inner: PieceWriter) -> None:
        if max(index, null_index or 0) >= _ONE_BYTE:
            raise NotInColumns
        self._mark = 2 * index
        self._null_mark = None if null_index is None else 2 * null_index
        self._inner = inner

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        nulls = column.null_count - (0 if present is None else present.false_count)
        if not nulls:
            mark = ByteWords(self._mark, 1, 1).in_rows(present)
            return [mark, *self._inner.pieces(column, present)]
        if self._null_mark is None:
            raise DataError("Found null value for non-optional schema")
        valid = column.is_valid()
        marks = ByteWords(pc.if_else(valid, number(self._mark), number(self._null_mark)), 1, 1)
        return [marks.in_rows(present), *self._inner.pieces(column, valid)]


class _Union(PieceWriter):
    """A struct that stands for a union: the one field that is not null is the value."""

    def __init__(
        self, names: Sequence[str], members: Sequence[tuple[int, PieceWriter]], null_index: int | None
    ) -> None:
        self._names = names
        self._members = members
        self._null_index = null_index

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        children = _children(column, self._names)
        given = [child.is_valid() for child in children]
        count = _count(given, len(column))
        if pc.max(count).as_py() not in (0, 1, None):
            raise NotInColumns  # several members: by records it is the first
        is_null = pc.equal(count, number(0))
        nulls = is_null.true_count - (0 if present is None else present.false_count)
        if nulls and self._null_index is None:
            raise DataError("No field of the union has a value")
        marks: Any = number(2 * (self._null_index or 0))
        for (index, _), valid in zip(self._members, given, strict=True):
            marks = pc.if_else(valid, number(2 * index), marks)
        pieces: list[Piece] = [ByteWords(marks, 1, 1).in_rows(present)]
        for (_, writer), child, valid in zip(self._members, children, given, strict=True):
            if valid.true_count:
                pieces += writer.pieces(child, valid)
        return pieces


def _count(given: Sequence[pa.BooleanArray], rows: int) -> pa.UInt64Array:
    count = pa.repeat(number(0), rows)
    for one in given:
        count = pc.add(count, one.cast(pa.uint64()))
    return count


def _children(column: pa.Array, names: Sequence[str]) -> list[pa.Array]:
    """The fields, null where the struct is."""
    if not types.is_struct(column.type) or [field.name for field in column.type] != list(names):
        raise NotInColumns
    children: list[pa.Array] = column.flatten()
    return children


@dataclass(frozen=True, slots=True)
class _Field:
    place: int
    """In the Connect schema."""
    writer: PieceWriter
    default: pa.Array | None
    """What stands for null: one value."""


class _Struct(PieceWriter):
    def __init__(self, names: Sequence[str], parts: Sequence[_Field | bytes]) -> None:
        self._names = names
        self._parts = parts

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        children = _children(column, self._names)
        require_values(column, present)
        pieces: list[Piece] = []
        for part in self._parts:
            if isinstance(part, bytes):
                pieces += [masked(piece, present) for piece in constant(part)]
                continue
            child = children[part.place]
            if part.default is not None and child.null_count:
                child = _with_default(child, part.default, present)
            pieces += part.writer.pieces(child, present)
        return pieces


def _with_default(column: pa.Array, default: pa.Array, present: Present) -> pa.Array:
    missing = column.is_null() if present is None else pc.and_(column.is_null(), present)
    if default.type != column.type:
        raise NotInColumns
    rows = pa.arange(0, len(column))
    places = pc.if_else(missing, pa.scalar(len(column), pa.int64()), rows)
    return pa.concat_arrays([column, default]).take(places)


class _List(PieceWriter):
    """Arrays: how many, the elements, and 0 after them; only the 0 if there are none."""

    def __init__(self, item: PieceWriter) -> None:
        self._item = item

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        if not types.is_list(column.type):
            raise NotInColumns
        require_values(column, present)
        counts = pc.list_value_length(column).fill_null(pa.scalar(0, pa.int32()))
        has_any = pc.greater(counts, pa.scalar(0, pa.int32()))
        before, after = whole_numbers(counts, present), ByteWords(0, 1, 1).in_rows(has_any)
        elements = column.flatten()
        if not len(elements):
            return before
        blobs = joined(self._item.pieces(elements, None), len(elements))
        offsets = pa.Array.from_buffers(pa.int32(), len(blobs) + 1, [None, blobs.buffers()[1]], offset=blobs.offset)
        data = spans_of(offsets.take(bounds(counts.cast(pa.uint64()))), blobs.buffers()[2])
        return [*before, data, after]


class _Map(PieceWriter):
    """Maps, or arrays of records of key and value: in columns the same as arrays of structs."""

    def __init__(self, entry: PieceWriter) -> None:
        self._list = _List(entry)

    def pieces(self, column: pa.Array, present: Present) -> list[Piece]:
        if not types.is_map(column.type):
            raise NotInColumns
        entries = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
        refuse_repeated_keys(entries, pc.struct_field(entries.flatten(), [0]))
        return self._list.pieces(entries, present)


class _Writers:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options

    def of(self, schema: Schema | None, avro: AvroType) -> PieceWriter:
        if schema is None:
            raise NotInColumns
        if avro.kind != "union":
            return self._plain(schema, avro)
        null_index = next((index for index, branch in enumerate(avro.branches) if branch.kind == "null"), None)
        if not schema.is_optional:
            null_index = None
        if is_union(schema):
            return self._union(schema, avro, null_index)
        index = branch_of(schema, avro, self._options)
        return _Nullable(index, null_index, self._plain(schema, avro.branches[index]))

    def _union(self, schema: Schema, avro: AvroType, null_index: int | None) -> PieceWriter:
        members = []
        for field, index in zip(schema.fields, union_branches(schema, avro, self._options), strict=True):
            if field.schema.default is not None or index >= _ONE_BYTE:
                raise NotInColumns
            members.append((index, self._plain(field.schema, avro.branches[index])))
        return _Union([field.name for field in schema.fields], members, null_index)

    def _plain(self, schema: Schema, avro: AvroType) -> PieceWriter:
        kind = schema.type
        if kind is Type.STRUCT:
            return self._struct(schema, avro)
        if kind is Type.ARRAY:
            return _List(self.of(schema.value_schema, avro.inner))
        if kind is Type.MAP:
            return self._map(schema, avro)
        if has_own_unit(schema, avro):
            raise NotInColumns
        if schema.name == Decimal.LOGICAL_NAME:
            return Decimals(schema, avro.size if avro.kind == "fixed" else None)
        if avro.kind in FLOATS:
            if schema.name in _TIMES:
                raise NotInColumns
            return FloatingNumbers(avro.kind)
        if kind in _WHOLE:
            return WholeNumbers(schema)
        if avro.kind == "enum":
            return Enums(avro)
        if avro.kind == "fixed":
            return FixedBytes(schema, avro.size)
        return Booleans() if kind is Type.BOOLEAN else Lengthy(schema)

    def _map(self, schema: Schema, avro: AvroType) -> PieceWriter:
        if schema.key_schema is None or schema.key_schema.type not in KEY_TYPES:
            raise NotInColumns
        if avro.kind == "map":
            key: PieceWriter = Lengthy(schema.key_schema)
            value = self.of(schema.value_schema, avro.inner)
        elif [entry.name for entry in avro.inner.fields] == ["key", "value"]:
            key, value = (
                self.of(part, entry.type)
                for part, entry in zip((schema.key_schema, schema.value_schema), avro.inner.fields, strict=True)
            )
        else:
            raise NotInColumns
        return _Map(_Struct(["key", "value"], [_Field(0, key, None), _Field(1, value, None)]))

    def _struct(self, schema: Schema, avro: AvroType) -> PieceWriter:
        names = {self._options.scrub_name(field.name): field for field in schema.fields}
        parts: list[_Field | bytes] = []
        for entry in avro.fields:
            field = names.get(entry.name)
            if field is None:
                alone = AvroType("record", "constant", fields=[entry])
                parts.append(AvroCodec(alone).encode({entry.name: constant_datum(entry)}))
                continue
            default = None
            if field.schema.default is not None and not self._options.ignore_default_for_nullables:
                default = column_of(field.schema, [field.schema.default])
            parts.append(_Field(field.index, self.of(field.schema, entry.type), default))
        return _Struct([field.name for field in schema.fields], parts)
