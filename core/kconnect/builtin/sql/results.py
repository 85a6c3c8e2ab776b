"""Arrow columns on their way to DuckDB and back: types that it takes, and the schema of what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilder, Time, Timestamp
from kconnect.api.columns import arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRIMITIVES: Mapping[pa.DataType, Schema] = {
    pa.int8(): Schema.OPTIONAL_INT8_SCHEMA,
    pa.int16(): Schema.OPTIONAL_INT16_SCHEMA,
    pa.int32(): Schema.OPTIONAL_INT32_SCHEMA,
    pa.int64(): Schema.OPTIONAL_INT64_SCHEMA,
    pa.float32(): Schema.OPTIONAL_FLOAT32_SCHEMA,
    pa.float64(): Schema.OPTIONAL_FLOAT64_SCHEMA,
    pa.bool_(): Schema.OPTIONAL_BOOLEAN_SCHEMA,
    pa.string(): Schema.OPTIONAL_STRING_SCHEMA,
    pa.binary(): Schema.OPTIONAL_BYTES_SCHEMA,
    pa.date32(): Date.builder().optional().build(),
}


def for_duckdb(column: pa.Array) -> pa.Array:
    """The column with times as DuckDB calculates with them: microseconds without a zone, which is UTC."""
    wanted = _naive(column.type)
    return column if wanted == column.type else column.cast(wanted)


def schema_of_type(kind: pa.DataType) -> Schema:
    """The schema, optional all the way down. Errors: DataError for a type that Connect has none for."""
    found = _PRIMITIVES.get(kind)
    if found is not None:
        return found
    if pa.types.is_timestamp(kind):
        return Timestamp.builder().optional().build()
    if pa.types.is_time(kind):
        return Time.builder().optional().build()
    if pa.types.is_decimal(kind):
        return Decimal.builder(kind.scale).optional().build()
    if pa.types.is_list(kind):
        return SchemaBuilder.array(schema_of_type(kind.value_type)).optional().build()
    if pa.types.is_map(kind):
        key, item = (schema_of_type(part) for part in (kind.key_type, kind.item_type))
        return SchemaBuilder.map(key, item).optional().build()
    if pa.types.is_struct(kind):
        builder = SchemaBuilder.struct().optional()
        for part in kind:
            builder.field(part.name, schema_of_type(part.type))
        return builder.build()
    raise DataError(f"A field of type {kind} cannot be in a record: cast it")


def from_duckdb(column: pa.ChunkedArray, schema: Schema) -> pa.Array:
    """The column as one of the schema; parts of a millisecond are cut off."""
    whole = column.combine_chunks()
    if pa.types.is_timestamp(whole.type):
        whole = pc.floor_temporal(whole, unit="millisecond")
    wanted = arrow_type(schema)
    return whole if whole.type == wanted else whole.cast(wanted, safe=False)


def _naive(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    if pa.types.is_list(kind):
        return pa.list_(_naive(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_naive(kind.key_type), _naive(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _naive(part.type)) for part in kind])
    return kind
