"""Deliveries: callbacks of units and of single records, which report when all messages of a unit are acknowledged.

`producer.py` hands the records over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, Message

from kconnect.errors import ConnectError
from kconnect.runtime.config.rights import Client, Right
from kconnect.runtime.kafka.batch_sizes import BatchSize
from kconnect.runtime.kafka.clients import connect_error
from kconnect.runtime.kafka.refusals import NO_PARTITION, RefusedRecord, topic_refusal

_NO_OFFSET = -1
# Bytes of a key in a message
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
# These say that the client can write no more, and nothing of the record. The last three end idempotent producers: the
# records that one of them meets have its code, all later ones the first.
_FATAL = frozenset(
    {
        KafkaError._FATAL,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError._INCONSISTENT,
    }
)


def refused_record(message: Message) -> RefusedRecord:
    key, value = message.key(), message.value()
    assert not isinstance(key, str)  # as the binding's types allow: a serializer may have made it
    assert not isinstance(value, str)
    return RefusedRecord(message.topic() or "", message.partition(), key, value)


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    """One record that the broker, or the client, refused for good."""

    topic: str
    partition: int | None
    code: str
    error: ConnectError
    is_of_batch: bool = False
    """It is never tolerated: the records that were sent together are written in smaller batches."""


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """Where a record was written. Source: o.a.k.clients.producer.RecordMetadata."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key_size: int = -1
    """Bytes; -1 where there is none, as of the value."""
    value_size: int = -1


class EndedUnits:
    """Units that have no messages in flight any more: noted by the last one, reported by whoever serves the producer.

    Threads: note() on any, also inside a destructor: one append, no lock, no callback. tell() on any; each unit is
    reported once. take_released() on the sending thread alone.
    """

    def __init__(self) -> None:
        self._noted: deque[tuple[int, Callable[[bool], None], bool]] = deque()
        self._released: deque[int] = deque()

    def note(self, size: int, on_end: Callable[[bool], None], is_acked: bool) -> None:
        self._noted.append((size, on_end, is_acked))

    def tell(self) -> None:
        """Call back for each unit that was noted."""
        while self._noted:
            try:
                size, on_end, is_acked = self._noted.popleft()
            except IndexError:  # another thread reported the last one
                return
            self._released.append(size)
            on_end(is_acked)

    def take_released(self) -> int:
        """Bytes of the units reported since the last call."""
        released = 0
        while self._released:
            released += self._released.popleft()
        return released


class Delivery:
    """The delivery callback of all messages of one unit; it dies with the last of them, and so notes the unit's end.

    librdkafka's binding keeps one reference to the callback for each message until its delivery report was served, and
    with `delivery.report.only.error` calls it for failures alone. So "acknowledged" costs no Python call a record, and
    is exact over any number of partitions. Measured (98 B, 2 cores, medians of 3): 0.65 us CPU a record with it, 0.62
    without any callback, 0.85 with a Python callback for each record.
    A destructor may run anywhere, under any lock: it only appends to a deque.
    Threads: ends on whichever thread serves the producer. CPython only, as the binding is.
    """

    __slots__ = ("_batches", "_ended", "_failed", "_is_complete", "_on_end", "_on_failure", "client", "size")

    def __init__(
        self,
        on_end: Callable[[bool], None],
        on_failure: Callable[[DeliveryFailure], bool],
        ended: EndedUnits,
        client: Client | None = None,
        batches: BatchSize | None = None,
    ) -> None:
        """`client`: who sends, for what a broker does not allow it. `batches`: what it sends together."""
        self.client = client or Client()
        self._on_end = on_end
        self._on_failure = on_failure
        self._ended = ended
        self._batches = batches
        self._is_complete = False
        self._failed = False
        self.size = 0
        """Key and value bytes handed over so far."""

    def complete(self) -> None:
        """All messages are with the producer: the end of the last one is the end of the unit."""
        self._is_complete = True

    @property
    def has_failed(self) -> bool:
        """Whether a message was refused, and that not tolerated: nothing that was polled behind it should be sent."""
        return self._failed

    def fail(self, error: KafkaError, record: RefusedRecord) -> None:
        """A message was permanently refused; `on_failure` returns whether that is tolerated.

        Never tolerated is that the client can write no more: all that is sent from then on would be passed over.
        """
        if error.code() in _PURGED:
            self._failed = True  # we dropped it ourselves: never tolerated, never reported
            return
        if error.code() == KafkaError._DESTROY:
            # librdkafka's error for a record whose partition left the metadata during its retry.
            error = KafkaError(KafkaError._UNKNOWN_PARTITION)
        reason = _write_error(error, record, self.client)
        failure = DeliveryFailure(record.topic, record.partition, error.name(), reason)
        if not self._on_failure(failure) or error.fatal() or error.code() in _FATAL:
            self._failed = True

    def refused(self, error: KafkaError, record: RefusedRecord) -> None:
        """Works as fail() for a message that was sent: a batch too large for its topic is no error of a record."""
        is_too_large = error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        if not is_too_large or self._batches is None or not self._batches.refused(record.size):
            self.fail(error, record)
            return
        reason = ConnectError(
            f"A batch of records could not be written to {record.place}: {error.str()}", hint=_SMALLER
        )
        self._on_failure(DeliveryFailure(record.topic, record.partition, error.name(), reason, is_of_batch=True))
        self._failed = True

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused(error, refused_record(message))

    def __del__(self) -> None:
        self._ended.note(self.size, self._on_end, self._is_complete and not self._failed)


