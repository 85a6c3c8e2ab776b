"""Converts Connect values to Arrow columns and back, by schema."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kconnect.api.logical import Date, Decimal, Time, Timestamp
from kconnect.api.plain_columns import plain_values
from kconnect.api.schema import Schema, Struct
from kconnect.api.schema_types import Type
from kconnect.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_LOGICAL = {Decimal.LOGICAL_NAME, Date.LOGICAL_NAME, Time.LOGICAL_NAME, Timestamp.LOGICAL_NAME}

_PYTHON_TYPES: dict[Type, type] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), int),
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
    Type.ARRAY: list,
    Type.MAP: dict,
    Type.STRUCT: Struct,
}


def arrow_type(schema: Schema) -> pa.DataType:
    """The Arrow type of a column with this schema."""
    import pyarrow as pa

    if schema.name in _LOGICAL:
        return _logical_arrow_type(schema)
    if schema.type is Type.STRUCT:
        return pa.struct([pa.field(field.name, arrow_type(field.schema)) for field in schema.fields])
    if schema.type is Type.ARRAY:
        return pa.list_(arrow_type(_inner(schema.value_schema, schema)))
    if schema.type is Type.MAP:
        return pa.map_(arrow_type(_inner(schema.key_schema, schema)), arrow_type(_inner(schema.value_schema, schema)))
    return _primitive(schema.type)


def values_of(schema: Schema | None, column: pa.Array | None, length: int) -> list[Any]:
    """The column as a list of Connect values; a missing column gives nulls.

    Shape: without a schema, plain Python values. A logical column may also hold the plain type (int, binary).
    Errors: DataError if the column does not match the schema.
    """
    if column is None:
        return [None] * length
    if schema is None:
        return plain_values(column)
    if schema.name in _LOGICAL:
        return _logical_values(schema, column)
    if schema.type is Type.STRUCT:
        return _struct_values(schema, column)
    if schema.type is Type.ARRAY:
        return _list_values(schema, column)
    if schema.type is Type.MAP:
        return _map_values(schema, column)
    _expect(column, _primitive(schema.type), schema)
    values: list[Any] = column.to_pylist()
    return values


def column_of(schema: Schema, values: Sequence[Any]) -> pa.Array:
    """The values as a column. Errors: DataError if a value does not fit the schema exactly."""
    import pyarrow as pa

    try:
        return _build(schema, values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as err:
        raise DataError(f"Values do not fit a column of {schema}: {err}") from err


def _build(schema: Schema, values: Sequence[Any]) -> pa.Array:
    """A column of values that must have exactly the schema's Python type: Arrow would coerce some."""
    import pyarrow as pa

    if schema.name in _LOGICAL:
        return _build_logical(schema, values)
    strange = {type(value) for value in values} - {_PYTHON_TYPES[schema.type], type(None)}
    if strange:
        raise DataError(f"Values of type {strange.pop().__name__} in a column of {schema}")
    if schema.type is Type.STRUCT:
        return _build_struct(schema, values)
    if schema.type is Type.ARRAY:
        offsets, flat = _flatten(values, lambda value: value)
        return pa.ListArray.from_arrays(offsets, _build(_inner(schema.value_schema, schema), flat))
    if schema.type is Type.MAP:
        offsets, keys = _flatten(values, lambda value: value.keys())
        _, items = _flatten(values, lambda value: value.values())
        if any(key is None for key in keys):
            raise DataError("A map column has no room for a null key")
        key_column = _build(_inner(schema.key_schema, schema), keys)
        return pa.MapArray.from_arrays(offsets, key_column, _build(_inner(schema.value_schema, schema), items))
    return pa.array(values, _primitive(schema.type))


