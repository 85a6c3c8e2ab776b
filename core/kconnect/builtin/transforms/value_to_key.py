"""ValueToKey: a key made of fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectRecord,
    DataError,
    RecordBatch,
    Schema,
    SchemaBuilder,
    Struct,
    Transformation,
    Type,
)
from kconnect.builtin.transforms.field_path import SYNTAX_VERSION_CONFIG, FieldPath, with_syntax_version
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    SchemaMemory,
    require_map,
    require_struct,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "copying fields from value to key"
FIELDS_CONFIG = "fields"

CONFIG = with_syntax_version(
    with_replace_null(
        ConfigDef().define(
            FIELDS_CONFIG,
            ConfigDef.Type.LIST,
            ConfigDef.NO_DEFAULT,
            ConfigDef.ValidList.any_non_duplicate_values(False, False),
            ConfigDef.Importance.HIGH,
            "Fields of the value that the key is made of, in this order.",
        )
    )
)


class ValueToKey(Transformation):
    """A nested field keeps its own name, the last of its path.

    Source: o.a.k.connect.transforms.ValueToKey (Kafka 4.3).
    """

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        paths = [FieldPath(text, config[SYNTAX_VERSION_CONFIG]) for text in config[FIELDS_CONFIG]]
        self._paths = {path.steps[-1]: path for path in paths}
        if len(self._paths) < len(paths):
            raise ConfigError.invalid(FIELDS_CONFIG, config[FIELDS_CONFIG], "Two fields of the key would have one name")
        self._replace_null: bool = config[REPLACE_NULL_CONFIG]
        self._schemas = SchemaMemory(self._key_schema)

    def apply(self, record: R) -> R:
        if record.value_schema is None:
            value = require_map(record.value, PURPOSE)
            key_map = {name: path.value_in_map(value) for name, path in self._paths.items()}
            return record.new_record(key_schema=None, key=key_map)
        struct = require_struct(record.value, PURPOSE)
        schema = self._schemas.changed(struct.schema)
        key = Struct(schema)
        for name, path in self._paths.items():
            key.put(name, path.value_in_struct(struct, with_default=self._replace_null))
        return record.new_record(key_schema=schema, key=key, value_schema=struct.schema)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """A struct over child columns of the value, not copied. Null rows go by records, which refuse them."""
        schema, column = batch.value_schema, batch.value
        if schema is None or schema.type is not Type.STRUCT or column is None or column.null_count:
            return NotImplemented
        import pyarrow as pa

        key_schema = self._schemas.changed(schema)
        parts = []
        for field, path in zip(key_schema.fields, self._paths.values(), strict=True):
            part = path.column(schema, column, with_default=self._replace_null)
            if part is None or (part.null_count and not field.schema.is_optional):
                return NotImplemented
            parts.append(part)
        fields = [pa.field(field.name, part.type) for field, part in zip(key_schema.fields, parts, strict=True)]
        return batch.with_(key_schema=key_schema, key=pa.StructArray.from_arrays(parts, fields=fields))

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _key_schema(self, schema: Schema) -> Schema:
        builder = SchemaBuilder.struct()
        for name, path in self._paths.items():
            field = path.field(schema)
            if field is None:
                raise DataError(f"Field does not exist: {path.text}")
            builder.field(name, field.schema)
        return builder.build()
