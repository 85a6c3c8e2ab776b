"""Schemas and columns of what Arrow's readers give: any Arrow type that a record can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kconnect.api import ConfigError, DataError, Schema, SchemaBuilder
from kconnect.api.columns import arrow_type
from kconnect.builtin.types.column_type import schema_of as column_schema
from kconnect.builtin.types.fitting import DECLARED, NotFittingError, fit
from kconnect.builtin.types.foreign_schemas import of_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(fields: pa.Schema, name: str | None = None) -> Schema:
    """The schema of a table's rows: a struct of its columns. Errors: DataError names a column that cannot be."""
    builder = SchemaBuilder.struct()
    if name:
        builder.name(name)
    for field in fields:
        try:
            kind = of_arrow(field.type)
        except ConfigError as err:
            raise DataError(f"Column {field.name}: {err}") from err
        builder.field(field.name, column_schema(kind, is_required=not field.nullable))
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
            columns.append(column if column.type == wanted else _cast(column, wanted, field.name))
        except NotFittingError as err:
            raise DataError(f"Column {err}") from err
        except (pa.ArrowException, ValueError) as err:
            raise DataError(f"Column {field.name}: {err}") from err
    if not columns:  # from no arrays it would have no rows
        return pa.array([{}] * len(rows), pa.struct([]))
    return pa.StructArray.from_arrays(columns, names=[field.name for field in schema.fields])


def _cast(column: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
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
        # Arrow would cut times before 1970 to the next millisecond, and make -1 of 2^64 - 1
        return fit(column, wanted, DECLARED, name)
    return column.cast(wanted)
