"""The sink loop on a real broker: delivery, commits, rebalances, redelivery, pauses, offsets the task asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kconnect.devbroker import DevBroker
from kconnect.errors import ConflictError, RetriableError
from kconnect.herder.offsets.group_offset_delete import delete_group_offsets
from kconnect.kafka import KafkaAdmin
from kconnect.model import RunState, TargetState, TopicPartition
from kit.group_offsets import sink_offsets
from kit.pace import ample_s
from kit.pipeline_host import FILE_SINK, SINK, Behaviour, PipelineHost
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually, stays

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


@pytest.fixture
def taken() -> list[Any]:
    """The values put, in order."""
    found: list[Any] = []
    Behaviour.put = lambda task, records: found.extend(record.value for record in records)
    return found


def unique(request: pytest.FixtureRequest) -> str:
    return topic_for(request)  # consumer groups outlive a test as topics do


def test_every_record_of_a_topic_is_a_line_of_the_file(
    broker: DevBroker, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lines = [f"line {number}".encode() for number in range(50_000)]
    produce_lines(broker.bootstrap, topic, lines)
    out, name = tmp_path / "out.txt", unique(request)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, FILE_SINK, topics=topic, file=str(out))
        host.await_count(spec, "records_put", len(lines))
        produce_lines(broker.bootstrap, topic, ["last"])
        host.await_count(spec, "records_put", len(lines) + 1)
        assert host.stop(spec) == set()
        assert host.states(spec) == [RunState.RUNNING, RunState.STOPPED]
    assert out.read_bytes() == b"\n".join([*lines, b"last", b""])
    assert sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, 0): len(lines) + 1}


def test_a_restarted_sink_goes_on_where_it_committed(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    name = unique(request)
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(broker.bootstrap, topic, ["a", "b"])
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 2)
        host.stop(spec)
        produce_lines(broker.bootstrap, topic, ["c"])
        again = host.start_sink(name, SINK, topics=topic)
        host.await_count(again, "records_put", 1)
    assert taken == ["a", "b", "c"]


def test_offsets_are_committed_on_the_timer_while_the_task_runs(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    name = unique(request)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic)
        produce_lines(broker.bootstrap, topic, ["a", "b"])
        host.await_count(spec, "records_put", 2)
        eventually(lambda: sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, 0): 2}, 10, "committed")
        eventually(lambda: host.counters(spec).commits > 0, 10, "the commit was heard of")


def test_a_task_that_is_killed_reads_again_from_its_last_commit(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    name = unique(request)
    with PipelineHost(broker.bootstrap, offset_flush_interval_ms="60000") as host:
        produce_lines(broker.bootstrap, topic, ["a", "b"])
        spec = host.start_sink(name, SINK, topics=topic, consumer_override_session_timeout_ms="6000")
        host.await_count(spec, "records_put", 2)
        host.host.cancel([spec.id])  # what the end of a slot looks like to the cluster
        eventually(lambda: host.host.leftovers() == 0, 10, "the cancelled task has ended")
        assert sink_offsets(broker.bootstrap, name) == {}
        again = host.start_sink(name, SINK, topics=topic, consumer_override_session_timeout_ms="6000")
        host.await_count(again, "records_put", 2)
    assert taken == ["a", "b", "a", "b"]


def test_open_and_close_frame_the_puts(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    with PipelineHost(broker.bootstrap, offset_flush_interval_ms="60000") as host:
        produce_lines(broker.bootstrap, topic, ["a"])
        spec = host.start_sink(unique(request), SINK, topics=topic)
        host.await_count(spec, "records_put", 1)
        host.stop(spec)
    assert Behaviour.calls == ["start", f"open {topic}-0", "put", "flush", f"close {topic}-0", "stop"]


def test_topics_of_a_pattern_are_read_and_others_are_not(
    broker: DevBroker, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    base = topic_for(request)
    for name in (f"{base}-x", f"{base}-y", f"{base}-x-not"):
        create_topic(broker.bootstrap, name)
        produce_lines(broker.bootstrap, name, [name.removeprefix(base)])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(unique(request), SINK, topics_regex=f"{base}-[xy]")
        host.await_count(spec, "records_put", 2)
        stays(lambda: sorted(taken) == ["-x", "-y"], 0.3, "the other topic is not read")


def test_partitions_are_shared_by_two_tasks_and_nothing_is_lost_when_one_goes(
    broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic, name = topic_for(request), unique(request)
    create_topic(broker.bootstrap, topic, partitions=4)
    seen: list[tuple[int, int]] = []
    Behaviour.put = lambda task, records: seen.extend((r.kafka_partition, r.kafka_offset) for r in records)

    def put_to_all(count: int) -> None:
        for partition in range(4):
            produce_lines(broker.bootstrap, topic, ["x"] * count, partition=partition)

    with PipelineHost(broker.bootstrap) as one, PipelineHost(broker.bootstrap) as two:
        first = one.start_sink(name, SINK, topics=topic)
        put_to_all(10)
        one.await_count(first, "records_put", 40)
        second = two.start_sink(name, SINK, topics=topic)
        eventually(lambda: len([c for c in Behaviour.calls if c.startswith("open")]) >= 3, 20, "rebalanced")
        put_to_all(10)
        eventually(lambda: len(set(seen)) == 80, 20, "all read")
        two.await_count(second, "records_put", 1)
        assert one.stop(first) == set()
        put_to_all(10)
        eventually(lambda: len(set(seen)) == 120, 30, "all read after one has gone")
    assert len(seen) == 120, "a graceful hand-over reads nothing twice"


def test_a_retriable_put_gets_the_same_records_again_and_fetches_no_others(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    puts: list[list[Any]] = []

    def put(task: Any, records: list[Any]) -> None:
        puts.append([record.value for record in records])
        if len(puts) == 1:
            produce_lines(broker.bootstrap, topic, ["b"])
        if len(puts) < 3:
            task.context.timeout(50)
            raise RetriableError("the target is busy")

    Behaviour.put = put
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(broker.bootstrap, topic, ["a"])
        spec = host.start_sink(unique(request), SINK, topics=topic)
        host.await_count(spec, "records_put", 2)
        assert host.states(spec) == [RunState.RUNNING]
    assert puts == [["a"], ["a"], ["a"], ["b"]]


def test_a_paused_task_keeps_its_partitions_and_puts_nothing(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    name = unique(request)
    with PipelineHost(
        broker.bootstrap, consumer_max_poll_interval_ms="6500", consumer_session_timeout_ms="6000"
    ) as host:
        produce_lines(broker.bootstrap, topic, ["a"])
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 1)
        host.host.set_target_state([spec.id], TargetState.PAUSED)
        host.await_state(spec, RunState.PAUSED)
        produce_lines(broker.bootstrap, topic, ["b"])
        stays(lambda: taken == ["a"], 7, "nothing is put for longer than max.poll.interval.ms")
        assert not [call for call in Behaviour.calls if call.startswith("close")]
        host.host.set_target_state([spec.id], TargetState.STARTED)
        host.await_count(spec, "records_put", 2)
        assert host.states(spec) == [RunState.RUNNING, RunState.PAUSED, RunState.RUNNING]
    assert taken == ["a", "b"]


def test_a_sink_that_starts_paused_joins_nothing_until_resumed(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(broker.bootstrap, topic, ["a"])
        spec = host.start_sink(unique(request), SINK, topics=topic, target=TargetState.PAUSED)
        host.await_state(spec, RunState.PAUSED)
        assert Behaviour.calls == []
        host.host.set_target_state([spec.id], TargetState.STARTED)
        host.await_count(spec, "records_put", 1)


def test_a_task_reads_on_from_the_offset_it_asks_for(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    produce_lines(broker.bootstrap, topic, ["a", "b", "c"])
    went_back: list[int] = []

    def put(task: Any, records: list[Any]) -> None:
        taken.extend(record.value for record in records)
        if "c" in taken and not went_back:  # they may come one by one
            went_back.append(1)
            task.context.offset(TopicPartition(topic, 0), 1)

    Behaviour.put = put
    name = unique(request)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 5)
        host.stop(spec)
    assert taken == ["a", "b", "c", "b", "c"]
    assert sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, 0): 3}


def test_partitions_the_task_pauses_itself_are_not_read_until_it_resumes_them(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    def put(task: Any, records: list[Any]) -> None:
        taken.extend(record.value for record in records)
        if "a" in taken and "b" not in taken:
            task.context.pause(TopicPartition(topic, 0))

    Behaviour.put = put
    with PipelineHost(broker.bootstrap) as host:
        produce_lines(broker.bootstrap, topic, ["a"])
        spec = host.start_sink(unique(request), SINK, topics=topic)
        host.await_count(spec, "records_put", 1)
        produce_lines(broker.bootstrap, topic, ["b"])
        stays(lambda: taken == ["a"], 0.5, "a paused partition is not read")
        Behaviour.tasks[0].context.resume(TopicPartition(topic, 0))
        host.await_count(spec, "records_put", 2)


@pytest.mark.parametrize("method", ["start", "put", "flush", "stop"])
def test_a_plugin_that_raises_fails_its_task_with_the_trace(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest, method: str
) -> None:
    produce_lines(broker.bootstrap, topic, ["a"])
    name = unique(request)
    Behaviour.raise_in = method
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic)
        if method == "stop":
            host.await_count(spec, "records_put", 1)
            host.stop(spec)
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
        assert f"raised ValueError: told to fail in {method}" in host.trace(spec).splitlines()[0]
        assert "Traceback (most recent call last)" in host.trace(spec)
    assert Behaviour.calls[-1] == "stop"
    assert sink_offsets(broker.bootstrap, name) == ({TopicPartition(topic, 0): 1} if method == "stop" else {})


def test_a_put_that_never_returns_is_left_behind_and_commits_nothing(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    produce_lines(broker.bootstrap, topic, ["a"])
    name = unique(request)
    Behaviour.hang_in = "put"
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic)
        assert Behaviour.is_hanging.wait(ample_s(20))
        assert host.stop(spec, timeout_s=0.5) == {spec.id}
        told = len(host.reports)
        Behaviour.release()
        eventually(lambda: host.host.leftovers() == 0, 10, "the leftover ends when its plugin returns")
        assert len(host.reports) == told
    assert sink_offsets(broker.bootstrap, name) == {}


def test_a_record_that_can_not_be_converted_fails_the_task_or_is_skipped(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    json = {"value_converter": "org.apache.kafka.connect.json.JsonConverter", "value_converter_schemas_enable": "false"}
    produce_lines(broker.bootstrap, topic, ['{"a": 1}', "no json", '{"a": 2}'])
    with PipelineHost(broker.bootstrap) as host:
        strict = host.start_sink(unique(request), SINK, topics=topic, **json)
        eventually(lambda: host.states(strict)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
        assert f"Record of topic '{topic}', partition 0, offset 1" in host.trace(strict).splitlines()[0]
        taken.clear()
        tolerant = host.start_sink(unique(request), SINK, topics=topic, errors_tolerance="all", **json)
        host.await_count(tolerant, "records_put", 2)
    assert taken == [{"a": 1}, {"a": 2}]


def test_group_offsets_are_altered_and_deleted_only_without_members(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    produce_lines(broker.bootstrap, topic, ["a", "b"])
    name = unique(request)
    place = TopicPartition(topic, 0)
    with KafkaAdmin({"bootstrap.servers": broker.bootstrap}, "test") as admin, PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 2)
        with pytest.raises(ConflictError):
            admin.alter_group_offsets(f"connect-{name}", {place: 1}, 10)
        host.stop(spec)
        admin.alter_group_offsets(f"connect-{name}", {place: 1}, 10)
        again = host.start_sink(name, SINK, topics=topic)
        host.await_count(again, "records_put", 1)
        host.stop(again)
        settings = {"bootstrap.servers": broker.bootstrap}
        delete_group_offsets(settings, f"connect-{name}", [place], 10, timeout_setting="t")
        assert sink_offsets(broker.bootstrap, name) == {}
    assert taken == ["a", "b", "b"]
