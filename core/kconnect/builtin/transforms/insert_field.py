"""InsertField: topic, partition, offset, timestamp or a constant as further fields of the key or value."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectRecord,
    RecordBatch,
    Schema,
    Struct,
    Timestamp,
    Transformation,
    Type,
)
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    SchemaMemory,
    kept_child,
    require_map,
    require_sink_record,
    require_struct,
    struct_like,
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
    return with_replace_null(table)


CONFIG = _config()

# Java's order of insertion, and the type of each field.
KINDS = (
    (TOPIC_FIELD, Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA),
    (PARTITION_FIELD, Schema.INT32_SCHEMA, Schema.OPTIONAL_INT32_SCHEMA),
    (OFFSET_FIELD, Schema.INT64_SCHEMA, Schema.OPTIONAL_INT64_SCHEMA),
    (TIMESTAMP_FIELD, Timestamp.SCHEMA, Timestamp.builder().optional().build()),
    (STATIC_FIELD, Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA),
)


class _Insertion(NamedTuple):
    kind: str
    name: str
    schema: Schema


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
                self._insertions.append(_Insertion(kind, name, required if text.endswith("!") else optional))
        self._static_value: str | None = config[STATIC_VALUE]
        self._replace_null: bool = config[REPLACE_NULL_CONFIG]
        if not self._insertions:
            raise ConfigError(
                "No field insertion configured", hint=f"Set one of {', '.join(kind for kind, *_ in KINDS)}."
            )
        if config[STATIC_FIELD] is not None and self._static_value is None:
            raise ConfigError.invalid(
                STATIC_VALUE, None, f"No value specified for static field: {config[STATIC_FIELD]}"
            )
        self._schemas = SchemaMemory(self._with_insertions)

    def apply(self, record: R) -> R:
        value = self._value(record)
        if value is None:
            return record
        if self._schema(record) is None:
            return self._apply_schemaless(record, value)
        struct = require_struct(value, PURPOSE)
        updated = Struct(self._schemas.changed(struct.schema))
        read = struct.get if self._replace_null else struct.get_without_default
        for field in struct.schema.fields:
            updated.put(field.name, read(field))
        for kind, name, _ in self._insertions:
            inserted = self._inserted(record, kind)
            if kind == TIMESTAMP_FIELD and inserted is not None:
                inserted = EPOCH + datetime.timedelta(milliseconds=inserted)
            if inserted is not None or kind == TOPIC_FIELD:
                updated.put(name, inserted)
        return self._replace(record, updated.schema, updated)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """More children for the struct column; the children that are there are not copied.

        By records go: schemaless values, null rows (they keep their old schema), nulls in required fields.
        """
        schema, column = self._schema(batch), self._column(batch)
        if column is None:
            return batch
        if schema is None or schema.type is not Type.STRUCT or column.null_count:
            return NotImplemented
        import pyarrow as pa

        children, names = [], []
        for field, child in zip(schema.fields, column.flatten(), strict=True):
            kept = kept_child(field.schema, child, self._replace_null)
            if kept is None:
                return NotImplemented
            children.append(kept)
            names.append(field.name)
        for kind, name, inserted_schema in self._insertions:
            inserted = self._inserted_column(batch, kind)
            if inserted is None or (inserted.null_count == len(inserted) and kind == TOPIC_FIELD):
                return NotImplemented
            if inserted.null_count and kind == OFFSET_FIELD and not inserted_schema.is_optional:
                return NotImplemented
            children.append(inserted)
            names.append(name)
        updated = self._schemas.changed(schema)
        return self._replace_column(batch, updated, pa.StructArray.from_arrays(children, names=names))

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _apply_schemaless(self, record: R, value: Any) -> R:
        updated = dict(require_map(value, PURPOSE))
        for kind, name, _ in self._insertions:
            inserted = self._inserted(record, kind)
            if inserted is not None or kind in (TOPIC_FIELD, OFFSET_FIELD):
                updated[name] = inserted
        return self._replace(record, None, updated)

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

    def _with_insertions(self, schema: Schema) -> Schema:
        builder = struct_like(schema)
        for field in schema.fields:
            builder.field(field.name, field.schema)
        for _, name, inserted_schema in self._insertions:
            builder.field(name, inserted_schema)
        return builder.build()


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
