"""ReplaceField: leave out fields, or give them other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import ConfigDef, ConfigError, ConnectRecord, RecordBatch, Schema, Struct, Transformation, Type
from kconnect.builtin.transforms.field_path import SYNTAX_VERSION_CONFIG, FieldPath, with_syntax_version
from kconnect.builtin.transforms.field_replacement import FieldReplacement
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


def _renames(mappings: Sequence[str]) -> dict[str, str]:
    """`old:new` pairs as a dict. Source: ReplaceField.parseRenameMappings, with Java's split."""
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
