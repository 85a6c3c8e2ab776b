"""ValueToKey: a key made of fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kconnect.api import (
    ConfigDef,
    ConnectRecord,
    DataError,
    RecordBatch,
    Schema,
    SchemaBuilder,
    Struct,
    Transformation,
    Type,
)
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    SchemaMemory,
    kept_child,
    require_map,
    require_struct,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "copying fields from value to key"
FIELDS_CONFIG = "fields"

CONFIG = with_replace_null(
    ConfigDef().define(
        FIELDS_CONFIG,
        ConfigDef.Type.LIST,
        ConfigDef.NO_DEFAULT,
        ConfigDef.ValidList.any_non_duplicate_values(False, False),
        ConfigDef.Importance.HIGH,
        "Fields of the value that the key is made of, in this order.",
    )
)


class ValueToKey(Transformation):
    """Source: o.a.k.connect.transforms.ValueToKey (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._fields: list[str] = config[FIELDS_CONFIG]
        self._replace_null: bool = config[REPLACE_NULL_CONFIG]
        self._schemas = SchemaMemory(self._key_schema)

    def apply(self, record: R) -> R:
        if record.value_schema is None:
            value = require_map(record.value, PURPOSE)
            return record.new_record(key_schema=None, key={name: value.get(name) for name in self._fields})
        struct = require_struct(record.value, PURPOSE)
        schema = self._schemas.changed(struct.schema)
        read = struct.get if self._replace_null else struct.get_without_default
        key = Struct(schema)
        for name in self._fields:
            key.put(name, read(name))
        return record.new_record(key_schema=schema, key=key, value_schema=struct.schema)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """A struct over child columns of the value, not copied. Null rows go by records, which refuse them."""
        schema, column = batch.value_schema, batch.value
        if schema is None or schema.type is not Type.STRUCT or column is None or column.null_count:
            return NotImplemented
        import pyarrow as pa

        key_schema, children = self._schemas.changed(schema), column.flatten()
        parts = []
        for name in self._fields:
            field = schema.field(name)
            part = None if field is None else kept_child(field.schema, children[field.index], self._replace_null)
            if part is None:
                return NotImplemented
            parts.append(part)
        return batch.with_(key_schema=key_schema, key=pa.StructArray.from_arrays(parts, names=self._fields))

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _key_schema(self, schema: Schema) -> Schema:
        builder = SchemaBuilder.struct()
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            builder.field(name, field.schema)
        return builder.build()
