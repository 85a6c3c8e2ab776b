"""Schemas and columns of what Arrow's readers give: any Arrow type that a record can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilder, Time, Timestamp
from kconnect.api.columns import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(fields: pa.Schema, name: str | None = None) -> Schema:
    """The schema of a table's rows: a struct of its columns. Errors: DataError names a column that cannot be."""
    builder = SchemaBuilder.struct()
    if name:
        builder.name(name)
    for field in fields:
        try:
            builder.field(field.name, _schema(field.type, field.nullable))
        except DataError as err:
            raise DataError(f"Column {field.name}: {err}") from err
    return builder.build()


def column_with(schema: Schema, rows: pa.RecordBatch) -> pa.StructArray:
    """The rows as one struct column of the schema that `schema_of` gave. Parts of a millisecond are cut off.

    Errors: DataError for a value that does not fit, such as a number above 2^63.
    """
    import pyarrow as pa

    columns = []
    for field, column in zip(schema.fields, rows.columns, strict=True):
        wanted = arrow_type(field.schema)
        try:
            columns.append(column if column.type == wanted else _cast(column, wanted))
        except (pa.ArrowException, ValueError) as err:
            raise DataError(f"Column {field.name}: {err}") from err
    return pa.StructArray.from_arrays(columns, names=[field.name for field in schema.fields])


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type):
        naive = pc.floor_temporal(column, unit="millisecond")
        return naive.cast(pa.timestamp("ms", tz=column.type.tz)).cast(wanted)
    if pa.types.is_time(column.type):
        return column.cast(wanted, safe=False)
    if pa.types.is_nested(column.type):
        return column.cast(wanted, safe=False)  # times inside of it have finer units
    return column.cast(wanted)


def _schema(kind: pa.DataType, nullable: bool = True) -> Schema:
    builder = _builder(kind)
    return builder.optional().build() if nullable else builder.build()


def _builder(kind: pa.DataType) -> SchemaBuilder:
    import pyarrow.types as is_

    for matches, make in _PRIMITIVES:
        if getattr(is_, matches)(kind):
            return make()
    if is_.is_decimal(kind):
        return Decimal.builder(kind.scale)
    if is_.is_dictionary(kind):
        return _builder(kind.value_type)
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return SchemaBuilder.array(_schema(kind.value_type, kind.value_field.nullable))
    if is_.is_map(kind):
        return SchemaBuilder.map(_schema(kind.key_type, False), _schema(kind.item_type))
    if is_.is_struct(kind):
        builder = SchemaBuilder.struct()
        for part in kind:
            builder.field(part.name, _schema(part.type, part.nullable))
        return builder
    raise DataError(f"a value of type {kind} cannot be in a record")


# The first that matches counts. What is unsigned takes the next wider type; a column of nothing is one of texts.
_PRIMITIVES: tuple[tuple[str, Callable[[], SchemaBuilder]], ...] = (
    ("is_boolean", SchemaBuilder.bool),
    ("is_int8", SchemaBuilder.int8),
    ("is_int16", SchemaBuilder.int16),
    ("is_uint8", SchemaBuilder.int16),
    ("is_int32", SchemaBuilder.int32),
    ("is_uint16", SchemaBuilder.int32),
    ("is_integer", SchemaBuilder.int64),
    ("is_float16", SchemaBuilder.float32),
    ("is_float32", SchemaBuilder.float32),
    ("is_floating", SchemaBuilder.float64),
    ("is_string", SchemaBuilder.string),
    ("is_large_string", SchemaBuilder.string),
    ("is_string_view", SchemaBuilder.string),
    ("is_null", SchemaBuilder.string),
    ("is_binary", SchemaBuilder.bytes),
    ("is_large_binary", SchemaBuilder.bytes),
    ("is_fixed_size_binary", SchemaBuilder.bytes),
    ("is_binary_view", SchemaBuilder.bytes),
    ("is_date", Date.builder),
    ("is_timestamp", Timestamp.builder),
    ("is_time", Time.builder),
)
