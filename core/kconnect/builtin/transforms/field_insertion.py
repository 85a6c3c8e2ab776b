"""FieldInsertion: fields are added to structs, maps and columns, at the end of what is there, at any depth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kconnect.api import DataError, Schema, Struct, Type
from kconnect.builtin.transforms.field_path import NESTED, FieldPath
from kconnect.builtin.transforms.record_part import kept_child, require_map, require_struct, struct_like

if TYPE_CHECKING:
    import pyarrow as pa


class Insertion(NamedTuple):
    """One field: where it goes, and under which kind its values are given."""

    kind: str
    path: FieldPath
    schema: Schema


class _Level:
    """What is inserted into one struct or map, and into those below it."""

    __slots__ = ("below", "here")

    def __init__(self) -> None:
        self.here: list[tuple[str, Insertion]] = []
        self.below: dict[str, _Level] = {}


class FieldInsertion:
    """What InsertField does. A path leads to a struct or map that is there; one that is null stays null.

    Shape: values and columns are given by the kind of insertion; a kind without value is left out.
        The outermost struct becomes required and has no default, as in Java; those inside stay optional if they were.
    """

    def __init__(self, insertions: Iterable[Insertion], *, replace_null: bool) -> None:
        self._replace_null = replace_null
        self._root = _Level()
        for insertion in insertions:
            level = self._root
            for step in insertion.path.steps[:-1]:
                level = level.below.setdefault(step, _Level())
            level.here.append((insertion.path.steps[-1], insertion))

    def schema(self, schema: Schema) -> Schema:
        """The struct's schema afterwards. Errors: DataError for a path over what is not there, or is no struct."""
        return _schema(schema, self._root, is_optional=False)

    def struct(self, struct: Struct, updated: Schema, values: Mapping[str, Any]) -> Struct:
        """The struct afterwards; `updated` is what `schema` gave for its schema."""
        return _struct(struct, updated, self._root, values, self._replace_null)

    def map(self, value: dict[Any, Any], values: Mapping[str, Any]) -> dict[Any, Any]:
        """The map afterwards."""
        return _map(value, self._root, values)

    def column(
        self, schema: Schema, updated: Schema, column: pa.Array, columns: Mapping[str, pa.Array]
    ) -> pa.Array | None:
        """The column of structs afterwards, none null; None when only records can tell what is right."""
        return _column(schema, updated, column, self._root, columns, self._replace_null)


def _schema(schema: Schema, level: _Level, *, is_optional: bool) -> Schema:
    if schema.type is not Type.STRUCT:
        raise DataError(f"Only Struct objects supported for [{NESTED}], found: {schema}")
    for name in level.below:
        if schema.field(name) is None:
            raise DataError(f"Field {name} does not exist: nothing can be inserted into it")
    builder = struct_like(schema)
    for field in schema.fields:
        below = level.below.get(field.name)
        inner = field.schema
        builder.field(field.name, inner if below is None else _schema(inner, below, is_optional=inner.is_optional))
    for name, insertion in level.here:
        builder.field(name, insertion.schema)
    return builder.optional().build() if is_optional else builder.build()


def _struct(struct: Struct, updated: Schema, level: _Level, values: Mapping[str, Any], replace_null: bool) -> Struct:
    made = Struct(updated)
    read = struct.get if replace_null else struct.get_without_default
    for target, field in zip(updated.fields, struct.schema.fields, strict=False):
        value = read(field)
        below = level.below.get(field.name)
        if below is not None and value is not None:
            value = _struct(require_struct(value, NESTED), target.schema, below, values, False)
        made.put(target, value)
    for name, insertion in level.here:
        if insertion.kind in values:
            made.put(name, values[insertion.kind])
    return made


def _map(value: dict[Any, Any], level: _Level, values: Mapping[str, Any]) -> dict[Any, Any]:
    made = dict(value)
    for name, below in level.below.items():
        if made.get(name) is not None:
            made[name] = _map(require_map(made[name], NESTED), below, values)
    for name, insertion in level.here:
        if insertion.kind in values:
            made[name] = values[insertion.kind]
    return made


def _column(
    schema: Schema,
    updated: Schema,
    column: pa.Array,
    level: _Level,
    columns: Mapping[str, pa.Array],
    replace_null: bool,
) -> pa.Array | None:
    import pyarrow as pa

    children = []
    for field, target, child in zip(schema.fields, updated.fields, column.flatten(), strict=False):
        kept = kept_child(field.schema, child, replace_null) if column.null_count == 0 else child
        below = level.below.get(field.name)
        if kept is not None and below is not None:
            kept = _column(field.schema, target.schema, kept, below, columns, False)
        if kept is None:
            return None
        children.append(kept)
    children += [columns[insertion.kind] for _, insertion in level.here]
    fields = [pa.field(field.name, child.type) for field, child in zip(updated.fields, children, strict=True)]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
