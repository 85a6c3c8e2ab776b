"""Blocks: what crosses between Python and Java as columns, in Arrow's layout. Pure: bytes in, arrays out.

A block is a head (int32 length, JSON), then buffers, each at a multiple of 8 bytes. Arrow arrays are made around the
bytes that came, without a copy.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import Schema
from kconnect.api.columns import arrow_type, is_fine
from kconnect.api.logical import Decimal, Time, Timestamp
from kconnect.api.schema_types import Type
from kconnect.java.plugins.few_rows import RowReader

_TIMES = (Time.LOGICAL_NAME, Timestamp.LOGICAL_NAME)
_FIXED: dict[Type, int] = {
    Type.INT8: 1,
    Type.INT16: 2,
    Type.INT32: 4,
    Type.INT64: 8,
    Type.FLOAT32: 4,
    Type.FLOAT64: 8,
}


def _java_type(kind: pa.DataType) -> pa.DataType:
    """The same in milliseconds, which Java's times have."""
    return pa.timestamp("ms", tz=kind.tz) if pa.types.is_timestamp(kind) else pa.time32("ms")


def _in_millis(column: pa.Array) -> pa.Array:
    """Times of microseconds as Java has them: what is finer is cut off, as in a topic."""
    if pa.types.is_integer(column.type):  # milliseconds as plain numbers
        return column
    if pa.types.is_timestamp(column.type):
        column = pc.floor_temporal(column, unit="millisecond")
    return column.cast(_java_type(column.type), safe=False)


