"""SinkLoop: consume -> converters -> transforms -> put -> flush and commit of consumer offsets."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.api import RecordBatch, SinkRecord, SinkTask
from kconnect.errors import ConnectError, RetriableError
from kconnect.kafka import ConsumedRun, RecordConsumer
from kconnect.model import TopicPartition
from kconnect.pipeline.conversion import Converters
from kconnect.pipeline.dead_letter import DeadLetterQueue
from kconnect.pipeline.health import CONVERSION
from kconnect.pipeline.plugin_call import plugin_call
from kconnect.pipeline.ports import TaskControl
from kconnect.pipeline.put_batches import PutBatch, SinkConversion, joined, without
from kconnect.pipeline.raw_records import RawRecords
from kconnect.pipeline.retries import Retries
from kconnect.pipeline.sink_context import ErrantRecords, SinkContext
from kconnect.pipeline.sink_offsets import SinkOffsets
from kconnect.pipeline.stages import TransformChain
from kconnect.pipeline.tolerance import StoppedInRetryError, Tolerance

log = logging.getLogger(__name__)

# A fetch cannot be woken, so an idle one lasts this long at most: the stop waits for it. An idle task wakes 10 times
# a second: 0.06 % of a core each, measured with 50 in one process.
_FETCH_WAIT_S = 0.1
# The first pause after a put() that raised RetriableError, unless the task named a time; each next one is twice as
# long. Java's RETRIES_DELAY_MIN_MS.
_RETRY_FIRST_S = 0.3
# How often the distance to the ends of the partitions is noted; it costs 1 us for each partition.
_LAG_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkParts:
    """What a sink loop is put together from."""

    task: SinkTask
    task_config: Mapping[str, str] = field(repr=False)
    transforms: TransformChain
    converters: Converters
    consumer: RecordConsumer
    context: SinkContext
    offsets: SinkOffsets
    topics: Sequence[str]
    """Names; or one pattern that begins with ^."""
    max_records: int
    """At most so many records in one fetch."""
    retry_delay_most_s: float
    """The longest pause before put() is called again after a RetriableError: errors.retry.delay.max.ms."""
    tolerance: Tolerance
    raw_records: RawRecords
    errant: ErrantRecords | None = None
    dead_letters: DeadLetterQueue | None = None


class SinkLoop:
    """The data path of a sink task, and the listener of its consumer. All methods run on the task's thread.

    Source: o.a.k.connect.runtime.WorkerSinkTask (Kafka 4.3).
    Differs: a put() that raised RetriableError without naming a time is tried again after 0.3 s, 0.6 s .. up to
    errors.retry.delay.max.ms, Java waits for the next commit. put() is not called while paused, Java calls it with no
    records.
    """

    def __init__(self, control: TaskControl, parts: SinkParts) -> None:
        self._control = control
        self._parts = parts
        self._task = parts.task
        self._consumer = parts.consumer
        self._context = parts.context
        self._offsets = parts.offsets
        self._conversion = SinkConversion(parts.task, parts.converters, parts.transforms, parts.raw_records, control)
        self._waiting: deque[PutBatch] = deque()
        self._is_paused = False
        self._health = control.health
        self._retries = Retries(control, parts.task, "put", first_s=_RETRY_FIRST_S, cap_s=parts.retry_delay_most_s)
        self._lag_due_at = 0.0
        self._retry_at = 0.0
        self._started = False
        self._is_closing = False

    def start(self) -> None:
        self._control.count_with(self._offsets.count)
        if self._parts.dead_letters is not None:
            self._parts.dead_letters.start()
        self._started = True
        self._consumer.subscribe(self._parts.topics, self)
        with plugin_call(self._task, "initialize", self._health):
            self._task.initialize(self._context)
        with plugin_call(self._task, "start", self._health):
            self._task.start(self._parts.task_config)

    def run(self) -> None:
        try:
            while not self._control.is_stopping:
                self._follow_target()
                self._rewind()
                if self._offsets.commit_if_due():
                    self._waiting.clear()  # what was put since the last commit is read again
                    self._end_idle_retries()
                self._pause_as_asked()
                self._fetch()
                self._deliver()
        except StoppedInRetryError as stopped:  # read again after the next start
            log.info("%s", stopped)
        except BaseException:
            self._finish(is_failing=True)
            raise
        self._finish(is_failing=False)

    def close(self) -> None:
        self._is_closing = True
        try:
            if self._started:
                with plugin_call(self._task, "stop", self._health):
                    self._task.stop()
        finally:
            self._consumer.close()
            self._parts.tolerance.close()
            self._parts.transforms.close()
            self._parts.converters.close()

    # --- the steps, in the order of run() ---

    def _follow_target(self) -> None:
        """Pause or resume as wished; a paused task keeps its partitions and its place in the group."""
        is_wished = self._control.should_pause
        if is_wished == self._is_paused:
            return
        self._is_paused = is_wished
        if self._is_paused:
            self._consumer.pause(self._consumer.assignment)
            self._control.report_paused()
            self._context.request_commit()
        else:
            if not self._waiting:
                self._resume()
            self._control.report_running()

    def _rewind(self) -> None:
        """Go where the task asked to read on; what was fetched of those partitions meanwhile is dropped."""
        for partition, offset in self._context.take_offsets(self._consumer.assignment).items():
            self._waiting = without(self._waiting, {partition})
            self._consumer.seek(partition, offset)
            self._offsets.moved_to(partition, offset)
            self._end_idle_retries()
        if self._consumer.assignment:
            self._context.drop_offsets()

    def _pause_as_asked(self) -> None:
        """Pause and resume the partitions the task itself named."""
        pause, resume = self._context.take_pauses()
        self._consumer.pause(pause)
        if not self._is_paused and not self._retries.is_on:
            self._consumer.resume(resume)

    def _fetch(self) -> None:
        wait_s = min(_FETCH_WAIT_S, self._offsets.until_due_s())
        if self._waiting and not self._is_paused:
            wait_s = min(wait_s, max(self._retry_at - time.monotonic(), 0))
        try:
            runs = self._consumer.fetch(self._parts.max_records, wait_s)
        except ConnectError as error:
            error.log_stage = error.log_stage or "consume"  # a rebalance in it calls the plugin, which names its own
            raise
        if runs:
            self._convert(runs)
        self._note_lag()

    def _convert(self, runs: Sequence[ConsumedRun]) -> None:
        self._health.call = (CONVERSION, time.monotonic())
        for run in runs:
            self._control.counters.records_read += len(run)
            self._waiting.append(self._conversion.delivery_of(run))
            self._offsets.began(TopicPartition(run.topic, run.partition), run.first_offset)
        self._health.call = None
        waiting = sum(len(delivery.payload) for delivery in self._waiting)
        self._control.counters.note_active(waiting + self._offsets.active())
        if len(runs) > 1:
            self._waiting = joined(self._waiting)

    def _note_lag(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._lag_due_at:
            self._lag_due_at = now_s + _LAG_EVERY_S
            self._health.behind = self._consumer.behind(self._offsets.positions())

    def _deliver(self) -> None:
        if self._is_paused:
            return
        if not self._waiting:
            if not self._control.is_stopping:
                with plugin_call(self._task, "put", self._health):
                    self._task.put([])
            return
        if self._retries.is_on and time.monotonic() < self._retry_at:
            return
        while self._waiting and not self._control.is_cancelled:
            delivery = self._waiting[0]
            began_s = time.monotonic()
            try:
                self._put(delivery)
            except RetriableError as error:
                self._await_retry(error)
                return
            if len(delivery.payload):
                self._control.counters.put_ms.note((time.monotonic() - began_s) * 1000)
                self._control.counters.batch_size.note(len(delivery.payload))
            self._context.take_timeout_s()  # said for a retry that is not needed
            if self._retries.is_on:
                self._retries.went_well(moved=True)
                self._resume()
            if self._waiting and self._waiting[0] is delivery:
                self._waiting.popleft()
            self._offsets.put_done(delivery.after)
            self._rewind()

    def _finish(self, *, is_failing: bool) -> None:
        """Flush, commit and close what is still ours. Nothing is committed once fenced off."""
        self._is_closing = True  # a rebalance while the commit is awaited tells the task nothing new
        partitions = self._consumer.assignment
        if self._control.is_cancelled or not partitions:
            return
        try:
            self._offsets.close(partitions)
        except Exception:
            if not is_failing:
                raise
            with self._control.in_stage("offsets"):
                log.warning("The failing task could not commit what it had put", exc_info=True)

    # --- put ---

    def _put(self, delivery: PutBatch) -> None:
        """Give the task what is due. Errors: RetriableError; any other leads with what the task was given."""
        try:
            self._put_payload(delivery)
        except RetriableError:
            raise
        except ConnectError as error:
            told = ConnectError(f"{error} (it was given {delivery})", hint=error.hint)
            told.log_stage = error.log_stage
            raise told from error.__cause__
        finally:
            self._parts.raw_records.put((), ())  # messages held until the next fetch would cost it the CPU's cache
        if self._parts.errant is not None:
            self._parts.errant.raise_unhandled()

    def _put_payload(self, delivery: PutBatch) -> None:
        payload = delivery.payload
        if isinstance(payload, RecordBatch):
            if self._task.supports_batches:
                self._parts.raw_records.put((), delivery.fetched)
                with plugin_call(self._task, "put_batch", self._health):
                    self._task.put_batch(payload)
                self._control.counters.records_put += len(payload)
                return
            payload = payload.to_records()  # type: ignore[assignment]  # a sink's batch gives sink records
        records: list[SinkRecord] = list(payload)  # type: ignore[arg-type]
        self._parts.raw_records.put(records, delivery.fetched)
        with plugin_call(self._task, "put", self._health):
            self._task.put(records)
        self._control.counters.records_put += len(payload)

    def _await_retry(self, error: RetriableError) -> None:
        """Keep the batch, fetch nothing, and try again later."""
        if not self._retries.is_on:
            self._consumer.pause(self._consumer.assignment)
        self._retry_at = time.monotonic() + self._retries.failed(error, self._context.take_timeout_s())

    def _end_idle_retries(self) -> None:
        """Fetch again when what was to be tried again is gone."""
        if self._retries.is_on and not self._waiting:
            self._retries.went_well(moved=True)
            self._resume()

    def _resume(self) -> None:
        if not self._is_paused:
            self._consumer.resume(self._consumer.assignment - self._context.paused)

    # --- RebalanceListener: called inside fetch() ---

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self._is_closing or not partitions:
            return {}
        with plugin_call(self._task, "open", self._health):
            self._task.open(list(partitions))
        begin = self._context.take_offsets(set(partitions))
        for partition, offset in begin.items():
            self._offsets.moved_to(partition, offset)
        return begin

    def to_pause(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        if self._is_paused or (self._retries.is_on and self._waiting):
            return partitions
        return [partition for partition in partitions if partition in self._context.paused]

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self._is_closing or not partitions or self._control.is_cancelled:
            return
        try:
            self._offsets.close(partitions)
        except ConnectError:  # as in Java: the next owner reads again what was not committed
            with self._control.in_stage("offsets"):
                log.warning("Offsets of partitions that go could not be committed", exc_info=True)
        self._forget(partitions)

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        if self._is_closing or not partitions:
            return
        with plugin_call(self._task, "close", self._health):
            self._task.close(list(partitions))
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        gone = set(partitions)
        self._waiting = without(self._waiting, gone)
        self._offsets.forget(gone)
        self._context.paused -= gone
        self._end_idle_retries()
