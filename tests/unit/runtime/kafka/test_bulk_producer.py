"""What BulkProducer promises, on the brokers that librdkafka can play in its own threads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kconnect.errors import ConnectError
from kconnect.runtime.config.client_config import producer_config
from kconnect.runtime.kafka import BulkProducer, ByteColumn, DeliveryFailure, KafkaBatch, KafkaRecord
from kconnect.runtime.kafka.bulk_client import BulkClient
from kconnect.runtime.kafka.clients import ClientLog
from kit.examples import examples
from kit.pace import ample_s, now
from kit.played_broker import PRODUCE, PlayedBroker, played_broker
from kit.producers import queued
from kit.topics import topic_for
from kit.waiting import eventually

PARTITIONS = 4


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """A cluster in this process, of one broker; its topics have four partitions."""
    settings = {"test.mock.num.brokers": 1, "bootstrap.servers": "played", "log_level": 2}
    player = Producer(settings)
    cluster = player.list_topics(timeout=ample_s(10))
    (broker,) = cluster.brokers.values()
    yield f"{broker.host}:{broker.port}"
    player.close()


@dataclass
class Ended:
    """What a unit's end said."""

    acked: list[bool] = field(default_factory=list)
    failures: list[DeliveryFailure] = field(default_factory=list)
    tolerates: bool = False

    def refused(self, failure: DeliveryFailure) -> bool:
        self.failures.append(failure)
        return self.tolerates


@pytest.fixture
def played() -> Iterator[PlayedBroker]:
    """A broker whose topic `one` has one partition."""
    with played_broker() as played:
        played.make_topic("one", 1)
        yield played


def producer(brokers: str, **more: Any) -> BulkProducer:
    return BulkProducer({"bootstrap.servers": brokers, "log_level": 2, **more}, "orders-0")


def never() -> bool:
    return False


def batch(
    topic: str, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None, **more: Any
) -> KafkaBatch:
    parts: dict[str, Any] = {"partition": None, "timestamps": None, "headers": None} | more
    return KafkaBatch(topic=topic, keys=keys, values=values, **parts)


def send(sender: BulkProducer, records: KafkaBatch, ended: Ended, give_up: Callable[[], bool] = never) -> bool:
    delivery = sender.delivery(ended.acked.append, ended.refused)
    is_sent = sender.send_batch(records, delivery, give_up)
    if is_sent:
        delivery.complete()
    return is_sent


def written(
    brokers: str, topic: str, count: int, partitions: int = PARTITIONS
) -> list[tuple[int, bytes | None, bytes | None]]:
    """Partition, key and value of all records, in the order of each partition."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "looks", "log_level": 2})
    found = []
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        deadline = now() + 20
        while len(found) < count and now() < deadline:
            found += [record for record in consumer.consume(count, timeout=0.2) if record.error() is None]
    finally:
        consumer.close()
    return [(record.partition() or 0, record.key(), record.value()) for record in found]


def ended_at(brokers: str, topic: str) -> int:
    """How many records all partitions have."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "looks", "log_level": 2})
    try:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(consumer.get_watermark_offsets(place, timeout=ample_s(10))[1] for place in places)
    finally:
        consumer.close()


def in_column(values: Sequence[bytes | None]) -> ByteColumn:
    """A part of a longer column, as a slice of a batch is."""
    return ByteColumn(pa.array([b"before", *values, b"after"], pa.binary()))[1:-1]


def test_a_large_unit_of_plain_records_is_written_whole_and_in_order(brokers: str) -> None:
    ended, values = Ended(), [b"%d" % number for number in range(40_000)]
    sender = producer(brokers)
    try:
        assert send(sender, batch("whole", in_column(values)), ended)
        assert sender.flush(ample_s(20))
        assert ended.acked == [True]
        found = written(brokers, "whole", len(values))
        assert sorted((value or b"" for _, _, value in found), key=int) == values
        for number in range(PARTITIONS):
            numbers = [int(value or b"") for partition, _, value in found if partition == number]
            assert numbers == sorted(numbers)
    finally:
        sender.close()