class BlockReader:
    """Reads a block in the order in which it was written."""

    def __init__(self, data: memoryview | bytes) -> None:
        self._view = memoryview(data)
        self._buffer = pa.py_buffer(data)
        self._at = 0

    def head(self) -> dict[str, Any]:
        length = self.integer()
        text = bytes(self._view[self._at : self._at + length])
        self._at += length
        found: dict[str, Any] = json.loads(text)
        return found

    def integer(self) -> int:
        value: int = struct.unpack_from("<i", self._view, self._at)[0]
        self._at += 4
        return value

    def integers(self, count: int) -> memoryview[int]:
        return self._numbers("i", 4, count)

    def longs(self, count: int) -> memoryview[int]:
        return self._numbers("q", 8, count)

    def binary(self, count: int, kind: pa.DataType | None = None) -> pa.Array:
        """A column of bytes (or of texts)."""
        valid = self._validity(count)
        return self._texts(count, valid, pa.binary() if kind is None else kind)

    def column(self, schema: Schema, count: int) -> pa.Array:
        """A column of Connect values, with the Arrow type that RecordBatch has for the schema."""
        valid, kind = self._validity(count), arrow_type(schema)
        if schema.type is Type.STRUCT:
            children = [self.column(field.schema, count) for field in schema.fields]
            if not children:
                return pa.array([{} if there else None for there in _bits(valid, count)], kind)
            return pa.Array.from_buffers(kind, count, [valid], children=children)
        if schema.type is Type.ARRAY:
            ends = self._slice(4 * (count + 1))
            inner = self._required(schema.value_schema)
            return pa.Array.from_buffers(kind, count, [valid, ends], children=[self.column(inner, self.integer())])
        if schema.type is Type.MAP:
            return self._map(schema, kind, count, valid)
        if schema.name == Decimal.LOGICAL_NAME:
            return pa.Array.from_buffers(kind, count, [valid, self._slice(16 * count)])
        if schema.type in (Type.STRING, Type.BYTES):
            return self._inner_texts(count, kind)
        size = (count + 7) // 8 if schema.type is Type.BOOLEAN else _FIXED[schema.type] * count
        if schema.name in _TIMES and is_fine(schema):
            return pa.Array.from_buffers(_java_type(kind), count, [valid, self._slice(size)]).cast(kind)
        return pa.Array.from_buffers(kind, count, [valid, self._slice(size)])

    def rows(self, schema: Schema, count: int) -> list[Any]:
        """The values of such a column, faster than by `column` when they are few."""
        reader = RowReader(self._view, self._at)
        values = reader.column(schema, count)
        self._at = reader.at
        return values

    def _map(self, schema: Schema, kind: pa.DataType, count: int, valid: pa.Buffer) -> pa.Array:
        ends = self._slice(4 * (count + 1))
        size = self.integer()
        keys = self.column(self._required(schema.key_schema), size)
        values = self.column(self._required(schema.value_schema), size)
        pairs = pa.StructArray.from_arrays([keys, values], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, count, [valid, ends], children=[pairs])

    @staticmethod
    def _required(schema: Schema | None) -> Schema:
        assert schema is not None  # an array or map without it does not leave Java
        return schema

    def _inner_texts(self, count: int, kind: pa.DataType) -> pa.Array:
        # Out.binary writes its own validity once more
        return self._texts(count, self._validity(count), kind)

    def _texts(self, count: int, valid: pa.Buffer, kind: pa.DataType) -> pa.Array:
        ends = self._slice(4 * (count + 1))
        last = struct.unpack_from("<i", self._view, self._at - 4)[0]
        return pa.Array.from_buffers(kind, count, [valid, ends, self._slice(last)])

    def _validity(self, count: int) -> pa.Buffer:
        return self._slice((count + 7) // 8)

    def _slice(self, size: int) -> pa.Buffer:
        self._at += -self._at & 7
        found = self._buffer.slice(self._at, size)
        self._at += size
        return found

    def _numbers(self, code: Literal["i", "q"], size: int, count: int) -> memoryview[int]:
        self._at += -self._at & 7
        found = self._view[self._at : self._at + size * count].cast(code)
        self._at += size * count
        return found


class BlockWriter:
    """Writes a block; `done()` gives its bytes."""

    def __init__(self, head: Any) -> None:
        text = json.dumps(head, separators=(",", ":")).encode()
        self._parts: list[Any] = [struct.pack("<i", len(text)), text]
        self._size = 4 + len(text)

    def integers(self, values: Any) -> None:
        self._add(pa.array(values, pa.int32()).buffers()[1], 4 * len(values))

    def longs(self, values: Any) -> None:
        self._add(pa.array(values, pa.int64()).buffers()[1], 8 * len(values))

    def binary(self, column: pa.Array) -> None:
        self._validity(column)
        self._texts(column)

    def encoded(self, column: bytes | bytearray) -> None:
        """A column that few_rows.write_rows has written."""
        self._add(pa.py_buffer(column), len(column))

    def column(self, schema: Schema, column: pa.Array) -> None:
        """What BlockReader.column (Java: Columns.read) reads."""
        column = _whole(_in_millis(column) if schema.name in _TIMES and is_fine(schema) else column)
        self._validity(column)
        count = len(column)
        if schema.type is Type.STRUCT:
            for index, field in enumerate(schema.fields):
                self.column(field.schema, column.field(index))
        elif schema.type is Type.ARRAY:
            first, last = self._ends(column.offsets)
            assert schema.value_schema is not None
            self.column(schema.value_schema, column.values.slice(first, last - first))
        elif schema.type is Type.MAP:
            first, last = self._ends(column.offsets)
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            self.column(schema.key_schema, column.keys.slice(first, last - first))
            self.column(schema.value_schema, column.items.slice(first, last - first))
        elif schema.name == Decimal.LOGICAL_NAME:
            self._add(column.buffers()[1], 16 * count)
        elif schema.type in (Type.STRING, Type.BYTES):
            self._validity(column)
            self._texts(column)
        else:
            size = (count + 7) // 8 if schema.type is Type.BOOLEAN else _FIXED[schema.type] * count
            self._add(column.buffers()[1], size)

    def done(self) -> list[Any]:
        """The parts of the block, to be sent one after the other."""
        return self._parts

    @property
    def size(self) -> int:
        return self._size

    def _ends(self, offsets: pa.Array) -> tuple[int, int]:
        """Where the lists end; gives the first and the last place in their items."""
        ends = offsets.to_pylist() or [0]
        self.integers([end - ends[0] for end in ends])
        self._raw(struct.pack("<i", ends[-1] - ends[0]))
        return ends[0], ends[-1]

    def _texts(self, column: pa.Array) -> None:
        column = _whole(column)
        _, ends, data = column.buffers()
        last = struct.unpack_from("<i", ends, 4 * len(column))[0] if len(column) else 0
        self._add(ends if len(column) else pa.py_buffer(b"\0" * 4), 4 * (len(column) + 1))
        self._add(data, last)

    def _validity(self, column: pa.Array) -> None:
        column, size = _whole(column), (len(column) + 7) // 8
        valid = column.buffers()[0]
        self._add(pa.py_buffer(b"\xff" * size) if valid is None else valid, size)

    def _add(self, buffer: pa.Buffer | None, size: int) -> None:
        gap = -self._size & 7
        if gap:
            self._raw(b"\0" * gap)
        if size and buffer is not None:
            self._raw(memoryview(buffer)[:size])
        elif size:
            self._raw(b"\0" * size)

    def _raw(self, part: Any) -> None:
        self._parts.append(part)
        self._size += len(part)


def _whole(column: pa.Array) -> pa.Array:
    """The column with its buffers beginning at its first row."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pa.concat_arrays([column, column.slice(0, 0)]) if column.offset else column


def _bits(valid: pa.Buffer, count: int) -> list[bool]:
    view = memoryview(valid)
    return [bool(view[row >> 3] >> (row & 7) & 1) for row in range(count)]
