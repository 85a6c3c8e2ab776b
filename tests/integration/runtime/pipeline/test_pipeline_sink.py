"""The sink loop on a real broker: one way through it, the offsets its task gives, a pause longer than a poll may take.

Its decisions: unit/runtime/pipeline/test_sink_loop.py, on a consumer in memory that keeps to what the real one does
(integration/runtime/kafka/test_sink_consumer.py). Rebalances: test_sink_rebalances.py.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kconnect.errors import ConflictError
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TargetState, TopicPartition
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kit.group_offsets import sink_offsets
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


def test_every_record_of_a_topic_is_a_line_of_the_file(
    broker: DevBroker, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lines = [f"line {number}".encode() for number in range(50_000)]
    produce_lines(broker.bootstrap, topic, lines)
    out, name = tmp_path / "out.txt", topic_for(request)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, FILE_SINK, topics=topic, file=str(out))
        host.await_count(spec, "records_put", len(lines))
        produce_lines(broker.bootstrap, topic, ["last"])
        host.await_count(spec, "records_put", len(lines) + 1)
        assert host.stop(spec) == set()
        assert host.states(spec) == [RunState.RUNNING, RunState.STOPPED]
    assert out.read_bytes() == b"\n".join([*lines, b"last", b""])
    assert sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, 0): len(lines) + 1}


@pytest.mark.parametrize(
    ("own", "read"),
    [({}, ["a", "aborted", "b"]), ({"consumer_override_isolation_level": "read_committed"}, ["a", "b"])],
    ids=["by default", "read_committed"],
)
def test_records_of_aborted_transactions_are_read_unless_the_consumer_reads_committed_ones(
    broker: DevBroker,
    topic: str,
    request: pytest.FixtureRequest,
    taken: list[Any],
    own: dict[str, str],
    read: list[str],
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    for value, end in (
        ("a", producer.commit_transaction),
        ("aborted", producer.abort_transaction),
        ("b", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(30) == 0
        end(30)
    with PipelineHost(broker.bootstrap) as host:
        host.start_sink(topic_for(request), SINK, topics=topic, **own)
        eventually(lambda: taken[-1:] == ["b"], 20, "the last record is put")
    assert taken == read


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
        asked_before = Behaviour.calls.count("pre_commit")
        eventually(lambda: Behaviour.calls.count("pre_commit") >= asked_before + 2, 20, "two more", pause_s=0.01)
        assert host.counters(spec).commits == commits, "the same offsets are not committed again"
        assert host.stop(spec) == set()
        assert sink_offsets(broker.bootstrap, name) == {first: 4}, "the end commits no more than that either"
        seen.clear()
        again = host.start_sink(name, SINK, topics=topic)
        host.await_count(again, "records_put", 16)
    assert sorted(seen) == [*((0, offset) for offset in range(4, 10)), *((1, offset) for offset in range(10))]


def test_a_paused_task_keeps_its_partitions_and_puts_nothing(
    broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    name = topic_for(request)
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


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_offsets_are_altered_and_deleted_only_without_members(
    protocol: str, broker: DevBroker, topic: str, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    produce_lines(broker.bootstrap, topic, ["a", "b"])
    name = topic_for(request)
    place = TopicPartition(topic, 0)
    more = {"topics": topic, "consumer_override_group_protocol": protocol}
    opened = kafka_group_offsets({"bootstrap.servers": broker.bootstrap}, 10, timeout_setting="t")
    with opened({"name": name}) as groups, PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, **more)
        host.await_count(spec, "records_put", 2)
        assert groups.member_count(f"connect-{name}") == 1
        for change in (
            lambda: groups.alter_offsets(f"connect-{name}", {place: 1}),
            lambda: groups.delete_offsets(f"connect-{name}", [place]),
            lambda: groups.delete_group(f"connect-{name}"),
        ):
            with pytest.raises(ConflictError):
                change()
        host.stop(spec)
        assert groups.member_count(f"connect-{name}") == 0
        groups.alter_offsets(f"connect-{name}", {place: 1})
        again = host.start_sink(name, SINK, **more)
        host.await_count(again, "records_put", 1)
        host.stop(again)
        groups.delete_offsets(f"connect-{name}", [place])
        assert sink_offsets(broker.bootstrap, name) == {}
        groups.delete_group(f"connect-{name}")
    assert taken == ["a", "b", "b"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_sink_without_offsets_begins_so_long_ago_as_it_is_reported_and_then_where_it_committed(
    protocol: str, broker: DevBroker, taken: list[Any], request: pytest.FixtureRequest
) -> None:
    """In either protocol of groups; where the records of its offset were deleted it reads what is left."""
    name = topic_for(request)
    topic = f"{name}-t"
    create_topic(broker.bootstrap, topic, partitions=2)
    now_ms, hour_ms = int(time.time() * 1000), 3_600_000
    ages = {0: [("old", 3 * hour_ms), ("new", hour_ms // 2)], 1: [("older", 5 * hour_ms)]}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition, some in ages.items():
        for value, age_ms in some:
            producer.produce(topic, value.encode(), partition=partition, timestamp=now_ms - age_ms)
    assert producer.flush(20) == 0
    more = {
        "topics": topic,
        "consumer_override_auto_offset_reset": "by_duration:PT1H",
        "consumer_override_group_protocol": protocol,
    }
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, **more)
        eventually(lambda: taken == ["new"], 20, "what is younger than an hour")
        produce_lines(broker.bootstrap, topic, ["next"], partition=1)
        eventually(lambda: taken == ["new", "next"], 20, "the end of a partition where nothing is so young")
        assert host.stop(spec) == set()
        assert sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 2}
        produce_lines(broker.bootstrap, topic, ["gone"], partition=0)
        _delete_records(broker.bootstrap, topic, before=3)
        produce_lines(broker.bootstrap, topic, ["after"], partition=0)
        spec = host.start_sink(name, SINK, **more)
        eventually(lambda: taken[2:] == ["after"], 20, "what is left after the committed offset was deleted")
        assert host.stop(spec) == set()


def _delete_records(bootstrap: str, topic: str, *, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([ClientPartition(topic, 0, before)]).values():
        future.result(20)
