"""Several tasks of one sink in one group: who reads what, what a task hears when; nothing is read twice, none lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kconnect.errors import RetriableError
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TaskSpec, TopicPartition
from kit.group_offsets import sink_offsets
from kit.journal_sink import JOURNAL_SINK, broken_rules, read_journal
from kit.pipeline_host import SINK, Behaviour, PipelineHost
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually, stays

pytestmark = pytest.mark.broker

PARTITIONS = 4
COOPERATIVE = {
    "consumer.override.partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}


class Feeder:
    """Writes to all partitions the whole time, on a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self.written = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder")

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                produce_lines(self._bootstrap, self._topic, ["x"] * 25, partition=partition)
            self.written += 25
            self._stop.wait(0.02)


def calls_by_member(journal: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for call in read_journal(journal):
        found.setdefault(call["member"], []).append(call)
    return found


def held_now(journal: Path) -> dict[str, set[str]]:
    """The open partitions of each member that has not stopped."""
    held: dict[str, set[str]] = {}
    for member, calls in calls_by_member(journal).items():
        for call in calls:
            if call["call"] == "open":
                held.setdefault(member, set()).update(call["partitions"])
            elif call["call"] == "close":
                held.setdefault(member, set()).difference_update(call["partitions"])
            elif call["call"] == "stop":
                held.pop(member, None)
    return held


@pytest.mark.parametrize("strategy", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_tasks_that_come_and_go_keep_javas_order_of_calls_and_read_each_record_once(
    broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest, strategy: dict[str, str]
) -> None:
    topic, name, journal = topic_for(request), topic_for(request), tmp_path / "journal"
    create_topic(broker.bootstrap, topic, partitions=PARTITIONS)
    with PipelineHost(broker.bootstrap) as host:

        def begin(task: int) -> TaskSpec:
            return host.start_sink(
                name, JOURNAL_SINK, task=task, topics=topic, journal=str(journal), **{"slow.put.ms": "3"}, **strategy
            )

        def await_shares(*shares: int) -> None:
            def reached() -> bool:
                found = sorted(len(places) for places in held_now(journal).values())
                assert found == sorted(shares), f"shares are {found}"
                return True

            eventually(reached, 20, f"shares {shares}")

        with Feeder(broker.bootstrap, topic) as feeder:
            specs = [begin(0)]
            await_shares(4)
            specs.append(begin(1))
            await_shares(2, 2)
            specs.append(begin(2))
            await_shares(1, 1, 2)
            host.stop(specs[0])
            await_shares(2, 2)
        total = feeder.written * PARTITIONS

        def all_read() -> bool:
            read = sum(len(call["records"]) for call in read_journal(journal) if call["call"] == "put")
            assert read >= total, f"{read} of {total}"
            return True

        eventually(all_read, 30, "all read")
        for spec in specs[1:]:
            host.stop(spec)
        assert {host.states(spec)[-1] for spec in specs} == {RunState.STOPPED}

    members = calls_by_member(journal)
    assert len(members) == 3
    assert {member: broken_rules(calls) for member, calls in members.items()} == {member: [] for member in members}
    for calls in members.values():
        assert [calls[0]["call"], calls[-1]["call"]] == ["start", "stop"]
    read = [tuple(record) for call in read_journal(journal) if call["call"] == "put" for record in call["records"]]
    assert sorted(read) == sorted(
        (f"{topic}-{p}", offset) for p in range(PARTITIONS) for offset in range(feeder.written)
    )
    assert sink_offsets(broker.bootstrap, name) == {TopicPartition(topic, p): feeder.written for p in range(PARTITIONS)}


def test_the_calls_round_a_rebalance_are_javas(
    broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With the default assignor all partitions go and come again: pre_commit, close, open; then close, stop."""
    topic, name, journal = topic_for(request), topic_for(request), tmp_path / "journal"
    create_topic(broker.bootstrap, topic, partitions=2)
    for partition in range(2):
        produce_lines(broker.bootstrap, topic, ["a"], partition=partition)
    places = [f"{topic}-0", f"{topic}-1"]
    with PipelineHost(broker.bootstrap, offset_flush_interval_ms="60000") as host:
        first = host.start_sink(name, JOURNAL_SINK, topics=topic, journal=str(journal))
        host.await_count(first, "records_put", 2)
        second = host.start_sink(name, JOURNAL_SINK, task=1, topics=topic, journal=str(journal))
        eventually(lambda: sorted(map(len, held_now(journal).values())) == [1, 1], 20, "shared")
        host.stop(first)
        eventually(lambda: list(map(len, held_now(journal).values())) == [2], 20, "taken over")
        host.stop(second)
    calls = next(calls for calls in calls_by_member(journal).values() if calls[1].get("partitions") == places)
    kinds = [call["call"] for call in calls if call["call"] != "put"]
    assert kinds == ["start", "open", "pre_commit", "close", "open", "close", "stop"]
    assert next(call["partitions"] for call in calls if call["call"] == "close") == places
    assert broken_rules(calls) == []


def test_records_that_wait_for_another_try_go_with_their_partition(
    broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    """A put that fails for one partition's sake holds nobody up once that partition is somebody else's."""
    topic, name = topic_for(request), topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=2)
    Behaviour.reset()
    seen: dict[int, list[tuple[int, int]]] = {}

    def put(task: Any, records: list[Any]) -> None:
        mine = seen.setdefault(id(task), [])
        if task is Behaviour.tasks[0] and any(record.kafka_partition == poisoned for record in records):
            raise RetriableError("the target of this partition is busy")
        mine.extend((record.kafka_partition, record.kafka_offset) for record in records)

    Behaviour.put = put
    with PipelineHost(broker.bootstrap) as host:
        poisoned = 1  # the range assignor gives the second member, by its id, one of the two
        first = host.start_sink(name, SINK, topics=topic)
        host.await_state(first, RunState.RUNNING)
        for partition in range(2):
            produce_lines(broker.bootstrap, topic, ["a"], partition=partition)
        eventually(lambda: any(call.startswith("put") for call in Behaviour.calls), 20, "the first one has tried")
        poisoned_by_first = Behaviour.tasks[0]
        second = host.start_sink(name, SINK, task=1, topics=topic)
        eventually(lambda: len(Behaviour.tasks) == 2, 20, "two tasks")

        def shared() -> bool:
            return all(len(task.context.assignment()) == 1 for task in Behaviour.tasks)

        eventually(shared, 20, "shared")
        poisoned = next(tp.partition for tp in Behaviour.tasks[1].context.assignment())
        eventually(lambda: sum(map(len, seen.values())) >= 2, 20, "both are put")
        assert host.states(first)[-1] == host.states(second)[-1] == RunState.RUNNING
    assert (poisoned, 0) not in seen[id(poisoned_by_first)]
    assert (1 - poisoned, 0) in seen[id(poisoned_by_first)]


def test_a_topic_made_later_joins_those_of_a_pattern_within_seconds_and_kafkas_own_never(
    broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    base, journal = topic_for(request), tmp_path / "journal"
    create_topic(broker.bootstrap, f"{base}-a")
    produce_lines(broker.bootstrap, f"{base}-a", ["1"])
    with PipelineHost(broker.bootstrap) as host:
        # Kafka's own topic, to which the commits of this sink go, is never meant
        more = {"topics.regex": f"^(?!_)(?i:{base})-\\p{{Lower}}|__consumer_offsets"}
        spec = host.start_sink(topic_for(request), JOURNAL_SINK, journal=str(journal), **more)
        host.await_count(spec, "records_put", 1)
        create_topic(broker.bootstrap, f"{base}-b")
        create_topic(broker.bootstrap, f"{base}-cc")  # the pattern must match as a whole
        produce_lines(broker.bootstrap, f"{base}-b", ["2"])
        produce_lines(broker.bootstrap, f"{base}-cc", ["3"])
        host.await_count(spec, "records_put", 2)
        stays(lambda: host.counters(spec).records_put == 2, 0.6, "the topic beside the pattern is not read")
        host.stop(spec)
    (calls,) = calls_by_member(journal).values()
    put = [record for call in calls if call["call"] == "put" for record in call["records"]]
    assert sorted(put) == [[f"{base}-a-0", 0], [f"{base}-b-0", 0]]
    assert broken_rules(calls) == []