# What a topic is refused with whose name no topic can have: by the broker, and by librdkafka, which asks it
_OF_TOPICS: Final = (KafkaError.TOPIC_EXCEPTION, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)

_SMALLER: Final = (
    "It is larger than max.message.bytes of the topic. Once restarted, the task sends smaller batches; "
    "producer.override.batch.size sets them from the start."
)
# What is wrong with one record
_OF_RECORDS: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD)


def _write_error(error: KafkaError, record: RefusedRecord, client: Client) -> ConnectError:
    if error.code() in _OF_TOPICS and (refusal := topic_refusal(record.topic)):
        return refusal
    what = str(record) if error.code() in _OF_RECORDS else "A record"
    need = Right("WRITE", "topic", record.topic)
    return connect_error(f"{what} could not be written to {record.place}", error, (need,), client)


class RecordDelivery:
    """The callback of one record, for tasks that want commit_record(). Needs a producer with `report_each`."""

    __slots__ = ("_on_written", "unit")

    def __init__(self, unit: Delivery, on_written: Callable[[WrittenRecord | None], None]) -> None:
        self.unit = unit
        self._on_written = on_written

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.unit.refused(error, refused_record(message))
            self._on_written(None)
        else:
            self._on_written(_written(message))

    def fail(self, error: KafkaError, record: RefusedRecord) -> None:
        """The record was refused for good."""
        self.unit.fail(error, record)
        self._on_written(None)


class ReportedDelivery:
    """Another callback of one record, and a report of the record's end. Needs a producer with `report_each`.

    `on_end` gets where the record was written (nowhere: partition and offset -1), and why it was not. It is called
    after the other callback, must be quick and must not raise.
    """

    __slots__ = ("_delivery", "_on_end")

    def __init__(self, delivery: AnyDelivery, on_end: Callable[[WrittenRecord, ConnectError | None], None]) -> None:
        self._delivery = delivery
        self._on_end = on_end

    @property
    def unit(self) -> Delivery:
        return self._delivery if isinstance(self._delivery, Delivery) else self._delivery.unit

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._delivery(error, message)
            self._end(error, refused_record(message))
            return
        self._delivery(None, message)
        self._on_end(_written(message), None)

    def fail(self, error: KafkaError, record: RefusedRecord) -> None:
        """The record was refused for good."""
        self._delivery.fail(error, record)
        self._end(error, record)

    def _end(self, error: KafkaError, record: RefusedRecord) -> None:
        number = NO_PARTITION if record.partition is None else record.partition
        reason = _write_error(error, record, self.unit.client)
        self._on_end(WrittenRecord(record.topic, number, _NO_OFFSET, None), reason)


def _written(message: Message) -> WrittenRecord:
    kind, timestamp = message.timestamp()
    return WrittenRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp if kind else None,
        _size(message.key()),
        _size(message.value()),
    )


def _size(data: bytes | str | None) -> int:
    return -1 if data is None else len(data)


AnyDelivery = Delivery | RecordDelivery | ReportedDelivery
