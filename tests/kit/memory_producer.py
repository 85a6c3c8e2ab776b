"""MemoryProducer: the producer of a source loop without a broker; its owner says when records are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from confluent_kafka import KafkaError

from kconnect.errors import ConnectError
from kconnect.runtime.kafka import AnyDelivery, Delivery, DeliveryFailure, KafkaBatch, KafkaRecord, RefusedRecord
from kconnect.runtime.kafka.delivery import EndedUnits
from kconnect.runtime.kafka.refusals import require_topic

__all__ = ["MemoryProducer", "Sent"]


@dataclass
class Sent:
    """A record with the producer; implements what a delivery asks of confluent_kafka's Message."""

    to: str
    name: bytes | None
    payload: bytes | None
    delivery: AnyDelivery
    at: int
    failure: KafkaError | None = None

    def topic(self) -> str:
        return self.to

    def partition(self) -> int:
        return 0

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes | None:
        return self.payload

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return (1, 0)

    def error(self) -> KafkaError | None:
        return self.failure


class MemoryProducer:
    """Implements TopicProducer and Transactions. `log` is what Kafka has and counts, `sent` what is on its way.

    `room`: how many records may be on their way; None for any number. What is said of it while it has none is done by
    `when_full`, which a test gives.
    """

    def __init__(
        self, room: int | None = None, log: list[tuple[str, bytes | None, bytes | None]] | None = None
    ) -> None:
        self.sent: list[Sent] = []
        self.log: list[tuple[str, bytes | None, bytes | None]] = [] if log is None else log
        self.open: list[tuple[str, bytes | None, bytes | None]] = []
        """Acknowledged records of the open transaction; of a producer without transactions they are in the log."""
        self.is_transactional = False
        self.is_closed = False
        self.is_stopped = False
        """Nothing is acknowledged any more, however long anybody waits."""
        self.room = room
        self.when_full: Callable[[], None] = lambda: None
        self.refused_topics: set[str] = set()
        """The client itself refuses records for these, at once: as one that is too large."""
        self.timeout_s = 60.0
        self.fail_commit: ConnectError | None = None
        self.fail_flush: ConnectError | None = None
        self._is_open = False
        self._ended = EndedUnits()
        self._offsets = 0

    # --- what the owner does ---

    def acknowledge(self, count: int) -> None:
        """The oldest records on their way are written."""
        for record in self.sent[:count]:
            entry = (record.to, record.name, record.payload)
            (self.open if self.is_transactional else self.log).append(entry)
            if not isinstance(record.delivery, Delivery):
                record.delivery(None, record)  # type: ignore[arg-type]  # stands for a Message
        del self.sent[:count]

    def refuse(self, index: int, code: int = KafkaError.MSG_SIZE_TOO_LARGE) -> None:
        """One of the records on their way is refused for good."""
        record = self.sent.pop(index)
        record.failure = KafkaError(code)
        record.delivery(record.failure, record)  # type: ignore[arg-type]  # stands for a Message

    # --- TopicProducer ---

    def topic_names(self, timeout_s: float) -> Collection[str]:
        return {topic for topic, _, _ in self.log}

    def __len__(self) -> int:
        return len(self.sent)

    @property
    def last_error(self) -> str | None:
        return None

    def delivery(
        self, on_end: Callable[[bool], None], on_failure: Callable[[DeliveryFailure], bool] = lambda failure: False
    ) -> Delivery:
        assert not self.is_closed
        return Delivery(on_end, on_failure, self._ended)

    def send_batch(self, records: KafkaBatch, delivery: Delivery, give_up: Callable[[], bool]) -> bool:
        keys = records.keys or [None] * len(records.values)
        return all(
            self._send(records.topic, key, value, delivery, give_up)
            for key, value in zip(keys, records.values, strict=True)
        )

    def send(self, record: KafkaRecord, delivery: AnyDelivery, give_up: Callable[[], bool]) -> bool:
        return self._send(record.topic, record.key, record.value, delivery, give_up)

    def serve(self, timeout_s: float = 0) -> None:
        assert not self.is_closed
        self._ended.tell()

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        if self.fail_flush is not None:
            raise self.fail_flush
        if not self.is_stopped and not give_up():
            self.acknowledge(len(self.sent))
        self._ended.tell()
        return not self.sent

    def abandon(self) -> None:
        while self.sent:
            self.refuse(0, KafkaError._PURGE_QUEUE)

    def close(self) -> None:
        self.abandon()
        self._ended.tell()
        self.abort()
        self.is_closed = True

    # --- Transactions ---

    def claim(self, timeout_s: float, give_up: Callable[[], bool]) -> bool:
        self.is_transactional = True
        return not give_up()

    def begin(self) -> None:
        assert self.is_transactional
        self._is_open = True

    def commit(self, give_up: Callable[[], bool]) -> bool:
        if give_up():
            return False
        if self.fail_commit is not None:
            raise self.fail_commit
        self.acknowledge(len(self.sent))
        self._ended.tell()
        self.log += self.open
        self.open, self._is_open = [], False
        return True

    def abort(self) -> None:
        self.abandon()
        self._ended.tell()
        self.open, self._is_open = [], False

    def why_broken(self) -> ConnectError | None:
        return None

    def _send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        delivery: AnyDelivery,
        give_up: Callable[[], bool],
    ) -> bool:
        require_topic(topic)
        assert not self.is_closed
        while self.room is not None and len(self.sent) >= self.room:
            self.when_full()
            self._ended.tell()
            if len(self.sent) >= self.room and give_up():
                return False
        if topic in self.refused_topics:
            delivery.fail(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), RefusedRecord(topic, None, key, value))
            return True
        self.sent.append(Sent(topic, key, value, delivery, self._offsets))
        self._offsets += 1
        return True
