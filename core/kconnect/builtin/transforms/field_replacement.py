"""FieldReplacement: fields left out, kept or renamed at any depth, by their paths."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kconnect.api import Field, Schema, Struct, Type
from kconnect.builtin.transforms.record_part import kept_child, struct_like

if TYPE_CHECKING:
    import pyarrow as pa


Path = tuple[str, ...]


class FieldReplacement:
    """What ReplaceField does with `field.syntax.version=V2`: `a.b` names the field b of the struct or map a.

    Shape: a path that is included keeps all below it and what leads to it; a new name is that of the field alone.
        The outermost struct becomes required and has no default, as in Java; those inside stay optional if they were.
    """

    def __init__(
        self, excluded: Collection[Path], included: Collection[Path], renames: Mapping[Path, str], *, replace_null: bool
    ) -> None:
        self._excluded = frozenset(excluded)
        self._included = frozenset(included)
        self._renames = dict(renames)
        self._paths = (*self._excluded, *self._included, *self._renames)
        self._replace_null = replace_null

    def schema(self, schema: Schema) -> Schema:
        """The struct's schema afterwards. Errors: SchemaBuilderError when two fields get one name."""
        return self._schema(schema, ())

    def struct(self, struct: Struct, updated: Schema) -> Struct:
        """The struct afterwards; `updated` is what `schema` gave for its schema."""
        return self._struct(struct, updated, (), self._replace_null)

    def map(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """The map afterwards."""
        return self._map(value, ())

    def column(self, schema: Schema, updated: Schema, column: pa.Array) -> pa.Array | None:
        """The column of structs afterwards, none null; None when only records can tell what is right."""
        return self._column(schema, updated, column, ())

    def _keeps(self, path: Path) -> bool:
        if path in self._excluded:
            return False
        return not self._included or any(_leads(path, kept) or _leads(kept, path) for kept in self._included)

    def _goes_below(self, path: Path) -> bool:
        return any(len(named) > len(path) and _leads(path, named) for named in self._paths)

    def _kept(self, schema: Schema, prefix: Path) -> Iterator[tuple[Field, Path, bool]]:
        """The fields that stay, each with its path, and whether something is said of what is in it."""
        for field in schema.fields:
            path = (*prefix, field.name)
            if self._keeps(path):
                yield field, path, field.schema.type is Type.STRUCT and self._goes_below(path)

    def _schema(self, schema: Schema, prefix: Path) -> Schema:
        builder = struct_like(schema)
        for field, path, is_changed in self._kept(schema, prefix):
            inner = self._schema(field.schema, path) if is_changed else field.schema
            builder.field(self._renames.get(path, field.name), inner)
        return builder.optional().build() if prefix and schema.is_optional else builder.build()

    def _struct(self, struct: Struct, updated: Schema, prefix: Path, replace_null: bool) -> Struct:
        made = Struct(updated)
        for target, (field, path, is_changed) in zip(updated.fields, self._kept(struct.schema, prefix), strict=True):
            value = struct.get(field) if replace_null else struct.get_without_default(field)
            if is_changed and value is not None:
                value = self._struct(value, target.schema, path, False)
            made.put(target, value)
        return made

    def _map(self, value: dict[Any, Any], prefix: Path) -> dict[Any, Any]:
        made = {}
        for name, item in value.items():
            path = (*prefix, name)
            if self._keeps(path):
                is_changed = isinstance(item, dict) and self._goes_below(path)
                made[self._renames.get(path, name)] = self._map(item, path) if is_changed else item
        return made

    def _column(self, schema: Schema, updated: Schema, column: pa.Array, prefix: Path) -> pa.Array | None:
        import pyarrow as pa

        children, kept = column.flatten(), []
        for target, (field, path, is_changed) in zip(updated.fields, self._kept(schema, prefix), strict=True):
            child = children[field.index]
            if not prefix:
                child = kept_child(field.schema, child, self._replace_null)
            if child is not None and is_changed:
                child = self._column(field.schema, target.schema, child, path)
            if child is None:
                return None
            kept.append(child)
        if not kept:
            return None
        fields = [pa.field(field.name, child.type) for field, child in zip(updated.fields, kept, strict=True)]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(kept, fields=fields, mask=mask)


def _leads(path: Path, to: Path) -> bool:
    return to[: len(path)] == path
