"""What every SinkConsumer keeps to: the one on Kafka, and its twin in memory on which sink loops are tested."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.errors import ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.model import NotedOffset, TopicPartition
from kconnect.runtime.kafka import RecordConsumer
from kconnect.runtime.pipeline.sink_consumer import SinkConsumer
from kit.memory_consumer import MemoryConsumer, MemoryPartitions
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually

FIRST, SECOND = range(2)
A = [(0, b"a0"), (1, b"a1"), (2, b"a2")]
B = [(0, b"b0"), (1, b"b1")]
RECORDS = {FIRST: A, SECOND: B}
WITHIN_S = 20.0


class Listener:
    """Begins and pauses where a test says so, and keeps what it heard."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, set[int]]] = []
        self.begin: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.fails: dict[str, Exception] = {}
        self.when_revoked: Callable[[], None] = lambda: None

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._note("assigned", partitions)
        return self.begin

    def to_pause(self, partitions: Sequence[TopicPartition]) -> Collection[TopicPartition]:
        return self.paused.intersection(partitions)

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.when_revoked()
        self._note("revoked", partitions)

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("lost", partitions)

    def _note(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self.reported.append((what, {partition.partition for partition in partitions}))
        if error := self.fails.pop(what, None):
            raise error


class Group(Protocol):
    """A topic of two partitions, three records in the first and two in the second, and a group that reads it."""

    topic: str

    def member(self, listener: Listener) -> SinkConsumer:
        """A consumer that has subscribed; with its first fetches it gets the partitions."""
        ...

    def take_one(self) -> None:
        """Another one joins; in the next fetches the member gives up one of its partitions."""
        ...


class MemoryGroup:
    topic = "t"

    def __init__(self) -> None:
        self._kafka = MemoryPartitions({place(self.topic, FIRST): [b"a0", b"a1", b"a2"]})
        self._kafka.logs[place(self.topic, SECOND)] = [b"b0", b"b1"]
        self._wanted = set(self._kafka.logs)
        self._consumers: list[MemoryConsumer] = []

    def member(self, listener: Listener) -> SinkConsumer:
        consumer = MemoryConsumer(self._kafka, self._rebalance)
        consumer.subscribe([self.topic], listener)
        self._consumers.append(consumer)
        return consumer

    def take_one(self) -> None:
        self._wanted = {place(self.topic, FIRST)}

    def _rebalance(self) -> None:
        consumer = self._consumers[-1]
        if gone := consumer.assignment - self._wanted:
            consumer.revoke(*gone)
        elif new := self._wanted - consumer.assignment:
            consumer.assign(*new)


class KafkaGroup:
    """Of the protocol that Kafka has always had, or of KIP-848, where the brokers say who has which partition."""

    def __init__(self, bootstrap: str, topic: str, closing: ExitStack, protocol: str = "classic") -> None:
        self.topic = topic
        self._closing = closing
        of_protocol = {
            "classic": {"heartbeat.interval.ms": 100, "partition.assignment.strategy": "cooperative-sticky"},
            "consumer": {"group.protocol": "consumer"},
        }
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "fetch.wait.max.ms": 20,
            **of_protocol[protocol],
        }
        create_topic(bootstrap, topic, partitions=2)
        produce_lines(bootstrap, topic, ["a0", "a1", "a2"], partition=FIRST)
        produce_lines(bootstrap, topic, ["b0", "b1"], partition=SECOND)

    def member(self, listener: Listener) -> SinkConsumer:
        consumer = RecordConsumer(self._settings, "member")
        self._closing.callback(consumer.close)
        consumer.subscribe([self.topic], listener)
        return consumer

    def take_one(self) -> None:
        self.member(Listener())


def place(topic: str, number: int) -> TopicPartition:
    return TopicPartition(topic, number)


_ON_KAFKA = [pytest.param(protocol, marks=pytest.mark.broker) for protocol in ("classic", "consumer")]


@pytest.fixture(scope="module", params=["memory", *_ON_KAFKA])
def kind(request: pytest.FixtureRequest) -> str:
    """Which group; and the broker is there for the one that needs it."""
    if request.param != "memory":
        request.getfixturevalue("broker")
    return str(request.param)


@pytest.fixture
def group(kind: str, request: pytest.FixtureRequest) -> Iterator[Group]:
    with ExitStack() as closing:
        if kind == "memory":
            yield MemoryGroup()
        else:
            yield KafkaGroup(request.getfixturevalue("broker").bootstrap, topic_for(request), closing, kind)


def read(consumer: SinkConsumer, count: int, at_a_time: int = 100) -> dict[int, list[tuple[int, bytes | None]]]:
    """The next records by partition, with their offsets; and that there are no more than these."""
    found: dict[int, list[tuple[int, bytes | None]]] = {}
    while count > 0:
        runs = eventually(lambda: consumer.fetch(at_a_time, 0.05), WITHIN_S, f"{count} records", pause_s=0)
        assert sum(map(len, runs)) <= at_a_time
        for run in runs:
            assert (run.first_offset, run.next_offset) == (run.offsets[0], run.offsets[-1] + 1)
            found.setdefault(run.partition, []).extend(zip(run.offsets, run.values, strict=True))
            count -= len(run)
    assert count == 0
    assert consumer.fetch(100, 0.0) == []
    return found


def test_each_partition_is_read_in_order_from_its_begin_and_never_more_at_a_time_than_asked_for(group: Group) -> None:
    listener = Listener()
    consumer = group.member(listener)
    assert consumer.assignment == set()
    assert read(consumer, 5, at_a_time=2) == RECORDS
    assert consumer.assignment == {place(group.topic, FIRST), place(group.topic, SECOND)}
    assert listener.reported == [("assigned", {FIRST, SECOND})]
    behind = consumer.behind({place(group.topic, FIRST): 1, place(group.topic, SECOND): 1})
    assert behind == (3, 2)


