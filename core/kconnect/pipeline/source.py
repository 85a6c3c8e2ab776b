"""SourceLoop: poll -> transforms -> converters -> produce -> commit source offsets."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kconnect.api import (
    ConnectRecord,
    OffsetStorageReader,
    RecordBatch,
    RecordMetadata,
    SourceRecord,
    SourceTask,
    TransactionContext,
)
from kconnect.errors import ConnectError, RetriableError
from kconnect.kafka import Delivery, DeliveryFailure, RecordDelivery, RecordProducer, WrittenRecord
from kconnect.pipeline.conversion import Converters, KafkaBatch, KafkaRecord
from kconnect.pipeline.inflight import InFlight, SourcePosition, partition_key
from kconnect.pipeline.plugin_call import plugin_call
from kconnect.pipeline.polled_lists import PolledLists
from kconnect.pipeline.ports import OffsetPort, TaskControl
from kconnect.pipeline.source_offsets import SourceOffsetCommitter
from kconnect.pipeline.stages import StageError, TransformChain
from kconnect.pipeline.tolerance import StoppedInRetryError

__all__ = ["SourceLoop", "SourceParts", "reports_each_record"]

log = logging.getLogger(__name__)

# A poll() that comes back empty sooner than this did not wait by itself; then the loop does, 1 ms growing to 10 ms,
# so that a source that never blocks is asked 100 times a second and does not take a whole core.
_QUICK_POLL_S = 0.0005
_IDLE_WAIT_S = (0.001, 0.010)
# Java's SEND_FAILED_BACKOFF_MS, here for a poll() that raised RetriableError.
_RETRY_POLL_S = 0.1

Payloads = KafkaBatch | list[KafkaRecord | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParts:
    """What a source loop is put together from."""

    task: SourceTask
    task_config: Mapping[str, str] = field(repr=False)
    transforms: TransformChain
    converters: Converters
    producer: RecordProducer
    inflight: InFlight
    committer: SourceOffsetCommitter
    context: SourceContext
    tolerates_all: bool
    flush_interval_s: float
    stop_budget_s: float
    """How long the end may take: flush of the producer, then the last commit."""


class SourceLoop:
    """The data path of a source task. All methods run on the task's thread.

    Errors: what the plugin, a stage or the producer raises ends the loop; what was sent before is committed first.
    Source: o.a.k.connect.runtime.AbstractWorkerSourceTask, WorkerSourceTask (Kafka 4.3).
    Differs: commit() and commit_record() are called on the task's thread between polls, Java calls them from others.
    """

    def __init__(self, control: TaskControl, parts: SourceParts) -> None:
        self._control = control
        self._parts = parts
        self._task = parts.task
        self._producer = parts.producer
        self._reports_each = reports_each_record(type(parts.task))
        self._lists = PolledLists(parts.transforms)
        self._written: deque[tuple[SourceRecord, WrittenRecord | None]] = deque()
        self._ended = threading.Lock()  # guards the two below, which deliveries change from any thread
        self._refused: ConnectError | None = None
        self._started = False
        self._empty_polls = 0
        self._stop_seen_at: float | None = None

    def start(self) -> None:
        self._started = True
        self._control.when_cancelled(self._producer.abandon)
        with plugin_call(self._task, "initialize"):
            self._task.initialize(self._parts.context)
        with plugin_call(self._task, "start"):
            self._task.start(self._parts.task_config)

    def run(self) -> None:
        self._parts.committer.begin(self._parts.flush_interval_s)
        try:
            while not self._control.is_stopping:
                if self._control.should_pause:
                    self._pause()
                    continue
                self._settle()
                polled = self._poll()
                if polled:
                    self._send(polled)
            self._settle()
        except StoppedInRetryError as stopped:  # polled again after the next start
            log.info("%s", stopped)
        finally:
            self._finish()

    def close(self) -> None:
        try:
            if self._started:
                with plugin_call(self._task, "stop"):
                    self._task.stop()
        finally:
            self._producer.close()
            self._parts.transforms.close()
            self._parts.converters.close()

    # --- the steps, in the order of run() ---

    def _pause(self) -> None:
        self._control.report_paused()
        if self._control.await_resume():
            self._control.report_running()

    def _settle(self) -> None:
        """Take in what the broker acknowledged or refused, and call the hooks that are due."""
        self._producer.serve()
        if self._refused is not None:
            raise self._refused
        self._call_due_hooks()

    def _poll(self) -> list[SourceRecord] | RecordBatch | None:
        began = time.monotonic()
        try:
            polled = self._task.poll()
        except RetriableError as error:
            log.warning("%s.poll() failed and is tried again: %s", type(self._task).__name__, error)
            self._control.wait(_RETRY_POLL_S)
            return None
        except Exception as error:  # the plugin's: wrapped with its place
            raise ConnectError(f"{type(self._task).__name__}.poll() raised {type(error).__name__}: {error}") from error
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

    def _send(self, polled: list[SourceRecord] | RecordBatch) -> None:
        if self._reports_each:
            self._send_each(_records(polled))
            return
        try:
            payloads = self._to_kafka(polled)
        except StageError as failure:
            self._send_before(polled, failure)
            raise
        self._produce(_positions(polled), len(polled), payloads)

    def _finish(self) -> None:
        """Flush, then the last commit: within the stop's budget, and not at all once fenced off."""
        if self._control.is_cancelled:
            self._parts.committer.abandon()
            return
        deadline = time.monotonic() + self._parts.stop_budget_s
        if not self._producer.flush(self._parts.stop_budget_s * 0.8, lambda: self._control.is_cancelled):
            log.warning(
                "Task %s ends with %d records not acknowledged; they come again after its next start. %s",
                self._control.spec.id,
                len(self._producer),
                self._producer.last_error or "",
            )
        self._parts.committer.finish(deadline - time.monotonic())
        self._call_due_hooks()

    # --- transforms, converters ---

    def _to_kafka(self, polled: Sequence[ConnectRecord] | RecordBatch) -> Payloads:
        if not isinstance(polled, RecordBatch):
            polled = self._lists.columns_of(polled)
        if isinstance(polled, RecordBatch):
            kept = self._parts.transforms.apply_batch(polled)
        else:
            kept = self._parts.transforms.apply_records(polled)
        if kept is None:
            return []
        if isinstance(kept, RecordBatch):
            return self._parts.converters.to_kafka_batch(kept)
        return self._parts.converters.to_kafka_list(kept)

    def _send_before(self, polled: list[SourceRecord] | RecordBatch, failure: StageError) -> None:
        """Deliver what came before the record that fails the task, so that a restart begins at that record."""
        records = _records(polled)
        before = records[: _index_of(records, failure.record)]
        done: Payloads = []
        if failure.done and isinstance(failure.done[0], ConnectRecord):
            done = self._parts.converters.to_kafka_records(failure.done)
        elif failure.done:
            done = failure.done[0] if isinstance(failure.done[0], KafkaBatch) else failure.done
        if before:
            self._produce(_positions(before), len(before), done)

    # --- produce ---

    def _produce(self, positions: Sequence[SourcePosition], polled: int, payloads: Payloads) -> None:
        """Hand one unit to the producer. Its offsets are committable once all of it is acknowledged."""
        if self._control.is_cancelled:
            return
        delivery = self._unit(positions, polled, len(payloads), _topics(payloads))
        if isinstance(payloads, KafkaBatch):
            sent = self._producer.send_batch(payloads, delivery, self._gives_up)
        else:
            sent = all(self._send_record(record, delivery) for record in payloads if record is not None)
        if sent:
            delivery.seal()

    def _unit(self, positions: Sequence[SourcePosition], polled: int, kept: int, topics: Collection[str]) -> Delivery:
        unit = self._parts.inflight.submit(positions)
        counters = self._control.counters
        counters.records_dropped += polled - kept

        def on_end(is_acked: bool) -> None:
            if is_acked:
                unit.ack()
                self._control.used_topics(topics)
                with self._ended:
                    counters.records_written += kept
                    counters.records_active = (
                        counters.records_polled - counters.records_written - counters.records_dropped
                    )

        return self._producer.delivery(on_end, self._on_refused)

    def _on_refused(self, failure: DeliveryFailure) -> bool:
        """A record was refused for good: tolerated, or the task fails with the first such error."""
        if self._parts.tolerates_all:
            log.warning("Skipped, as errors.tolerance=all says: %s", failure.error)
            return True
        with self._ended:
            if self._refused is None:
                self._refused = failure.error
        return False

    def _send_record(self, record: KafkaRecord, delivery: Delivery | RecordDelivery) -> bool:
        return self._producer.send(
            record.topic,
            record.partition,
            record.key,
            record.value,
            record.timestamp,
            record.headers,
            delivery,
            self._gives_up,
        )

    def _send_each(self, records: Sequence[SourceRecord]) -> None:
        """The path of tasks that want commit_record(): one record at a time, as Java's."""
        for record in records:
            after = self._parts.transforms.apply_record(record)
            payload = None if after is None else self._parts.converters.to_kafka_record(after)
            if self._control.is_cancelled:
                return
            topics = () if payload is None else (payload.topic,)
            delivery = self._unit(_positions([record]), 1, payload is not None, topics)
            if payload is None:
                self._written.append((record, None))
            elif not self._send_record(payload, RecordDelivery(delivery, partial(self._on_written, record))):
                return
            delivery.seal()

    def _on_written(self, record: SourceRecord, written: WrittenRecord | None) -> None:
        if written is not None or self._parts.tolerates_all:
            self._written.append((record, written))

    def _gives_up(self) -> bool:
        """Whether to stop waiting for room: at once when fenced off, after half the budget when asked to stop."""
        if self._control.is_cancelled or self._refused is not None:
            return True
        if not self._control.is_stopping:
            return False
        if self._stop_seen_at is None:
            self._stop_seen_at = time.monotonic()
        return time.monotonic() - self._stop_seen_at > self._parts.stop_budget_s / 2

    def _call_due_hooks(self) -> None:
        while self._written:
            record, written = self._written.popleft()
            place = None
            if written is not None:
                place = RecordMetadata(written.topic, written.partition, written.offset, written.timestamp)
            self._call_hook("commit_record", record, place)
        if self._parts.committer.take_committed():
            self._call_hook("commit")

    def _call_hook(self, name: str, *args: Any) -> None:
        try:
            getattr(self._task, name)(*args)
        except Exception:  # the plugin's; Java logs it and goes on
            log.exception("%s.%s() failed; the task goes on", type(self._task).__name__, name)


