"""FencedOffsets: offsets of a consumer group without members, in transactions that fence off older writers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.errors import RetriableError, TimedOutError
from kconnect.model import TopicPartition
from kconnect.runtime.kafka.clients import ClientLog, consumer_client, kafka_errors
from kconnect.runtime.kafka.transactional_producer import TransactionalProducer

log = logging.getLogger(__name__)

# After all brokers were away librdkafka asks a coordinator that it has itself put away, endlessly, where it starts from
# bootstrap.servers again (confluentinc/librdkafka 5511). Without that it goes back to the brokers that it knows
_KEEPS_BROKERS: Final = {"metadata.recovery.strategy": "none"}
# Offsets of a transaction whose end the group has not heard of are refused, not given as they were before. The client
# asks again by itself, after 100 ms if nothing is set: SparkSink had a row readable after 750 ms then, 490 without that
_READS_STABLE: Final = {"enable.auto.commit": False, "isolation.level": "read_committed", "retry.backoff.ms": 2}
_SETTLE_PAUSE_S: Final = 0.002


class CommittedOffset(NamedTuple):
    """An offset as the group has it, and the text that was committed with it: empty unless its writer gave one."""

    offset: int
    metadata: str


class FencedOffsets:
    """One writer of a group's offsets at a time: the newest. Threads: one, except for the constructor.

    Lifecycle: constructed -> claim() -> read()s and write()s -> close(). All offsets of a write are committed or none.
    Errors: FencedError for every write after another writer has claimed the same transactional id; else ConnectError.
    """

    def __init__(self, producer: Mapping[str, Any], consumer: Mapping[str, Any], name: str) -> None:
        """`producer` has a transactional.id, `consumer` the group.id."""
        self._group = str(consumer["group.id"])
        self._log = ClientLog(log, f"Consumer of {name}")
        self._producer = TransactionalProducer({**_KEEPS_BROKERS, **producer}, name)
        # It never subscribes: the group stays without members, and can be altered once the writer is gone
        self._consumer = consumer_client({**consumer, **_READS_STABLE}, self._log)

    def claim(self, timeout_s: float, give_up: Callable[[], bool]) -> bool:
        """Fence off the writers before, and end their open transactions. False if `give_up` ended the wait."""
        return self._producer.claim(timeout_s, give_up)

    def read(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, CommittedOffset]:
        """What is committed for these partitions; none for those without an offset.

        Errors: RetriableError while a transaction with them ends; ConnectError.
        """
        return _read(self._consumer, self._group, partitions, timeout_s)

    def write(self, offsets: Mapping[TopicPartition, CommittedOffset], give_up: Callable[[], bool]) -> bool:
        """Commit all of these at once. False if `give_up` ended the wait: the outcome is then unknown."""
        if not offsets:
            return True
        given = [ClientPartition(at.topic, at.partition, to.offset, to.metadata) for at, to in sorted(offsets.items())]
        self._producer.begin()
        return _add_offsets(self._producer, given, self._consumer, give_up) and self._producer.commit(give_up)

    def await_settled(self, partitions: Collection[TopicPartition], give_up: Callable[[], bool]) -> bool:
        """Wait until what was written is there for good. False if `give_up` ended the wait. Errors: ConnectError."""
        return _settled(self._consumer, self._group, partitions, self._producer.timeout_s, give_up)

    def close(self) -> None:
        """Idempotent."""
        self._producer.close()
        consumer = self.__dict__.pop("_consumer", None)
        if consumer is not None:
            with kafka_errors("The consumer cannot be closed"):
                consumer.close()


class MarkedProducer(TransactionalProducer):
    """A producer whose transactions commit an offset with their records, a mark: it says what has been written.

    The mark is read after `claim`, which ends the transactions of earlier producers: what it says then is final.
    Nobody may rely on a batch before `await_mark`.
    """

    def __init__(self, producer: Mapping[str, Any], consumer: Mapping[str, Any], name: str) -> None:
        """`producer` has a transactional.id, `consumer` the group.id of the marks."""
        super().__init__({**_KEEPS_BROKERS, **producer}, name)
        self._group = str(consumer["group.id"])
        self._reader_log = ClientLog(log, f"Consumer of {name}")
        self._reader = consumer_client({**consumer, **_READS_STABLE}, self._reader_log)

    def mark_of(self, at: TopicPartition, timeout_s: float) -> CommittedOffset | None:
        """The mark at this partition, None if there is none. Errors: ConnectError."""
        return _read(self._reader, self._group, [at], timeout_s).get(at)

    def mark(self, at: TopicPartition, to: CommittedOffset, give_up: Callable[[], bool]) -> bool:
        """Put the mark into the open transaction. False if `give_up` ended the wait. Errors: those of the class."""
        given = [ClientPartition(at.topic, at.partition, to.offset, to.metadata)]
        return _add_offsets(self, given, self._reader, give_up)

    def await_mark(self, at: TopicPartition, give_up: Callable[[], bool]) -> bool:
        """Wait until the transaction with the mark, which was committed, has ended for good. Errors: ConnectError."""
        return _settled(self._reader, self._group, [at], self._timeout_s, give_up)

    def close(self) -> None:
        super().close()
        reader = self.__dict__.pop("_reader", None)
        if reader is not None:
            with kafka_errors("The consumer cannot be closed"):
                reader.close()


def _read(
    consumer: Any, group: str, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, CommittedOffset]:
    if not partitions:
        return {}
    asked = [ClientPartition(at.topic, at.partition) for at in partitions]
    doing = f"The offsets of consumer group {group!r} cannot be read"
    with kafka_errors(doing):
        found = consumer.committed(asked, timeout=timeout_s)
        for part in found:
            if part.error is not None and part.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise RetriableError(f"{doing}: {part.error.str()}")
            if part.error is not None:
                raise KafkaException(part.error)
    return {
        TopicPartition(part.topic, part.partition): CommittedOffset(part.offset, part.metadata or "")
        for part in found
        if part.offset >= 0
    }


def _settled(
    consumer: Any, group: str, partitions: Collection[TopicPartition], timeout_s: float, give_up: Callable[[], bool]
) -> bool:
    """Wait until the group knows that a transaction has ended; it learns of it milliseconds after the commit.

    Brokers that are all killed in between forget it: Kafka 4.3 skips the marker of a partition that has no leader while
    its coordinator starts again, and the next abort of that producer takes what was committed along.
    """
    deadline = time.monotonic() + timeout_s
    while not give_up():
        try:
            _read(consumer, group, partitions, timeout_s)
        except RetriableError as error:
            if time.monotonic() > deadline:
                raise TimedOutError(f"{error} within {timeout_s:g} s") from error
            time.sleep(_SETTLE_PAUSE_S)
        else:
            return True
    return False


def _add_offsets(
    producer: TransactionalProducer, offsets: list[ClientPartition], consumer: Any, give_up: Callable[[], bool]
) -> bool:
    member = consumer.consumer_group_metadata()

    def attempt(step_s: float) -> None:
        producer._client.send_offsets_to_transaction(offsets, member, step_s)

    return producer._insist_apart(attempt, "Offsets cannot be added to a transaction", give_up)
