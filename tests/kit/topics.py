"""Topics of tests: names, and bare producers and consumers to look at them from outside of our own code."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported there
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from kit.pace import ample_s, now
from kit.waiting import eventually

__all__ = [
    "await_committed",
    "committed_values",
    "consume",
    "consume_values",
    "create_topic",
    "delete_topic",
    "end_offset",
    "open_transaction",
    "produce_lines",
    "topic_for",
]

_QUIET = {"log_level": 2}  # a broker that a test stops is no news
_NOT_THERE = {"_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"}
# For a moment, after a broker's start or a topic's creation; the last one is the admin client's own word for it
_LEADERLESS = {"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH", "_NOENT"}


@contextmanager
def open_transaction(bootstrap: str, topic: str, key: bytes, value: bytes = b"{}") -> Iterator[None]:
    """Inside, a record of a transaction that is still open ends the topic; it is aborted after that."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex, **_QUIET})
    producer.init_transactions(ample_s(30))
    producer.begin_transaction()
    producer.produce(topic, value, key)
    assert producer.flush(ample_s(30)) == 0
    try:
        yield
    finally:
        producer.abort_transaction(ample_s(30))


def topic_for(request: Any, suffix: str = "") -> str:
    """A topic name that tells the test, and is fresh each time."""
    name = re.sub(r"[^a-zA-Z0-9._-]+", "-", str(request.node.name)).strip("-")[:100]
    return f"{name}{suffix}-{uuid.uuid4().hex[:6]}"


def create_topic(bootstrap: str, topic: str, *, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    """Create a topic and wait until the broker leads its partitions: the controller answers before that."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    created = admin.create_topics(
        [NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})], operation_timeout=20
    )
    created[topic].result(timeout=ample_s(30))
    places = {TopicPartition(topic, part): OffsetSpec.earliest() for part in range(partitions)}
    deadline = now() + 30
    while True:
        is_last = now() > deadline
        try:
            for answer in admin.list_offsets(places).values():  # type: ignore[arg-type]  # its types want a list
                answer.result(timeout=ample_s(30))
            return
        except KafkaException as err:
            if err.args[0].name() not in _NOT_THERE | _LEADERLESS or is_last:
                raise
        admin.list_topics(timeout=ample_s(10))  # else the client may keep what it knew of the leaders
        time.sleep(0.05)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic and wait until the broker has forgotten it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})  # must live until the answer is there
    admin.delete_topics([topic], operation_timeout=20)[topic].result(timeout=ample_s(30))
    deadline = now() + 30
    while topic in admin.list_topics(timeout=ample_s(10)).topics:  # of all: a question for one topic makes it again
        assert now() < deadline, f"topic {topic} is still there"
        time.sleep(0.05)


def produce_lines(
    bootstrap: str,
    topic: str,
    values: Iterable[str | bytes | None],
    *,
    key: bytes | None = None,
    partition: int | None = None,
) -> int:
    """Produce the values, wait for all acks; gives how many."""
    failed: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,  # a fresh topic may refuse the first batch: only this keeps the order then
            **_QUIET,
        }
    )

    def delivered(err: Any, _message: Message) -> None:
        if err is not None:
            failed.append(str(err))

    more = {} if partition is None else {"partition": partition}
    count = 0
    for value in values:
        producer.produce(topic, value, key, on_delivery=delivered, **more)
        count += 1
        if count % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(ample_s(60))
    assert not failed, f"{len(failed)} of {count} records were not taken by {topic}: {failed[0]}"
    assert not left, f"{left} of {count} records were not acknowledged"
    return count


def consume(
    bootstrap: str, topic: str, count: int, within_s: float = 30.0, *, group: str | None = None
) -> list[Message]:
    """The first `count` messages of all partitions of a topic, from its beginning.

    Errors: AssertionError with what came when there are fewer in time.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or f"kit-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            **_QUIET,
        }
    )
    found: list[Message] = []
    deadline = now() + within_s
    try:
        consumer.assign([TopicPartition(topic, part, 0) for part in _partitions(consumer, topic, deadline)])
        while len(found) < count and now() < deadline:
            for message in consumer.consume(min(10_000, count - len(found)), timeout=0.2):
                assert message.error() is None, f"{topic}: {message.error()}"
                found.append(message)
    finally:
        consumer.close()
    assert len(found) >= count, (
        f"{len(found)} of {count} records in {topic} after {within_s:g} s: {[m.value() for m in found[:5]]}"
    )
    return found


def consume_values(bootstrap: str, topic: str, count: int, within_s: float = 30.0) -> list[bytes | None]:
    """The first `count` values of a topic, from its beginning."""
    return [message.value() for message in consume(bootstrap, topic, count, within_s)]


def end_offset(bootstrap: str, topic: str, partition: int = 0, *, isolation: str = "read_committed") -> int:
    """The offset after the last record of a partition; 0 when the topic is not there.

    `isolation`: records of an open transaction are behind the end, unless it is read_uncommitted.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": "kit-offsets", "isolation.level": isolation}
    consumer = Consumer({**settings, **_QUIET})
    deadline = now() + 10
    try:
        while True:
            try:
                return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ample_s(10))[1])
            except KafkaException as err:
                if err.args[0].name() in _NOT_THERE:
                    return 0
                if err.args[0].name() not in _LEADERLESS or now() >= deadline:
                    raise
            time.sleep(0.05)
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str, deadline: float) -> Sequence[int]:
    while True:
        metadata = consumer.list_topics(topic, timeout=ample_s(10)).topics[topic]
        if metadata.partitions:
            return sorted(metadata.partitions)
        assert now() < deadline, f"topic {topic} is not there: {metadata.error}"
        time.sleep(0.05)


def await_committed(bootstrap: str, topic: str, values: list[bytes | None], within_s: float = 20.0) -> None:
    """Wait until read_committed readers see just these values: the mark that ends a transaction comes a moment after
    the commit has returned.
    """

    def are_seen() -> bool:
        found = committed_values(bootstrap, topic)
        assert found == values, f"{len(found)} values: {found[:5]}"
        return True

    eventually(are_seen, within_s, f"{topic} has these {len(values)} committed values")


def committed_values(bootstrap: str, topic: str, within_s: float = 20.0) -> list[bytes | None]:
    """All values that read_committed readers see now, up to the first open transaction, by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"kit-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            **_QUIET,
        }
    )
    deadline = now() + within_s
    found: list[Message] = []
    try:
        partitions = _partitions(consumer, topic, deadline)
        consumer.assign([TopicPartition(topic, part, 0) for part in partitions])
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            assert now() < deadline, f"{topic} was not read to its end within {within_s:g} s"
            for message in consumer.consume(10_000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                else:
                    assert error.name() == "_PARTITION_EOF", error
                    ended.add(message.partition())
    finally:
        consumer.close()
    return [message.value() for message in sorted(found, key=lambda each: (each.partition(), each.offset()))]
