"""Records that are wrong, huge or odd, on a real broker: the task names the record, or the bytes arrive unharmed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kconnect.api import ConfigDef, ConnectRecord, Schema, SchemaBuilder, SourceRecord, Struct, Transformation
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.pipeline_host import RECORD_SOURCE, SINK, SOURCE, Behaviour, PipelineHost
from kit.topics import consume, consume_values, create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN_JSON = {"value_converter": JSON, "value_converter_schemas_enable": "false"}


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


class GivesText(Transformation):
    """Returns what is no record."""

    def configure(self, configs: Mapping[str, Any]) -> None: ...

    def apply(self, record: ConnectRecord) -> Any:
        return "no record" if record.source_offset["row"] == 2 else record

    def config(self) -> ConfigDef:
        return ConfigDef()


class GivesTextForOdd(GivesText):
    def apply(self, record: ConnectRecord) -> Any:
        return "no record" if record.value == "odd" else record


def records(topic: str, *values: Any, **more: Any) -> list[SourceRecord]:
    return [SourceRecord({"t": 1}, {"row": row}, topic, value, **more) for row, value in enumerate(values)]


def poll_once(given: list[SourceRecord]) -> Any:
    left = [given]
    return lambda task: left.pop() if left else (task.context.wait(0.01), None)[1]


def failed_trace(host: PipelineHost, spec: Any) -> str:
    eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "the task failed", pause_s=0.01)
    return host.trace(spec)


@pytest.mark.parametrize(
    ("raw", "settings", "sentence"),
    [
        (b"{no json", PLAIN_JSON, "Converting byte[] to Kafka Connect data failed due to serialization error"),
        (b'{"a":1}', {"value_converter": JSON}, 'JsonConverter with schemas.enable requires "schema" and "payload"'),
        (
            b"123",
            {"value_converter": "org.apache.kafka.connect.converters.LongConverter"},
            "Failed to deserialize long",
        ),
        (b"\xff\xfe\x00", PLAIN_JSON, "Converting byte[] to Kafka Connect data failed"),
    ],
    ids=["no json", "no envelope", "no long", "no UTF-8"],
)
def test_bytes_that_a_converter_can_not_read_fail_the_sink_at_their_place(
    raw: bytes, settings: dict[str, str], sentence: str, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    produce_lines(broker.bootstrap, topic, [raw])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(topic, SINK, topics=topic, **settings)
        trace = failed_trace(host, spec)
    assert sentence in trace
    assert f"Record of topic {topic!r}, partition 0, offset 0 failed in VALUE_CONVERTER" in trace


def test_a_record_that_does_not_fit_its_schema_fails_the_source_behind_those_before_it(
    broker: DevBroker, topic: str
) -> None:
    schema = SchemaBuilder.struct().field("id", Schema.INT32_SCHEMA).build()
    values = [Struct.from_values(schema, [row]) for row in range(99)] + [Struct.from_values(schema, ["text"])]
    Behaviour.poll = poll_once(records(topic, *values, value_schema=schema))
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(topic, SOURCE, value_converter=JSON)
        trace = failed_trace(host, spec)
        assert host.offsets.of(topic) == [{"row": 98}]
    assert "Invalid type for INT32: class java.lang.String" in trace
    assert "{'row': 99}) failed in VALUE_CONVERTER" in trace
    assert len(consume_values(broker.bootstrap, topic, 99)) == 99


@pytest.mark.parametrize("before", [3, 99], ids=["by records", "by columns"])
@pytest.mark.parametrize("bits", [8, 32, 64])
def test_a_number_too_large_for_its_schema_fails_the_source_behind_those_before_it(
    bits: int, before: int, broker: DevBroker, topic: str
) -> None:
    schema = {8: Schema.INT8_SCHEMA, 32: Schema.INT32_SCHEMA, 64: Schema.INT64_SCHEMA}[bits]
    Behaviour.poll = poll_once(records(topic, *[1] * before, 1 << (bits - 1), value_schema=schema))
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(topic, SOURCE, value_converter=JSON)
        trace = failed_trace(host, spec)
        assert host.offsets.of(topic) == [{"row": before - 1}]
    assert f"Invalid value for INT{bits}: a number of {bits + 1} bits does not fit in {bits}" in trace
    assert len(consume_values(broker.bootstrap, topic, before)) == before


def test_long_numbers_keep_their_digits_and_those_beyond_doubles_are_what_java_makes_of_them(
    broker: DevBroker, topic: str
) -> None:
    seen: list[Any] = []
    Behaviour.put = lambda task, given: seen.extend(record.value for record in given)
    produce_lines(broker.bootstrap, topic, ["9223372036854775808", "1e400", "-1e400", "1e-400"])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(topic, SINK, topics=topic, **PLAIN_JSON)
        host.await_count(spec, "records_put", 4)
    assert seen == [1 << 63, float("inf"), float("-inf"), 0.0]


@pytest.mark.parametrize("connector", [SOURCE, RECORD_SOURCE], ids=["by lists", "one by one"])
@pytest.mark.parametrize(
    ("given", "reported"), [(True, "a bool"), ("text", "a str"), (["no record"], "a list with a str")], ids=str
)
def test_a_poll_that_gives_no_records_fails_the_source(
    given: Any, reported: str, connector: str, broker: DevBroker, topic: str
) -> None:
    Behaviour.poll = lambda task: given
    with PipelineHost(broker.bootstrap) as host:
        line = failed_trace(host, host.start_source(topic, connector)).splitlines()[0]
    assert f".poll() returned {reported}; it must return a list of SourceRecord, a RecordBatch or None" in line


def test_a_transform_that_gives_what_is_no_record_fails_the_sink_at_that_record(broker: DevBroker, topic: str) -> None:
    seen: list[Any] = []
    Behaviour.put = lambda task, given: seen.extend(record.value for record in given)
    produce_lines(broker.bootstrap, topic, ["a", "odd", "b"])
    odd = {"transforms": "odd", "transforms.odd.type": f"{__name__}.GivesTextForOdd"}
    with PipelineHost(broker.bootstrap) as host:
        trace = failed_trace(host, host.start_sink(f"{topic}-none", SINK, topics=topic, **odd))
        assert "GivesTextForOdd.apply() returned a str" in trace
        assert f"Record of topic {topic!r}, partition 0, offset 1 failed in TRANSFORMATION" in trace
        seen.clear()
        spec = host.start_sink(f"{topic}-all", SINK, topics=topic, errors_tolerance="all", **odd)
        host.await_count(spec, "records_put", 2)
    assert seen == ["a", "b"]


def test_a_transform_that_gives_what_is_no_record_fails_the_source_at_that_record(
    broker: DevBroker, topic: str
) -> None:
    Behaviour.poll = poll_once(records(topic, "a", "b", "c"))
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(topic, SOURCE, transforms="odd", transforms_odd_type=f"{__name__}.GivesText")
        trace = failed_trace(host, spec)
        assert host.offsets.of(topic) == [{"row": 1}]
    assert "GivesText.apply() returned a str" in trace
    assert "{'row': 2}) failed in TRANSFORMATION" in trace


def test_odd_values_arrive_as_java_writes_them(broker: DevBroker, topic: str) -> None:
    values = [float("nan"), {"f": float("-inf")}, {"n": (1 << 63) - 1}, "\ud800", "\U0001f600\x1b", None, {}, [None]]
    Behaviour.poll = poll_once(records(topic, *values))
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(topic, SOURCE, key_converter=JSON, **PLAIN_JSON)
        host.await_count(spec, "records_written", len(values))
        host.stop(spec)
    assert consume_values(broker.bootstrap, topic, len(values)) == [
        b'"NaN"',
        b'{"f":"-Infinity"}',
        b'{"n":9223372036854775807}',
        b'"\\uD800"',
        b'"\\uD83D\\uDE00\\u001B"',
        None,
        b"{}",
        b"[null]",
    ]


def test_a_sink_gets_null_keys_and_values_huge_numbers_and_bytes_that_are_no_utf8(
    broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    seen: list[Any] = []
    Behaviour.put = lambda task, given: seen.extend((record.key, record.value) for record in given)
    Behaviour.poll = poll_once(
        records(topic, b"\xff\xfeok", b"1" + b"0" * 400, None, value_schema=Schema.OPTIONAL_BYTES_SCHEMA)
    )
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(
            f"{topic}-in", SOURCE, value_converter="org.apache.kafka.connect.converters.ByteArrayConverter"
        )
        host.await_count(spec, "records_written", 3)
        host.start_sink(f"{topic}-out", SINK, topics=topic)
        eventually(lambda: len(seen) == 3, 20, "all three are put")
    assert seen == [(None, "\ufffd\ufffdok"), (None, "1" + "0" * 400), (None, None)]


def test_a_record_of_10_mb_goes_through_where_topic_and_client_allow_it(
    broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, config={"max.message.bytes": "12000000"})
    big = {"text": "x" * 10_000_000}
    Behaviour.poll = poll_once(records(topic, big))
    seen: list[Any] = []
    Behaviour.put = lambda task, given: seen.extend(record.value for record in given)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(f"{topic}-in", SOURCE, producer_override_max_request_size="12000000", **PLAIN_JSON)
        host.await_count(spec, "records_written", 1)
        host.start_sink(f"{topic}-out", SINK, topics=topic, **PLAIN_JSON)
        eventually(lambda: len(seen) == 1, 30, "the record is put")
    assert seen == [big]
    assert json.loads(consume(broker.bootstrap, topic, 1)[0].value() or b"")["text"] == big["text"]


@pytest.mark.parametrize("client_allows", [False, True], ids=["client refuses", "broker refuses"])
def test_a_record_of_10_mb_fails_the_task_with_the_settings_to_raise(
    client_allows: bool, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    Behaviour.poll = poll_once(records(topic, "x" * 10_000_000))
    more = {"producer_override_max_request_size": "12000000"} if client_allows else {}
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(topic, SOURCE, **PLAIN_JSON, **more)
        trace = failed_trace(host, spec)
        assert host.offsets.of(topic) == []
    assert topic in trace
    assert "max.message.bytes of the topic" in trace
    assert "producer.override.max.request.size" in trace
