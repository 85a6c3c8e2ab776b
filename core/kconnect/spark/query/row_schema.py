"""Spark's rows as Connect's data: the schema of each column, and the column in the type that the schema has."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilder, Timestamp
from kconnect.api.columns import arrow_type

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


def schema_of(kind: pa.DataType, name: str) -> Schema:
    """The schema, optional all the way down. Errors: DataError that names the column."""
    found = _PRIMITIVES.get(kind)
    if found is not None:
        return found
    if pa.types.is_timestamp(kind):
        return Timestamp.builder().optional().build()
    if pa.types.is_decimal(kind):
        return Decimal.builder(kind.scale).optional().build()
    if pa.types.is_list(kind):
        return SchemaBuilder.array(schema_of(kind.value_type, name)).optional().build()
    if pa.types.is_map(kind):
        key, item = (schema_of(part, name) for part in (kind.key_type, kind.item_type))
        return SchemaBuilder.map(key, item).optional().build()
    if pa.types.is_struct(kind):
        builder = SchemaBuilder.struct().optional()
        for part in kind:
            builder.field(part.name, schema_of(part.type, f"{name}.{part.name}"))
        return builder.build()
    raise DataError(f"Column {name} of type {kind} cannot be in a record: cast it in spark.query")


def fitted(column: pa.Array, schema: Schema) -> pa.Array:
    """The column as one of the schema; parts of a millisecond are cut off."""
    wanted = arrow_type(schema)
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(column.type):
        column = pc.floor_temporal(column, unit="millisecond")
    return column.cast(wanted, safe=False)
