"""How records fit a table's columns: which columns come, which widen, what is refused. Pure, on Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kconnect.api import DataError
from kconnect.builtin.types.contracts import EVOLVES, Contract, Contracts
from kconnect.builtin.types.fitting import elements_of
from kconnect.builtin.types.leaf_columns import is_bytes, is_list, is_text
from kconnect.builtin.types.seen import is_untyped, joined
from kconnect.builtin.types.settling import kept

if TYPE_CHECKING:
    import pyarrow as pa


class Evolution(StrEnum):
    """`schema.evolution`: what records may change in a table that is there."""

    NONE = "none"
    ADD = "add"
    WIDEN = "widen"


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """What this table can do, and what its connector allows."""

    where: str
    evolution: Evolution
    stored_type: Callable[[pa.DataType], pa.DataType]
    can_widen: Callable[[str, pa.DataType, pa.DataType], bool]
    contracts: Contracts = EVOLVES
    is_stored: Callable[[str], bool] = lambda column: True
    """Whether rows with this column are in the table by now; until then it can become anything."""

    def allows(self, path: str, least: Evolution) -> bool:
        """Whether records may change a column so far."""
        steps = list(Evolution)
        return self.contracts.of(path) is Contract.EVOLVE and steps.index(self.evolution) >= steps.index(least)


def schema_for(table: pa.Schema | None, batch: pa.RecordBatch, rules: SchemaRules) -> pa.Schema:
    """The table's columns after these rows: as they are, or with columns added or widened.

    Columns without any type, such as those of JSON that are always null, wait for the first value.
    Errors: DataError that names the column, for what is not allowed or would lose something.
    """
    import pyarrow as pa

    if table is None:
        fields = [pa.field(field.name, _new_type(field.type, rules)) for field in batch.schema]
        return pa.schema([field for field in fields if not is_untyped(field.type)])
    if batch.schema == table:
        return table
    known: dict[str, pa.DataType] = {field.name: field.type for field in table}
    required = {field.name for field in table if not field.nullable}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.name in known:
            known[field.name] = merged(known[field.name], column, field.name, rules)
        elif not is_untyped(field.type):
            known[field.name] = _added(field.type, field.name, rules)
    if all(known[field.name] == field.type for field in table) and len(known) == len(table):
        return table
    return pa.schema([pa.field(name, kind, name not in required) for name, kind in known.items()])


def without_column(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[str]:
    """Where rows have `[]`, `{}` or lists of nulls that become null, as the table cannot have a column for them yet."""
    yield from _without_column(zip(batch.schema.names, batch.columns, strict=True), schema, "")


def _without_column(columns: Iterable[tuple[str, pa.Array]], known: Iterable[pa.Field], path: str) -> Iterator[str]:
    import pyarrow as pa

    kinds = {field.name: field.type for field in known}
    for name, column in columns:
        kind, old = column.type, kinds.get(name)
        if is_untyped(kind):
            if old is None and column.null_count < len(column):
                yield f"{path}{name}"
        elif pa.types.is_struct(kind) and old is not None and pa.types.is_struct(old):
            yield from _without_column(
                zip([part.name for part in kind], column.flatten(), strict=True), old, f"{path}{name}."
            )


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with exactly these columns; those they lack are null. Errors: DataError for what does not fit."""
    import pyarrow as pa

    if batch.schema == schema:
        return batch
    names, columns = set(batch.schema.names), []
    for field in schema:
        if field.name in names:
            columns.append(kept(batch.column(field.name), field.type, field.name))
        else:
            columns.append(pa.nulls(len(batch), field.type))
        if not field.nullable and columns[-1].null_count:
            raise DataError(f"Column {field.name} must not be null, and is null or missing in a record")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a table as this module knows types: without large and view variants, and without metadata."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _plain(field.type), field.nullable) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    if is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if is_text(kind):
        return pa.string()
    return pa.binary() if is_bytes(kind) else kind


