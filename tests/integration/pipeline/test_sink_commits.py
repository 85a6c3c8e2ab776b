"""What a sink task decides about its commits, on a real broker: offsets of its own, and a commit when it asks."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState, TopicPartition
from kit.group_offsets import sink_offsets
from kit.pipeline_host import SINK, Behaviour, PipelineHost
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


def await_pre_commits(count: int) -> None:
    eventually(lambda: Behaviour.calls.count("pre_commit") >= count, 20, f"{count} calls of pre_commit", pause_s=0.01)


def test_offsets_that_pre_commit_gives_are_committed_and_no_others_and_a_restart_reads_from_there(
    broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    """A sink that buffers: of partition 0 it has stored four records, of partition 1 none."""
    topic, name = topic_for(request), topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    seen: list[tuple[int, int]] = []
    asked: list[dict[TopicPartition, int]] = []

    def pre_commit(task: Any, offsets: Any) -> dict[TopicPartition, int]:
        asked.append(dict(offsets))
        return {first: 4}

    Behaviour.put = lambda task, records: seen.extend((r.kafka_partition, r.kafka_offset) for r in records)
    Behaviour.pre_commit = pre_commit
    for partition in (0, 1):
        produce_lines(broker.bootstrap, topic, ["x"] * 10, partition=partition)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 20)
        eventually(lambda: sink_offsets(broker.bootstrap, name) == {first: 4}, 10, "what the task gave is committed")
        eventually(lambda: asked[-1] == {first: 10, second: 10}, 10, "it is asked with all that was put")
        commits = eventually(lambda: host.counters(spec).commits, 10, "the commit was heard of")
        await_pre_commits(Behaviour.calls.count("pre_commit") + 2)
        assert host.counters(spec).commits == commits, "the same offsets are not committed again"
        assert host.stop(spec) == set()
        assert sink_offsets(broker.bootstrap, name) == {first: 4}, "the end commits no more than that either"
        seen.clear()
        again = host.start_sink(name, SINK, topics=topic)
        host.await_count(again, "records_put", 16)
    assert sorted(seen) == [*((0, offset) for offset in range(4, 10)), *((1, offset) for offset in range(10))]


def test_a_pre_commit_that_gives_nothing_commits_nothing(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    name = topic_for(request)
    Behaviour.pre_commit = lambda task, offsets: {}
    produce_lines(broker.bootstrap, topic, ["a"])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 1)
        await_pre_commits(2)
        assert host.stop(spec) == set()
    assert "flush" not in Behaviour.calls, "a task with a pre_commit of its own is not flushed, as in Java"
    assert sink_offsets(broker.bootstrap, name) == {}


def test_offsets_of_other_partitions_and_beyond_what_was_read_are_ignored_with_a_warning(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    name, place = topic_for(request), TopicPartition(topic, 0)
    stranger = TopicPartition("not-mine", 3)
    given: list[dict[TopicPartition, int]] = [{place: 99, stranger: 1}]
    Behaviour.pre_commit = lambda task, offsets: given[-1]
    produce_lines(broker.bootstrap, topic, ["a", "b"])
    with PipelineHost(broker.bootstrap) as host, caplog.at_level(logging.WARNING):
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 2)
        await_pre_commits(Behaviour.calls.count("pre_commit") + 2)  # earlier ones were before the records
        assert sink_offsets(broker.bootstrap, name) == {}
        given.append({place: 1, stranger: 1})
        eventually(lambda: sink_offsets(broker.bootstrap, name) == {place: 1}, 10, "the good one is committed")
        assert host.states(spec) == [RunState.RUNNING]
    assert f"Ignoring offset 99 of {place}: only 2 was reached" in caplog.text
    assert f"Ignoring the offset that the task returned for {stranger}" in caplog.text


@pytest.mark.parametrize("asks", ["in put", "from another thread"])
def test_a_commit_that_the_task_asks_for_does_not_wait_for_the_timer(
    asks: str, broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    name, place = topic_for(request), TopicPartition(topic, 0)
    if asks == "in put":
        Behaviour.put = lambda task, records: task.context.request_commit()
    produce_lines(broker.bootstrap, topic, ["a", "b"])
    with PipelineHost(broker.bootstrap, offset_flush_interval_ms="600000") as host:
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 2)
        if asks == "from another thread":
            assert sink_offsets(broker.bootstrap, name) == {}
            Behaviour.tasks[0].context.request_commit()
        eventually(lambda: sink_offsets(broker.bootstrap, name) == {place: 2}, 10, "committed long before the timer")
        flushes = Behaviour.calls.count("flush")
        assert host.counters(spec).offset_seq <= flushes <= 2, "each request is answered by one commit"
        host.stop(spec)
