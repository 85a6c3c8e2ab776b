"""SetSchemaMetadata: another name or version for the schema of the key or value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from kconnect.api import ConfigDef, ConfigError, ConnectRecord, DataError, RecordBatch, Schema, Struct, Transformation
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    SchemaMemory,
    kept_child,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

R = TypeVar("R", bound=ConnectRecord)

NAME_CONFIG, VERSION_CONFIG = "schema.name", "schema.version"

CONFIG = with_replace_null(
    ConfigDef()
    .define(NAME_CONFIG, ConfigDef.Type.STRING, None, None, ConfigDef.Importance.HIGH, "The schema's new name.")
    .define(VERSION_CONFIG, ConfigDef.Type.INT, None, None, ConfigDef.Importance.HIGH, "The schema's new version.")
)


class _SetSchemaMetadata(Part, Transformation):
    """Changes structs only: for others it fails, as in Java 4.3. Source: o.a.k.connect.transforms.SetSchemaMetadata."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._name: str | None = config[NAME_CONFIG]
        self._version: int | None = config[VERSION_CONFIG]
        self._replace_null: bool = config[REPLACE_NULL_CONFIG]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")
        self._schemas = SchemaMemory(self._changed)

    def apply(self, record: R) -> R:
        schema, value = self._schema(record), self._value(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for [updating schema metadata]")
        updated = self._schemas.changed(schema)
        if not isinstance(value, Struct):
            return self._replace(record, updated, value)
        read = value.get if self._replace_null else value.get_without_default
        made = Struct(updated)
        for field in updated.fields:
            made.put(field, read(field.name))
        return self._replace(record, updated, made)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """The same children in a column of the new schema; nothing is copied."""
        schema, column = self._schema(batch), self._column(batch)
        if schema is None:
            return batch if column is None else NotImplemented
        updated = self._schemas.changed(schema)
        if column is None:
            return self._replace_column(batch, updated, None)
        if all(not child.null_count for child in column.flatten()):
            return self._replace_column(batch, updated, column)
        if column.null_count:
            return NotImplemented
        import pyarrow as pa

        kept = [
            kept_child(field.schema, child, self._replace_null)
            for field, child in zip(schema.fields, column.flatten(), strict=True)
        ]
        children = [child for child in kept if child is not None]
        if len(children) < len(kept):
            return NotImplemented
        fields = [pa.field(field.name, child.type) for field, child in zip(schema.fields, children, strict=True)]
        return self._replace_column(batch, updated, pa.StructArray.from_arrays(children, fields=fields))

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _changed(self, schema: Schema) -> Schema:
        return Schema(
            schema.type,
            schema.is_optional,
            schema.default,
            schema.name if self._name is None else self._name,
            schema.version if self._version is None else self._version,
            schema.doc,
            schema.parameters,
            schema.fields,
        )


class SetSchemaMetadataKey(_SetSchemaMetadata):
    """`org.apache.kafka.connect.transforms.SetSchemaMetadata$Key`."""

    PART: ClassVar[str] = "key"


class SetSchemaMetadataValue(_SetSchemaMetadata):
    """`org.apache.kafka.connect.transforms.SetSchemaMetadata$Value`."""

    PART: ClassVar[str] = "value"
