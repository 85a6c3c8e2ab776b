"""Writes Arrow columns as JSON text, byte for byte as JsonWriter does row by row."""

from __future__ import annotations

from binascii import b2a_base64
from types import NotImplementedType
from typing import TYPE_CHECKING, Any

import orjson

from kconnect.api import Date, Decimal, Schema, Time, Timestamp, Type
from kconnect.java.compat.jackson import quote
from kconnect.java.compat.json_writer import JsonWriter

if TYPE_CHECKING:
    import pyarrow as pa

_LOGICAL_NAMES = frozenset({Decimal.LOGICAL_NAME, Date.LOGICAL_NAME, Time.LOGICAL_NAME, Timestamp.LOGICAL_NAME})
_WHOLE = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})


def json_column(
    writer: JsonWriter, schema: Schema, column: pa.Array, before: str, after: str
) -> pa.StringArray | NotImplementedType:
    """One JSON text per row between two constants (the envelope); NotImplemented if it must go by records.

    Errors: DataError when a row is null where the schema allows none; by records it falls on that row.
    Measured, from column to list of bytes, a line of 100 B in an envelope: 0.14 us, by records 1.7 us; a struct of
    a string and an int: 0.36 us, by records 2.9 us.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def constant(text: str) -> pa.StringScalar:
        # typed: to guess the type of a Python value, pyarrow looks for dateutil each time, 30 us if it is not there
        return pa.scalar(text, pa.string())

    nulls = column.null_count
    if schema.type is Type.STRUCT:
        body = _struct(writer, schema, column)
        if body is NotImplemented:
            return NotImplemented
        prefix, parts, suffix = before, body, after
    elif _is_text(schema, column):
        prefix, parts, suffix = before + '"', [escaped(column)], '"' + after
    else:
        text = _primitive(writer, schema, column)
        if text is NotImplemented:
            return NotImplemented
        prefix, parts, suffix = before, [text], after
    pieces = [constant(piece) if isinstance(piece, str) else piece for piece in _merge([prefix, *parts, suffix])]
    joined = pc.binary_join_element_wise(*pieces, constant(""))
    if nulls:
        joined = pc.if_else(column.is_null(), constant(before + writer.null(schema) + after), joined)
    return joined


def _is_text(schema: Schema, column: pa.Array) -> bool:
    """Strings as `escaped` takes them; large strings and views go by records."""
    import pyarrow.types as types

    return schema.type is Type.STRING and schema.name not in _LOGICAL_NAMES and types.is_string(column.type)


def escaped(column: pa.StringArray) -> pa.StringArray:
    r"""The strings with JSON escapes, without quotes.

    Measured, a line of 100 B: 0.01 us to see that nothing needs an escape (orjson on the whole buffer, then compare
    lengths; a regular expression takes 0.18 us), 0.12 us where something does, 1.7 us where a control or a character
    beyond the BMP does.
    """
    import pyarrow as pa

    raw = _data(column)
    plain = raw.isascii() or not any(byte in raw for byte in _FOUR_BYTE_LEADS)
    if plain:
        if len(orjson.dumps(str(raw, "utf-8"))) == len(raw) + 2:
            return column
        if not column.null_count and SEPARATOR.encode() not in raw:
            joined = orjson.dumps(SEPARATOR.join(column.to_pylist()))[1:-1]
            if b"\\u00" not in joined:  # Jackson writes \u001B where orjson writes \u001b; else they agree
                return _split(joined) if len(column) else column
    return pa.array([None if text is None else quote(text)[1:-1] for text in column.to_pylist()], pa.string())


# Lead bytes of characters beyond the BMP in UTF-8: Jackson writes those as two escaped surrogates.
_FOUR_BYTE_LEADS = tuple(bytes([lead]) for lead in range(0xF0, 0xF5))


# Neither orjson nor Jackson escapes DEL, so where no string has one it shows the borders of strings escaped as one.
SEPARATOR = "\x7f"


def _data(column: pa.StringArray) -> bytes:
    """The concatenated bytes of all strings of a column."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return b""
    bounds = memoryview(offsets).cast("i")
    return bytes(memoryview(data)[bounds[column.offset] : bounds[column.offset + len(column)]])


