"""InterceptedProducer: a producer whose records pass its interceptors, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kconnect.api import ProducerInterceptor, ProducerRecord, RecordMetadata
from kconnect.errors import ConnectError
from kconnect.runtime.kafka import (
    AnyDelivery,
    Delivery,
    DeliveryFailure,
    KafkaBatch,
    KafkaRecord,
    ReportedDelivery,
    WrittenRecord,
)
from kconnect.runtime.pipeline.interceptors import Interceptors
from kconnect.runtime.pipeline.unit_producer import UnitProducer


class InterceptedProducer:
    """Implements UnitProducer over another one, which must report each record. Threads: as that one.

    Source: KafkaProducer.send, doSend and AppendCallbacks (Kafka 4.3).
    """

    def __init__(self, producer: UnitProducer, interceptors: Interceptors[ProducerInterceptor]) -> None:
        self._producer = producer
        self._interceptors = interceptors
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._producer)

    @property
    def last_error(self) -> str | None:
        return self._producer.last_error

    def delivery(
        self, on_end: Callable[[bool], None], on_failure: Callable[[DeliveryFailure], bool] = lambda failure: False
    ) -> Delivery:
        return self._producer.delivery(on_end, on_failure)

    def send_batch(self, records: KafkaBatch, delivery: Delivery, give_up: Callable[[], bool]) -> bool:
        return all(self.send(record, delivery, give_up) for record in records.records())

    def send(self, record: KafkaRecord, delivery: AnyDelivery, give_up: Callable[[], bool]) -> bool:
        given = ProducerRecord(
            record.topic, record.partition, record.key, record.value, record.timestamp, list(record.headers or ())
        )
        passed = self._interceptors.passed("on_send", given, _copied, _checked)
        reported = ReportedDelivery(delivery, partial(self._ended, tuple(passed.headers)))
        sent = KafkaRecord(
            passed.topic, passed.partition, passed.key, passed.value, passed.timestamp, passed.headers or None
        )
        return self._producer.send(sent, reported, give_up)

    def serve(self, timeout_s: float = 0) -> None:
        self._producer.serve(timeout_s)

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        return self._producer.flush(timeout_s, give_up)

    def abandon(self) -> None:
        self._producer.abandon()

    def close(self) -> None:
        """Close the producer, then the interceptors, which have been told of all records by then. Idempotent."""
        self._producer.close()
        if not self._is_closed:
            self._is_closed = True
            self._interceptors.tell("close")

    def _ended(
        self, headers: tuple[tuple[str, bytes | None], ...], place: WrittenRecord, error: ConnectError | None
    ) -> None:
        metadata = RecordMetadata(place.topic, place.partition, place.offset, place.timestamp)
        self._interceptors.tell("on_acknowledgement", metadata, error, headers)


def _copied(record: ProducerRecord) -> ProducerRecord:
    """So that an interceptor which fails half-way has changed nothing."""
    return replace(record, headers=list(record.headers))


def _checked(result: Any) -> ProducerRecord:  # whatever a plugin returns
    if not isinstance(result, ProducerRecord):
        raise TypeError(f"on_send() returned {type(result).__name__} instead of a ProducerRecord")
    for part in ("key", "value"):
        if not isinstance(getattr(result, part), bytes | None):
            raise TypeError(f"on_send() returned a record whose {part} is {type(getattr(result, part)).__name__}")
    return result
