"""FieldEdits: named fields are changed where they stand, at any depth, and all else stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kconnect.api import ConfigError, DataError, Schema, Struct, Type
from kconnect.api.columns import column_of, values_of
from kconnect.builtin.transforms.field_path import NESTED, FieldPath
from kconnect.builtin.transforms.record_part import default_scalar, require_map, require_struct, struct_like

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Tree = dict[str, Any]  # of a field's name: what to do with it, in a _Leaf, or the Tree of the fields below


class FieldEdit(Protocol[T_contra]):
    """What becomes of one field; `what` is that which was configured for it."""

    def schema(self, schema: Schema, what: T_contra) -> Schema:
        """The field's schema afterwards."""
        ...

    def value(self, schema: Schema | None, value: Any, what: T_contra) -> Any:
        """The field's value afterwards; no schema for a field of a map."""
        ...

    def column(self, schema: Schema, column: pa.Array, what: T_contra) -> pa.Array | None:
        """The field's column afterwards; None where each value has to be looked at."""
        ...


class FieldEdits(Generic[T]):
    """One edit for several fields, over schemas, structs, maps and columns.

    Fields that are not there are left alone, save that a map gets those of its own level as null, as in Java.
    """

    def __init__(
        self, paths: Mapping[str, T], syntax_version: str, edit: FieldEdit[T], *, replace_null: bool, setting: str
    ) -> None:
        self._edit = edit
        self._replace_null = replace_null
        self._tree: Tree = {}
        for path, what in paths.items():
            _grow(self._tree, FieldPath(path, syntax_version).steps, _Leaf(what), setting, path)

    def schema(self, schema: Schema) -> Schema:
        """The struct's schema afterwards. Errors: DataError for what is no struct."""
        return self._schema(schema, self._tree)

    def struct(self, struct: Struct, updated: Schema) -> Struct:
        """The struct afterwards; `updated` is what `schema` gave for its schema."""
        return self._struct(struct, updated, self._tree, self._replace_null)

    def map(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """The map afterwards."""
        return self._map(value, self._tree)

    def column(self, schema: Schema, updated: Schema, column: pa.Array) -> pa.Array | None:
        """The column of structs afterwards; None when only records can tell what is right."""
        return self._column(schema, updated, column, self._tree, self._replace_null)

    def _schema(self, schema: Schema, tree: Tree) -> Schema:
        builder = struct_like(schema)
        for field in schema.fields:
            below = tree.get(field.name)
            if below is None:
                builder.field(field.name, field.schema)
            elif isinstance(below, _Leaf):
                builder.field(field.name, self._edit.schema(field.schema, below.what))
            else:
                builder.field(field.name, self._schema(field.schema, below))
        if schema.is_optional:
            builder.optional()
        if schema.default is not None:
            builder.default(self._struct(schema.default, builder.build(), tree, self._replace_null))
        return builder.build()

    def _struct(self, struct: Struct, updated: Schema, tree: Tree, replace_null: bool) -> Struct:
        made = Struct(updated)
        for field, target in zip(struct.schema.fields, updated.fields, strict=True):
            below = tree.get(field.name)
            value = struct.get_without_default(field)
            if value is None and replace_null:
                value = field.schema.default
            if isinstance(below, _Leaf):
                value = self._edit.value(field.schema, value, below.what)
            elif below is not None and value is not None:
                value = self._struct(require_struct(value, NESTED), target.schema, below, False)
            made.put(target, value)
        return made

    def _map(self, value: dict[Any, Any], tree: Tree) -> dict[Any, Any]:
        made = dict(value)
        for name, below in tree.items():
            found = value.get(name)
            if isinstance(below, _Leaf):
                made[name] = self._edit.value(None, found, below.what)
            elif found is not None:
                made[name] = self._map(require_map(found, NESTED), below)
        return made

    def _column(
        self, schema: Schema, updated: Schema, column: pa.Array, tree: Tree, replace_null: bool
    ) -> pa.Array | None:
        import pyarrow as pa

        children = []
        for field, target, child in zip(schema.fields, updated.fields, column.flatten(), strict=True):
            below = tree.get(field.name)
            made = _filled(field.schema, child, column.null_count, replace_null)
            if made is not None and isinstance(below, _Leaf):
                made = self._leaf_column(field.schema, target.schema, made, below.what)
            elif made is not None and below is not None:
                is_struct = field.schema.type is Type.STRUCT
                made = self._column(field.schema, target.schema, made, below, False) if is_struct else None
            if made is None:
                return None
            children.append(made)
        if not children:
            return None
        fields = [pa.field(field.name, child.type) for field, child in zip(updated.fields, children, strict=True)]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

    def _leaf_column(self, schema: Schema, updated: Schema, column: pa.Array, what: T) -> pa.Array | None:
        made = self._edit.column(schema, column, what)
        if made is not None:
            return made
        try:
            found = values_of(schema, column, len(column))
            return column_of(updated, [self._edit.value(schema, value, what) for value in found])
        except DataError:
            return None  # by records: the same error comes with the record that caused it


class _Leaf(Generic[T]):
    __slots__ = ("what",)

    def __init__(self, what: T) -> None:
        self.what = what


def _grow(tree: Tree, steps: tuple[str, ...], leaf: _Leaf[Any], setting: str, path: str) -> None:
    for step in steps[:-1]:
        tree = tree.setdefault(step, {})
        if isinstance(tree, _Leaf):
            raise ConfigError.invalid(setting, path, "A field that holds it is named too")
    if isinstance(tree.get(steps[-1]), dict):
        raise ConfigError.invalid(setting, path, "A field inside it is named too")
    tree[steps[-1]] = leaf


def _filled(schema: Schema, child: pa.Array, outer_nulls: int, replace_null: bool) -> pa.Array | None:
    """The child with its default for nulls; below a null row a child's value means nothing, and nulls are right."""
    if child.null_count <= outer_nulls:
        return child
    if schema.default is not None and replace_null:
        default = default_scalar(schema, child.type)
        return None if default is None else child.fill_null(default)
    return child if schema.is_optional else None
