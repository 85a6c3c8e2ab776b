"""UnitSender: hands a unit to the producer and reports its outcome to the guarantee."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kconnect.runtime.kafka import Delivery, DeliveryFailure, KafkaRecord, RecordDelivery
from kconnect.runtime.pipeline.guarantee import DeliveryGuarantee, SourceUnit
from kconnect.runtime.pipeline.polled import ReadyUnit
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.topics import SourceTopics
from kconnect.runtime.pipeline.unit_producer import UnitProducer

if TYPE_CHECKING:
    from kconnect.runtime.pipeline.source_dead_letters import SourceDeadLetters


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

    def send(self, ready: ReadyUnit) -> bool:
        """Send a unit. False when the task is stopped before the producer took all of it."""
        if self._control.is_cancelled or not self._topics.ensure(ready.topics):
            return False
        unit = self._guarantee.begin_unit(ready.positions, ready.kept)
        delivery = self._delivery(unit, ready)
        if ready.batches:
            sent = all(self._producer.send_batch(batch, delivery, self._gives_up) for batch in ready.batches)
        elif ready.tokens is None:
            sent = all(
                self._producer.send(record, delivery, self._gives_up) for record in ready.records if record is not None
            )
        else:
            sent = self._send_reported(ready.records, ready.tokens, unit, delivery)
        return self._end(unit, delivery, sent and self._send_dead_letters(delivery))

    def _send_reported(
        self, records: Sequence[KafkaRecord | None], tokens: Sequence[Any], unit: SourceUnit, delivery: Delivery
    ) -> bool:
        """For a task that hears where each was written, or that it was dropped."""
        for record, token in zip(records, tokens, strict=True):
            if record is None:
                unit.filtered(token)
                continue
            reported = delivery if token is None else RecordDelivery(delivery, partial(unit.written, token))
            if not self._producer.send(record, reported, self._gives_up):
                return False
        return True

    def _delivery(self, unit: SourceUnit, ready: ReadyUnit) -> Delivery:
        control, counters = self._control, self._control.counters
        kept, topics = ready.kept, ready.topics  # not the records: they need not live until they are acknowledged
        counters.records_dropped += max(ready.polled - kept, 0)  # more are kept where one became several

        def on_end(is_acked: bool) -> None:
            if is_acked:
                unit.acknowledged()
                control.used_topics(topics)
                with self._lock:
                    counters.records_written += kept
                    active = counters.records_polled - counters.records_written - counters.records_dropped
                    counters.records_active = max(active, 0)

        return self._producer.delivery(on_end, partial(self._refused, unit))

    def _refused(self, unit: SourceUnit, failure: DeliveryFailure) -> bool:
        if self._dead_letters is not None and failure.topic == self._dead_letters.topic:
            self._dead_letters.refused(failure)
            return self._guarantee.dead_letter_refused(failure)
        return unit.refused(failure)

    def _send_dead_letters(self, delivery: Delivery) -> bool:
        """Send the dead letters of the unit's records; False when the task is stopped before the producer has all."""
        if self._dead_letters is None:
            return True
        return all(self._producer.send(letter, delivery, self._gives_up) for letter in self._dead_letters.take())

    def _end(self, unit: SourceUnit, delivery: Delivery, sent: bool) -> bool:
        if self._health.waiting_since_s is not None:
            self._health.waited(time.monotonic())
        if sent:
            delivery.complete()
            unit.handed_over()
        return sent

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
