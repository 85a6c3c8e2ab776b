"""Converts records to the columns and shared parts of a RecordBatch, for `RecordBatch.from_records`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kconnect.api.columns import column_of
from kconnect.api.record import ConnectRecord, SinkRecord, SourceRecord
from kconnect.api.schema import Schema
from kconnect.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def batch_parts(records: Sequence[ConnectRecord]) -> dict[str, Any] | None:
    """The arguments for a RecordBatch with these records; None if they cannot form one batch."""
    if not records:
        return None
    first = records[0]
    kind = type(first)
    if kind is not SourceRecord and kind is not SinkRecord:
        return None
    if not all(type(record) is kind and _shares(first, record) for record in records):
        return None
    try:
        return {
            "topic": first.topic,
            "kafka_partition": first.kafka_partition,
            "key_schema": first.key_schema,
            "value_schema": first.value_schema,
            "key": _data_column(first.key_schema, [record.key for record in records]),
            "value": _data_column(first.value_schema, [record.value for record in records]),
            "timestamp": _int_column([record.timestamp for record in records]),
            "headers": [record.headers for record in records] if any(r.has_headers for r in records) else None,
            "length": len(records),
            **(_source_parts(records) if kind is SourceRecord else _sink_parts(records)),
        }
    except DataError:
        return None


def _shares(first: ConnectRecord, record: ConnectRecord) -> bool:
    return (
        record.topic == first.topic
        and record.kafka_partition == first.kafka_partition
        and (record.value_schema is first.value_schema or record.value_schema == first.value_schema)
        and (record.key_schema is first.key_schema or record.key_schema == first.key_schema)
    )


def _data_column(schema: Schema | None, values: list[Any]) -> pa.Array | None:
    if all(value is None for value in values):
        return None
    if schema is None:
        raise DataError("Schemaless values have no column")
    return column_of(schema, values)


def _int_column(values: list[int | None]) -> pa.Array | int | None:
    first = values[0]
    if all(value == first for value in values):
        return first
    return column_of(Schema.OPTIONAL_INT64_SCHEMA, values)


def _source_parts(records: Sequence[Any]) -> dict[str, Any]:
    partition, offset = records[0].source_partition, records[0].source_offset
    if any(record.source_partition != partition for record in records):
        raise DataError("Records of different source partitions cannot be a batch")
    if offset is None:
        if any(record.source_offset is not None for record in records):
            raise DataError("Records with and without source offset cannot be a batch")
        return {"source_partition": partition, "source_offsets": None}
    columns: dict[str, pa.Array] = {}
    if any(record.source_offset is None or list(record.source_offset) != list(offset) for record in records):
        raise DataError("Records whose source offsets have different fields cannot be a batch")
    for name in offset:
        values = [record.source_offset[name] for record in records]
        kinds = {type(value) for value in values} - {type(None)}
        if len(kinds) > 1 or not kinds <= {str, int, float, bool}:
            raise DataError(f"Source offset field {name} has values of several types")
        columns[name] = column_of(_OFFSET_SCHEMAS[kinds.pop() if kinds else str], values)
    return {"source_partition": partition, "source_offsets": columns}


def _sink_parts(records: Sequence[Any]) -> dict[str, Any]:
    first = records[0]
    origin = (first.original_topic, first.original_kafka_partition, first.timestamp_type)
    for record in records:
        if (record.original_topic, record.original_kafka_partition, record.timestamp_type) != origin:
            raise DataError("Records read from different partitions cannot be a batch")
        if record.kafka_offset != record.original_kafka_offset:
            raise DataError("A batch has no room for an original offset that differs")
    return {
        "kafka_offsets": column_of(Schema.INT64_SCHEMA, [record.kafka_offset for record in records]),
        "timestamp_type": first.timestamp_type,
        "original_topic": first.original_topic,
        "original_kafka_partition": first.original_kafka_partition,
    }


_OFFSET_SCHEMAS: dict[type, Schema] = {
    str: Schema.OPTIONAL_STRING_SCHEMA,
    int: Schema.OPTIONAL_INT64_SCHEMA,
    float: Schema.OPTIONAL_FLOAT64_SCHEMA,
    bool: Schema.OPTIONAL_BOOLEAN_SCHEMA,
}
