"""Rows of a DataFrame as records for a sink: schemas, topics, converters, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kconnect.api import RecordBatch, SinkConnector, Type
from kconnect.api.columns import arrow_type, values_of
from kconnect.builtin.types.foreign_schemas import schema_of_arrow
from kconnect.errors import ConfigError, DataError
from kconnect.model import TaskId, TopicPartition
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor
from kconnect.runtime.pipeline.plugin_parts import make_converters
from kconnect.runtime.pipeline.stages import RaiseAlways
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.sink_rows import RowsAsRead, SinkLayout, connect_column


def _converters(**settings: str) -> Converters:
    made = ConnectorOfFormat(
        {"connector.class": "FileStreamSink", "file": "f", "topics": "t", **settings}, SinkConnector
    )
    return make_converters(made.sink_config(), made.worker, made.plugins, RaiseAlways(), PluginMonitor(TaskId("c", 0)))


def test_a_row_is_the_value_when_its_columns_are_not_those_of_a_record():
    batch = pa.record_batch({"id": [1, 2], "at": pa.array([1_000_000, None], pa.timestamp("us", tz="Etc/UTC"))})
    layout = SinkLayout.of(batch.schema, "auto", "t")

    made = layout.records(batch, "t", 3, 100, _converters())

    assert isinstance(made, RecordBatch)
    first, second = made.to_records()
    assert first.value_schema.field("id").schema.type is Type.INT64
    assert first.value_schema.field("at").schema.name == "org.apache.kafka.connect.data.Timestamp"
    assert (first.value.get("id"), first.value.get("at").year) == (1, 1970)
    assert (second.value.get("at"), second.kafka_partition, second.kafka_offset) == (None, 3, 101)


def test_a_row_with_the_columns_of_a_record_is_one_with_headers_and_time():
    headers = pa.array(
        [[{"key": "h", "value": b"x"}], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    batch = pa.record_batch({"key": [7, None], "value": ["a", None], "headers": headers, "timestamp": [5, 6]})
    layout = SinkLayout.of(batch.schema, "auto", "t")

    made = layout.records(batch, "t", 0, 0, _converters())
    first, second = made.to_records() if isinstance(made, RecordBatch) else made

    assert (first.key, first.key_schema.type, first.value, first.timestamp) == (7, Type.INT64, "a", 5)
    assert [(header.key, header.value) for header in first.headers] == [("h", "x")]
    assert (second.key, second.value, second.timestamp, len(second.headers)) == (None, None, 6, 0)


def test_a_converter_reads_bytes_and_the_other_column_keeps_its_type():
    batch = pa.record_batch({"key": [1, 2], "value": [b'{"a":1}', b'{"b":[2]}']})
    layout = SinkLayout.of(batch.schema, "auto", "t", reads_value=True)
    converters = _converters(**{"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"})

    made = layout.records(batch, "t", 0, 0, converters)
    records = made.to_records() if isinstance(made, RecordBatch) else made

    assert [(record.key, record.value) for record in records] == [(1, {"a": 1}), (2, {"b": [2]})]
    with pytest.raises(ConfigError, match=r"value\.converter reads bytes, and the column value is int64"):
        layout.records(pa.record_batch({"key": [1], "value": [1]}), "t", 0, 0, converters)


def test_rows_go_to_the_topic_they_name_or_to_the_one_of_the_options():
    batch = pa.record_batch({"topic": ["b", "a", "b", None], "value": [1, 2, 3, 4]})
    layout = SinkLayout.of(batch.schema, "auto", "rest")
    assert [(topic, part.column("value").to_pylist()) for topic, part in layout.by_topic(batch, 0)] == [
        ("b", [1, 3]),
        ("a", [2]),
        ("rest", [4]),
    ]
    with pytest.raises(DataError, match="Row 13 has no topic"):
        list(SinkLayout.of(batch.schema, "auto", None).by_topic(batch, 10))
    with pytest.raises(ConfigError, match="The rows have no topic"):
        SinkLayout.of(pa.schema({"id": pa.int64()}), "auto", None)
    with pytest.raises(ConfigError, match="no column value"):
        SinkLayout.of(pa.schema({"id": pa.int64()}), "record", "t")


def test_a_type_that_connect_does_not_have_is_refused_by_the_column_that_has_it():
    nested = pa.struct([("inner", pa.duration("us"))])
    with pytest.raises(DataError, match=r"A record cannot hold a value of type duration\[us\] at row.inner"):
        schema_of_arrow(nested, "row")


def test_a_dead_letter_has_a_row_as_bytes():
    place = TopicPartition("t", 3)
    plain = pa.record_batch({"id": [1, 2], "name": ["a", None]})
    row = RowsAsRead(SinkLayout.of(plain.schema, "auto", "t"), plain, place, 10).fetched.row(1)
    assert (row.topic, row.kafka_partition, row.kafka_offset, row.key, row.value) == (
        "t",
        3,
        11,
        None,
        b'{"id":2,"name":null}',
    )
    headers = pa.array([[{"key": "h", "value": b"x"}]])
    record = pa.record_batch({"key": [7], "value": [b"\xff"], "timestamp": [5], "headers": headers})
    row = RowsAsRead(SinkLayout.of(record.schema, "auto", "t"), record, place, 0).fetched.row(0)
    assert (row.key, row.value, row.timestamp, row.headers) == (b"7", b"\xff", 5, [("h", b"x")])


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.list_(pa.struct([("at", pa.timestamp("us"))]))]
)
def test_times_keep_microseconds_and_whether_they_have_a_zone(kind: pa.DataType) -> None:
    micros = 1_700_000_000_123_456
    values = [micros, -1, None] if pa.types.is_timestamp(kind) else [[{"at": micros}], [None], None]
    given = pa.array(values, kind)
    schema, column = connect_column("value", given)
    assert column.cast(kind) == given
    moments = values_of(schema, column, len(column))
    first = moments[0] if pa.types.is_timestamp(kind) else moments[0][0]["at"]
    assert first.microsecond == 123_456
    assert (arrow_type(schema) if pa.types.is_timestamp(kind) else kind) == kind


_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        ("topic", pa.int32(), "The column topic is int32, and the topic of a record must be text"),
        ("partition", pa.string(), "The column partition is string, and the partition of a record must be a number"),
        (
            "timestamp",
            pa.string(),
            "The column timestamp is string, and the timestamp of a record must be a timestamp, or a ",
        ),
        (
            "timestamp",
            pa.date32(),
            r"The column timestamp is date32\[day\], and the timestamp of a record must be a timestamp",
        ),
        (
            "headers",
            pa.map_(pa.string(), pa.string()),
            "The column headers is map<string, string>, and the headers of a ",
        ),
        ("headers", pa.list_(pa.struct([("key", pa.string())])), "The column headers is list<item: struct<key: string"),
        (
            "headers",
            pa.list_(pa.string()),
            "The column headers is list<item: string>, and the headers of a record must be ",
        ),
    ],
)
def test_a_part_of_a_record_of_another_type_is_refused_while_spark_plans(
    column: str, kind: pa.DataType, said: str
) -> None:
    """`timestamp` as text was an error of Arrow's in the middle of a job, headers as a map a TypeError."""
    schema = pa.schema({"value": pa.string(), column: kind})
    with pytest.raises(ConfigError, match=said):
        SinkLayout.of(schema, "auto", "t")
    assert not SinkLayout.of(schema, "value", "t").is_record, "as a field of the value it is of any type"


def test_what_spark_and_kafka_have_for_the_parts_of_a_record_is_taken() -> None:
    for time in (pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.int64()):
        kinds = {"value": pa.string(), "key": pa.float64(), "topic": pa.string(), "partition": pa.int32()}
        SinkLayout.of(pa.schema(kinds | {"timestamp": time, "headers": pa.list_(_HEADER)}), "auto", None)


def test_rows_without_columns_are_refused_at_once() -> None:
    """They were held back for a minute."""
    with pytest.raises(ConfigError, match="The DataFrame has no columns"):
        SinkLayout.of(pa.schema([]), "auto", "t")
