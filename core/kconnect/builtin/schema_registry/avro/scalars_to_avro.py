"""Writes columns of numbers, text, bytes and times as Avro: what each row consists of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from kconnect.api import DataError, Schema, Type
from kconnect.api.columns import arrow_type
from kconnect.builtin.schema_registry.avro.avro_schema import AvroType
from kconnect.builtin.schema_registry.avro.byte_words import ByteWords, Piece, number, varints, zigzag
from kconnect.builtin.schema_registry.avro.column_rules import NotInColumns, Present
from kconnect.builtin.schema_registry.avro.decimal_words import decimal_words, fixed_decimal_words

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
