"""Schemas and columns of what Arrow's readers give: any Arrow type that a record can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kconnect.api import ConfigError, DataError, Schema, SchemaBuilder
from kconnect.api.columns import arrow_type
from kconnect.builtin.types.column_type import schema_of as column_schema
from kconnect.builtin.types.fitting import DECLARED, NotFittingError, elements_of, fit, with_elements
from kconnect.builtin.types.foreign_schemas import of_arrow
from kconnect.builtin.types.leaf_columns import is_list

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

    if _is_encoded(column.type):
        column = _decoded(column)
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(column.type):
        naive = pc.floor_temporal(column, unit="millisecond")
        return naive.cast(pa.timestamp("ms", tz=column.type.tz)).cast(wanted)
    if pa.types.is_time(column.type):
        return column.cast(wanted, safe=False)
    if pa.types.is_nested(column.type):
        # Arrow would cut times before 1970 to the next millisecond, and make -1 of 2^64 - 1
        return fit(column, wanted, DECLARED, name)
    return column.cast(wanted)


def _is_encoded(kind: pa.DataType) -> bool:
    """Whether the values, at any depth, are there in another form than that of a column of theirs."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind) or isinstance(kind, pa.BaseExtensionType):
        return True
    if is_.is_list_view(kind) or is_.is_large_list_view(kind):
        return True
    return any(_is_encoded(kind.field(index).type) for index in range(kind.num_fields))


def _decoded(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, is_ = column.type, pa.types
    if not _is_encoded(kind):
        return column
    if is_.is_dictionary(kind):
        return _decoded(column.dictionary_decode())
    if is_.is_run_end_encoded(kind):
        return _decoded(pc.run_end_decode(column))
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
        return column.storage.cast(pa.bool_()) if kind.extension_name == "arrow.bool8" else _decoded(column.storage)
    if is_.is_list_view(kind) or is_.is_large_list_view(kind):  # Arrow's own cast loses elements of views in views
        return _decoded(pa.array(column.to_pylist(maps_as_pydicts=None), pa.list_(kind.value_field)))
    if is_.is_struct(kind):
        parts = [_decoded(part) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, names=[part.name for part in kind], mask=column.is_null())
    if is_list(kind) or is_.is_map(kind):
        return with_elements(column, _decoded(elements_of(column)))
    return column
