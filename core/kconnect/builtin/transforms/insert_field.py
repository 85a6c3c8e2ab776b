"""InsertField: topic, partition, offset, timestamp or a constant as further fields of the key or value."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectRecord,
    RecordBatch,
    Schema,
    Timestamp,
    Transformation,
    Type,
)
from kconnect.builtin.transforms.field_insertion import FieldInsertion, Insertion
from kconnect.builtin.transforms.field_path import SYNTAX_VERSION_CONFIG, FieldPath, with_syntax_version
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    SchemaMemory,
    require_map,
    require_sink_record,
    require_struct,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "field insertion"
OPTIONALITY = "Ends in ! for a required field; in ? for an optional one, which is the default."

TOPIC_FIELD = "topic.field"
PARTITION_FIELD = "partition.field"
OFFSET_FIELD = "offset.field"
TIMESTAMP_FIELD = "timestamp.field"
STATIC_FIELD = "static.field"
STATIC_VALUE = "static.value"


def _config() -> ConfigDef:
    text, medium = ConfigDef.Type.STRING, ConfigDef.Importance.MEDIUM
    table = ConfigDef()
    for name, doc in (
        (TOPIC_FIELD, f"Field for the topic. {OPTIONALITY}"),
        (PARTITION_FIELD, f"Field for the Kafka partition. {OPTIONALITY}"),
        (OFFSET_FIELD, f"Field for the Kafka offset; sinks only. {OPTIONALITY}"),
        (TIMESTAMP_FIELD, f"Field for the record's timestamp. {OPTIONALITY}"),
        (STATIC_FIELD, f"Field for a constant. {OPTIONALITY}"),
        (STATIC_VALUE, "The constant."),
    ):
        table.define(name, text, None, None, medium, doc)
    return with_syntax_version(with_replace_null(table))


CONFIG = _config()

# Java's order of insertion, and the type of each field.
KINDS = (
    (TOPIC_FIELD, Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA),
    (PARTITION_FIELD, Schema.INT32_SCHEMA, Schema.OPTIONAL_INT32_SCHEMA),
    (OFFSET_FIELD, Schema.INT64_SCHEMA, Schema.OPTIONAL_INT64_SCHEMA),
    (TIMESTAMP_FIELD, Timestamp.SCHEMA, Timestamp.builder().optional().build()),
    (STATIC_FIELD, Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA),
)


class _InsertField(Part, Transformation):
    """Source: o.a.k.connect.transforms.InsertField (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._insertions = []
        for kind, required, optional in KINDS:
            text: str | None = config[kind]
            if text is not None:
                name = text[:-1] if text.endswith(("!", "?")) else text
                path = FieldPath(name, config[SYNTAX_VERSION_CONFIG])
                self._insertions.append(Insertion(kind, path, required if text.endswith("!") else optional))
        self._static_value: str | None = config[STATIC_VALUE]
        if not self._insertions:
            raise ConfigError(
                "No field insertion configured", hint=f"Set one of {', '.join(kind for kind, *_ in KINDS)}."
            )
        if config[STATIC_FIELD] is not None and self._static_value is None:
            raise ConfigError.invalid(
                STATIC_VALUE, None, f"No value specified for static field: {config[STATIC_FIELD]}"
            )
        self._insertion = FieldInsertion(self._insertions, replace_null=config[REPLACE_NULL_CONFIG])
        self._schemas = SchemaMemory(self._insertion.schema)

    def apply(self, record: R) -> R:
        value = self._value(record)
        if value is None:
            return record
        if self._schema(record) is None:
            values = self._values(record, {TOPIC_FIELD, OFFSET_FIELD})
            return self._replace(record, None, self._insertion.map(require_map(value, PURPOSE), values))
        struct = require_struct(value, PURPOSE)
        updated = self._schemas.changed(struct.schema)
        values = self._values(record, {TOPIC_FIELD})
        if values.get(TIMESTAMP_FIELD) is not None:
            values[TIMESTAMP_FIELD] = EPOCH + datetime.timedelta(milliseconds=values[TIMESTAMP_FIELD])
        return self._replace(record, updated, self._insertion.struct(struct, updated, values))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """More children for the struct column; the children that are there are not copied.

        By records go: schemaless values, null rows (they keep their old schema), nulls in required fields.
        """
        schema, column = self._schema(batch), self._column(batch)
        if column is None:
            return batch
        if schema is None or schema.type is not Type.STRUCT or column.null_count:
            return NotImplemented
        columns = {}
        for kind, _, inserted_schema in self._insertions:
            inserted = self._inserted_column(batch, kind)
            if inserted is None or (inserted.null_count == len(inserted) and kind == TOPIC_FIELD):
                return NotImplemented
            if inserted.null_count and kind == OFFSET_FIELD and not inserted_schema.is_optional:
                return NotImplemented
            columns[kind] = inserted
        updated = self._schemas.changed(schema)
        made = self._insertion.column(schema, updated, column, columns)
        return NotImplemented if made is None else self._replace_column(batch, updated, made)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _values(self, record: ConnectRecord, also_null: Collection[str]) -> dict[str, Any]:
        """What is inserted, by kind, without the nulls that are not inserted."""
        found = {kind: self._inserted(record, kind) for kind, _, _ in self._insertions}
        return {kind: value for kind, value in found.items() if value is not None or kind in also_null}

    def _inserted(self, record: ConnectRecord, kind: str) -> Any:
        if kind == TOPIC_FIELD:
            return record.topic
        if kind == PARTITION_FIELD:
            return record.kafka_partition
        if kind == OFFSET_FIELD:
            return require_sink_record(record, PURPOSE).kafka_offset
        if kind == TIMESTAMP_FIELD:
            return record.timestamp
        return self._static_value

    def _inserted_column(self, batch: RecordBatch, kind: str) -> pa.Array | None:
        import pyarrow as pa

        if kind == OFFSET_FIELD:
            return batch.kafka_offsets
        if kind == TOPIC_FIELD:
            return _constant(batch.topic, pa.string(), len(batch))
        if kind == PARTITION_FIELD:
            return _constant(batch.kafka_partition, pa.int32(), len(batch))
        if kind == STATIC_FIELD:
            return _constant(self._static_value, pa.string(), len(batch))
        stamp, millis = batch.timestamp, pa.timestamp("ms", tz="UTC")
        if stamp is None or isinstance(stamp, int):
            return _constant(stamp, pa.int64(), len(batch)).cast(millis)
        return stamp.cast(millis)


class InsertFieldKey(_InsertField):
    """`org.apache.kafka.connect.transforms.InsertField$Key`."""

    PART: ClassVar[str] = "key"


class InsertFieldValue(_InsertField):
    """`org.apache.kafka.connect.transforms.InsertField$Value`."""

    PART: ClassVar[str] = "value"


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _constant(value: Any, kind: pa.DataType, length: int) -> pa.Array:
    import pyarrow as pa

    return pa.repeat(pa.scalar(value, kind), length)