def key_as(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """A column of a record's key with the type of the table's; a text may be a number. Errors: DataError."""
    import pyarrow as pa

    if is_text(column.type) and pa.types.is_integer(kind):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid as error:
            raise DataError(f"Column {name} of its key is text that is not of type {kind}: {error}") from error
    return kept(column, kind, name)


def _added(kind: pa.DataType, path: str, rules: SchemaRules) -> pa.DataType:
    if not rules.allows(path, Evolution.ADD):
        raise DataError(
            f"Column {path} is not in table {rules.where}", hint="schema.evolution=add adds columns; now it is none."
        )
    return _new_type(kind, rules)


def _new_type(kind: pa.DataType, rules: SchemaRules) -> pa.DataType:
    """How a column of this type is kept; fields without a type are left out."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        fields = [pa.field(field.name, _new_type(field.type, rules)) for field in kind]
        return pa.struct([field for field in fields if not is_untyped(field.type)])
    if is_list(kind):
        return pa.list_(_new_type(kind.value_type, rules))
    if pa.types.is_map(kind):
        return pa.map_(_new_type(kind.key_type, rules), _new_type(kind.item_type, rules))
    if pa.types.is_dictionary(kind):
        return _new_type(kind.value_type, rules)
    return rules.stored_type(_plain(kind))


def merged(old: pa.DataType, column: pa.Array, path: str, rules: SchemaRules) -> pa.DataType:
    """The type that takes what the column of the table has and this one. Errors: DataError."""
    import pyarrow as pa

    new = column.type
    if new == old:
        return old
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return _merged_struct(old, column, path, rules)
    if pa.types.is_list(old) and is_list(new):
        return pa.list_(merged(old.value_type, elements_of(column), f"{path}[]", rules))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(old.key_type, merged(old.item_type, elements_of(column), f"{path}[]", rules))
    try:
        kept(column, old, path)
    except DataError as refusal:
        wanted = rules.stored_type(joined(old, new))
        if rules.allows(path, Evolution.WIDEN) and _takes(old, wanted, column, path):
            name = path.partition(".")[0].partition("[")[0]
            if not rules.is_stored(name) or rules.can_widen(name, old, wanted):
                return wanted
        raise DataError(f"{refusal}, as it is in table {rules.where}", hint=_why(old, wanted, rules)) from refusal
    return old


def _merged_struct(old: pa.StructType, column: pa.StructArray, path: str, rules: SchemaRules) -> pa.DataType:
    import pyarrow as pa

    known: dict[str, pa.DataType] = {field.name: field.type for field in old}
    for field, child in zip(column.type, column.flatten(), strict=True):
        below = f"{path}.{field.name}"
        if field.name in known:
            known[field.name] = merged(known[field.name], child, below, rules)
        elif not is_untyped(field.type):
            known[field.name] = _added(field.type, below, rules)
    return pa.struct([pa.field(name, kind) for name, kind in known.items()])


def _why(old: pa.DataType, new: pa.DataType, rules: SchemaRules) -> str:
    if not _is_wider(old, new):
        return f"No column holds both {old} and {new} without loss: write such records to another table, or cast them."
    if rules.evolution is not Evolution.WIDEN:
        return f"schema.evolution=widen would make it {new}; now it is {rules.evolution}."
    return f"This format cannot make a column {new} that is {old}."


def _takes(old: pa.DataType, wanted: pa.DataType, column: pa.Array, path: str) -> bool:
    """Whether the wider type takes these values, to the last digit."""
    if not _is_wider(old, wanted):
        return False
    try:
        kept(column, wanted, path)
    except DataError:
        return False
    return True


def _is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether values of the old type are some of the new: integers of 64 bits are doubles as far as those go."""
    import pyarrow as pa

    if pa.types.is_integer(old):
        if pa.types.is_integer(new):
            return bool(new.bit_width > old.bit_width)
        return bool(pa.types.is_float64(new) or pa.types.is_decimal(new))
    if pa.types.is_float32(old):
        return bool(pa.types.is_float64(new))
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale)
    return False
