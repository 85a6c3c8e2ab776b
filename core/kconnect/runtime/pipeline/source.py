"""SourceLoop: poll -> transforms -> converters -> send -> settle, the way of a source's records to Kafka.

UnitSender hands a unit to the producer and reports its outcome to the guarantee. SourceCalls and what stands before
it are what a task may ask of its runtime, one for all that run a task: what differs (waits, offsets, transactions,
errant records) comes in by ports.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kconnect.api import OffsetStorageReader, PluginMetrics, SourceRecord, SourceTask, TransactionContext
from kconnect.errors import RetriableError
from kconnect.runtime.kafka import AnyDelivery, Delivery, DeliveryFailure, KafkaRecord, RecordDelivery
from kconnect.runtime.pipeline.build_stages import SourceStages
from kconnect.runtime.pipeline.guarantee import DeliveryGuarantee, SourceUnit
from kconnect.runtime.pipeline.plugin_call import Calling, plugin_call
from kconnect.runtime.pipeline.polled import EmptyPolls, Polled, ReadyUnit, SourceConversion, polled_by
from kconnect.runtime.pipeline.ports import TaskControl, WorkWaits
from kconnect.runtime.pipeline.retries import FIRST_POLL_PAUSE_S, Retries
from kconnect.runtime.pipeline.task_hooks import release
from kconnect.runtime.pipeline.tolerance import StoppedInRetryError
from kconnect.runtime.pipeline.topics import SourceTopics
from kconnect.runtime.pipeline.unit_producer import UnitProducer

if TYPE_CHECKING:
    from kconnect.runtime.pipeline.source_dead_letters import SourceDeadLetters

log = logging.getLogger(__name__)

# A poll() that comes back empty sooner than this did not wait by itself; then the loop does.
_QUICK_POLL_S = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParts:
    """The parts of a source loop."""

    calls: SourceCalls
    stages: SourceStages
    producer: UnitProducer
    topics: SourceTopics
    stop_budget_s: float
    """How long the shutdown may take: flushing the producer, then the last commit."""
    form_of: Callable[[SourceTask, Any], Polled | None] = polled_by
    """Says what poll() returned; a task of Java's gives more forms."""


