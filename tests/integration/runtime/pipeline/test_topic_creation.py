"""Topics of sources made as topic.creation.* says, on a real broker."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourceType

from kconnect.api import SourceRecord
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kconnect.runtime.kafka import KafkaAdmin
from kit.brokers import PatientBroker
from kit.guarded_broker import AUTHORIZER, add_rules
from kit.pipeline_host import RECORD_SOURCE, SOURCE, Behaviour, PipelineHost
from kit.ports import free_port
from kit.topics import consume_values, create_topic, delete_topic, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

DEFAULT = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "2"}


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


@pytest.fixture
def _without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def admin(broker: DevBroker) -> Iterator[KafkaAdmin]:
    with KafkaAdmin({"bootstrap.servers": broker.bootstrap}, "test") as found:
        yield found


def polled_once(*topics: str) -> Any:
    left = [[SourceRecord({"t": 1}, {"row": row}, topic, f"to {row}", key="k") for row, topic in enumerate(topics)]]
    return lambda task: left.pop() if left else (task.context.wait(0.01), None)[1]


def failed(host: PipelineHost, spec: Any) -> str:
    eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
    return host.trace(spec)


@pytest.mark.usefixtures("_without_collector")  # which may not come for minutes: no record's end waits for it
@pytest.mark.parametrize("connector", [SOURCE, RECORD_SOURCE], ids=["by lists", "one by one"])
def test_each_topic_is_made_as_its_group_says_before_its_first_record(
    connector: str, broker: DevBroker, admin: KafkaAdmin, request: pytest.FixtureRequest
) -> None:
    name = topic_for(request)
    kept, gone, other, mine = (f"{name}-{end}" for end in ("kept", "gone", "kept-not", "mine"))
    create_topic(broker.bootstrap, mine)
    Behaviour.poll = polled_once(kept, gone, other, mine, kept)
    groups = {
        "topic.creation.groups": "compacted,short",
        "topic.creation.compacted.include": f"{name}-kept.*",
        "topic.creation.compacted.exclude": ".*-not",
        "topic.creation.compacted.cleanup.policy": "compact",
        "topic.creation.compacted.partitions": "5",
        "topic.creation.short.include": f"{name}-(gone|mine)",
        "topic.creation.short.retention.ms": "7000",
        "topic.creation.short.partitions": "1",
    }
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(name, connector, **DEFAULT, **groups)
        host.await_count(spec, "records_written", 5)
        assert host.stop(spec) == set()

    found = admin.describe_topics([kept, gone, other, mine], 10)
    assert {name: topic.partitions for name, topic in found.items()} == {kept: 5, gone: 1, other: 2, mine: 1}
    assert {topic.replication_factor for topic in found.values()} == {1}
    configs = {topic: admin.topic_configs(topic, 10) for topic in (kept, gone, other, mine)}
    assert [configs[topic]["cleanup.policy"] for topic in configs] == ["compact", "delete", "delete", "delete"]
    assert configs[gone]["retention.ms"] == "7000"
    assert configs[mine]["retention.ms"] != "7000", "a topic that exists is left alone"
    assert sorted(value or b"" for value in consume_values(broker.bootstrap, kept, 2)) == [b"to 0", b"to 4"]
    assert consume_values(broker.bootstrap, mine, 1) == [b"to 3"]


def test_a_worker_that_creates_no_topics_says_so_and_leaves_them_to_the_broker(
    broker: DevBroker, admin: KafkaAdmin, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topic_for(request)
    Behaviour.poll = polled_once(topic)
    with PipelineHost(broker.bootstrap, topic_creation_enable="false") as host, caplog.at_level(logging.WARNING):
        spec = host.start_source(topic, SOURCE, **DEFAULT | {"topic.creation.default.partitions": "4"})
        host.await_count(spec, "records_written", 1)
    assert f"The topic.creation.* settings of {topic} have no effect because topic.creation.enable" in caplog.text
    assert admin.describe_topics([topic], 10)[topic].partitions == 1
    (reported,) = (line for line in caplog.messages if line.startswith(f"Topic '{topic}' does not exist"))
    assert reported.endswith("(auto.create.topics.enable of the broker)")


@pytest.mark.parametrize("connector", [SOURCE, RECORD_SOURCE], ids=["by lists", "one by one"])
def test_a_topic_that_the_broker_is_to_make_is_reported_of_once_and_one_that_is_there_is_not(
    connector: str, broker: DevBroker, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    there, missing = topic_for(request, "-there"), topic_for(request, "-missing")
    create_topic(broker.bootstrap, there)
    Behaviour.poll = polled_once(there, missing, missing, there)
    with PipelineHost(broker.bootstrap) as host, caplog.at_level(logging.WARNING):
        spec = host.start_source(missing, connector)
        host.await_count(spec, "records_written", 4)
    reported = [line for line in caplog.messages if "does not exist" in line]
    assert [line.partition(":")[0] for line in reported] == [f"Topic '{missing}' does not exist"]
    assert "topic.creation.default.partitions in the connector" in reported[0]


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"topic.creation.default.replication.factor": "2"}, "eplication"),
        ({"topic.creation.default.cleanup.policy": "shred"}, "shred"),
    ],
)
def test_settings_that_the_broker_refuses_fail_the_task_with_their_group_and_write_nothing(
    wrong: dict[str, str], reported: str, broker: DevBroker, admin: KafkaAdmin, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    Behaviour.poll = polled_once(topic)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(topic, SOURCE, **DEFAULT | wrong)
        line = failed(host, spec).splitlines()[0]
        assert host.offsets.of(topic) == []
    assert f"Task {topic}-0 failed to create topic {topic!r} with the settings of topic.creation.default.*" in line
    assert reported in line
    assert "restart the task" in line
    assert admin.describe_topics([topic], 10) == {}, "the broker has not made it either"


def test_where_topics_may_not_be_created_a_missing_or_deleted_one_fails_the_task_with_what_to_do(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = {
        **AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
        "auto.create.topics.enable": "false",
    }
    there, missing = topic_for(request, "-there"), topic_for(request, "-missing")
    with PatientBroker(free_port(), tmp_path / "broker", settings=settings) as guarded:
        create_topic(guarded.bootstrap, there)
        deny_creation(guarded.bootstrap)
        Behaviour.poll = polled_once(there)
        with PipelineHost(guarded.bootstrap) as host:
            spec = host.start_source(there, SOURCE, **DEFAULT)
            host.await_count(spec, "records_written", 1)
            host.stop(spec)
            Behaviour.poll = polled_once(missing)
            line = failed(host, host.start_source(missing, SOURCE, **DEFAULT)).splitlines()[0]
            deleted = topic_deleted_under_a_source(host, guarded.bootstrap, there)
    assert f"failed to create topic {missing!r}" in line
    assert "uthorization failed" in line
    assert f"lacks CREATE on topic {missing}" in line
    assert "Grant it: kafka-acls " in line
    assert f"A record could not be written to topic {there!r}" in deleted
    assert "The topic was deleted" in deleted


def topic_deleted_under_a_source(host: PipelineHost, bootstrap: str, topic: str) -> str:
    """How a source ends whose topic goes where nobody makes it anew; its offset stays before the record refused.

    It writes until it fails: the broker may take a record still after it has answered that the topic is deleted.
    """
    gate = threading.Event()
    rows: list[int] = []

    def poll(task: Any) -> Any:
        if rows and not gate.is_set():
            return (task.context.wait(0.01), None)[1]
        rows.append(len(rows))
        task.context.wait(0.2 if len(rows) > 1 else 0)
        return [SourceRecord({"t": 2}, {"row": rows[-1]}, topic, f"to {rows[-1]}")]

    Behaviour.poll = poll
    name = f"{topic}-deleted"
    soon = {"producer.override.librdkafka.topic.metadata.propagation.max.ms": "500"}
    spec = host.start_source(name, SOURCE, **soon, **{"producer.override.metadata.max.age.ms": "300"})
    host.await_count(spec, "records_written", 1)
    delete_topic(bootstrap, topic)
    gate.set()
    trace = failed(host, spec)
    written = host.counters(spec).records_written
    assert written < len(rows)
    assert host.offsets.of(name) == [{"row": written - 1}]
    return trace.splitlines()[0]


def deny_creation(bootstrap: str) -> None:
    """Everybody may do everything but create topics."""
    for kind, name in ((ResourceType.BROKER, "kafka-cluster"), (ResourceType.TOPIC, "*")):
        add_rules(bootstrap, kind, name, "User:*", AclOperation.ALL)
        add_rules(bootstrap, kind, name, "User:*", AclOperation.CREATE, permission=AclPermissionType.DENY)
