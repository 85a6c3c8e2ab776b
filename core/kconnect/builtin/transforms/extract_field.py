"""ExtractField: one field in place of the whole key or value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from kconnect.api import ConfigDef, ConnectRecord, DataError, RecordBatch, Transformation, Type
from kconnect.builtin.transforms.field_path import SYNTAX_VERSION_CONFIG, FieldPath, with_syntax_version
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    require_map,
    require_struct,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "field extraction"
FIELD_CONFIG = "field"

CONFIG = with_syntax_version(
    with_replace_null(
        ConfigDef().define(
            FIELD_CONFIG,
            ConfigDef.Type.STRING,
            ConfigDef.NO_DEFAULT,
            None,
            ConfigDef.Importance.MEDIUM,
            "Name of the field to take.",
        )
    )
)


class _ExtractField(Part, Transformation):
    """Null keys and values stay null. Source: o.a.k.connect.transforms.ExtractField (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._path = FieldPath(config[FIELD_CONFIG], config[SYNTAX_VERSION_CONFIG])
        self._replace_null: bool = config[REPLACE_NULL_CONFIG]

    def apply(self, record: R) -> R:
        schema, value = self._schema(record), self._value(record)
        if schema is None:
            found = None if value is None else self._path.value_in_map(require_map(value, PURPOSE))
            return self._replace(record, None, found)
        struct = None if value is None else require_struct(value, PURPOSE)
        field = self._path.field(schema)
        if field is None:
            raise DataError(f"Unknown field: {self._path.text}")
        if struct is None:
            return self._replace(record, field.schema, None)
        return self._replace(record, field.schema, self._path.value_in_struct(struct, with_default=self._replace_null))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """The child column itself: nothing is copied. Defaults of nested or logical fields go by records."""
        schema, column = self._schema(batch), self._column(batch)
        field = None if schema is None or schema.type is not Type.STRUCT else self._path.field(schema)
        if schema is None or field is None:
            return NotImplemented
        if column is None:
            return self._replace_column(batch, field.schema, None)
        child = self._path.column(schema, column, with_default=self._replace_null)
        return NotImplemented if child is None else self._replace_column(batch, field.schema, child)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION


class ExtractFieldKey(_ExtractField):
    """`org.apache.kafka.connect.transforms.ExtractField$Key`."""

    PART: ClassVar[str] = "key"


class ExtractFieldValue(_ExtractField):
    """`org.apache.kafka.connect.transforms.ExtractField$Value`."""

    PART: ClassVar[str] = "value"
