"""Sinks and sources whose world breaks under them: a topic deleted, a disk full, a file removed, a poison record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigDef, ConnectRecord, Transformation
from kconnect.errors import RetriableError
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TaskSpec, TopicPartition
from kit.group_offsets import sink_offsets
from kit.pace import now
from kit.pipeline_host import FILE_SINK, FILE_SOURCE, SINK, Behaviour, PipelineHost
from kit.topics import consume_values, create_topic, delete_topic, produce_lines, topic_for
from kit.waiting import eventually, stays

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()
    Poison.attempts = 0


class Poison(Transformation):
    """Fails on the value `poison`, with an error that might pass."""

    attempts = 0

    def configure(self, configs: Mapping[str, Any]) -> None: ...

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value == "poison":
            Poison.attempts += 1
            raise RetriableError("the lookup service is busy")
        return record

    def config(self) -> ConfigDef:
        return ConfigDef()


POISON = {"transforms": "p", "transforms.p.type": f"{__name__}:Poison", "errors.retry.delay.max.ms": "50"}


def await_failed(host: PipelineHost, spec: TaskSpec, within_s: float = 30) -> str:
    """The first line of the trace."""
    eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], within_s, "FAILED", pause_s=0.01)
    return host.trace(spec).splitlines()[0]


def test_a_sink_outlives_its_topic_and_reads_the_one_made_anew(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    taken: list[Any] = []
    Behaviour.put = lambda task, records: taken.extend(record.value for record in records)
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(broker.bootstrap, topic, ["a", "b"])
        more = {"consumer.override.metadata.max.age.ms": "300", "consumer.override.allow.auto.create.topics": "false"}
        spec = host.start_sink(topic_for(request), SINK, topics=topic, **more)
        host.await_count(spec, "records_put", 2)
        delete_topic(broker.bootstrap, topic)
        stays(lambda: host.states(spec) == [RunState.RUNNING], 1.5, "the task runs without its topic")
        create_topic(broker.bootstrap, topic)
        produce_lines(broker.bootstrap, topic, ["c"])
        host.await_count(spec, "records_put", 3)
        assert host.stop(spec) == set()
    assert taken == ["a", "b", "c"]


def test_a_source_outlives_its_topic_where_the_broker_makes_topics(
    broker: DevBroker, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("a\n")
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(topic_for(request), FILE_SOURCE, topic=topic, file=str(file))
        host.await_count(spec, "records_written", 1)
        delete_topic(broker.bootstrap, topic)
        with file.open("a") as lines:
            lines.write("b\n")
        host.await_count(spec, "records_written", 2)
        assert host.stop(spec) == set()
        assert host.states(spec) == [RunState.RUNNING, RunState.STOPPED]
    assert consume_values(broker.bootstrap, topic, 1) == [b"b"]


def test_a_sink_writes_on_to_a_file_that_was_removed_as_java_does_until_it_is_restarted(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name, out = topic_for(request), tmp_path / "out.txt"
    produce_lines(broker.bootstrap, topic, ["a"])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, FILE_SINK, topics=topic, file=str(out))
        host.await_count(spec, "records_put", 1)
        out.unlink()
        produce_lines(broker.bootstrap, topic, ["b"])
        host.await_count(spec, "records_put", 2)
        host.stop(spec)
        assert not out.exists()
        produce_lines(broker.bootstrap, topic, ["c"])
        again = host.start_sink(name, FILE_SINK, topics=topic, file=str(out))
        host.await_count(again, "records_put", 1)
    assert out.read_text() == "c\n"


def test_a_poison_record_is_tried_again_until_the_time_is_up_and_goes_to_the_queue_then(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    name, dlq = topic_for(request), topic_for(request, "-dlq")
    produce_lines(broker.bootstrap, topic, ["a", "poison", "b"])
    more = {
        "errors.tolerance": "all",
        "errors.retry.timeout": "2000",  # a busy machine needs a while for the attempts counted below
        "errors.deadletterqueue.topic.name": dlq,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    began = time.monotonic()
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic, **POISON, **more)
        host.await_count(spec, "records_put", 2)
        eventually(lambda: sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, 0): 3}, 20, "committed")
    assert time.monotonic() - began >= 2
    assert Poison.attempts > 3
    assert consume_values(broker.bootstrap, dlq, 1) == [b"poison"]


def test_a_stop_in_the_midst_of_endless_retries_is_quick_and_leaves_the_record_for_the_next_start(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    name = topic_for(request)
    produce_lines(broker.bootstrap, topic, ["poison"])
    more = {"errors.retry.timeout": "-1", "errors.tolerance": "all"}
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic, **POISON, **more)
        eventually(lambda: Poison.attempts > 2, 20, "tried again")
        began = now()
        assert host.stop(spec) == set()
        assert now() - began < 3
        assert host.states(spec)[-1] == RunState.STOPPED, host.trace(spec)
        assert sink_offsets(broker.bootstrap, name) == {}