def _build_struct(schema: Schema, values: Sequence[Struct | None]) -> pa.Array:
    import pyarrow as pa

    for value in values:
        if value is not None and value.schema is not schema and value.schema != schema:
            raise DataError("Struct schemas do not match.")
    rows = [None if value is None else value._values for value in values]
    children = [
        _build(field.schema, [None if row is None else row[field.index] for row in rows]) for field in schema.fields
    ]
    if not children:
        return pa.array([None if row is None else {} for row in rows], pa.struct([]))
    mask = pa.array([row is None for row in rows], pa.bool_())
    names = [pa.field(field.name, child.type) for field, child in zip(schema.fields, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=names, mask=mask)


def _flatten(values: Sequence[Any], parts: Callable[[Any], Any]) -> tuple[pa.Array, list[Any]]:
    """Arrow's layout of lists: the offset of each (null for a null list), and all elements in one array."""
    import pyarrow as pa

    starts: list[int | None] = []
    flat: list[Any] = []
    for value in values:
        starts.append(None if value is None else len(flat))
        if value is not None:
            flat.extend(parts(value))
    return pa.array([*starts, len(flat)], pa.int32()), flat


def _build_logical(schema: Schema, values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    kind = arrow_type(schema)
    for value in values:
        if value is not None:
            schema.validate_value(value)
    if schema.name == Decimal.LOGICAL_NAME:
        scale = Decimal.scale(schema)
        if any(value is not None and Decimal.scale_of(value) != scale for value in values):
            raise DataError(f"Decimals of another scale than {scale}")
        return pa.array(values, kind)
    if is_fine(schema):
        fine = [None if value is None else _micros(value) for value in values]
        return pa.array(fine, pa.int64()).cast(kind)
    to_raw = _FROM_LOGICAL[schema.name or ""]
    raw = [None if value is None else to_raw(schema, value) for value in values]
    return pa.array(raw, pa.int64() if schema.name == Timestamp.LOGICAL_NAME else pa.int32()).cast(kind)


def _logical_values(schema: Schema, column: pa.Array) -> list[Any]:
    import pyarrow as pa

    wanted = _logical_arrow_type(schema)
    if pa.types.is_integer(column.type) or pa.types.is_binary(column.type):
        raw = column.to_pylist()
    elif schema.name == Decimal.LOGICAL_NAME:
        if not pa.types.is_decimal(column.type) or column.type.scale != wanted.scale:
            _expect(column, wanted, schema)
        values: list[Any] = column.to_pylist()
        return values
    elif is_fine(schema):
        _expect(column, wanted, schema)
        return [None if raw is None else _of_micros(schema, raw) for raw in column.cast(pa.int64()).to_pylist()]
    else:
        _expect(column, wanted, schema)
        raw = column.cast(pa.int64() if schema.name == Timestamp.LOGICAL_NAME else pa.int32()).to_pylist()
    to_logical = _TO_LOGICAL[schema.name or ""]
    return [None if value is None else to_logical(schema, value) for value in raw]


def _struct_values(schema: Schema, column: pa.Array) -> list[Any]:
    import pyarrow as pa

    if not pa.types.is_struct(column.type) or [f.name for f in column.type] != [f.name for f in schema.fields]:
        raise DataError(f"A column of type {column.type} cannot be read with {schema}")
    children = column.flatten()
    columns = []
    for field, child in zip(schema.fields, children, strict=True):
        try:
            columns.append(values_of(field.schema, child, len(column)))
        except DataError as err:
            raise DataError(f"Field {field.name}: {err}") from err
    rows = [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(len(column))]
    if column.null_count == 0:
        return [Struct.from_values(schema, row) for row in rows]
    present = column.is_valid().to_pylist()
    return [Struct.from_values(schema, row) if here else None for row, here in zip(rows, present, strict=True)]


def _list_values(schema: Schema, column: pa.Array) -> list[Any]:
    import pyarrow as pa

    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise DataError(f"A column of type {column.type} cannot be read with {schema}")
    starts, (elements,) = _spans(column, (column.values,))
    inner = values_of(_inner(schema.value_schema, schema), elements, len(elements))
    return [None if span is None else inner[span[0] : span[1]] for span in starts]


def _map_values(schema: Schema, column: pa.Array) -> list[Any]:
    import pyarrow as pa

    if not pa.types.is_map(column.type):
        raise DataError(f"A column of type {column.type} cannot be read with {schema}")
    starts, (key_column, item_column) = _spans(column, (column.keys, column.items))
    keys = values_of(_inner(schema.key_schema, schema), key_column, len(key_column))
    items = values_of(_inner(schema.value_schema, schema), item_column, len(item_column))
    return [
        None if span is None else dict(zip(keys[span[0] : span[1]], items[span[0] : span[1]], strict=True))
        for span in starts
    ]


def _spans(column: pa.Array, children: tuple[pa.Array, ...]) -> tuple[list[tuple[int, int] | None], list[pa.Array]]:
    """For each row where its elements lie, and the children cut to what this (maybe sliced) column refers to."""
    offsets = column.offsets.to_pylist()
    base = offsets[0] if offsets else 0
    end = offsets[-1] if offsets else 0
    present = column.is_valid().to_pylist()
    bounds = zip(offsets, offsets[1:], present, strict=False)
    spans = [(start - base, stop - base) if here else None for start, stop, here in bounds]
    return spans, [child.slice(base, end - base) for child in children]


def _logical_arrow_type(schema: Schema) -> pa.DataType:
    import pyarrow as pa

    if schema.name == Date.LOGICAL_NAME:
        return pa.date32()
    if schema.name == Time.LOGICAL_NAME:
        return pa.time64("us") if is_fine(schema) else pa.time32("ms")
    if schema.name == Timestamp.LOGICAL_NAME:
        has_zone = (schema.parameters or {}).get(Timestamp.ZONE_FIELD) != Timestamp.NO_ZONE
        return pa.timestamp("us" if is_fine(schema) else "ms", tz="UTC" if has_zone else None)
    scale, digits = Decimal.scale(schema), Decimal.precision(schema)
    is_useful = digits is not None and digits <= _MOST_DIGITS and 0 <= scale <= digits
    return pa.decimal128(digits if digits is not None and is_useful else _MOST_DIGITS, scale)


def is_fine(schema: Schema) -> bool:
    """Whether a Time's or Timestamp's column has microseconds."""
    return schema.parameters is not None and schema.parameters.get(Timestamp.UNIT_FIELD) == "us"


def _micros(value: datetime.datetime | datetime.time) -> int:
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return (value - _EPOCH) // _MICRO


def _of_micros(schema: Schema, raw: int) -> datetime.datetime | datetime.time:
    try:
        found = _EPOCH + raw * _MICRO
    except OverflowError as err:
        raise DataError(f"{raw} us since the epoch is outside the years 1 to 9999") from err
    return found.time() if schema.name == Time.LOGICAL_NAME else found


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO = datetime.timedelta(microseconds=1)
_MOST_DIGITS = 38  # of Arrow's decimals


def _primitive(kind: Type) -> pa.DataType:
    import pyarrow as pa

    if kind is Type.BOOLEAN:
        return pa.bool_()
    if kind is Type.BYTES:
        return pa.binary()
    return pa.type_for_alias(kind.value)


def _expect(column: pa.Array, wanted: pa.DataType, schema: Schema) -> None:
    if column.type != wanted and str(column.type) not in _LARGE.get(str(wanted), ()):
        raise DataError(f"A column of type {column.type} cannot be read with {schema}: it should be {wanted}")


_LARGE = {"string": ("large_string", "string_view"), "binary": ("large_binary", "binary_view")}

_TO_LOGICAL: dict[str, Callable[[Schema, Any], Any]] = {
    Decimal.LOGICAL_NAME: Decimal.to_logical,
    Date.LOGICAL_NAME: Date.to_logical,
    Time.LOGICAL_NAME: Time.to_logical,
    Timestamp.LOGICAL_NAME: Timestamp.to_logical,
}

_FROM_LOGICAL: dict[str, Callable[[Schema, Any], int]] = {
    Date.LOGICAL_NAME: Date.from_logical,
    Time.LOGICAL_NAME: Time.from_logical,
    Timestamp.LOGICAL_NAME: Timestamp.from_logical,
}


def _inner(inner: Schema | None, outer: Schema) -> Schema:
    if inner is None:
        raise DataError(f"No schema defined for what is inside {outer}")
    return inner
