"""The dead letter queue of a source on a real broker: no record is lost between the queue and the source's offsets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Message

from kconnect.api import Schema, SourceRecord
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TaskSpec
from kit.committed_offsets import CommittedOffsets, committed_store
from kit.pipeline_host import RECORD_SOURCE, SOURCE, Behaviour, PipelineHost
from kit.topics import committed_values, consume, create_topic, end_offset
from kit.waiting import eventually

pytestmark = pytest.mark.broker

TOLERANT = {
    "errors_tolerance": "all",
    "transforms": "t",
    "transforms_t_type": "kit.failing_transform:FailsOnText",
}


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


def record(topic: str, row: int, value: Any) -> SourceRecord:
    return SourceRecord({"table": "a"}, {"row": row}, topic, value, value_schema=Schema.STRING_SCHEMA)


def once(*polls: Any) -> Any:
    left = list(polls)

    def poll(task: Any) -> Any:
        if left:
            return left.pop(0)
        task.context.wait(0.01)
        return None

    return poll


def start(host: PipelineHost, topic: str, connector: str = SOURCE, **more: str) -> TaskSpec:
    settings = {
        **TOLERANT,
        "errors_deadletterqueue_topic_name": f"{topic}-dlq",
        "errors_deadletterqueue_topic_replication_factor": "1",
        **more,
    }
    return host.start_source(f"letters-{topic}", connector, **settings)


def note(message: Message) -> dict[str, Any]:
    headers: dict[str, Any] = dict(message.headers() or [])
    return dict(json.loads(headers["__connect.source"]))


@pytest.mark.parametrize("connector", [SOURCE, RECORD_SOURCE])
def test_failed_records_go_to_the_queue_and_the_offset_behind_them_is_committed(
    broker: DevBroker, topic: str, connector: str
) -> None:
    Behaviour.poll = once([record(topic, 1, "good"), record(topic, 2, "text")], [record(topic, 3, "text")])
    with PipelineHost(broker.bootstrap) as host:
        spec = start(host, topic, connector, errors_deadletterqueue_context_headers_enable="true")
        eventually(lambda: host.offsets.of(f"letters-{topic}") == [{"row": 3}], 20, "committed")
        counters = host.counters(spec)
        host.stop(spec)
    assert (counters.dead_letters, counters.dead_letter_failures, counters.skipped) == (2, 0, 2)
    assert [message.value() for message in consume(broker.bootstrap, topic, 1)] == [b"good"]
    letters = consume(broker.bootstrap, f"{topic}-dlq", 2)
    assert end_offset(broker.bootstrap, f"{topic}-dlq") == 2
    assert [(note(each)["sourceOffset"], note(each)["stage"]) for each in letters] == [
        ({"row": 2}, "TRANSFORMATION"),
        ({"row": 3}, "TRANSFORMATION"),
    ]
    assert json.loads(letters[0].value() or b"")["payload"] == "text"
    said = {name: value for name, value in letters[0].headers() or []}
    assert said["__connect.errors.exception.message"] == b"reported to fail on text"


def test_a_letter_that_kafka_rejects_fails_the_task_and_nothing_behind_it_is_committed(
    broker: DevBroker, topic: str
) -> None:
    create_topic(broker.bootstrap, f"{topic}-dlq", config={"max.message.bytes": "100"})
    Behaviour.poll = once([record(topic, 1, "good")], [record(topic, 2, "text")])
    with PipelineHost(broker.bootstrap) as host:
        spec = start(host, topic)
        host.await_state(spec, RunState.FAILED)
        assert f"topic '{topic}-dlq'" in host.trace(spec)
        assert host.counters(spec).dead_letter_failures == 1
        assert host.offsets.of(f"letters-{topic}") in ([], [{"row": 1}])
    assert end_offset(broker.bootstrap, f"{topic}-dlq") == 0


def test_exactly_once_a_letter_is_in_the_transaction_of_its_offset(broker: DevBroker, topic: str) -> None:
    offsets_topic = f"{topic}-offsets"
    create_topic(broker.bootstrap, offsets_topic, config={"cleanup.policy": "compact"})
    polls = once([record(topic, 1, "good"), record(topic, 2, "text")], [record(topic, 3, "text")])

    def poll(task: Any) -> Any:
        return polls(task) or ([record(topic, 4, "text"), 5] if Behaviour.calls.count("commit") >= 2 else None)

    Behaviour.poll = poll
    with committed_store(broker.bootstrap, offsets_topic) as store:
        offsets = CommittedOffsets(store, store)
        worker = {
            "exactly_once_source_support": "enabled",
            "offset_storage_topic": offsets_topic,
            "group_id": "letters",
        }
        with PipelineHost(broker.bootstrap, port=offsets, **worker) as host:
            spec = start(host, topic)
            host.await_state(spec, RunState.FAILED)  # no record: the transaction with the third letter is aborted
        assert offsets.of(f"letters-{topic}") == [{"row": 3}]
    assert committed_values(broker.bootstrap, topic) == [b"good"]
    assert len(committed_values(broker.bootstrap, f"{topic}-dlq")) == 2
