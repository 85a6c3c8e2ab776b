"""Exactly-once sources on a real broker: what read_committed readers see, offsets, boundaries, fenced tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kconnect.api import Schema, SourceRecord
from kconnect.errors import ConflictError
from kconnect.java.devbroker import DevBroker
from kconnect.java.plugins import JavaSettings
from kconnect.model import RunState, TargetState
from kconnect.runtime.plugins import PluginRegistry
from kit.committed_offsets import CommittedOffsets, committed_store
from kit.java_plugin_folder import java_plugin_folder
from kit.pace import ample_s
from kit.pipeline_host import MOVING_SOURCE, RECORD_SOURCE, SOURCE, Behaviour, PipelineHost
from kit.topics import await_committed, committed_values, consume, create_topic, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

OFFSETS, OWN = "eos-offsets", "eos-own-offsets"
_EXACTLY_ONCE = {
    "exactly_once_source_support": "enabled",
    "offset_flush_interval_ms": "60000",
    "offset_storage_topic": OFFSETS,
}


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


@pytest.fixture(scope="module")
def offsets(broker: DevBroker) -> Iterator[CommittedOffsets]:
    create_topic(broker.bootstrap, OFFSETS, config={"cleanup.policy": "compact"})
    with committed_store(broker.bootstrap, OFFSETS) as store:
        yield CommittedOffsets(store, store)


@pytest.fixture(scope="module")
def own_offsets(broker: DevBroker, offsets: CommittedOffsets) -> Iterator[CommittedOffsets]:
    create_topic(broker.bootstrap, OWN, config={"cleanup.policy": "compact"})
    with committed_store(broker.bootstrap, OWN) as store:
        yield CommittedOffsets(store, offsets.worker)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginRegistry]:
    folder = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    made = PluginRegistry.load(str(folder), java=JavaSettings(heap="128m"))
    assert made.connector_class("kit.TestPlugins$Numbers")().version() == "1.2.3"  # the JVM is up
    yield made
    made.close()


def host_of(broker: DevBroker, offsets: CommittedOffsets, **worker: str) -> PipelineHost:
    return PipelineHost(broker.bootstrap, port=offsets, group_id="eos", **_EXACTLY_ONCE, **worker)


def record(topic: str, number: int, **more: Any) -> SourceRecord:
    return SourceRecord({"table": "a"}, {"row": number}, topic, f"v{number}", value_schema=Schema.STRING_SCHEMA, **more)


def once(*polls: Any) -> Any:
    """A poll that gives each of these (or what it gives when called with the task), then nothing."""
    left = list(polls)

    def poll(task: Any) -> Any:
        if left:
            given = left.pop(0)
            return given(task) if callable(given) else given
        task.context.wait(0.01)
        return None

    return poll


def numbered(*numbers: int) -> list[bytes | None]:
    return [f"v{number}".encode() for number in numbers]


def test_a_source_without_records_commits_offsets_alone(broker: DevBroker, offsets: CommittedOffsets) -> None:
    with host_of(broker, offsets, **{"offset.flush.interval.ms": "200"}) as host:
        spec = host.start_source("moving-once", MOVING_SOURCE)
        eventually(lambda: offsets.of("moving-once") and offsets.of("moving-once")[0]["row"] > 5, 15, "offset moved")
        assert host.stop(spec, ample_s(10)) == set()
        (last,) = offsets.of("moving-once")
        assert last == {"row": Behaviour.tasks[0].row}
        again = host.start_source("moving-once", MOVING_SOURCE)
        host.await_state(again, RunState.RUNNING)
        assert host.stop(again, ample_s(10)) == set()
        assert Behaviour.tasks[1].first == last["row"]


def test_each_poll_is_a_transaction_with_its_offsets(broker: DevBroker, topic: str, offsets: CommittedOffsets) -> None:
    Behaviour.poll = once([record(topic, 1), record(topic, 2)], [record(topic, 3)])
    with host_of(broker, offsets) as host:
        spec = host.start_source("polls", SOURCE)
        # Its size is noted a moment after the commit is counted
        eventually(lambda: host.counters(spec).transaction_size.count >= 2, 30, "two transactions")
        counters = host.counters(spec)
        host.stop(spec)
    assert consume(broker.bootstrap, topic, 3)[-1].offset() == 3, "a marker stands behind the first transaction"
    await_committed(broker.bootstrap, topic, numbered(1, 2, 3))
    assert offsets.of("polls") == [{"row": 3}]
    assert (counters.transaction_size.count, counters.transaction_size.total) == (2, 3)
    assert Behaviour.calls.count("commit") == 2


def test_a_task_that_fails_leaves_nothing_of_its_transaction(
    broker: DevBroker, topic: str, offsets: CommittedOffsets
) -> None:
    polls = once([record(topic, 1)], [record(topic, 2)])

    def poll(task: Any) -> Any:
        return polls(task) or pytest.fail("the task is asked to fail")

    Behaviour.poll = poll
    with host_of(broker, offsets) as host:
        spec = host.start_source("fails", SOURCE, transaction_boundary="interval")
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "failed")
    assert committed_values(broker.bootstrap, topic) == []
    assert offsets.of("fails") == []


def test_an_interval_ends_also_while_a_poll_waits(broker: DevBroker, topic: str, offsets: CommittedOffsets) -> None:
    polls = once([record(topic, 1)], [record(topic, 2)])
    interval_s = ample_s(0.5)  # both polls are to be within one
    Behaviour.poll = lambda task: polls(task) or task.context.wait(interval_s * 10) or None
    with host_of(broker, offsets) as host:
        spec = host.start_source(
            "waits",
            SOURCE,
            transaction_boundary="interval",
            transaction_boundary_interval_ms=str(round(interval_s * 1000)),
        )
        eventually(lambda: offsets.of("waits") == [{"row": 2}], 30, "committed by the interval")
        host.await_count(spec, "commits", 1)
        assert host.counters(spec).commits == 1
        await_committed(broker.bootstrap, topic, numbered(1, 2))
        host.stop(spec)


def test_what_an_interval_has_not_committed_is_by_the_stop_and_by_a_pause(
    broker: DevBroker, topic: str, offsets: CommittedOffsets
) -> None:
    Behaviour.poll = once([record(topic, 1)])
    with host_of(broker, offsets) as host:
        spec = host.start_source("ends", SOURCE, transaction_boundary="interval")
        host.await_count(spec, "records_written", 1)
        assert offsets.of("ends") == []
        host.host.set_target_state([spec.id], TargetState.PAUSED)
        host.await_state(spec, RunState.PAUSED)
        assert offsets.of("ends") == [{"row": 1}]
        Behaviour.poll = once([record(topic, 2)])
        host.host.set_target_state([spec.id], TargetState.STARTED)
        host.await_count(spec, "records_written", 2)
        host.stop(spec)
    assert offsets.of("ends") == [{"row": 2}]
    await_committed(broker.bootstrap, topic, numbered(1, 2))


def test_a_connector_ends_transactions_behind_its_records(
    broker: DevBroker, topic: str, offsets: CommittedOffsets
) -> None:
    def mixed(task: Any) -> list[SourceRecord]:
        context = task.context.transaction_context()
        records = [record(topic, number) for number in range(1, 6)]
        context.commit_transaction(records[1])
        context.abort_transaction(records[3])
        return records

    def closes(task: Any) -> None:
        task.context.transaction_context().commit_transaction()

    Behaviour.poll = once(mixed, [record(topic, 6)], closes, [record(topic, 7)])
    with host_of(broker, offsets) as host:
        spec = host.start_source("asks", RECORD_SOURCE, transaction_boundary="connector")
        host.await_count(spec, "records_written", 7 - 2)
        host.await_count(spec, "commits", 3)
        eventually(lambda: len(host.host.counters()) and host.counters(spec).records_polled == 7, 10, "all polled")
        host.stop(spec)
    await_committed(broker.bootstrap, topic, numbered(1, 2, 5, 6))  # 3 and 4 are aborted, 7 was not asked for
    assert offsets.of("asks") == [{"row": 6}]
    reported = [call.split()[1:] for call in Behaviour.calls if call.startswith("commit_record")]
    assert [value for value, _ in reported] == ["v1", "v2", "v5", "v6"], "not those that were aborted"


@pytest.mark.parametrize("chain", ["java", "mixed"])
def test_a_java_connector_ends_transactions_in_the_midst_of_its_batches(
    broker: DevBroker, topic: str, offsets: CommittedOffsets, java: PluginRegistry, chain: str
) -> None:
    steps = {
        "transforms": "bad",
        "transforms.bad.type": "kit.TestPlugins$Misbehaves",
        "transforms.bad.does": "throw",
        "errors.tolerance": "all",
    }
    if chain == "mixed":
        steps |= {"transforms": "bad,ours", "transforms.ours.type": "kit.failing_transform:DropsText"}
    with PipelineHost(broker.bootstrap, port=offsets, plugins=java, group_id="eos", **_EXACTLY_ONCE) as host:
        name = f"java-ends-{chain}"
        numbers = {"topic": topic, "count": "250", "bad": "149", "ends": "9,-59,149,-199"}
        spec = host.start_source(name, "kit.TestPlugins$Numbers", transaction_boundary="connector", **numbers, **steps)
        eventually(lambda: offsets.of(name) == [{"next": 250}], 30, "all is committed")
        counters = host.counters(spec)
        host.stop(spec)
    kept = [*range(10), *range(60, 149), *range(200, 250)]
    await_committed(broker.bootstrap, topic, [f"number {number}".encode() for number in kept])
    assert counters.records_polled == 250


def test_offsets_of_records_that_are_filtered_out_are_committed(
    broker: DevBroker, topic: str, offsets: CommittedOffsets
) -> None:
    Behaviour.poll = once([record(topic, 1), record(topic, 2)])
    filtering = {"transforms": "drop", "transforms_drop_type": "org.apache.kafka.connect.transforms.Filter"}
    with host_of(broker, offsets) as host:
        spec = host.start_source("filters", SOURCE, **filtering)
        host.await_count(spec, "commits", 1)
        host.stop(spec)
    assert offsets.of("filters") == [{"row": 2}]
    assert committed_values(broker.bootstrap, topic) == []


def test_a_connectors_own_topic_has_its_offsets_and_the_workers_a_copy(
    broker: DevBroker, topic: str, own_offsets: CommittedOffsets
) -> None:
    gone = SourceRecord({"table": "b"}, None, topic, "v3", value_schema=Schema.STRING_SCHEMA)
    there = SourceRecord({"table": "b"}, {"row": 9}, topic, "v2", value_schema=Schema.STRING_SCHEMA)
    Behaviour.poll = once([record(topic, 1), there], [gone])
    with host_of(broker, own_offsets) as host:
        spec = host.start_source("owner", SOURCE, offsets_storage_topic=OWN)
        host.await_count(spec, "commits", 2)
        host.stop(spec)
    assert own_offsets.of("owner") == [{"row": 1}]
    assert own_offsets.copies_of("owner") == [{"row": 1}]


def test_a_zombie_is_fenced_and_its_open_transaction_never_counts(
    broker: DevBroker, topic: str, offsets: CommittedOffsets
) -> None:
    release: list[int] = []

    def poll(task: Any) -> Any:
        row = (task.context.offset_storage_reader().offset({"table": "a"}) or {"row": 0})["row"]
        if task is Behaviour.tasks[0]:  # the zombie: sends once, hangs, and goes on when it should be dead
            sent = getattr(task, "sent", 0)
            if sent == 0:
                task.sent = 1
                return [record(topic, 1)]
            task.context.wait(0.02)
            if release and sent == 1:
                task.sent = 2
                return [record(topic, 2)]
            return None
        if row:
            return task.context.wait(0.02) or None
        return [record(topic, 1)]

    Behaviour.poll = poll
    with host_of(broker, offsets) as first, host_of(broker, offsets) as second:
        zombie = first.start_source("zombie", SOURCE, transaction_boundary="interval")
        first.await_count(zombie, "records_written", 1)
        heir = second.start_source("zombie", SOURCE)
        second.await_count(heir, "commits", 1)
        release.append(1)
        eventually(lambda: first.states(zombie)[-1:] == [RunState.FAILED], 20, "the zombie failed")
        assert "Failed to flush offsets and/or records for task zombie-0" in first.trace(zombie)
        assert "a newer producer with the same transactionalId eos-zombie-0" in first.trace(zombie)
        second.stop(heir)
    await_committed(broker.bootstrap, topic, numbered(1))
    assert offsets.of("zombie") == [{"row": 1}]


def test_a_run_that_is_not_wanted_any_more_does_not_begin(
    broker: DevBroker, topic: str, offsets: CommittedOffsets
) -> None:
    def refuse(task_id: Any, run: int) -> None:
        raise ConflictError(f"Another generation of tasks has taken over from {task_id}")

    with host_of(broker, offsets) as host:
        host.may_run = refuse
        spec = host.start_source("late", SOURCE)
        eventually(lambda: host.states(spec) == [RunState.FAILED], 20, "failed")
        assert "Another generation of tasks has taken over from late-0" in host.trace(spec)
    assert Behaviour.calls == [], "the plugin heard of nothing"


def test_a_record_that_no_broker_takes_fails_the_task_even_when_errors_are_tolerated(
    broker: DevBroker, request: pytest.FixtureRequest, offsets: CommittedOffsets
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, config={"max.message.bytes": "1000"})
    large = SourceRecord({"table": "a"}, {"row": 2}, topic, "x" * 5000, value_schema=Schema.STRING_SCHEMA)
    Behaviour.poll = once([record(topic, 1), large])
    with host_of(broker, offsets) as host:
        spec = host.start_source("large", SOURCE, errors_tolerance="all")
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "failed")
        assert "Failed to flush offsets and/or records for task large-0" in host.trace(spec)
        assert "max.message.bytes" in host.trace(spec)
    assert committed_values(broker.bootstrap, topic) == []
    assert offsets.of("large") == []


def test_a_transaction_that_outlives_its_time_fails_the_task_with_what_to_change(
    broker: DevBroker, topic: str, offsets: CommittedOffsets
) -> None:
    polls = once([record(topic, 1)], lambda task: task.context.wait(4) or None)

    def poll(task: Any) -> Any:
        given = polls(task)
        if given is None and not task.context.wait(0.2):
            given = [record(topic, 2)]  # again and again: a busy broker ends the transaction late
        return given

    Behaviour.poll = poll
    with host_of(broker, offsets) as host:
        spec = host.start_source(
            "slow", SOURCE, transaction_boundary="interval", **{"producer.override.transaction.timeout.ms": "1500"}
        )
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 30, "failed")
        assert "before its producer transaction expired" in host.trace(spec)
    assert committed_values(broker.bootstrap, topic) == []


def test_a_task_can_not_write_to_its_own_offsets_topic(broker: DevBroker, offsets: CommittedOffsets) -> None:
    Behaviour.poll = once([record(OFFSETS, 1)])
    with host_of(broker, offsets) as host:
        spec = host.start_source("snake", SOURCE)
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "failed")
        assert "may not produce to their own offsets topics" in host.trace(spec)