class SourceContext:
    """What a source task may ask. Implements kconnect.api.SourceTaskContext."""

    def __init__(self, control: TaskControl, offsets: OffsetPort, configs: Callable[[], Mapping[str, str]]) -> None:
        self._control = control
        self._reader = _OffsetReader(control, offsets)
        self._configs = configs

    def configs(self) -> Mapping[str, str]:
        return self._configs()

    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._reader

    def transaction_context(self) -> TransactionContext | None:
        return None  # exactly-once sources come with the distributed worker, as in Java

    def wait(self, timeout_s: float) -> bool:
        return self._control.wait_for_work(timeout_s)

    def wake(self) -> None:
        self._control.wake()


class _OffsetReader:
    def __init__(self, control: TaskControl, offsets: OffsetPort) -> None:
        self._connector = control.spec.id.connector
        self._offsets = offsets

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._offsets.read(self._connector, [partition])[0]

    def offsets(self, partitions: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._offsets.read(self._connector, list(partitions))


def reports_each_record(task_class: type[SourceTask]) -> bool:
    """Whether the class wants commit_record() for each record, which costs it the batches."""
    return task_class.commit_record is not SourceTask.commit_record


def _positions(polled: Sequence[SourceRecord] | RecordBatch) -> list[SourcePosition]:
    """The last offset in each source partition, in the order of the partitions' first records."""
    if isinstance(polled, RecordBatch):
        if polled.source_partition is None:
            return []
        return [(polled.source_partition, polled.last_source_offset())]
    found: dict[Any, SourcePosition] = {}
    held: Mapping[str, Any] | None = None
    key: Any = None
    for record in polled:
        if record.source_partition is None:
            continue
        if record.source_partition is not held:
            held = record.source_partition
            key = partition_key(held)
        found[key] = (held, record.source_offset)
    return list(found.values())


def _topics(payloads: Payloads) -> Collection[str]:
    """Topics of one unit: known before it is sent, so that no record is kept for it. 10 ns for a record of a list."""
    if isinstance(payloads, KafkaBatch):
        return (payloads.topic,)
    return {payload.topic for payload in payloads if payload is not None}


def _records(polled: list[SourceRecord] | RecordBatch) -> list[SourceRecord]:
    if isinstance(polled, RecordBatch):
        return polled.to_records()  # type: ignore[return-value]  # a source's batch gives source records
    return polled


def _index_of(records: Sequence[SourceRecord], failed: Any) -> int:
    """Where the failed record, or the one it was made from, stands; 0 when unknown, so that nothing is passed over."""
    for index, record in enumerate(records):
        if record is failed:
            return index
    partition = getattr(failed, "source_partition", None)
    offset = getattr(failed, "source_offset", None)
    for index, record in enumerate(records):
        if record.source_partition == partition and record.source_offset == offset:
            return index
    return 0
