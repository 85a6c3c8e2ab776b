"""Conversion between Connect's data and Kafka's bytes, by batches and by records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kconnect.api import (
    ConnectHeaders,
    DataError,
    PresentTime,
    RecordBatch,
    Schema,
    SinkRecord,
    SourceRecord,
    TimestampType,
)
from kconnect.builtin.converters.bytes_converter import ByteArrayConverter
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.runtime.kafka import KafkaRecord
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.stages import DROPPED, Stage, StageError


class DropFailures:
    def __init__(self) -> None:
        self.stages: list[tuple[Stage, Any]] = []

    def on_failure(self, failure: StageError, retry: Any) -> Any:
        self.stages.append((failure.stage, failure.record))
        return DROPPED


class Picky(StringConverter):
    """Refuses the value b (and the bytes of b), by columns and by records."""

    def from_connect_data(self, topic: str, schema: Any, value: Any, headers: Any = None) -> bytes | None:
        if value == "b":
            raise DataError("no b")
        return super().from_connect_data(topic, schema, value, headers)

    def from_connect_batch(self, topic: str, schema: Any, column: Any) -> Any:
        raise DataError("a b somewhere")

    def to_connect_data(self, topic: str, value: bytes | None, headers: Any = None) -> Any:
        if value == b"b":
            raise DataError("no b")
        return super().to_connect_data(topic, value, headers)

    def to_connect_batch(self, topic: str, column: Any) -> Any:
        raise DataError("a b somewhere")


def converters(key: Any = StringConverter, value: Any = StringConverter, policy: Any = None) -> Converters:
    key_converter, value_converter = key(), value()
    key_converter.configure({}, True)
    value_converter.configure({}, False)
    return Converters(key_converter, value_converter, SimpleHeaderConverter(), policy)


def batch_of(*values: str, **more: Any) -> RecordBatch:
    return RecordBatch(
        "t",
        value=pa.array(values, pa.string()),
        value_schema=Schema.STRING_SCHEMA,
        source_partition={},
        source_offsets={"o": pa.array(range(len(values)), pa.int64())},
        **more,
    )


def fetched(*values: bytes | None, **more: Any) -> FetchedBatch:
    count = len(values)
    parts: dict[str, Any] = {
        "offsets": list(range(10, 10 + count)),
        "keys": None,
        "values": list(values),
        "timestamps": [1000 + index for index in range(count)],
        "timestamp_type": TimestampType.CREATE_TIME,
        "headers": None,
    }
    return FetchedBatch("t", 3, **{**parts, **more})


def test_a_columnar_batch_becomes_lists_of_bytes() -> None:
    made = converters().to_kafka_batch(
        batch_of("a", "ü", timestamp=5, key=pa.array(["k", None]), key_schema=Schema.OPTIONAL_STRING_SCHEMA)
    )
    assert (made.topic, made.partition, made.keys, made.values, made.timestamps) == (
        "t",
        None,
        [b"k", None],
        [b"a", "ü".encode()],
        5,
    )
    assert (made.headers, made.rows, len(made)) == (None, None, 2)


def test_a_time_that_nobody_has_read_is_left_to_the_producer() -> None:
    batch = batch_of("a", "b", timestamp=PresentTime())
    assert converters().to_kafka_batch(batch).timestamps is None
    read = batch.timestamp
    assert converters().to_kafka_batch(batch).timestamps == read


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_bytes_may_come_from_a_converter_in_any_column_of_arrow(kind: pa.DataType) -> None:
    class Other(StringConverter):
        def from_connect_batch(self, topic: str, schema: Any, column: Any) -> Any:
            return column.cast(kind)

    made = converters(value=Other).to_kafka_batch(batch_of("a", "long " * 10, "b").slice(1))
    assert made.values == [b"long " * 10, b"b"]
    assert [*made.values[1:]] == [b"b"]
    assert len(made) == 2


@pytest.mark.parametrize("key", [StringConverter, ByteArrayConverter, JsonConverter])
def test_absent_keys_are_no_keys(key: Any) -> None:
    assert converters(key=key).to_kafka_batch(batch_of("a", "b")).keys is None


def test_null_keys_with_a_schema_are_what_the_converter_makes_of_them() -> None:
    made = converters(key=JsonConverter).to_kafka_batch(batch_of("a", "b", key_schema=Schema.OPTIONAL_INT32_SCHEMA))
    assert made.keys == [b'{"schema":{"type":"int32","optional":true},"payload":null}'] * 2


def test_a_converter_without_columns_is_asked_row_by_row() -> None:
    floats = RecordBatch(
        "t", value=pa.array([1.0, None]), value_schema=Schema.OPTIONAL_FLOAT64_SCHEMA, timestamp=pa.array([7, 8])
    )
    made = converters().to_kafka_batch(floats)
    assert (made.values, made.timestamps, made.rows) == ([b"1.0", None], [7, 8], None)


def test_headers_are_converted_beside_key_and_value() -> None:
    headers = [ConnectHeaders().add("n", 5, Schema.INT32_SCHEMA).add("n", None), ConnectHeaders()]
    made = converters().to_kafka_batch(batch_of("a", "b", headers=headers))
    assert made.headers == [[("n", b"5"), ("n", None)], None]
    assert made.values == [b"a", b"b"]


def test_a_tolerated_failure_leaves_its_row_out() -> None:
    policy = DropFailures()
    made = converters(value=Picky, policy=policy).to_kafka_batch(batch_of("a", "b", "c"))
    assert (made.values, made.rows) == ([b"a", b"c"], [0, 2])
    assert [(stage, record.source_offset) for stage, record in policy.stages] == [(Stage.VALUE_CONVERTER, {"o": 1})]


def test_a_failure_names_stage_class_and_record_and_keeps_what_was_before() -> None:
    with pytest.raises(StageError) as caught:
        converters(value=Picky).to_kafka_batch(batch_of("a", "b", "c"))
    failure = caught.value
    assert (failure.stage, failure.plugin, failure.record.value) == (Stage.VALUE_CONVERTER, Picky, "b")
    assert [batch.values for batch in failure.done] == [[b"a"]]


def test_one_record_becomes_one_kafka_record() -> None:
    record = SourceRecord({}, {}, "t", "v", kafka_partition=2, key="k", timestamp=9)
    assert converters().to_kafka_record(record) == KafkaRecord("t", 2, b"k", b"v", 9, None)
    assert converters(value=Picky, policy=DropFailures()).to_kafka_record(SourceRecord({}, {}, "t", "b")) is None


def test_fetched_bytes_become_a_batch_and_the_same_records() -> None:
    given = fetched(b"a", None, "ü".encode(), keys=[b"k", None, b"l"], headers=[None, [("h", b"1")], []])
    batch = converters().to_connect_batch(given)
    assert isinstance(batch, RecordBatch)
    records = converters().to_connect_records(given)
    assert batch.to_records() == records
    record = records[1]
    assert isinstance(record, SinkRecord)
    assert (record.kafka_partition, record.kafka_offset, record.timestamp, record.value, record.key) == (
        3,
        11,
        1001,
        None,
        None,
    )
    assert (record.value_schema, record.timestamp_type) == (Schema.OPTIONAL_STRING_SCHEMA, TimestampType.CREATE_TIME)
    assert [(header.key, header.value) for header in record.headers] == [("h", 1)]
    assert batch.key_schema == records[0].key_schema


def test_fetched_bytes_without_keys_have_the_key_schema_of_null() -> None:
    batch = converters().to_connect_batch(fetched(b"a"))
    assert isinstance(batch, RecordBatch)
    assert (batch.key, batch.key_schema) == (None, Schema.OPTIONAL_STRING_SCHEMA)


def test_bytes_that_are_no_utf8_go_by_records() -> None:
    made = converters().to_connect_batch(fetched(b"ok", b"\xff"))
    assert isinstance(made, list)
    assert [record.value for record in made] == ["ok", "\ufffd"]


def test_failing_fetched_record_is_found_exactly() -> None:
    with pytest.raises(
        StageError, match="Record of topic 't', partition 3, offset 11 failed in VALUE_CONVERTER of Picky: no b"
    ) as caught:
        converters(value=Picky).to_connect_batch(fetched(b"a", b"b", b"c"))
    assert [record.value for record in caught.value.done] == ["a"]
    policy = DropFailures()
    made = converters(value=Picky, policy=policy).to_connect_batch(fetched(b"a", b"b", b"c"))
    assert [record.kafka_offset for record in made] == [10, 12]
    assert policy.stages[0][1].value == b"b"


def test_all_converters_are_closed_also_when_one_raises() -> None:
    closed = []

    class Stuck(StringConverter):
        def close(self) -> None:
            closed.append(self)
            raise OSError("stuck")

    with pytest.raises(OSError, match="stuck"):
        converters(key=Stuck, value=Stuck).close()
    assert len(closed) == 2


class Numbered(StringConverter):
    """Writes a number into Kafka's headers, and takes it from there."""

    takes_kafka_headers = True
    ignores_headers = False

    def from_connect_data(self, topic: str, schema: Any, value: Any, headers: Any = None) -> bytes | None:
        headers.add("number", b"1")
        return super().from_connect_data(topic, schema, value)

    def to_connect_data(self, topic: str, value: bytes | None, headers: Any = None) -> Any:
        found = headers.last_with_name("number")
        headers.remove("number")
        return super().to_connect_data(topic, (value or b"") + b"@" + found.value)


def test_a_converter_that_takes_kafkas_headers_has_them_as_bytes_and_may_change_them() -> None:
    made = converters(value=Numbered)
    headers = [ConnectHeaders().add_int32("i", 7), ConnectHeaders()]
    produced = made.to_kafka_batch(batch_of("a", "b", headers=headers))
    assert produced.headers == [[("i", b"7"), ("number", b"1")], [("number", b"1")]]
    (one,) = made.to_kafka_list([SourceRecord({}, {}, "t", "a")])
    assert one.headers == [("number", b"1")]
    raw = fetched(b"a", b"b", headers=produced.headers)
    for found in (made.to_connect_batch(raw), made.to_connect_records(raw)):
        assert [(one.value, [header.key for header in one.headers]) for one in found] == [("a@1", ["i"]), ("b@1", [])]
