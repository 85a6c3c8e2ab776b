"""Values without schema as columns of the types that are seen in them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import DataError
from kconnect.builtin.types.fitting import WIDENED, as_mapping, as_text, fit
from kconnect.builtin.types.leaf_columns import exact_decimal
from kconnect.builtin.types.seen import Kind, Seen, member_names, require_depth, require_names, see

if TYPE_CHECKING:
    import pyarrow as pa


class MixedError(DataError):
    """Values have nothing in common but their JSON text."""


def seen_column(values: Sequence[Any], depth: int = 0, *, mixes: bool = True) -> pa.Array:
    """The values as a column of the type that is seen in them, none of them changed.

    Measured, rows of four fields: 0.5 us each where Arrow finds the same types, as it nearly always does; else 4 us.
    Errors: MixedError unless `mixes`, where a part of the column would be JSON text of several kinds; DataError.
    """
    require_depth(depth)
    if (column := reported_by_arrow(values)) is not None:
        return column
    try:
        kinds = {type(value) for value in values if value is not None}
        if kinds == {dict}:
            names = member_names(value for value in values if value is not None)
            parts = {name: seen_column(_member(values, name), depth + 1, mixes=mixes) for name in names}
            return _structs(values, parts)
        if kinds == {list}:
            return _lists(values, seen_column(_items(values), depth + 1, mixes=mixes))
        seen = see(values, depth)
        if not mixes and seen.is_mixed:
            raise MixedError("The values have nothing in common")
        return column_of_seen(values, seen)
    except _REFUSALS as error:
        raise DataError(f"No column can have the values: {error}") from error


def see_mixed(values: Sequence[Any], depth: int = 0) -> Seen | None:
    """What is seen in the parts of the values that have nothing in common; None where columns hold all of them.

    Errors: DataError.
    """
    require_depth(depth)
    if reported_by_arrow(values) is not None:
        return None
    if {type(value) for value in values if value is not None} == {dict}:
        names = member_names(value for value in values if value is not None)
        found = {name: see_mixed(_member(values, name), depth + 1) for name in names}
        members = {name: seen for name, seen in found.items() if seen is not None}
        return Seen(Kind.STRUCT, members=members) if members else None
    seen = see(values, depth)
    return seen if seen.is_mixed else None


def reported_by_arrow(values: Sequence[Any]) -> pa.Array | None:
    """The column that Arrow makes of the values by itself; None where the rules here may give another type."""
    import pyarrow as pa

    try:
        column = pa.array(values)
    except _REFUSALS:
        return None
    return column if _is_reported_by_arrow(column.type) and not _hides_bools(values, column) else None


def seen_table(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows as columns: all fields of all rows, in the order in which they come. Errors: DataError."""
    import pyarrow as pa

    names = member_names(rows)
    if not names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays([seen_column([row.get(name) for row in rows]) for name in names], names)


NO_FIELD: Final = "its value has no field, so that it is no row"
NO_VALUE: Final = "it has no field with a value, so that no table can be made of it"


def require_fields(columns: Sequence[pa.Array | pa.ChunkedArray], values: Callable[[], Sequence[Any]]) -> None:
    """Values without schema are rows of these columns. `values` gives them, and is asked where a row is of nulls alone.

    Errors: DataError where one of them is `{}`, which a row of nulls would not be distinguished from.
    """
    import pyarrow.compute as pc

    if any(not column.null_count for column in columns):
        return
    if columns and pc.all(reduce(pc.or_, [column.is_valid() for column in columns])).as_py():
        return
    if {} in values():
        raise DataError(NO_FIELD)


def column_of_seen(values: Sequence[Any], seen: Seen) -> pa.Array:
    """The values as a column of `seen.type`, where it was seen in them, and perhaps in more.

    Errors: ValueError, TypeError, OverflowError, for what was not seen.
    """
    import pyarrow as pa

    kind = seen.type
    if seen.kind is Kind.STRUCT:
        rows = [as_mapping(value) for value in values]
        return _structs(rows, {name: column_of_seen(_member(rows, name), part) for name, part in seen.members.items()})
    if seen.item is not None:
        return _lists(values, column_of_seen(_items(values), seen.item))
    fitting = _fitting(seen, kind)
    if fitting is not None:
        values = [None if value is None else fitting(value) for value in values]
    return pa.array(values, kind)


