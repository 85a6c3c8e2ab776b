"""Arrow columns as JSON text, byte for byte as JsonWriter does row by row, and back.

JSON of structs with one schema becomes a column where Arrow's reader is certain to agree with Jackson.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, Final

import orjson

from kconnect.api import Date, Decimal, Schema, Time, Timestamp, Type
from kconnect.java.compat.jackson import quote, read_base64
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
    plain = raw.isascii() or not any(byte in raw for byte in FOUR_BYTE_LEADS)
    if plain:
        if len(orjson.dumps(str(raw, "utf-8"))) == len(raw) + 2:
            return column
        if not column.null_count and SEPARATOR.encode() not in raw:
            joined = orjson.dumps(SEPARATOR.join(column.to_pylist()))[1:-1]
            if b"\\u00" not in joined:  # Jackson writes \u001B where orjson writes \u001b; else they agree
                return _split(joined) if len(column) else column
    return pa.array([None if text is None else quote(text)[1:-1] for text in column.to_pylist()], pa.string())


# Lead bytes of characters beyond the BMP in UTF-8: Jackson writes those as two escaped surrogates.
FOUR_BYTE_LEADS = tuple(bytes([lead]) for lead in range(0xF0, 0xF5))


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


# Jackson reads no longer texts and numbers; a float of 32 bits is rounded once only if 64 bits hold all its digits.
_LONGEST_BYTES: Final = 20_000_000
_LONGEST_NUMBER: Final = 1000
_LONG_NUMBER: Final = "[0-9.]{300}"
_LONG_FRACTION: Final = re.compile(rb"[0-9.]{17}")

_LOGICAL: Final = {Date.LOGICAL_NAME, Time.LOGICAL_NAME, Timestamp.LOGICAL_NAME}
_DAY_MS: Final = 86_400_000
_ROW: Final = re.compile(r" in row \d+")
# What Python's dates can hold, from the year 1 to 9999: in days, and in ms
_DAYS: Final = (-719_162, 2_932_896)
_RANGES: Final = {
    Date.LOGICAL_NAME: _DAYS,
    Time.LOGICAL_NAME: (0, _DAY_MS - 1),
    Timestamp.LOGICAL_NAME: (_DAYS[0] * _DAY_MS, (_DAYS[1] + 1) * _DAY_MS - 1),
}


class ByRecordsError(Exception):
    """Only JsonReader can tell what these texts are, or what is wrong with them; the message says why."""


NO_OBJECTS: Final = "a text is not one object"


def columns_from_json(schema: Schema, texts: pa.BinaryArray, *, replace_null: bool) -> pa.StructArray:
    """The struct that each text describes. Shape: one row a text; no text is null.

    Measured, envelopes of 315 bytes with four fields: 0.5 us a record, 14.5 us by JsonReader.
    Errors: ByRecordsError where Arrow refuses a text, or reads something that Jackson may read differently.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import json

    kind = _json_type(schema)
    # Each text is at least one object then, so as many objects as texts are one for each
    if not pc.and_(pc.all(pc.starts_with(texts, "{")), pc.all(pc.ends_with(texts, "}"))).as_py():
        raise ByRecordsError(NO_OBJECTS)
    check_lengths(texts)
    lines = pc.binary_join_element_wise(texts, b"", b"\n")
    content = lines.buffers()[2]
    if _has_floats(schema) and _LONG_FRACTION.search(content):
        raise ByRecordsError("a float of 32 bits has more than 16 digits")
    try:
        lines.cast(pa.string())  # Arrow's reader does not check UTF-8
        table = json.read_json(
            pa.BufferReader(content),
            json.ReadOptions(use_threads=False, block_size=len(content)),
            json.ParseOptions(explicit_schema=pa.schema(list(kind)), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid as error:
        raise ByRecordsError(refusal_of(error)) from error
    if len(table) != len(texts):
        raise ByRecordsError(NO_OBJECTS)
    rows = pa.StructArray.from_arrays([_whole(column) for column in table.columns], fields=list(kind))
    return _finished(schema, rows, replace_null)


def check_lengths(texts: pa.BinaryArray) -> None:
    """Errors: ByRecordsError if a text is longer than Jackson reads, or has a number that may be."""
    import pyarrow.compute as pc

    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest > _LONGEST_BYTES:
        raise ByRecordsError(f"a text has more than {_LONGEST_BYTES:,} bytes")
    if longest > _LONGEST_NUMBER and pc.any(pc.match_substring_regex(texts, _LONG_NUMBER)).as_py():
        raise ByRecordsError("a number is very long")


def refusal_of(error: Exception) -> str:
    """Arrow's reason without its own prefix and the rows, which no reader can look up."""
    return f"Arrow refuses a text: {_ROW.sub('', str(error)).removeprefix('JSON parse error: ')}"


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _json_type(schema: Schema) -> pa.DataType:
    """What Arrow reads for a schema. Errors: ByRecordsError for maps and decimals, and structs without fields."""
    import pyarrow as pa

    if schema.name == Decimal.LOGICAL_NAME or schema.type is Type.MAP:
        raise ByRecordsError("the schema has a decimal or a map")
    if schema.type is Type.STRUCT:
        names = [field.name for field in schema.fields]
        if not names:
            raise ByRecordsError("the schema has a struct without fields")
        return pa.struct(
            [pa.field(name, _json_type(field.schema)) for name, field in zip(names, schema.fields, strict=True)]
        )
    if schema.type is Type.ARRAY:
        if schema.value_schema is None:
            raise ByRecordsError("the schema has a list without a schema of its items")
        return pa.list_(_json_type(schema.value_schema))
    return {
        Type.INT8: pa.int8(),
        Type.INT16: pa.int16(),
        Type.INT32: pa.int32(),
        Type.INT64: pa.int64(),
        Type.FLOAT32: pa.float64(),
        Type.FLOAT64: pa.float64(),
        Type.BOOLEAN: pa.bool_(),
        Type.STRING: pa.string(),
        Type.BYTES: pa.string(),
    }[schema.type]


def _has_floats(schema: Schema) -> bool:
    if schema.type is Type.STRUCT:
        return any(_has_floats(field.schema) for field in schema.fields)
    if schema.type is Type.ARRAY:
        return schema.value_schema is not None and _has_floats(schema.value_schema)
    return schema.type is Type.FLOAT32


def _finished(schema: Schema, column: pa.Array, replace_null: bool) -> pa.Array:
    """The column with the schema's types, its nulls checked below it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mask = column.is_null() if column.null_count else None
    if schema.type is Type.STRUCT:
        children = []
        for field, child, seen in zip(schema.fields, _children(column), column.flatten(), strict=True):
            _check_nulls(field.schema, seen.null_count - column.null_count, replace_null)
            children.append(_finished(field.schema, child, replace_null))
        fields = [pa.field(field.name, child.type) for field, child in zip(schema.fields, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        items = column.flatten()
        _check_nulls(schema.value_schema, items.null_count, replace_null)
        return pa.ListArray.from_arrays(column.offsets, _finished(schema.value_schema, items, replace_null), mask=mask)
    if schema.name in _LOGICAL:
        _check_range(column, *_RANGES[schema.name or ""])
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        unsigned_zero = pc.add(column, 0.0)
        return unsigned_zero if schema.type is Type.FLOAT64 else unsigned_zero.cast(pa.float32())
    if schema.type is Type.BYTES:
        return _bytes(column)
    return column


def _children(column: pa.StructArray) -> list[pa.Array]:
    return [column.field(index) for index in range(column.type.num_fields)]


def _check_nulls(schema: Schema, nulls: int, replace_null: bool) -> None:
    if nulls and (not schema.is_optional or (schema.default is not None and replace_null)):
        raise ByRecordsError("a field is null that is not optional, or has a default")


def _check_range(column: pa.Array, least: int, most: int) -> None:
    import pyarrow.compute as pc

    bounds = pc.min_max(column)
    if bounds["min"].is_valid and not (least <= bounds["min"].as_py() and bounds["max"].as_py() <= most):
        raise ByRecordsError("a date or time lies outside of the years 1 to 9999")


def _bytes(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array([None if text is None else read_base64(text) for text in column.to_pylist()], pa.binary())
    except ValueError as error:
        raise ByRecordsError("bytes are not written as Base64") from error
