"""UnitSender: sends a unit's payloads to the producer and reports its outcome to the guarantee."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api import SourceRecord
from kconnect.runtime.kafka import AnyDelivery, Delivery, DeliveryFailure, KafkaBatch, KafkaRecord, RecordDelivery
from kconnect.runtime.pipeline.guarantee import DeliveryGuarantee, SourceUnit
from kconnect.runtime.pipeline.inflight import SourcePosition
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.unit_producer import UnitProducer

if TYPE_CHECKING:
    from kconnect.runtime.pipeline.source_dead_letters import SourceDeadLetters

Payloads = KafkaBatch | list[KafkaRecord | None] | tuple[KafkaBatch, ...]
"""Bytes of records, None for those that were dropped while they were converted; several batches for several topics."""


class SourceTopics(Protocol):
    """Creates missing topics, rejects some, or logs those that are left to the broker."""

    def ensure(self, topics: Collection[str]) -> bool:
        """Whether records may be sent there; False when the task is stopped first. Errors: ConnectError."""
        ...

    def close(self) -> None: ...


class UnitSender:
    """Hands units to the producer. Threads: the task's; units end on whichever thread serves the producer.

    Source: AbstractWorkerSourceTask.sendRecords (Kafka 4.3).
    """

    def __init__(
        self,
        control: TaskControl,
        producer: UnitProducer,
        topics: SourceTopics,
        guarantee: DeliveryGuarantee,
        stop_budget_s: float,
        dead_letters: SourceDeadLetters | None = None,
    ) -> None:
        """Dead letters go with the unit that was polled with them: they are acknowledged, or committed, together."""
        self._control = control
        self._health = control.health
        self._producer = producer
        self._topics = topics
        self._guarantee = guarantee
        self._stop_budget_s = stop_budget_s
        self._dead_letters = dead_letters
        self._stop_seen_at_s: float | None = None
        self._lock = threading.Lock()  # guards the counters of what was written

    def send(
        self,
        positions: Sequence[SourcePosition],
        polled: int,
        payloads: Payloads,
    ) -> bool:
        """Send a unit of `polled` records. False when the task is stopped before the producer took all of it."""
        topics, kept = _topics(payloads), _count(payloads)
        if self._control.is_cancelled or not self._topics.ensure(topics):
            return False
        unit = self._guarantee.begin_unit(positions, kept)
        delivery = self._delivery(unit, polled, kept, topics)
        if isinstance(payloads, KafkaBatch):
            sent = self._producer.send_batch(payloads, delivery, self._gives_up)
        elif isinstance(payloads, tuple):
            sent = all(self._producer.send_batch(batch, delivery, self._gives_up) for batch in payloads)
        else:
            sent = all(self._send_record(record, delivery) for record in payloads if record is not None)
        return self._end(unit, delivery, sent and self._send_dead_letters(delivery))

    def send_each(
        self,
        positions: Sequence[SourcePosition],
        polled: int,
        batches: Sequence[KafkaBatch],
        tokens: Sequence[Sequence[Any]],
    ) -> bool:
        """Send a unit and tell the task the place of each record; `tokens`: what it knows them by."""
        topics = {batch.topic for batch in batches}
        if self._control.is_cancelled or not self._topics.ensure(topics):
            return False
        kept = sum(len(batch) for batch in batches)
        unit = self._guarantee.begin_unit(positions, kept)
        delivery = self._delivery(unit, polled, kept, topics)
        sent = all(
            self._send_record(record, RecordDelivery(delivery, partial(unit.written, token)))
            for batch, own in zip(batches, tokens, strict=True)
            for record, token in zip(batch.records(), own, strict=True)
        )
        return self._end(unit, delivery, sent and self._send_dead_letters(delivery))

    def send_one(self, record: SourceRecord, positions: Sequence[SourcePosition], payload: KafkaRecord | None) -> bool:
        """Send a unit of one record, for a task that overrides commit_record(); `payload` None: it was dropped."""
        topics = () if payload is None else (payload.topic,)
        if self._control.is_cancelled or not self._topics.ensure(topics):
            return False
        kept = 0 if payload is None else 1
        unit = self._guarantee.begin_unit(positions, kept)
        delivery = self._delivery(unit, 1, kept, topics)
        if payload is None:
            unit.filtered(record)
            return self._end(unit, delivery, self._send_dead_letters(delivery))
        reported = RecordDelivery(delivery, partial(unit.written, record))
        return self._end(unit, delivery, self._send_record(payload, reported) and self._send_dead_letters(delivery))

    def _delivery(
        self,
        unit: SourceUnit,
        polled: int,
        kept: int,
        topics: Collection[str],
    ) -> Delivery:
        control, counters = self._control, self._control.counters
        counters.records_dropped += polled - kept

        def on_end(is_acked: bool) -> None:
            if is_acked:
                unit.acknowledged()
                control.used_topics(topics)
                with self._lock:
                    counters.records_written += kept
                    counters.records_active = (
                        counters.records_polled - counters.records_written - counters.records_dropped
                    )

        return self._producer.delivery(on_end, partial(self._refused, unit))

    def _refused(self, unit: SourceUnit, failure: DeliveryFailure) -> bool:
        if self._dead_letters is not None and failure.topic == self._dead_letters.topic:
            self._dead_letters.refused(failure)
            return self._guarantee.dead_letter_refused(failure)
        return unit.refused(failure)

    def _send_dead_letters(self, delivery: Delivery) -> bool:
        """Those of the unit's records; False when the task is stopped before the producer has all of them."""
        if self._dead_letters is None:
            return True
        return all(self._send_record(letter, delivery) for letter in self._dead_letters.take())

    def _end(self, unit: SourceUnit, delivery: Delivery, sent: bool) -> bool:
        if self._health.waiting_since_s is not None:
            self._health.waited(time.monotonic())
        if sent:
            delivery.seal()
            unit.handed_over()
        return sent

    def _send_record(self, record: KafkaRecord, delivery: AnyDelivery) -> bool:
        return self._producer.send(record, delivery, self._gives_up)

    def _gives_up(self) -> bool:
        """Whether to stop waiting for room: at once when fenced off, after half the budget when asked to stop.

        The producer asks only when it has none, so this is also where a wait begins.
        """
        if self._health.waiting_since_s is None:
            self._health.waiting_since_s = time.monotonic()
        if self._control.is_cancelled or self._guarantee.has_refused:
            return True
        if not self._control.is_stopping:
            return False
        if self._stop_seen_at_s is None:
            self._stop_seen_at_s = time.monotonic()
        return time.monotonic() - self._stop_seen_at_s > self._stop_budget_s / 2


def _count(payloads: Payloads) -> int:
    if isinstance(payloads, KafkaBatch):
        return len(payloads)
    if isinstance(payloads, tuple):
        return sum(len(batch) for batch in payloads)
    return len(payloads) - payloads.count(None)


def _topics(payloads: Payloads) -> Collection[str]:
    """Topics of one unit: known before it is sent, so that no record is kept for it. 10 ns for a record of a list."""
    if isinstance(payloads, KafkaBatch):
        return (payloads.topic,)
    if isinstance(payloads, tuple):
        return {batch.topic for batch in payloads}
    return {payload.topic for payload in payloads if payload is not None}
