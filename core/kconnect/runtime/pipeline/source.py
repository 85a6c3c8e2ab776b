"""SourceLoop: poll -> transforms -> converters -> send -> settle, the way of a source's records to Kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.api import ConnectRecord, RecordBatch, SourceRecord, SourceTask
from kconnect.errors import RetriableError
from kconnect.java.plugins import EncodedPoll, PolledRuns
from kconnect.runtime.kafka import KafkaBatch
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.guarantee import DeliveryGuarantee, Polled, PolledWhole
from kconnect.runtime.pipeline.health import CONVERSION
from kconnect.runtime.pipeline.java_chain import EncodedPolls, EncodedUnit
from kconnect.runtime.pipeline.plugin_call import call_error, plugin_call
from kconnect.runtime.pipeline.polled_lists import PolledLists, index_of, no_records_error, positions_of, records_of
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.retries import FIRST_POLL_PAUSE_S, Retries
from kconnect.runtime.pipeline.sending import Payloads, SourceTopics, UnitSender
from kconnect.runtime.pipeline.source_context import SourceContext
from kconnect.runtime.pipeline.source_dead_letters import SourceDeadLetters
from kconnect.runtime.pipeline.stages import StageError, TransformChain
from kconnect.runtime.pipeline.task_hooks import release, wants_each_record
from kconnect.runtime.pipeline.tolerance import StoppedInRetryError
from kconnect.runtime.pipeline.unit_producer import UnitProducer

log = logging.getLogger(__name__)

# A poll() that comes back empty sooner than this did not wait by itself; then the loop does, 1 ms growing to 10 ms,
# so that a source that never blocks is asked 100 times a second and does not take a whole core.
_QUICK_POLL_S = 0.0005
_IDLE_WAIT_S = (0.001, 0.010)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParts:
    """The parts of a source loop."""

    task: SourceTask
    task_config: Mapping[str, str] = field(repr=False)
    context: SourceContext
    transforms: TransformChain
    converters: Converters
    producer: UnitProducer
    topics: SourceTopics
    retry_delay_most_s: float
    """The longest pause before poll() is called again after a RetriableError: errors.retry.delay.max.ms."""
    stop_budget_s: float
    """How long the shutdown may take: flushing the producer, then the last commit."""
    dead_letters: SourceDeadLetters | None = None
    """Takes the records that stages gave up on."""
    encoded: EncodedPolls = field(default_factory=EncodedPolls)
    """Settles the failures of a chain that is all Java's."""


