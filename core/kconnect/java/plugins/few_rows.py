"""Columns of few rows, to and from values without Arrow between: the same bytes as those of blocks.py. Pure.

blocks.py is the twin for many rows; tests/unit/java/plugins/test_few_rows.py holds both alike. An Arrow array costs
microseconds for each field, whatever its length: here a struct of eight fields is written 5.4 and read 3.5 times as
fast when it comes alone, 2.2 and 1.4 times among 16, no faster among 64 (text: 2.3 and 1.4, 1.3 and 0.7). One record
through a transformation of Java's and back: 0.1 ms (0.3 by Arrow), with two such structs in it 0.14 (0.57).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from kconnect.api import Schema, Struct
from kconnect.api.logical import Date, Decimal, Time, Timestamp
from kconnect.api.schema_types import Type
from kconnect.errors import DataError

_PADS: Final = [b"\0" * (-size & 7) for size in range(8)]
_CODES: Final = {
    Type.INT8: "b",
    Type.INT16: "h",
    Type.INT32: "i",
    Type.INT64: "q",
    Type.FLOAT32: "f",
    Type.FLOAT64: "d",
}
_PYTHON_TYPES: Final[dict[Type, type]] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), int),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), float),
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
    Type.ARRAY: list,
    Type.MAP: dict,
    Type.STRUCT: Struct,
}
_TIMES: Final[dict[str | None, Any]] = {kind.LOGICAL_NAME: kind for kind in (Date, Time, Timestamp)}
_DECIMAL_BYTES: Final = 16


def write_rows(out: bytearray, schema: Schema, values: Sequence[Any]) -> None:
    """Append a column, as BlockWriter.column does; `out` begins where the block does, or at a multiple of 8 from it.

    Errors: DataError for a value that is not of the schema's very type, or that a column has no place for.
    """
    try:
        _write(out, schema, values)
    except (struct.error, ValueError, TypeError, OverflowError) as err:
        raise DataError(f"Values do not fit a column of {schema}: {err}") from err


def _write(out: bytearray, schema: Schema, values: Sequence[Any]) -> None:
    _validity(out, values)
    out += _PADS[len(out) & 7]
    kind, count = schema.type, len(values)
    if schema.name in _TIMES:
        values = [None if value is None else _number_of(schema, value) for value in values]
    elif schema.name == Decimal.LOGICAL_NAME:
        for value in values:
            out += _decimal(schema, value)
        return
    else:
        wanted = _PYTHON_TYPES[kind]
        for value in values:
            if value is not None and type(value) is not wanted:
                raise DataError(f"A value of type {type(value).__name__} in a column of {schema}")
    if (code := _CODES.get(kind)) is not None:
        out += struct.pack(f"<{count}{code}", *[0 if value is None else value for value in values])
    elif kind is Type.STRING:
        _write_bytes(out, [None if value is None else value.encode() for value in values])
    elif kind is Type.BYTES:
        _write_bytes(out, values)
    elif kind is Type.STRUCT:
        _write_structs(out, schema, values)
    elif kind is Type.BOOLEAN:
        out += _bits([bool(value) for value in values])
    elif kind is Type.ARRAY:
        _write_ends(out, values)
        _write(out, _inner(schema.value_schema), [one for value in values if value is not None for one in value])
    else:
        _write_ends(out, values)
        maps = [value for value in values if value is not None]
        keys = [key for value in maps for key in value]
        if None in keys:
            raise DataError("A map column has no room for a null key")
        _write(out, _inner(schema.key_schema), keys)
        _write(out, _inner(schema.value_schema), [one for value in maps for one in value.values()])


def _write_structs(out: bytearray, schema: Schema, values: Sequence[Any]) -> None:
    for value in values:
        if value is not None and value.schema is not schema and value.schema != schema:
            raise DataError("Struct schemas do not match.")
    rows = [None if value is None else value._values for value in values]
    for index, field in enumerate(schema.fields):
        _write(out, field.schema, [None if row is None else row[index] for row in rows])


def _write_ends(out: bytearray, values: Sequence[Any]) -> None:
    ends = _ends(values)
    out += struct.pack(f"<{len(ends) + 1}i", *ends, ends[-1])


def _ends(values: Sequence[Any]) -> list[int]:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + (0 if value is None else len(value)))
    return ends


def _write_bytes(out: bytearray, values: Sequence[bytes | None]) -> None:
    _validity(out, values)
    out += _PADS[len(out) & 7]
    ends = _ends(values)
    out += struct.pack(f"<{len(ends)}i", *ends)
    out += _PADS[len(out) & 7]
    for value in values:
        if value is not None:
            out += value


def _validity(out: bytearray, values: Sequence[Any]) -> None:
    out += _PADS[len(out) & 7]
    if len(values) == 1:
        out.append(values[0] is not None)
    else:
        out += _bits([value is not None for value in values])


def _bits(flags: Sequence[bool]) -> bytes:
    number = sum(1 << row for row, flag in enumerate(flags) if flag)
    return number.to_bytes((len(flags) + 7) // 8, "little")


def _number_of(schema: Schema, value: Any) -> int:
    schema.validate_value(value)
    found: int = _TIMES[schema.name].from_logical(schema, value)
    return found


def _decimal(schema: Schema, value: Any) -> bytes:
    if value is None:
        return bytes(_DECIMAL_BYTES)
    schema.validate_value(value)
    if Decimal.scale_of(value) != Decimal.scale(schema) or len(value.as_tuple().digits) > 38:
        raise DataError(f"Decimals of another scale than {Decimal.scale(schema)}, or of more than 38 digits")
    unscaled = int.from_bytes(Decimal.from_logical(schema, value), "big", signed=True)
    return unscaled.to_bytes(_DECIMAL_BYTES, "little", signed=True)


def _inner(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("No schema defined for what is inside")
    return schema


class RowReader:
    """Reads columns as values, in the order in which they were written. `at` is its place in the block."""

    def __init__(self, view: memoryview, at: int) -> None:
        self._view = view
        self.at = at

    def column(self, schema: Schema, count: int) -> list[Any]:
        """Gives what values_of() makes of BlockReader.column."""
        there = self._flags(count)
        self._align()
        kind = schema.type
        if schema.name == Decimal.LOGICAL_NAME:
            found: list[Any] = [self._decimal(schema) for _ in range(count)]
        elif (code := _CODES.get(kind)) is not None:
            found = self._numbers(code, count)
            if schema.name in _TIMES:
                to_logical = _TIMES[schema.name].to_logical
                return [to_logical(schema, one) if here else None for one, here in zip(found, there, strict=True)]
        elif kind is Type.STRING:
            return [None if one is None else str(one, "utf-8") for one in self._texts(count)]
        elif kind is Type.BYTES:
            return [None if one is None else bytes(one) for one in self._texts(count)]
        elif kind is Type.STRUCT:
            columns = [self.column(field.schema, count) for field in schema.fields]
            rows = [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(count)]
            found = [Struct.from_values(schema, row) for row in rows]
        elif kind is Type.BOOLEAN:
            found = self._flags(count)
        elif kind is Type.ARRAY:
            ends, size = self._ends(count)
            inner = self.column(_inner(schema.value_schema), size)
            found = [inner[ends[row] : ends[row + 1]] for row in range(count)]
        else:
            ends, size = self._ends(count)
            keys = self.column(_inner(schema.key_schema), size)
            items = self.column(_inner(schema.value_schema), size)
            pairs = list(zip(keys, items, strict=True))
            found = [dict(pairs[ends[row] : ends[row + 1]]) for row in range(count)]
        if all(there):
            return found
        return [one if here else None for one, here in zip(found, there, strict=True)]

    def _texts(self, count: int) -> list[memoryview | None]:
        there = self._flags(count)
        self._align()
        ends = self._numbers("i", count + 1)
        self._align()
        view, at = self._view, self.at
        self.at += ends[count]
        return [view[at + ends[row] : at + ends[row + 1]] if there[row] else None for row in range(count)]

    def _decimal(self, schema: Schema) -> Any:
        at = self.at
        self.at += _DECIMAL_BYTES
        unscaled = int.from_bytes(self._view[at : self.at], "little", signed=True)
        size = unscaled.bit_length() // 8 + 1
        return Decimal.to_logical(schema, unscaled.to_bytes(size, "big", signed=True))

    def _ends(self, count: int) -> tuple[list[int], int]:
        ends = self._numbers("i", count + 2)
        return ends, ends[-1]

    def _numbers(self, code: str, count: int) -> list[Any]:
        layout = struct.Struct(f"<{count}{code}")
        at = self.at
        self.at += layout.size
        return list(layout.unpack_from(self._view, at))

    def _flags(self, count: int) -> list[bool]:
        self._align()
        at, view = self.at, self._view
        self.at += (count + 7) // 8
        if count == 1:
            return [bool(view[at] & 1)]
        return [bool(view[at + (row >> 3)] >> (row & 7) & 1) for row in range(count)]

    def _align(self) -> None:
        self.at += -self.at & 7