@examples(15, may_fail=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=40)), min_size=1))
def test_keys_and_values_arrive_as_they_are_empty_ones_and_none_included(
    brokers: str, rows: list[tuple[bytes | None, bytes | None]]
) -> None:
    topic, ended, rows = f"as-they-are-{time.monotonic_ns()}", Ended(), rows * (2_000 // len(rows) + 1)
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    sender = producer(brokers)
    try:
        assert send(sender, batch(topic, in_column(values), in_column(keys)), ended)
        assert send(sender, batch(topic, values, keys), ended)  # lists, as converters of records give them
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    assert ended.acked == [True, True]
    found = [(key, value) for _, key, value in written(brokers, topic, 2 * len(rows))]
    assert sorted(found, key=repr) == sorted([*rows, *rows], key=repr)


def test_units_end_one_by_one_though_the_brokers_answer_for_many_at_once(brokers: str) -> None:
    ends = [Ended() for _ in range(30)]
    sender = producer(brokers)
    try:
        for number, ended in enumerate(ends):
            assert send(sender, batch("many", in_column([b"%d" % number] * (2_000 + number))), ended)
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    assert [ended.acked for ended in ends] == [[True]] * 30


@pytest.mark.parametrize("idempotence", [False, True])
def test_units_to_a_topic_of_one_partition_end_each_once_and_in_their_order_with_idempotence(
    played: PlayedBroker, idempotence: bool
) -> None:
    """Without it librdkafka makes requests ahead: one that is refused for now is written behind the next."""
    ends: list[int] = []
    sender = producer(played.bootstrap, **{"batch.num.messages": 700, "enable.idempotence": idempotence})
    played.refuse(PRODUCE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.NOT_ENOUGH_REPLICAS)
    values = [b"%d" % number for number in range(30 * 2_000)]
    try:
        for number in range(30):
            delivery = sender.delivery(lambda is_acked, number=number: ends.append(number if is_acked else -1))
            some = in_column(values[2_000 * number : 2_000 * number + 2_000])
            assert sender.send_batch(batch("one", some), delivery, never)
            delivery.complete()
            del delivery
            sender.serve()
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    found = [value for _, _, value in written(played.bootstrap, "one", len(values), 1)]
    if not idempotence:
        ends.sort()
        found.sort(key=lambda value: int(value or b""))
    assert ends == list(range(30))
    assert found == values


def test_a_client_knows_the_partitions_of_a_topic_and_none_once_it_is_closed(played: PlayedBroker) -> None:
    played.make_topic("three", 3)
    log = ClientLog(logging.getLogger(__name__), "orders-0")
    client = BulkClient({"bootstrap.servers": played.bootstrap, "log_level": 0}, log)
    found = {topic: client.partitions_of(topic, ample_s(10)) for topic in ("one", "three")}
    client.close()
    assert found == {"one": [0], "three": [0, 1, 2]}
    assert client.partitions_of("one", 0) == []


@pytest.mark.parametrize("is_bulk", [False, True])
def test_a_source_that_sets_nothing_keeps_the_order_when_the_broker_refuses_for_now(
    played: PlayedBroker, is_bulk: bool
) -> None:
    settings, _ = producer_config({"bootstrap.servers": played.bootstrap}, client_id="c")
    sender = BulkProducer({**settings, "batch.num.messages": 100, "linger.ms": 0, "log_level": 0}, "orders-0")
    played.refuse(PRODUCE, *[KafkaError.NOT_LEADER_FOR_PARTITION, 0, KafkaError.NOT_ENOUGH_REPLICAS, 0] * 3)
    values, ended = [b"%d" % number for number in range(6_000)], Ended()
    try:
        for start in range(0, len(values), 2_000):
            some = values[start : start + 2_000]
            assert send(sender, batch("one", in_column(some) if is_bulk else some), ended)
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    assert ended.acked == [True] * 3
    assert [value for _, _, value in written(played.bootstrap, "one", len(values), 1)] == values


@pytest.mark.parametrize("idempotence", [False, True])
def test_what_is_refused_in_a_topic_of_one_partition_fails_its_own_unit_alone(
    played: PlayedBroker, idempotence: bool
) -> None:
    ends = [Ended() for _ in range(4)]
    # So long that every request has its 500, however slow the machine is
    own = {"batch.num.messages": 500, "linger.ms": 60_000, "enable.idempotence": idempotence}
    sender = producer(played.bootstrap, **own)
    played.refuse(PRODUCE, 0, 0, 0, 0, 0, KafkaError.INVALID_RECORD)  # the second piece of the second unit
    try:
        for number, ended in enumerate(ends):
            send(sender, batch("one", in_column([b"%d" % number] * 2_000)), ended)  # perhaps refused before it is back
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    assert [ended.acked for ended in ends] == [[True], [False], [True], [True]]
    assert [len(ended.failures) for ended in ends] == [0, 500, 0, 0]
    assert {(failure.topic, failure.partition) for failure in ends[1].failures} == {("one", 0)}


def test_keys_do_not_stay_behind_for_records_that_have_none(played: PlayedBroker) -> None:
    sender, ended = producer(played.bootstrap), Ended()
    try:
        assert send(sender, batch("one", in_column([b"with"] * 2_000), in_column([b"key"] * 2_000)), ended)
        assert send(sender, batch("one", in_column([b"without"] * 2_000)), ended)
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    found = [(key, value) for _, key, value in written(played.bootstrap, "one", 4_000, 1)]
    assert found == [(b"key", b"with")] * 2_000 + [(None, b"without")] * 2_000


@pytest.mark.parametrize("more", [{}, {"timestamps": 1}], ids=["whole columns", "rows"])
@pytest.mark.parametrize("makes", [in_column, list], ids=["column", "list"])
@pytest.mark.parametrize("tolerates", [False, True])
def test_a_value_that_is_too_large_ends_its_unit_as_refused_or_tolerated_and_none_overtakes_it(
    brokers: str,
    tolerates: bool,
    makes: Callable[[Sequence[bytes]], Sequence[bytes]],
    more: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    topic = topic_for(request)
    values = [b"%d" % row for row in range(2_000)]
    values[700] = b"x" * 2_000
    ended, sender = Ended(tolerates=tolerates), producer(brokers, **{"message.max.bytes": 1_500, "batch.size": 900})
    try:
        assert send(sender, batch(topic, makes(values), [b"k"] * 2_000, **more), ended) == tolerates
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    (failure,) = ended.failures
    assert (failure.topic, failure.code) == (topic, "MSG_SIZE_TOO_LARGE")
    assert str(failure.error).startswith("A record of 2,001 bytes with the key b'k' could not be written to topic ")
    assert str(failure.error).endswith("Message size too large")
    assert ended.acked == [tolerates]
    sent = values[:700] + (values[701:] if tolerates else [])
    assert ended_at(brokers, topic) == len(sent)
    assert [value for _, _, value in written(brokers, topic, len(sent))] == sent


def test_records_that_no_broker_takes_are_refused_with_their_topic_and_partition(brokers: str) -> None:
    ended = Ended()
    sender = producer("127.0.0.1:1", **{"message.timeout.ms": 100})
    try:
        assert send(sender, batch("nowhere", in_column([b"x"] * 2_000)), ended)
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    assert ended.acked == [False]
    assert {(failure.topic, failure.code) for failure in ended.failures} == {("nowhere", "_MSG_TIMED_OUT")}
    assert len(ended.failures) == 2_000
    assert str(ended.failures[0].error).endswith("written to topic 'nowhere': Local: Message timed out")


def test_records_of_the_other_kind_wait_for_those_before_them(brokers: str) -> None:
    """The keyed ones go to one partition: there they stay in order."""
    sender, values, ended = producer(brokers, **{"linger.ms": 50}), [b"%d" % number for number in range(6_000)], Ended()
    try:
        for start in range(0, 6_000, 2_000):
            some = values[start : start + 2_000]
            times = [1_700_000_000_000] * 2_000 if start == 2_000 else None
            assert send(sender, batch("both", in_column(some), in_column([b"k"] * 2_000), timestamps=times), ended)
        delivery = sender.delivery(ended.acked.append, ended.refused)
        assert sender.send(KafkaRecord("both", None, b"k", b"6000"), delivery, never)
        delivery.complete()
        del delivery
        assert sender.flush(ample_s(20))
    finally:
        sender.close()
    assert ended.acked == [True] * 4
    assert [int(value or b"") for _, _, value in written(brokers, "both", 6_001)] == list(range(6_001))


def test_it_waits_for_room_and_gives_up_when_asked_to() -> None:
    sender, ended = producer("127.0.0.1:1", **{"queue.buffering.max.messages": 3_000}), Ended()
    asked: list[bool] = []

    def gives_up_later() -> bool:
        asked.append(True)
        return len(asked) > 2

    try:
        assert send(sender, batch("full", in_column([b"x"] * 2_500)), ended)
        assert not send(sender, batch("full", in_column([b"x"] * 2_500)), ended, gives_up_later)
        eventually(lambda: queued(sender) == 2_500, 10, "the first batch alone is in the queue")
        assert ended.acked == [False]  # the unit of which nothing was sent
    finally:
        sender.close()


def test_once_the_queue_of_the_client_is_full_no_later_row_is_taken() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "log_level": 2, "queue.buffering.max.messages": 20_000}
    client = BulkClient(settings, ClientLog(logging.getLogger(__name__), "orders-0"))
    try:
        refused = client.produce("full", None, [b"x"] * 50_000, lambda error, message: None)
        assert [row for row, _ in refused] == list(range(20_000, 50_000))
        assert {error.code() for _, error in refused} == {KafkaError._QUEUE_FULL}
    finally:
        client.close()


def test_what_is_abandoned_ends_as_not_acknowledged_and_is_no_failure() -> None:
    sender, ended = producer("127.0.0.1:1"), Ended()
    assert send(sender, batch("gone", in_column([b"x"] * 5_000)), ended)
    sender.abandon()

    def has_ended() -> bool:
        sender.serve()
        return bool(ended.acked)

    eventually(has_ended, 10, "the unit has ended")
    sender.close()
    assert (ended.acked, ended.failures) == ([False], [])


def test_closing_drops_what_was_not_sent_and_may_be_done_twice() -> None:
    sender, ended = producer("127.0.0.1:1"), Ended()
    assert send(sender, batch("gone", in_column([b"x"] * 5_000)), ended)
    sender.close()
    sender.close()
    sender.serve()
    assert len(sender) == 0
    assert (ended.acked, ended.failures) == ([False], [])


def test_a_name_that_no_topic_can_have_is_an_error(brokers: str) -> None:
    sender = producer(brokers)
    try:
        with pytest.raises(ConnectError, match=r"Records could not be written to topic 'x{600}'"):
            send(sender, batch("x" * 600, in_column([b"x"] * 2_000)), Ended())
    finally:
        sender.close()