class SourceLoop:
    """The data path of a source task; its guarantee decides when offsets are committed. Threads: the task's.

    Errors: what the plugin, a stage, the producer or the guarantee raises ends the loop.
    Source: o.a.k.connect.runtime.AbstractWorkerSourceTask (Kafka 4.3).
    """

    def __init__(self, control: TaskControl, parts: SourceParts, guarantee: DeliveryGuarantee) -> None:
        self._control = control
        self._parts = parts
        self._guarantee = guarantee
        self._task = parts.task
        self._sender = UnitSender(
            control, parts.producer, parts.topics, guarantee, parts.stop_budget_s, parts.dead_letters
        )
        self._lists = PolledLists(parts.transforms)
        self._encoded = parts.encoded
        self._wants_each = wants_each_record(parts.task)
        self._health = control.health
        self._poll_name = f"{type(parts.task).__name__}.poll()"
        self._retries = Retries(control, parts.task, "poll", first_s=FIRST_POLL_PAUSE_S, cap_s=parts.retry_delay_most_s)
        self._empty_polls = 0
        self._has_started = False

    def start(self) -> None:
        if not self._guarantee.claim():
            return
        self._has_started = True
        self._control.when_cancelled(self._parts.producer.abandon)
        if self._parts.dead_letters is not None:
            self._parts.dead_letters.start()
        with plugin_call(self._task, "initialize", self._health):
            self._task.initialize(self._parts.context)
        with plugin_call(self._task, "start", self._health):
            self._task.start(self._parts.task_config)

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
                        if not self._deliver(part):  # transforms, converters, producer
                            break
                guarantee.settle()
            except StoppedInRetryError as stopped:  # polled again after the next start
                log.info("%s", stopped)

    def close(self) -> None:
        try:
            if self._has_started:
                with plugin_call(self._task, "stop", self._health):
                    self._task.stop()
            else:
                release(self._task)
        finally:
            self._parts.producer.close()
            self._parts.topics.close()
            self._parts.transforms.close()
            self._parts.converters.close()

    # --- the steps, in the order of run() ---

    def _pause(self) -> None:
        self._guarantee.pausing()
        self._control.report_paused()
        if self._control.await_resume():
            self._control.report_running()

    def _poll(self) -> PolledWhole | None:
        """What the task returns, None for nothing; waits briefly after an empty poll that did not block."""
        began = time.monotonic()
        polled = self._call_poll(began)
        if polled is not None and (
            isinstance(polled, str) or not isinstance(polled, Sequence | RecordBatch | EncodedPoll | PolledRuns)
        ):
            raise no_records_error(self._task, polled)
        if polled:
            self._empty_polls = 0
            counters = self._control.counters
            counters.poll_ms.note((time.monotonic() - began) * 1000)
            counters.batch_size.note(len(polled))
            counters.records_polled += len(polled)
            counters.note_active(counters.records_polled - counters.records_written - counters.records_dropped)
            return polled
        if time.monotonic() - began < _QUICK_POLL_S:
            self._empty_polls += 1
            self._control.wait(min(_IDLE_WAIT_S[0] * self._empty_polls, _IDLE_WAIT_S[1]))
        return None

    def _call_poll(self, began_s: float) -> PolledWhole | None:
        with self._guarantee.polling():
            self._health.call = (self._poll_name, began_s)
            try:
                polled = self._task.poll()
            except RetriableError as error:
                self._health.call = None
                self._control.wait(self._retries.failed(error))
                return None
            except Exception as error:  # the plugin's: wrapped with its place
                raise call_error(type(self._task).__name__, "poll", error) from error
            finally:
                self._health.call = None
            if self._retries.is_on:
                self._retries.went_well(moved=bool(polled))
            return polled

    def _deliver(self, polled: Polled) -> bool:
        """Convert and send records; False when the task is stopped before the producer has all of them."""
        if isinstance(polled, EncodedPoll):
            return self._deliver_encoded(polled)
        try:
            if self._wants_each:
                return all(self._deliver_one(record) for record in records_of(polled))
            payloads = self._convert(polled)
            return self._sender.send(positions_of(polled), len(polled), payloads)
        except (AttributeError, TypeError):  # looked for only now: a check of each record would cost all tasks
            odd = [item for item in records_of(polled) if not isinstance(item, SourceRecord)]
            if not odd:
                raise
            raise no_records_error(self._task, odd[:1]) from None

    def _deliver_encoded(self, polled: EncodedPoll) -> bool:
        """Send what Java has transformed and converted."""
        unit = EncodedUnit(polled)
        try:
            self._encoded.fill(unit, polled)
        except StageError:
            if self._guarantee.sends_before_failure and unit.polled:
                self._send_encoded(unit)
            raise
        return self._send_encoded(unit)

    def _send_encoded(self, unit: EncodedUnit) -> bool:
        if unit.task.wants_each:
            return self._sender.send_each(unit.positions, unit.polled, unit.batches, unit.numbers)
        return self._sender.send(unit.positions, unit.polled, tuple(unit.batches))

    def _deliver_one(self, record: SourceRecord) -> bool:
        """The path of tasks that override commit_record(): one record at a time, as in Java."""
        self._health.call = (CONVERSION, time.monotonic())
        try:
            kept = self._parts.transforms.apply_record(record)
            payload = None if kept is None else self._parts.converters.to_kafka_record(kept)
        finally:
            self._health.call = None
        return self._sender.send_one(record, positions_of([record]), payload)

    # --- transforms, converters ---

    def _convert(self, polled: list[SourceRecord] | RecordBatch) -> Payloads:
        """The records that remain, as bytes. Errors: StageError when a record fails the task."""
        self._health.call = (CONVERSION, time.monotonic())
        try:
            given = polled if isinstance(polled, RecordBatch) else self._lists.columns_of(polled)
            if isinstance(given, RecordBatch):
                kept = self._parts.transforms.apply_batch(given)
            else:
                kept = self._parts.transforms.apply_records(given)
            if isinstance(kept, RecordBatch):
                return self._parts.converters.to_kafka_batch(kept)
            return self._parts.converters.to_kafka_list(kept) if kept is not None else []
        except StageError as failure:
            if self._guarantee.sends_before_failure:
                self._send_before(polled, failure)
            raise
        finally:
            self._health.call = None

    def _send_before(self, polled: list[SourceRecord] | RecordBatch, failure: StageError) -> None:
        """Send what came before the record that fails the task, so that a restart begins at that record."""
        records = records_of(polled)
        before = records[: index_of(records, failure.record)]
        done: Payloads = []
        if failure.done and isinstance(failure.done[0], ConnectRecord):
            done = self._parts.converters.to_kafka_records(failure.done)
        elif failure.done:
            done = failure.done[0] if isinstance(failure.done[0], KafkaBatch) else failure.done
        if before:
            self._sender.send(positions_of(before), len(before), done)