def test_the_listener_says_where_to_begin_and_what_to_pause_and_both_can_be_changed_later(group: Group) -> None:
    listener = Listener()
    first, second = place(group.topic, FIRST), place(group.topic, SECOND)
    listener.begin, listener.paused = {first: 2, second: 1}, {second}
    consumer = group.member(listener)
    assert read(consumer, 1) == {FIRST: A[2:]}
    consumer.resume([second, place(group.topic, 7)])  # not ours: ignored
    assert read(consumer, 1) == {SECOND: B[1:]}
    consumer.pause([first, second, place(group.topic, 7)])
    consumer.seek(first, 1)
    consumer.seek(second, 0)
    assert consumer.fetch(100, 0.1) == []
    consumer.resume([first])
    assert read(consumer, 2) == {FIRST: A[1:]}


def test_what_is_committed_is_where_the_next_member_begins_and_its_answer_comes_in_a_later_fetch(group: Group) -> None:
    first, second = place(group.topic, FIRST), place(group.topic, SECOND)
    consumer = group.member(Listener())
    read(consumer, 5)
    answers: list[ConnectError | None] = []
    consumer.commit_async({first: 1}, answers.append)
    assert answers == []
    eventually(lambda: consumer.fetch(100, 0.05) == [] and answers, WITHIN_S, "the commit is answered", pause_s=0)
    assert answers == [None]
    consumer.commit({second: 1}, WITHIN_S)
    consumer.close()
    assert read(group.member(Listener()), 3) == {FIRST: A[1:], SECOND: B[1:]}


@pytest.mark.broker
def test_the_text_beside_an_offset_is_committed_with_it(broker: DevBroker, request: pytest.FixtureRequest) -> None:
    with ExitStack() as closing:
        group = KafkaGroup(broker.bootstrap, topic_for(request), closing)
        consumer = group.member(Listener())
        read(consumer, 5)
        places = {place(group.topic, FIRST): NotedOffset(1, "half"), place(group.topic, SECOND): 1}
        consumer.commit(places, WITHIN_S)
        reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group.topic})
        closing.callback(reader.close)
        found = reader.committed([ClientPartition(group.topic, number) for number in RECORDS], timeout=WITHIN_S)
    assert [(one.offset, one.metadata or "") for one in found] == [(1, "half"), (1, "")]


def test_what_is_closed_gives_its_partitions_up_once_and_may_commit_them_then(group: Group) -> None:
    listener = Listener()
    consumer = group.member(listener)
    read(consumer, 5)
    listener.when_revoked = lambda: consumer.commit({place(group.topic, FIRST): 3}, WITHIN_S)
    consumer.close()
    consumer.close()
    assert listener.reported == [("assigned", {FIRST, SECOND}), ("revoked", {FIRST, SECOND})]
    assert read(group.member(Listener()), 2) == {SECOND: B}


def test_a_partition_that_goes_can_be_committed_while_it_goes_and_the_other_is_read_on(group: Group) -> None:
    listener = Listener()
    consumer = group.member(listener)
    read(consumer, 5)
    listener.when_revoked = lambda: consumer.commit({place(group.topic, FIRST): 1}, WITHIN_S)
    group.take_one()
    eventually(lambda: consumer.fetch(9, 0.05) == [] and len(consumer.assignment) == 1, WITHIN_S, "one goes", pause_s=0)
    (kept,) = consumer.assignment
    assert listener.reported[1:] == [("revoked", {FIRST, SECOND} - {kept.partition})]
    consumer.seek(kept, 1)
    assert read(consumer, len(RECORDS[kept.partition]) - 1) == {kept.partition: RECORDS[kept.partition][1:]}


@pytest.mark.parametrize("what", ["assigned", "revoked"])
def test_an_error_of_the_listener_is_raised_by_the_fetch(what: str, group: Group) -> None:
    listener = Listener()
    listener.fails[what] = ConnectError("of the sink")
    consumer = group.member(listener)
    if what == "revoked":
        read(consumer, 5)
        group.take_one()

    with pytest.raises(ConnectError, match="of the sink"):
        eventually(lambda: consumer.fetch(100, 0.05), WITHIN_S, "the error", pause_s=0)
    assert listener.reported[-1][0] == what


@pytest.mark.broker
def test_markers_and_aborted_records_are_not_behind(broker: DevBroker, topic: str) -> None:
    """Of the one on Kafka alone."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"writes-{topic}"})
    producer.init_transactions()
    for ends in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, b"x")
        producer.flush()
        ends()
    settings = {"group.id": topic, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = RecordConsumer({"bootstrap.servers": broker.bootstrap, **settings}, "reads")
    consumer.subscribe([topic], Listener())
    assert read(consumer, 3) == {0: [(offset, b"x") for offset in range(3)]}

    def behind(taken: int) -> int:
        consumer.fetch(10, 0.05)
        return consumer.behind({place(topic, 0): taken}).total

    eventually(lambda: behind(3) == 0, WITHIN_S, "nothing is behind")
    assert behind(2) == 6, "a record that was given out and not taken, and all after it"
    consumer.seek(place(topic, 0), 1)
    assert consumer.behind({place(topic, 0): 1}).total == 7
    assert read(consumer, 2) == {0: [(1, b"x"), (2, b"x")]}
    eventually(lambda: behind(3) == 0, WITHIN_S, "nothing is behind")
    consumer.close()
