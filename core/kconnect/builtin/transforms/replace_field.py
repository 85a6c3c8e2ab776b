"""ReplaceField: leave out fields, or give them other names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import ConfigDef, ConfigError, ConnectRecord, Field, RecordBatch, Schema, Struct, Transformation, Type
from kconnect.builtin.transforms.field_path import SYNTAX_VERSION_CONFIG, FieldPath, with_syntax_version
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    SchemaMemory,
    kept_child,
    require_map,
    require_struct,
    struct_like,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "field replacement"
EXCLUDE, INCLUDE, RENAMES = "exclude", "include", "renames"


def _renames(mappings: Sequence[str] | None) -> dict[str, str]:
    """`old:new` pairs as a dict. Source: ReplaceField.parseRenameMappings, with Java's split.

    Differs: for null Java fails with a NullPointerException.
    """
    if mappings is None:
        raise ConfigError(f"Configuration '{RENAMES}' values must not be null.")
    found = {}
    for mapping in mappings:
        parts = mapping.rstrip(":").split(":")
        if len(parts) != 2:
            raise ConfigError.invalid(RENAMES, list(mappings), f"Invalid rename mapping: {mapping}")
        found[parts[0]] = parts[1]
    return found


def _config() -> ConfigDef:
    kind, medium = ConfigDef.Type.LIST, ConfigDef.Importance.MEDIUM
    names = ConfigDef.ValidList.any_non_duplicate_values(True, False)
    pairs = ConfigDef.LambdaValidator.with_(
        lambda _, value: _check(_renames(value)), "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
    )
    table = ConfigDef()
    table.define(EXCLUDE, kind, [], names, medium, "Fields to leave out, even if they are in `include`.")
    table.define(INCLUDE, kind, [], names, medium, "Fields to keep; none named keeps all.")
    table.define(RENAMES, kind, [], pairs, medium, "Pairs old:new of fields to rename.")
    return with_syntax_version(with_replace_null(table))


def _check(_renamed: dict[str, str]) -> None:
    """A validator only asks whether the pairs could be read."""


CONFIG = _config()


class _ReplaceField(Part, Transformation):
    """Source: o.a.k.connect.transforms.ReplaceField (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._excluded, self._included = frozenset(config[EXCLUDE]), frozenset(config[INCLUDE])
        self._new_names = _renames(config[RENAMES])
        self._old_names = {new: old for old, new in self._new_names.items()}
        self._replace_null: bool = config[REPLACE_NULL_CONFIG]
        self._nested = _nested(config) if config[SYNTAX_VERSION_CONFIG].upper() == "V2" else None
        self._schemas = SchemaMemory(self._changed if self._nested is None else self._nested.schema)

    def apply(self, record: R) -> R:
        value = self._value(record)
        if value is None:
            return record
        if self._schema(record) is None:
            return self._replace(record, None, self._map(require_map(value, PURPOSE)))
        struct = require_struct(value, PURPOSE)
        schema = self._schemas.changed(struct.schema)
        if self._nested is not None:
            return self._replace(record, schema, self._nested.struct(struct, schema))
        read = struct.get if self._replace_null else struct.get_without_default
        updated = Struct(schema)
        for field in schema.fields:
            updated.put(field.name, read(self._old_names.get(field.name, field.name)))
        return self._replace(record, schema, updated)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """The child columns that are kept, not copied. Null rows go by records: they keep their old schema."""
        schema, column = self._schema(batch), self._column(batch)
        if column is None:
            return batch
        if schema is None or schema.type is not Type.STRUCT or column.null_count:
            return NotImplemented
        updated = self._schemas.changed(schema)
        made = self._columns(schema, updated, column)
        return NotImplemented if made is None else self._replace_column(batch, updated, made)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _map(self, value: dict[Any, Any]) -> dict[Any, Any]:
        if self._nested is not None:
            return self._nested.map(value)
        return {self._new_names.get(name, name): item for name, item in value.items() if self._keeps(name)}

    def _columns(self, schema: Schema, updated: Schema, column: pa.Array) -> pa.Array | None:
        if self._nested is not None:
            return self._nested.column(schema, updated, column)
        import pyarrow as pa

        children, kept = column.flatten(), []
        for field in updated.fields:
            old = schema.field(self._old_names.get(field.name, field.name))
            child = None if old is None else kept_child(old.schema, children[old.index], self._replace_null)
            if child is None:
                return None
            kept.append(child)
        names = [field.name for field in updated.fields]
        return pa.StructArray.from_arrays(kept, names=names) if kept else None

    def _keeps(self, name: Any) -> bool:
        return name not in self._excluded and (not self._included or name in self._included)

    def _changed(self, schema: Schema) -> Schema:
        builder = struct_like(schema)
        for field in schema.fields:
            if self._keeps(field.name):
                builder.field(self._new_names.get(field.name, field.name), field.schema)
        return builder.build()


def _nested(config: Mapping[str, Any]) -> FieldReplacement:
    def path(text: str) -> tuple[str, ...]:
        return FieldPath(text, "V2").steps

    return FieldReplacement(
        [path(text) for text in config[EXCLUDE]],
        [path(text) for text in config[INCLUDE]],
        {path(old): new for old, new in _renames(config[RENAMES]).items()},
        replace_null=config[REPLACE_NULL_CONFIG],
    )


class ReplaceFieldKey(_ReplaceField):
    """`org.apache.kafka.connect.transforms.ReplaceField$Key`."""

    PART: ClassVar[str] = "key"


class ReplaceFieldValue(_ReplaceField):
    """`org.apache.kafka.connect.transforms.ReplaceField$Value`."""

    PART: ClassVar[str] = "value"


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