class SourceLoop:
    """The data path of a source task; its guarantee decides when offsets are committed. Threads: the task's.

    Errors: what the plugin, a stage, the producer or the guarantee raises ends the loop.
    Source: o.a.k.connect.runtime.AbstractWorkerSourceTask (Kafka 4.3).
    """

    def __init__(self, control: TaskControl, parts: SourceParts, guarantee: DeliveryGuarantee) -> None:
        self._control = control
        self._parts = parts
        self._stages = stages = parts.stages
        self._guarantee = guarantee
        self._calls = parts.calls
        self._task = parts.calls.task
        self._sender = UnitSender(
            control, parts.producer, parts.topics, guarantee, parts.stop_budget_s, stages.dead_letters
        )
        self._conversion = SourceConversion(
            self._task,
            stages.transforms,
            stages.converters,
            control.health,
            sends_before_failure=guarantee.sends_before_failure,
            forms=stages.forms,
        )
        cap_s = stages.tolerance.settings.retry_delay_max_ms / 1000
        self._retries = Retries(control, self._task, "poll", first_s=FIRST_POLL_PAUSE_S, cap_s=cap_s)
        self._empty_polls = EmptyPolls()
        self._has_started = self._has_stopped = False

    def start(self) -> None:
        if not self._guarantee.claim():
            return
        self._has_started = True
        self._control.when_cancelled(self._parts.producer.abandon)
        if self._stages.dead_letters is not None:
            self._stages.dead_letters.start()
        self._calls.start()

    def run(self) -> None:
        guarantee = self._guarantee
        with guarantee.running():
            try:
                while not self._control.is_stopping:
                    if self._control.should_pause:
                        self._pause()
                        continue
                    guarantee.settle()  # what Kafka acknowledged or refused
                    polled = self._poll()  # the connector
                    for part in guarantee.parts(polled):
                        units = part.units(self._conversion)  # transforms, converters
                        if not all(map(self._sender.send, units)):  # the producer
                            break
                if self._control.is_cut_off:
                    self._stop_task()  # first: what it holds alone is free before another worker's task wants it
                else:
                    guarantee.settle()
            except StoppedInRetryError as stopped:  # polled again after the next start
                log.info("%s", stopped)

    def close(self) -> None:
        try:
            if self._has_started:
                self._stop_task()
            elif not self._has_stopped:
                release(self._task)
        finally:
            self._parts.producer.close()
            self._parts.topics.close()
            self._stages.close()

    def _stop_task(self) -> None:
        self._has_started, self._has_stopped = False, True
        self._calls.stop()

    # --- the steps, in the order of run() ---

    def _pause(self) -> None:
        self._guarantee.pausing()
        self._control.report_paused()
        if self._control.await_resume():
            self._control.report_running()

    def _poll(self) -> Polled | None:
        """What the task returns, None for nothing; waits briefly after an empty poll that did not block."""
        began = time.monotonic()
        polled = self._call_poll()
        if polled is not None:
            self._empty_polls.count = 0
            counters = self._control.counters
            counters.poll_ms.note((time.monotonic() - began) * 1000)
            counters.batch_size.note(polled.size)
            counters.records_polled += polled.size
            counters.note_active(counters.records_polled - counters.records_written - counters.records_dropped)
        elif time.monotonic() - began < _QUICK_POLL_S:
            self._control.wait(self._empty_polls.next_s())
        return polled

    def _call_poll(self) -> Polled | None:
        with self._guarantee.polling():
            try:
                given = self._calls.poll()
            except RetriableError as error:
                self._control.wait(self._retries.failed(error))
                return None
            polled = self._parts.form_of(self._task, given)
            if self._retries.is_on:
                self._retries.went_well(moved=polled is not None)
            return polled


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
        return self._sent(self._guarantee.begin_unit(ready.positions, ready.kept), ready)

    def _sent(self, unit: SourceUnit, ready: ReadyUnit) -> bool:
        """In a frame of its own. On newer Pythons an error that was met while topics were looked for keeps all frames
        around it until the collector comes; a delivery among their variables would be no end of its unit until then.
        """
        delivery = self._delivery(unit, ready)
        if ready.batches:
            sent = all(self._producer.send_batch(batch, delivery, self._gives_up) for batch in ready.batches)
        elif ready.tokens is None:
            records = (record for record in ready.records if record is not None)
            sent = all(self._send_record(record, delivery, delivery) for record in records)
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
            if not self._send_record(record, reported, delivery):
                return False
        return True

    def _send_record(self, record: KafkaRecord, reported: AnyDelivery, delivery: Delivery) -> bool:
        """False too once one is refused that must not be: none behind it is sent, as of a batch."""
        return self._producer.send(record, reported, self._gives_up) and not delivery.has_failed

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


class SourceContext:
    """What a source task may ask. Implements kconnect.api.SourceTaskContext."""

    def __init__(
        self,
        waits: WorkWaits,
        offsets: OffsetStorageReader,
        configs: Callable[[], Mapping[str, str]],
        metrics: PluginMetrics,
        transactions: TransactionContext | None = None,
        give_up: Callable[[SourceRecord, BaseException], object] | None = None,
    ) -> None:
        """`give_up` takes what the task reports; without it a report fails the task."""
        self._waits = waits
        self._offsets = offsets
        self._configs = configs
        self._metrics = metrics
        self._transactions = transactions
        self._give_up = give_up

    def configs(self) -> Mapping[str, str]:
        return self._configs()

    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._offsets

    def transaction_context(self) -> TransactionContext | None:
        return self._transactions

    def report_errant(self, record: SourceRecord, error: BaseException) -> None:
        if self._give_up is None:
            raise error
        self._give_up(record, error)

    def plugin_metrics(self) -> PluginMetrics:
        return self._metrics

    def wait(self, timeout_s: float) -> bool:
        return self._waits.wait_for_work(timeout_s)

    def wake(self) -> None:
        self._waits.wake()


class SourceCalls:
    """The methods of a source task's life, called in one way by all that run one: a task and its context.

    Threads: one. Errors: what the task raises, as `calling` gives it.
    """

    def __init__(
        self, task: SourceTask, config: Mapping[str, str], context: SourceContext, calling: Calling = plugin_call
    ) -> None:
        self.task = task
        self.config = config
        self.context = context
        self._calling = calling

    def start(self) -> None:
        with self._calling(self.task, "initialize"):
            self.task.initialize(self.context)
        with self._calling(self.task, "start"):
            self.task.start(self.config)

    def poll(self) -> Any:  # whatever the plugin gives
        with self._calling(self.task, "poll"):
            return self.task.poll()

    def stop(self) -> None:
        with self._calling(self.task, "stop"):
            self.task.stop()
