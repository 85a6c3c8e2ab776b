"""FieldRemoval: named fields, at any depth, are taken out of schemas, structs, maps and columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kconnect.api import Schema, Struct, Type
from kconnect.builtin.transforms.field_path import NESTED, FieldPath
from kconnect.builtin.transforms.record_part import kept_child, require_map, require_struct, struct_like

if TYPE_CHECKING:
    import pyarrow as pa

Tree = dict[str, Any]  # of a field's name: the Tree of what goes below it; empty for a field that goes itself


class FieldRemoval:
    """Fields that are not there are no error. A struct that loses all its fields stays, without fields."""

    def __init__(self, paths: Iterable[FieldPath], *, replace_null: bool) -> None:
        self._replace_null = replace_null
        self._tree: Tree = {}
        for path in sorted(paths, key=lambda path: len(path.steps)):
            _grow(self._tree, path.steps)

    def schema(self, schema: Schema) -> Schema:
        """The schema without the fields. The outermost struct is required and has no default, as in Java."""
        return _schema(schema, self._tree)

    def struct(self, struct: Struct, updated: Schema) -> Struct:
        """The struct without the fields; `updated` is what `schema` gave for its schema."""
        return _struct(struct, updated, self._tree, self._replace_null)

    def map(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """The map without the fields."""
        return _map(value, self._tree)

    def column(self, schema: Schema, updated: Schema, column: pa.Array) -> pa.Array | None:
        """The column of structs without the fields, none null; None when only records can tell what is right."""
        return _column(schema, updated, column, self._tree, self._replace_null)


def _grow(tree: Tree, steps: tuple[str, ...]) -> None:
    for step in steps[:-1]:
        if step in tree and not tree[step]:
            return  # what holds it goes as a whole
        tree = tree.setdefault(step, {})
    tree[steps[-1]] = {}


def _schema(schema: Schema, tree: Tree) -> Schema:
    builder = struct_like(schema)
    for field in schema.fields:
        below = tree.get(field.name)
        if below is None:
            builder.field(field.name, field.schema)
        elif below:
            inner = _schema(field.schema, below)
            builder.field(field.name, _optional(inner) if field.schema.is_optional else inner)
    return builder.build()


def _optional(schema: Schema) -> Schema:
    builder = struct_like(schema).optional()
    for field in schema.fields:
        builder.field(field.name, field.schema)
    return builder.build()


def _struct(struct: Struct, updated: Schema, tree: Tree, replace_null: bool) -> Struct:
    made = Struct(updated)
    for field in updated.fields:
        value = struct.get(field.name) if replace_null else struct.get_without_default(field.name)
        below = tree.get(field.name)
        if below and value is not None:
            value = _struct(require_struct(value, NESTED), field.schema, below, False)
        made.put(field, value)
    return made


def _map(value: dict[Any, Any], tree: Tree) -> dict[Any, Any]:
    made = dict(value)
    for name, below in tree.items():
        if not below:
            made.pop(name, None)
        elif made.get(name) is not None:
            made[name] = _map(require_map(made[name], NESTED), below)
    return made


def _column(schema: Schema, updated: Schema, column: pa.Array, tree: Tree, replace_null: bool) -> pa.Array | None:
    import pyarrow as pa

    children, kept = column.flatten(), []
    for field in updated.fields:
        old = schema.field(field.name)
        if old is None:
            return None
        child, below = children[old.index], tree.get(field.name)
        if column.null_count == 0:
            child = kept_child(old.schema, child, replace_null)
        if child is not None and below:
            is_struct = old.schema.type is Type.STRUCT
            child = _column(old.schema, field.schema, child, below, False) if is_struct else None
        if child is None:
            return None
        kept.append(child)
    if not kept:
        return None
    fields = [pa.field(field.name, child.type) for field, child in zip(updated.fields, kept, strict=True)]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(kept, fields=fields, mask=mask)
