"""Error handling of sinks on a real broker, beside what Java Connect 4.3 did with the same records."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from kconnect.api import ErrantRecordsError, SinkRecord
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TaskSpec, TopicPartition
from kit.golden import load
from kit.group_offsets import sink_offsets
from kit.pipeline_host import SINK, Behaviour, PipelineHost
from kit.topics import consume, create_topic, end_offset, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

GOLDEN = load("topics/errors-dlq.json")
CASES = {case["name"]: case for case in GOLDEN["cases"]}
JSON = {"value_converter": "org.apache.kafka.connect.json.JsonConverter", "value_converter_schemas_enable": "false"}
# A schemaless map keeps the order of its JSON here; Java's HashMap has an order of its own.
OWN_FILES = {
    "json_schemas_off": CASES["json_schemas_off"]["sink_file"].replace(
        "{optional=false, type=string}", "{type=string, optional=false}"
    )
}
DLQ, HEADERS = "errors.deadletterqueue.topic.name", "__connect.errors."


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


def produce_recorded(bootstrap: str, topic: str) -> None:
    """The eight records Java was given: good and bad keys and values, headers, a tombstone."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    for record in GOLDEN["input"]:
        headers = [(name, decoded(value)) for name, value in record["headers"]]
        key, value = decoded(record["key_b64"]), decoded(record["value_b64"])
        producer.produce(topic, value, key, headers=headers, timestamp=record["timestamp"], partition=0)
    assert producer.flush(30) == 0


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def letters(bootstrap: str, topic: str, count: int) -> list[Message]:
    found = consume(bootstrap, topic, count)
    assert end_offset(bootstrap, topic) == count
    return found


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    return list(message.headers() or [])


def context_of(message: Message) -> dict[str, str]:
    return {
        name.removeprefix(HEADERS): (value or b"").decode() for name, value in headers_of(message) if HEADERS in name
    }


