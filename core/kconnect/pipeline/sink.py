"""SinkLoop: consume -> converters -> transforms -> put -> flush and commit of consumer offsets."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from kconnect.api import RecordBatch, SinkRecord, SinkTask, TimestampType
from kconnect.errors import ConnectError, RetriableError
from kconnect.kafka import ConsumedRun, RecordConsumer
from kconnect.model import TopicPartition
from kconnect.pipeline.conversion import Converters, FetchedBatch
from kconnect.pipeline.dead_letter import DeadLetterQueue
from kconnect.pipeline.originals import Originals
from kconnect.pipeline.plugin_call import plugin_call
from kconnect.pipeline.ports import TaskControl
from kconnect.pipeline.sink_context import ErrantRecords, SinkContext
from kconnect.pipeline.sink_offsets import SinkOffsets
from kconnect.pipeline.stages import TransformChain
from kconnect.pipeline.tolerance import StoppedInRetryError, Tolerance

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SinkLoop", "SinkParts"]

log = logging.getLogger(__name__)

# A fetch can not be woken, so an idle one lasts this long at most: the stop waits for it. An idle task wakes 10 times
# a second: 0.06 % of a core each, measured with 50 in one process.
_FETCH_WAIT_S = 0.1
# Waits before a put() that raised RetriableError is tried again, unless the task named a time.
_RETRY_FIRST_S = 0.3
_RETRY_MOST_S = 60.0


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
    tolerance: Tolerance
    originals: Originals
    errant: ErrantRecords | None = None
    dead_letters: DeadLetterQueue | None = None


@dataclass(slots=True)
class _Delivery:
    """What one put takes, and where its partitions stand afterwards."""

    payload: RecordBatch | list[SinkRecord]
    first: dict[TopicPartition, int]
    after: dict[TopicPartition, int]
    fetched: list[FetchedBatch] = field(default_factory=list)
    """What it was made of, while failures are reported somewhere."""

    def __str__(self) -> str:
        spans = [f"{place} {self.first[place]} to {after - 1}" for place, after in self.after.items()]
        more = f" and of {len(spans) - 3} more partitions" if len(spans) > 3 else ""
        return ", ".join(spans[:3]) + more


class SinkLoop:
    """The data path of a sink task, and the listener of its consumer. All methods run on the task's thread.

    Source: o.a.k.connect.runtime.WorkerSinkTask (Kafka 4.3).
    Differs: a put() that raised RetriableError without naming a time is tried again after 0.3 s, 0.6 s .. 60 s, Java
    waits for the next commit. put() is not called while paused, Java calls it with no records.
    """

    def __init__(self, control: TaskControl, parts: SinkParts) -> None:
        self._control = control
        self._parts = parts
        self._task = parts.task
        self._consumer = parts.consumer
        self._context = parts.context
        self._offsets = parts.offsets
        self._waiting: deque[_Delivery] = deque()
        self._is_paused = False
        self._retries = 0
        self._retry_at = 0.0
        self._started = False
        self._is_closing = False

    def start(self) -> None:
        self._control.count_with(self._offsets.count)
        if self._parts.dead_letters is not None:
            self._parts.dead_letters.start()
        self._started = True
        self._consumer.subscribe(self._parts.topics, self)
        with plugin_call(self._task, "initialize"):
            self._task.initialize(self._context)
        with plugin_call(self._task, "start"):
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
                with plugin_call(self._task, "stop"):
                    self._task.stop()
        finally:
            self._consumer.close()
            self._parts.tolerance.close()
            self._parts.transforms.close()
            self._parts.converters.close()

    # --- the steps, in the order of run() ---

    def _follow_target(self) -> None:
        """Pause or resume as wished; a paused task keeps its partitions and its place in the group."""
        if self._control.should_pause == self._is_paused:
            return
        self._is_paused = self._control.should_pause
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
            self._drop({partition})
            self._consumer.seek(partition, offset)
            self._offsets.moved_to(partition, offset)
            self._end_idle_retries()
        if self._consumer.assignment:
            self._context.drop_offsets()

    def _pause_as_asked(self) -> None:
        """Pause and resume the partitions the task itself named."""
        pause, resume = self._context.take_pauses()
        self._consumer.pause(pause)
        if not self._is_paused and not self._retries:
            self._consumer.resume(resume)

    def _fetch(self) -> None:
        wait_s = min(_FETCH_WAIT_S, self._offsets.until_due_s())
        if self._waiting and not self._is_paused:
            wait_s = min(wait_s, max(self._retry_at - time.monotonic(), 0))
        runs = self._consumer.fetch(self._parts.max_records, wait_s)
        for run in runs:
            self._control.counters.records_read += len(run)
            place = TopicPartition(run.topic, run.partition)
            self._waiting.append(self._convert(run, place))
            self._offsets.began(place, run.first_offset)
        if runs:
            waiting = sum(len(delivery.payload) for delivery in self._waiting)
            self._control.counters.note_active(waiting + self._offsets.active())
        if len(runs) > 1:
            self._join_lists()

    def _deliver(self) -> None:
        if self._is_paused:
            return
        if not self._waiting:
            if not self._control.is_stopping:
                with plugin_call(self._task, "put"):
                    self._task.put([])
            return
        if self._retries and time.monotonic() < self._retry_at:
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
            if self._retries:
                self._retries = 0
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
            log.warning("The failing task could not commit what it had put", exc_info=True)

    # --- converters, transforms, put ---

    def _convert(self, run: ConsumedRun, place: TopicPartition) -> _Delivery:
        fetched = _fetched(run)
        delivery = _Delivery([], {place: run.first_offset}, {place: run.next_offset})
        originals = self._parts.originals
        if originals.is_wanted:
            delivery.fetched.append(fetched)
            originals.at_hand = delivery.fetched
        delivery.payload = self._transform(fetched)
        return delivery

    def _transform(self, fetched: FetchedBatch) -> RecordBatch | list[SinkRecord]:
        batch = self._parts.converters.to_connect_columns(fetched) if self._task.supports_batches else None
        if batch is None:
            records = self._by_records(fetched)
            self._control.used_topics((fetched.topic,))
            return records
        self._control.used_topics((fetched.topic,))
        if not len(self._parts.transforms):
            return batch
        kept = self._parts.transforms.apply_batch(batch)
        return [] if kept is None else kept  # type: ignore[return-value]  # sink records in, sink records out

    def _by_records(self, fetched: FetchedBatch) -> list[SinkRecord]:
        """Each record through all stages before the next one, so that failures are reported in the records' order."""
        if not len(self._parts.transforms):
            return self._parts.converters.to_connect_records(fetched)
        convert, transform = self._parts.converters.to_connect_record, self._parts.transforms.apply_record
        kept: list[SinkRecord] = []
        for index in range(len(fetched)):
            record = convert(fetched.row(index))
            after = None if record is None else transform(record)
            if after is not None:
                kept.append(after)  # type: ignore[arg-type]  # sink records in, sink records out
        return kept

    def _put(self, delivery: _Delivery) -> None:
        """Give the task what is due. Errors: RetriableError; any other leads with what the task was given."""
        try:
            self._put_payload(delivery)
        except RetriableError:
            raise
        except ConnectError as error:
            raise ConnectError(f"{error} (it was given {delivery})", hint=error.hint) from error.__cause__
        finally:
            self._parts.originals.put((), ())  # messages held until the next fetch would cost it the CPU's cache
        if self._parts.errant is not None:
            self._parts.errant.raise_unhandled()

    def _put_payload(self, delivery: _Delivery) -> None:
        payload = delivery.payload
        if isinstance(payload, RecordBatch):
            if self._task.supports_batches:
                self._parts.originals.put((), delivery.fetched)
                with plugin_call(self._task, "put_batch"):
                    self._task.put_batch(payload)
                self._control.counters.records_put += len(payload)
                return
            payload = payload.to_records()  # type: ignore[assignment]  # a sink's batch gives sink records
        records: list[SinkRecord] = list(payload)  # type: ignore[arg-type]
        self._parts.originals.put(records, delivery.fetched)
        with plugin_call(self._task, "put"):
            self._task.put(records)
        self._control.counters.records_put += len(payload)

    def _await_retry(self, error: RetriableError) -> None:
        """Keep the batch, fetch nothing, and try again later."""
        wait_s = self._context.take_timeout_s()
        if wait_s is None:
            wait_s = min(_RETRY_FIRST_S * 2 ** min(self._retries, 20), _RETRY_MOST_S)
        if not self._retries:
            log.warning("%s.put() failed and is tried again: %s", type(self._task).__name__, error)
            self._consumer.pause(self._consumer.assignment)
        self._retries += 1
        self._retry_at = time.monotonic() + wait_s

    def _end_idle_retries(self) -> None:
        """Fetch again when what was to be tried again is gone."""
        if self._retries and not self._waiting:
            self._retries = 0
            self._resume()

    def _resume(self) -> None:
        if not self._is_paused:
            self._consumer.resume(self._consumer.assignment - self._context.paused)

    def _join_lists(self) -> None:
        """Records of one fetch go into one put, as in Java; batches stay apart."""
        joined: deque[_Delivery] = deque()
        for delivery in self._waiting:
            last = joined[-1] if joined else None
            if last is not None and isinstance(last.payload, list) and isinstance(delivery.payload, list):
                last.payload = last.payload + delivery.payload
                last.first = {**delivery.first, **last.first}
                last.after.update(delivery.after)
                last.fetched += delivery.fetched
            else:
                joined.append(delivery)
        self._waiting = joined

    def _drop(self, partitions: set[TopicPartition]) -> None:
        """Forget what waits for put of these partitions."""
        kept: deque[_Delivery] = deque()
        for delivery in self._waiting:
            touched = partitions & delivery.after.keys()
            if touched and isinstance(delivery.payload, list):
                delivery.payload = [record for record in delivery.payload if _place(record) not in touched]
            for partition in touched:
                del delivery.after[partition]
            if delivery.after:
                kept.append(delivery)
        self._waiting = kept

    # --- RebalanceListener: called inside fetch() ---

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self._is_closing or not partitions:
            return {}
        with plugin_call(self._task, "open"):
            self._task.open(list(partitions))
        begin = self._context.take_offsets(set(partitions))
        for partition, offset in begin.items():
            self._offsets.moved_to(partition, offset)
        return begin

    def to_pause(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        if self._is_paused or (self._retries and self._waiting):
            return partitions
        return [partition for partition in partitions if partition in self._context.paused]

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self._is_closing or not partitions or self._control.is_cancelled:
            return
        try:
            self._offsets.close(partitions)
        except ConnectError:  # as in Java: the next owner reads again what was not committed
            log.warning("Offsets of partitions that go could not be committed", exc_info=True)
        self._forget(partitions)

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        if self._is_closing or not partitions:
            return
        with plugin_call(self._task, "close"):
            self._task.close(list(partitions))
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        gone = set(partitions)
        self._drop(gone)
        self._offsets.forget(gone)
        self._context.paused -= gone
        self._end_idle_retries()


def _fetched(run: ConsumedRun) -> FetchedBatch:
    kind = run.timestamp_kind
    return FetchedBatch(
        run.topic,
        run.partition,
        run.offsets,
        run.keys,
        run.values,
        cast("list[int | None]", _LazyTimes(run)) if kind else None,  # a list in all that Converters do with it
        _TIMESTAMP_TYPES[kind],
        run.headers,
    )


class _LazyTimes:
    """Timestamps that are taken out of the messages when a task or transform first asks for one.

    Measured on topic -> file, 99 B lines, medians of 3: 1.70 M records/s with this, 1.38 with a list made at once.
    """

    __slots__ = ("_run",)

    def __init__(self, run: ConsumedRun) -> None:
        self._run = run

    def __len__(self) -> int:
        return len(self._run)

    def __getitem__(self, index: int) -> int | None:
        return self._run.timestamps[index]

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        """Called by pa.array()."""
        import pyarrow as pa

        return pa.array(self._run.timestamps, type)


_TIMESTAMP_TYPES = (TimestampType.NO_TIMESTAMP_TYPE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


def _place(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic, record.original_kafka_partition)
