"""JSON of structs with one schema as a column, where Arrow's reader is certain to agree with Jackson."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kconnect.api import Date, Decimal, Schema, Time, Timestamp, Type
from kconnect.java.compat.jackson import read_base64

if TYPE_CHECKING:
    import pyarrow as pa

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