def widened_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with these columns, of which they may lack some. Errors: NotFittingError where a digit would be lost."""
    import pyarrow as pa

    if table.schema == schema:
        return table
    batches = []
    for batch in table.to_batches():
        there = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns = [
            fit(there[field.name], field.type, WIDENED) if field.name in there else pa.nulls(len(batch), field.type)
            for field in schema
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


_REFUSALS = (ValueError, TypeError, OverflowError, NotImplementedError)  # ArrowException's classes are among these


def _member(rows: Sequence[Any], name: str) -> list[Any]:
    return [None if row is None else row.get(name) for row in rows]


def _items(values: Sequence[Any]) -> list[Any]:
    return [item for items in values if items is not None for item in items]


def _structs(rows: Sequence[Any], children: Mapping[str, pa.Array]) -> pa.Array:
    import pyarrow as pa

    if not children:
        return pa.array([None if row is None else {} for row in rows], pa.struct([]))
    mask = pa.array([row is None for row in rows]) if None in rows else None
    return pa.StructArray.from_arrays(list(children.values()), names=list(children), mask=mask)


def _lists(values: Sequence[Any], items: pa.Array) -> pa.Array:
    import pyarrow as pa

    starts: list[int | None] = []
    end = 0
    for value in values:
        starts.append(None if value is None else end)
        end += len(value or ())
    return pa.ListArray.from_arrays(pa.array([*starts, end], pa.int32()), items)


def _fitting(seen: Seen, kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What brings values into the form that Arrow takes for this type; None where they have it."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return lambda value: value if isinstance(value, str) else as_text(value)
    if pa.types.is_float64(kind):
        return float
    if pa.types.is_decimal(kind):
        return lambda value: exact_decimal(value) if isinstance(value, float) else Decimal(value)
    if seen.kind is Kind.BYTES:
        return bytes
    if seen.kind is Kind.TIMESTAMP:
        return lambda value: value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return None


def _is_reported_by_arrow(kind: pa.DataType, depth: int = 0) -> bool:
    """Whether Arrow's own look at values gave the type that the rules here give.

    Of these types alone: it takes texts for bytes, times for dates, and counts the digits of decimals.
    """
    import pyarrow as pa

    require_depth(depth)
    if pa.types.is_struct(kind):
        require_names(part.name for part in kind)
        return all(_is_reported_by_arrow(part.type, depth + 1) for part in kind)
    if pa.types.is_list(kind):
        return _is_reported_by_arrow(kind.value_type, depth + 1)
    return bool(
        pa.types.is_int64(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )


def _hides_bools(values: Sequence[Any], column: pa.Array) -> bool:
    """Whether Arrow took true for the number 1, as it does behind a float.

    Measured: that no number is 1 or 0, a column tells in 10 us; the types of 500 values take 30.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_float64(kind):
        return (len(column) < _FEW or _has_zero_or_one(column)) and bool in set(map(type, values))
    if pa.types.is_struct(kind):
        for index, part in enumerate(kind):
            if _has_floats(part.type):
                child = column.field(index)
                is_asked = pa.types.is_nested(part.type) or len(child) < _FEW or _has_zero_or_one(child)
                if is_asked and _hides_bools(_member(values, part.name), child):
                    return True
        return False
    if pa.types.is_list(kind) and _has_floats(kind.value_type):
        return _hides_bools(_items(values), column.flatten())
    return False


# Rows of which it takes longer to ask a column
_FEW: Final = 200


def _has_zero_or_one(column: pa.Array) -> bool:
    return bool(column.index(1.0).as_py() >= 0 or column.index(0.0).as_py() >= 0)


def _has_floats(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_float64(kind) or any(_has_floats(kind.field(index).type) for index in range(kind.num_fields))
