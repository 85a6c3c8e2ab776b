"""Records as changes of rows with a key: which row each replaces or removes, and which change of a key is the last.

Pure, on Arrow columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError
from kconnect.builtin.connectors.tables.record_columns import Rows
from kconnect.builtin.connectors.tables.table_format import TableWrite
from kconnect.builtin.types.evolution import conformed, key_as

if TYPE_CHECKING:
    import pyarrow as pa

DELETED = "__deleted"
"""The column that says of a change that it removes the row. No table has it."""


def key_names(rows: Rows, merge_keys: Sequence[str]) -> tuple[str, ...]:
    """The columns that identify a row: merge.keys, or else the fields of the records' keys. Errors: DataError."""
    import pyarrow as pa

    if merge_keys:
        return tuple(merge_keys)
    for keys in (rows.keys, rows.deleted_keys):
        if keys is not None and pa.types.is_struct(keys.type) and keys.type.num_fields:
            return tuple(field.name for field in keys.type)
    raise DataError(
        "its key has no fields to know its row by",
        hint="Name the columns in merge.keys, or give records a key of several fields (ValueToKey).",
    )


def with_keys(rows: Rows, names: Sequence[str], *, of_key: bool) -> pa.RecordBatch:
    """The rows' columns with those of the key, which come from the record's key where the value lacks them.

    `of_key`: from the record's key in any case. Errors: DataError for a key that is null or missing.
    """
    columns = rows.columns
    for name in names:
        place = columns.schema.get_field_index(name)
        if place < 0:
            columns = columns.append_column(name, _key_column(rows.keys, name, len(names)))
        elif of_key:
            columns = columns.set_column(place, name, _key_column(rows.keys, name, len(names)))
        if columns.column(name).null_count:
            raise DataError(f"Column {name} of its key is null")
        _require_plain(name, columns.column(name))
    return columns


def deletions(rows: Rows, names: Sequence[str]) -> pa.RecordBatch | None:
    """The keys of the records without value; None when there are none. Errors: as with_keys."""
    import pyarrow as pa

    if len(rows.offsets) == len(rows.columns):
        return None
    columns = [_key_column(rows.deleted_keys, name, len(names)) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            raise DataError(f"It has no value, and column {name} of its key is null: it names no row to remove")
        _require_plain(name, column)
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _require_plain(name: str, column: pa.Array) -> None:
    """Errors: DataError for lists, maps, structs and NaN, by which Arrow and the formats find no row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(column.type):
        raise DataError(f"Column {name} of its key is {column.type}, and rows are identified by plain values only")
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        raise DataError(f"Column {name} of its key is NaN, which identifies no row")


def changes_schema(table: pa.Schema) -> pa.Schema:
    """The columns of changes: those of the table, of which deletions have the keys alone, and DELETED."""
    import pyarrow as pa

    return pa.schema([*(field.with_nullable(True) for field in table), pa.field(DELETED, pa.bool_())])


def in_order(
    rows: pa.RecordBatch, deleted: pa.RecordBatch | None, offsets: pa.Array, table: pa.Schema
) -> pa.RecordBatch:
    """Rows and keys of deletions as changes, by offset. `offsets` are the rows', and then the deletions'.

    Errors: DataError for a key that cannot be one of the table's.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = changes_schema(table)
    changes = conformed(rows.append_column(DELETED, pa.repeat(pa.scalar(False), len(rows))), schema)
    if deleted is None:
        return changes
    strange = [name for name in deleted.schema.names if name not in table.names]
    if strange:
        raise DataError(f"The table has no column {strange[0]}, which its key names")
    keys = [
        key_as(column, table.field(name).type, name)
        for name, column in zip(deleted.schema.names, deleted.columns, strict=True)
    ]
    gone = pa.RecordBatch.from_arrays(
        [*keys, pa.repeat(pa.scalar(True), len(deleted))], names=[*deleted.schema.names, DELETED]
    )
    if not len(rows):
        return conformed(gone, schema)
    both = pa.Table.from_batches([changes, conformed(gone, schema)]).combine_chunks().to_batches()[0]
    return both.take(pc.array_sort_indices(offsets))


def by_offset(
    parts: Sequence[pa.RecordBatch | None], offsets: Sequence[pa.Array], table: pa.Schema | None
) -> pa.RecordBatch | None:
    """Rows or changes as one, by their offsets; None for none.

    `offsets`: as Rows has them. Errors: DataError for rows that lack a required column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = [(part, places) for part, places in zip(parts, offsets, strict=True) if part is not None and len(part)]
    if not found or table is None:
        return None
    schema = changes_schema(table) if DELETED in found[0][0].schema.names else table
    # Where a part lacks some, these are tombstones, whose offsets are the last of them
    order = [
        places.slice(0, len(part)) if len(part) < len(places) else places.take(pc.array_sort_indices(places))
        for part, places in found
    ]
    rows = pa.Table.from_batches([conformed(part, schema) for part, _ in found], schema).combine_chunks()
    return rows.take(pc.array_sort_indices(pa.concat_arrays(order))).combine_chunks().to_batches()[0]


def last_changes(changes: pa.Table, names: Sequence[str], table: pa.Schema) -> tuple[pa.Table, pa.Table]:
    """The rows to have, and the keys of the rows to remove, after all changes of each key in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    index = "__index__"
    keyed = changes.select(list(names)).append_column(index, pa.array(range(len(changes)), pa.int64()))
    last = keyed.group_by(list(names), use_threads=False).aggregate([(index, "max")]).column(f"{index}_max")
    kept = changes.take(last.combine_chunks().sort())
    gone = kept.column(DELETED)
    rows = kept.filter(pc.invert(gone)).drop_columns([DELETED])
    return rows.cast(table), kept.filter(gone).select(list(names))


def with_deletes(write: TableWrite) -> pa.Table:
    """Rows and deletions of a commit as one table of changes again, for formats that merge both at once."""
    import pyarrow as pa

    rows = write.rows.append_column(DELETED, pa.repeat(pa.scalar(False), len(write.rows)))
    if write.deletes is None or not len(write.deletes):
        return rows
    gone = write.deletes.append_column(DELETED, pa.repeat(pa.scalar(True), len(write.deletes)))
    return pa.concat_tables([rows, gone], promote_options="default")


def _key_column(keys: Any, name: str, wanted: int) -> pa.Array:
    """A column of the key: a field of structs, or the key itself where one column is wanted. Errors: DataError."""
    import pyarrow as pa

    if keys is None:
        raise DataError(f"It has no key, and no column {name} in its value")
    if pa.types.is_struct(keys.type):
        if name not in [field.name for field in keys.type]:
            raise DataError(f"Neither its key nor its value has a field {name}, which merge.keys names")
        return keys.flatten()[keys.type.get_field_index(name)]
    if wanted > 1:
        raise DataError(f"Its key is one value, and merge.keys names {wanted} columns that its value lacks")
    return keys
