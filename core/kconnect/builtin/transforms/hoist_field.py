"""HoistField: wrap the key or value in a struct, or in a map when there is no schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from kconnect.api import ConfigDef, ConnectRecord, RecordBatch, SchemaBuilder, Struct, Transformation
from kconnect.builtin.transforms.record_part import Part, SchemaMemory
from kconnect.builtin.version import KAFKA_VERSION

R = TypeVar("R", bound=ConnectRecord)

FIELD_CONFIG = "field"

CONFIG = ConfigDef().define(
    FIELD_CONFIG,
    ConfigDef.Type.STRING,
    ConfigDef.NO_DEFAULT,
    None,
    ConfigDef.Importance.MEDIUM,
    "Name of the one field of the struct or map.",
)


class _HoistField(Part, Transformation):
    """Source: o.a.k.connect.transforms.HoistField (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        name: str = CONFIG.parse(configs)[FIELD_CONFIG]
        self._name = name
        self._schemas = SchemaMemory(lambda schema: SchemaBuilder.struct().field(name, schema).build())

    def apply(self, record: R) -> R:
        schema, value = self._schema(record), self._value(record)
        if schema is None:
            return self._replace(record, None, {self._name: value})
        hoisted = self._schemas.changed(schema)
        return self._replace(record, hoisted, Struct(hoisted).put(self._name, value))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """A struct column over the column as it is: nothing is copied. Nulls where none are allowed go by records."""
        schema, column = self._schema(batch), self._column(batch)
        if schema is None or column is None or (column.null_count and not schema.is_optional):
            return NotImplemented
        import pyarrow as pa

        struct = pa.StructArray.from_arrays([column], names=[self._name])
        return self._replace_column(batch, self._schemas.changed(schema), struct)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION


class HoistFieldKey(_HoistField):
    """`org.apache.kafka.connect.transforms.HoistField$Key`."""

    PART: ClassVar[str] = "key"


class HoistFieldValue(_HoistField):
    """`org.apache.kafka.connect.transforms.HoistField$Value`."""

    PART: ClassVar[str] = "value"