def _split(joined: bytes) -> pa.StringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = pa.py_buffer((0).to_bytes(4, "little") + len(joined).to_bytes(4, "little"))
    one = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(joined)])
    return pc.split_pattern(one, SEPARATOR).values


def _struct(writer: JsonWriter, schema: Schema, column: pa.StructArray) -> list[Any] | Any:  # Any: NotImplemented
    """The pieces of a JSON object: constant texts and columns of text, in turn."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if not types.is_struct(column.type):
        return NotImplemented
    pieces: list[Any] = []
    has_nulls = column.null_count > 0
    for index, (field, child) in enumerate(zip(schema.fields, column.flatten(), strict=True)):
        pieces.append(("," if index else "{") + quote(field.name) + ":")
        if has_nulls and child.null_count and not field.schema.is_optional:
            return NotImplemented  # a null field, or a field of a null row? by records it is clear
        if _is_text(field.schema, child) and not child.null_count:
            pieces += ['"', escaped(child), '"']
            continue
        text = json_column(writer, field.schema, child, "", "")
        if text is NotImplemented:
            return NotImplemented
        pieces.append(text)
    pieces.append("}" if schema.fields else "{}")
    if has_nulls:  # a null row would make the joined text null; the caller fills it in
        empty = pa.scalar("", pa.string())
        pieces = [piece if isinstance(piece, str) else pc.fill_null(piece, empty) for piece in pieces]
    return pieces


def _primitive(writer: JsonWriter, schema: Schema, column: pa.Array) -> pa.StringArray | NotImplementedType:
    import pyarrow as pa
    import pyarrow.types as types

    if schema.name == Decimal.LOGICAL_NAME:
        return _decimals(writer, schema, column)
    if schema.name in _LOGICAL_NAMES:
        raw = {"timestamp[ms, tz=UTC]": pa.int64(), "date32[day]": pa.int32(), "time32[ms]": pa.int32()}
        number = raw.get(str(column.type))
        return NotImplemented if number is None else column.cast(number).cast(pa.string())
    kind = column.type
    if schema.type in _WHOLE and types.is_integer(kind):
        return column.cast(pa.string())
    if schema.type is Type.BOOLEAN and types.is_boolean(kind):
        return column.cast(pa.string())
    if schema.type in (Type.FLOAT32, Type.FLOAT64, Type.BYTES):
        # Arrow spells floats otherwise than Java, and has no base64: a Python call a value, without a record round it
        write = writer.writer(schema)
        return pa.array([None if value is None else write(value) for value in column.to_pylist()], pa.string())
    return NotImplemented


def _decimals(writer: JsonWriter, schema: Schema, column: pa.Array) -> pa.StringArray | NotImplementedType:
    """Base64 of each number's fewest bytes, or its digits; by records for a scale that is not the schema's.

    Measured with numeric(10,2): 0.7 us a value; by records, where one decimal sent a struct of six fields, 10 us a row.
    """
    import pyarrow as pa
    import pyarrow.types as types

    if not types.is_decimal128(column.type) or column.type.scale != Decimal.scale(schema):
        return NotImplemented
    if writer.numeric_decimals:
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    halves = memoryview(column.buffers()[1]).cast("q")[2 * column.offset : 2 * (column.offset + len(column))]
    texts = []
    for low, high in zip(halves[::2], halves[1::2], strict=True):
        number = low if high == low >> 63 else high << 64 | low & _LOW_HALF
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        texts.append(b'"%b"' % b2a_base64(number.to_bytes(size, "big", signed=True), newline=False))
    return pa.array(texts, pa.string())  # what stands for a null is replaced by the caller


_LOW_HALF = (1 << 64) - 1


def _merge(pieces: list[Any]) -> list[Any]:
    """Merge adjacent constants: each piece costs the join a copy."""
    merged: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged
