"""What every producer of a source loop keeps to: the one on Kafka, and its twin in memory.

With transactions as well: what exactly-once needs of a producer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from kconnect.runtime.kafka import (
    DeliveryFailure,
    KafkaBatch,
    KafkaRecord,
    RecordDelivery,
    RecordProducer,
    TransactionalProducer,
)
from kconnect.runtime.kafka.delivery import WrittenRecord
from kconnect.runtime.pipeline.exactly_once import Transactions
from kconnect.runtime.pipeline.unit_producer import TopicProducer
from kit.memory_producer import MemoryProducer
from kit.topics import committed_values, create_topic, topic_for
from kit.waiting import eventually, stays

WITHIN_S = 20.0
TOO_LARGE = b"x" * 1_010_000  # larger than a batch, so that it goes alone


class Kafka(Protocol):
    """A topic that takes records of up to 2000 bytes, and producers for it."""

    topic: str

    def producer(self, *, room: int | None = None, waits: bool = False) -> TopicProducer:
        """`room`: for so many records; `waits`: what is sent stays with the client until it is flushed."""
        ...

    def transactions(self) -> Transactions: ...

    def written(self) -> list[bytes | None]:
        """Values in the topic, of transactions those that were committed."""
        ...


class InMemory:
    topic = "t"

    def __init__(self) -> None:
        self._log: list[tuple[str, bytes | None, bytes | None]] = []

    def producer(self, *, room: int | None = None, waits: bool = False) -> TopicProducer:
        return RefusingProducer(room, self._log)

    def transactions(self) -> Transactions:
        return RefusingProducer(None, self._log)

    def written(self) -> list[bytes | None]:
        return [value for _, _, value in self._log]


class RefusingProducer(MemoryProducer):
    """As a broker with `max.message.bytes`."""

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        for index in reversed(range(len(self.sent))):
            if len(self.sent[index].payload or b"") > 2000:
                self.refuse(index)
        return super().flush(timeout_s, give_up)


class OnKafka:
    def __init__(self, bootstrap: str, topic: str, closing: ExitStack) -> None:
        self.topic = topic
        self._closing = closing
        self._settings = {"bootstrap.servers": bootstrap}
        create_topic(bootstrap, topic, config={"max.message.bytes": "2000"})

    def producer(self, *, room: int | None = None, waits: bool = False) -> TopicProducer:
        narrow = {} if room is None else {"queue.buffering.max.messages": room}
        lingers = {"linger.ms": 60_000} if waits else {}
        producer = RecordProducer({**self._settings, **narrow, **lingers}, self.topic, report_each=True)
        self._closing.callback(producer.close)
        return producer

    def transactions(self) -> Transactions:
        producer = TransactionalProducer({**self._settings, "transactional.id": self.topic}, self.topic)
        self._closing.callback(producer.close)
        return producer

    def written(self) -> list[bytes | None]:
        return committed_values(str(self._settings["bootstrap.servers"]), self.topic)


@pytest.fixture(scope="module", params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def kind(request: pytest.FixtureRequest) -> str:
    """Which producers; and the broker is there for those that need it."""
    if request.param == "kafka":
        request.getfixturevalue("broker")
    return str(request.param)


@pytest.fixture
def kafka(kind: str, request: pytest.FixtureRequest) -> Iterator[Kafka]:
    with ExitStack() as closing:
        if kind == "memory":
            yield InMemory()
        else:
            yield OnKafka(request.getfixturevalue("broker").bootstrap, topic_for(request), closing)


class Units:
    """Sends values as units, and keeps how each ended."""

    def __init__(self, kafka: Kafka, producer: TopicProducer | Transactions, *, tolerates: bool = False) -> None:
        self._kafka = kafka
        self._producer = producer
        self._tolerates = tolerates
        self.ended: list[tuple[str, bool]] = []
        self.failures: list[DeliveryFailure] = []

    def send(self, name: str, *values: bytes, give_up: Callable[[], bool] = lambda: False) -> bool:
        unit = self._producer.delivery(lambda is_acked: self.ended.append((name, is_acked)), self._failed)
        batch = KafkaBatch(self._kafka.topic, None, None, list(values), None, None)
        is_sent = self._producer.send_batch(batch, unit, give_up)
        if is_sent:
            unit.complete()
        return is_sent

    def _failed(self, failure: DeliveryFailure) -> bool:
        self.failures.append(failure)
        return self._tolerates


def test_units_end_in_order_once_all_their_records_are_written_and_when_somebody_serves(kafka: Kafka) -> None:
    producer = kafka.producer(waits=True)
    units = Units(kafka, producer)
    assert units.send("first", b"1", b"2")
    assert units.send("second", b"3")
    assert (len(producer), units.ended) == (3, [])
    assert producer.flush(WITHIN_S)
    assert (len(producer), units.ended) == (0, [("first", True), ("second", True)])
    assert kafka.written() == [b"1", b"2", b"3"]
    assert kafka.topic in producer.topic_names(WITHIN_S)
    assert producer.last_error is None


def test_a_record_of_its_own_is_reported_where_it_was_written_and_its_unit_ends_after_it(kafka: Kafka) -> None:
    producer = kafka.producer()
    reported: list[object] = []
    unit = producer.delivery(reported.append)
    for value in (b"1", None):
        each = RecordDelivery(unit, reported.append)
        assert producer.send(KafkaRecord(kafka.topic, 0, b"k", value, 1234, [("h", b"v")]), each, lambda: False)
    unit.complete()
    del unit, each
    assert producer.flush(WITHIN_S)
    *written, end = reported
    assert end is True
    assert [(one.topic, one.partition, one.offset) for one in written if isinstance(one, WrittenRecord)] == [
        (kafka.topic, 0, 0),
        (kafka.topic, 0, 1),
    ]
    assert kafka.written() == [b"1", None]


@pytest.mark.parametrize("tolerates", [False, True])
def test_a_record_that_is_refused_ends_its_unit_as_failed_unless_that_is_tolerated(
    tolerates: bool, kafka: Kafka
) -> None:
    producer = kafka.producer()
    units = Units(kafka, producer, tolerates=tolerates)
    assert units.send("refused", TOO_LARGE)
    assert producer.flush(WITHIN_S)
    assert units.send("good", b"1")
    assert producer.flush(WITHIN_S)
    assert units.ended == [("refused", tolerates), ("good", True)]
    assert [(failure.topic, failure.code) for failure in units.failures] == [(kafka.topic, "MSG_SIZE_TOO_LARGE")]
    assert kafka.written() == [b"1"]


def test_who_finds_no_room_waits_until_it_gives_up_and_what_it_had_is_not_sent(kafka: Kafka) -> None:
    producer = kafka.producer(room=2, waits=True)
    units = Units(kafka, producer)
    assert units.send("first", b"1", b"2")
    asked: list[bool] = []
    assert not units.send("second", b"3", give_up=lambda: asked.append(True) or len(asked) > 1)
    assert len(asked) == 2
    assert producer.flush(WITHIN_S)
    assert units.ended == [("second", False), ("first", True)]
    assert units.send("third", b"4")
    assert producer.flush(WITHIN_S)
    assert kafka.written() == [b"1", b"2", b"4"]


@pytest.mark.parametrize("how", ["abandon", "close"])
def test_what_is_dropped_was_not_acknowledged_and_is_no_failure_of_a_record(how: str, kafka: Kafka) -> None:
    producer = kafka.producer(waits=True)
    units = Units(kafka, producer, tolerates=True)
    assert units.send("dropped", b"1")
    if how == "abandon":
        producer.abandon()
        assert producer.flush(WITHIN_S)
    producer.close()
    producer.close()
    assert (units.ended, units.failures) == ([("dropped", False)], [])
    assert kafka.written() == []


def test_a_flush_that_is_given_up_leaves_what_is_not_written(kafka: Kafka) -> None:
    producer = kafka.producer(waits=True)
    units = Units(kafka, producer)
    assert units.send("unit", b"1")
    assert not producer.flush(WITHIN_S, lambda: True)
    assert (len(producer), units.ended) == (1, [])


def test_a_transaction_is_seen_once_it_is_committed_and_never_when_it_is_aborted(kafka: Kafka) -> None:
    producer = kafka.transactions()
    units = Units(kafka, producer)
    assert producer.claim(WITHIN_S, lambda: False)
    producer.abort()  # nothing is open
    producer.begin()
    producer.begin()  # is open already
    assert units.send("kept", b"1")
    assert producer.flush(WITHIN_S)
    assert (units.ended, kafka.written()) == ([("kept", True)], [])
    assert producer.commit(lambda: False)
    # The mark that ends a transaction comes a moment after the commit has returned
    eventually(lambda: kafka.written() == [b"1"], WITHIN_S, "it is seen")
    for number in range(20):  # the broker writes the markers of one while the next begins
        producer.begin()
        assert units.send("dropped", b"2")
        stays(lambda: True, number / 4000, "it aborts at different moments of that")
        producer.abort()
        producer.begin()
        assert units.send("kept too", b"%d" % (number + 3))
        assert producer.commit(lambda: False)
    producer.serve()
    assert [name for name, _ in units.ended] == ["kept", *["dropped", "kept too"] * 20]
    assert all(was_written for name, was_written in units.ended if name != "dropped")
    committed = [b"1", *(b"%d" % (number + 3) for number in range(20))]
    eventually(lambda: kafka.written() == committed, WITHIN_S, "those that were committed are seen")
    assert producer.why_broken() is None