def without_trace(headers: list[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Headers with only the first line of the stack trace: the rest is Java's, or Python's."""
    return [
        (name, value.split(b"\n")[0] if value is not None and name.endswith("stacktrace") else value)
        for name, value in headers
    ]


def await_failed(host: PipelineHost, spec: TaskSpec) -> str:
    """The first line of the trace."""
    eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 30, "FAILED", pause_s=0.01)
    return host.trace(spec).splitlines()[0]


@pytest.mark.parametrize("name", list(CASES))
def test_a_sink_handles_bad_records_as_java_does(
    broker: DevBroker, topic: str, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    case, out = CASES[name], tmp_path / "out.txt"
    connector, dlq = f"q-{topic}", f"{topic}-dlq"
    config = {**case["config"], "topics": topic, "file": str(out)}
    if DLQ in config:
        config[DLQ] = dlq
    produce_recorded(broker.bootstrap, topic)
    with caplog.at_level(logging.DEBUG), PipelineHost(broker.bootstrap, **GOLDEN["worker_properties"]) as host:
        spec = host.start_sink(connector, config.pop("connector.class"), **config)
        ends = {TopicPartition(topic, 0): place["offset"]["kafka_offset"] for place in case["offsets"]}
        if case["state"] == "FAILED":
            await_failed(host, spec)
        else:
            host.await_count(spec, "records_read", 8)
            eventually(lambda: sink_offsets(broker.bootstrap, connector) == ends, 20, "committed")
            assert host.states(spec) == [RunState.RUNNING]
        assert sink_offsets(broker.bootstrap, connector) == ends
    assert out.read_bytes().decode() == OWN_FILES.get(name, case["sink_file"])

    def named(text: str) -> str:
        return text.replace("orc-q-in", topic).replace(f"q-{name}", connector)

    reported = [message for message in caplog.messages if message.startswith("Error encountered")]
    recorded = [named(re.sub(r" \(org[^)]*\)$", "", line)) for line in case["log_lines"]]
    assert reported == [line for line in recorded if line.startswith("Error encountered")]

    if "dlq_topic" not in case:
        return
    for message, java in zip(letters(broker.bootstrap, dlq, len(case["dlq_topic"])), case["dlq_topic"], strict=True):
        assert (message.key(), message.value()) == (decoded(java["key_b64"]), decoded(java["value_b64"]))
        assert message.timestamp()[1] == java["timestamp"]
        expected = [(key, decoded(value)) for key, value in java["headers"]]
        named_headers = [
            (key, value if value is None or not key.startswith(HEADERS) else named(value.decode()).encode())
            for key, value in expected
        ]
        assert without_trace(headers_of(message)) == without_trace(named_headers)


def test_a_topic_that_can_not_be_made_fails_the_task_with_what_to_change(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    dlq = topic_for(request, "-dlq")
    with PipelineHost(broker.bootstrap) as host:  # replication factor 3, Java's default, on one broker
        spec = host.start_sink(topic_for(request), SINK, topics=topic, errors_deadletterqueue_topic_name=dlq)
        line = await_failed(host, spec)
    assert f"Could not initialize dead letter queue with topic={dlq}" in line
    assert "errors.deadletterqueue.topic.replication.factor is 3 and must not exceed the number of brokers" in line
    assert Behaviour.calls == [], "the plugin is not started"


def reporting(topic: str, dlq: str, **more: str) -> dict[str, str]:
    return {
        "topics": topic,
        "errors_deadletterqueue_topic_name": dlq,
        "errors_deadletterqueue_topic_replication_factor": "1",
        "errors_deadletterqueue_context_headers_enable": "true",
        **more,
    }


def test_a_task_reports_records_it_can_not_write_and_goes_on(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    """Also one that waits for the report inside put(), and one that reports long after its put()."""
    dlq, name = topic_for(request, "-dlq"), topic_for(request)
    written: list[Any] = []
    late: list[SinkRecord] = []

    def put(task: Any, records: list[SinkRecord]) -> None:
        reporter = task.context.errant_record_reporter()
        for record in late:
            reporter.report(record, OSError("at last"))
        late.clear()
        for record in records:
            if record.value == {"bad": 1}:
                reporter.report(record, ValueError("no room for it")).result(20)
            elif record.value == {"bad": 2}:
                late.append(record)
            else:
                written.append(record.value)

    Behaviour.put = put
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(broker.bootstrap, topic, ['{"a": 1}', '{"bad" : 1}', '{"bad":2}', '{"a":2}'], key=b"k")
        spec = host.start_sink(name, SINK, **reporting(topic, dlq, errors_tolerance="all"), **JSON)
        host.await_count(spec, "records_put", 4)
        produce_lines(broker.bootstrap, topic, ['{"a": 3}'])
        host.await_count(spec, "records_put", 5)
        eventually(
            lambda: sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, 0): 5}, 20, "committed past them"
        )
    found = letters(broker.bootstrap, dlq, 2)
    assert [(message.key(), message.value()) for message in found] == [(b"k", b'{"bad" : 1}'), (b"k", b'{"bad":2}')]
    context = context_of(found[0])
    assert (context["stage"], context["class.name"]) == ("TASK_PUT", "org.apache.kafka.connect.sink.SinkTask")
    assert (context["exception.class.name"], context["exception.message"]) == ("ValueError", "no room for it")
    assert context_of(found[1])["offset"] == "2"
    assert written == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_record_that_a_sink_names_as_it_flushes_is_a_dead_letter_as_it_was_read_and_the_others_are_written(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    dlq, name = topic_for(request, "-dlq"), topic_for(request)
    gathered: list[SinkRecord] = []
    written: list[Any] = []

    def pre_commit(task: Any, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        given = list(gathered)
        gathered.clear()
        for record in given:
            if "bad" in record.value:
                place = TopicPartition(record.original_topic, record.original_kafka_partition)
                raise ErrantRecordsError({(place, record.original_kafka_offset): ValueError("no room for it")})
        written.extend(record.value for record in given)
        return offsets

    Behaviour.put = lambda task, records: gathered.extend(records)
    Behaviour.pre_commit = pre_commit
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(
            broker.bootstrap, topic, ['{"a": 1}', '{"bad" : 1}', '{"a": 2}', '{"bad":2}', '{"a":3}'], key=b"k"
        )
        spec = host.start_sink(name, SINK, **reporting(topic, dlq, errors_tolerance="all"), **JSON)
        place = TopicPartition(topic, 0)
        eventually(lambda: sink_offsets(broker.bootstrap, name) == {place: 5}, 20, "all is committed", pause_s=0.05)
        assert RunState.FAILED not in host.states(spec)
    assert written == [{"a": 1}, {"a": 2}, {"a": 3}]
    found = letters(broker.bootstrap, dlq, 2)
    assert [message.value() for message in found] == [b'{"bad" : 1}', b'{"bad":2}']
    assert [context_of(message)["offset"] for message in found] == ["1", "3"]
    assert {context_of(message)["stage"] for message in found} == {"TASK_PUT"}


def test_a_record_the_task_made_itself_is_reported_with_the_bytes_of_the_converters(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    dlq = topic_for(request, "-dlq")

    def put(task: Any, records: list[SinkRecord]) -> None:
        for record in records:
            changed = record.new_record(value={"changed": record.value})
            task.context.errant_record_reporter().report(changed, ValueError("bad"))

    Behaviour.put = put
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(broker.bootstrap, topic, ['{"a" :  1}'])
        spec = host.start_sink(topic_for(request), SINK, **reporting(topic, dlq, errors_tolerance="all"), **JSON)
        host.await_count(spec, "records_put", 1)
    (found,) = letters(broker.bootstrap, dlq, 1)
    assert json.loads(found.value() or b"") == {"changed": {"a": 1}}
    assert context_of(found)["offset"] == "0"


def test_without_tolerance_a_report_fails_the_task_even_if_the_plugin_swallows_it_and_the_letter_is_written(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    dlq, name = topic_for(request, "-dlq"), topic_for(request)

    def put(task: Any, records: list[SinkRecord]) -> None:
        try:
            task.context.errant_record_reporter().report(records[0], ValueError("no room for it"))
        except Exception:
            Behaviour.calls.append("swallowed")

    Behaviour.put = put
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(broker.bootstrap, topic, ["a"])
        spec = host.start_sink(name, SINK, **reporting(topic, dlq))
        line = await_failed(host, spec)
    assert "swallowed" in Behaviour.calls
    assert f"Record of topic '{topic}', partition 0, offset 0 failed in TASK_PUT" in line
    assert "no room for it" in line
    assert [message.value() for message in letters(broker.bootstrap, dlq, 1)] == [b"a"]
    assert sink_offsets(broker.bootstrap, name) == {}


def test_there_is_no_reporter_unless_errors_are_logged_or_queued(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    found: list[bool] = []
    Behaviour.put = lambda task, records: found.append(task.context.errant_record_reporter() is not None)
    produce_lines(broker.bootstrap, topic, ["a"])
    with PipelineHost(broker.bootstrap) as host:
        for more in ({}, {"errors_log_enable": "true"}):
            host.await_count(host.start_sink(topic_for(request), SINK, topics=topic, **more), "records_put", 1)
    assert found == [False, True]


def test_offsets_stay_before_a_letter_that_the_topic_refuses_and_the_task_fails(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    dlq, name = topic_for(request, "-dlq"), topic_for(request)
    create_topic(broker.bootstrap, dlq, config={"max.message.bytes": "1000"})
    produce_lines(broker.bootstrap, topic, ['{"a": 1}', "no json " * 200, '{"a": 2}'])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, **reporting(topic, dlq, errors_tolerance="all"), **JSON)
        line = await_failed(host, spec)
    assert f"The dead letter of {topic}-0@1 could not be written" in line
    assert end_offset(broker.bootstrap, dlq) == 0
    assert sink_offsets(broker.bootstrap, name) == {}


def test_many_letters_are_written_before_their_offsets_are_committed(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    dlq, name = topic_for(request, "-dlq"), topic_for(request)
    lines = ["no json" if number % 2 else str(number) for number in range(2_000)]
    produce_lines(broker.bootstrap, topic, lines)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, **reporting(topic, dlq, errors_tolerance="all"), **JSON)
        host.await_count(spec, "records_put", 1_000)
        host.stop(spec)
    assert [context_of(message)["offset"] for message in letters(broker.bootstrap, dlq, 1_000)] == [
        str(number) for number in range(1, 2_000, 2)
    ]
    assert sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, 0): 2_000}
