"""SourceSteps: poll, transforms, converters and produce, as the loops of both delivery guarantees share them."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kconnect.api import (
    ConnectRecord,
    RecordBatch,
    RecordMetadata,
    SourceRecord,
    SourceTask,
)
from kconnect.errors import ConnectError, RetriableError
from kconnect.kafka import Delivery, DeliveryFailure, RecordDelivery, RecordProducer, WrittenRecord
from kconnect.pipeline.conversion import Converters, KafkaBatch, KafkaRecord
from kconnect.pipeline.health import CONVERSION
from kconnect.pipeline.inflight import SourcePosition
from kconnect.pipeline.plugin_call import call_error, plugin_call
from kconnect.pipeline.polled_lists import PolledLists, no_records_error, positions_of, records_of
from kconnect.pipeline.ports import TaskControl
from kconnect.pipeline.retries import Retries
from kconnect.pipeline.source_context import SourceContext
from kconnect.pipeline.stages import StageError, TransformChain
from kconnect.pipeline.topics import MissingTopics, TopicCreation

__all__ = ["SourceParts", "SourceSteps", "reports_each_record"]

log = logging.getLogger(__name__)

# A poll() that comes back empty sooner than this did not wait by itself; then the loop does, 1 ms growing to 10 ms,
# so that a source that never blocks is asked 100 times a second and does not take a whole core.
_QUICK_POLL_S = 0.0005
_IDLE_WAIT_S = (0.001, 0.010)
# The first pause after a poll() that raised RetriableError; each next one is twice as long. Java's
# SEND_FAILED_BACKOFF_MS.
_RETRY_FIRST_S = 0.1

Payloads = KafkaBatch | list[KafkaRecord | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParts:
    """What a source loop is put together from, however it delivers."""

    task: SourceTask
    task_config: Mapping[str, str] = field(repr=False)
    transforms: TransformChain
    converters: Converters
    producer: RecordProducer
    context: SourceContext
    tolerates_all: bool
    retry_delay_most_s: float
    """The longest pause before poll() is called again after a RetriableError: errors.retry.delay.max.ms."""
    flush_interval_s: float
    stop_budget_s: float
    """How long the end may take: flush of the producer, then the last commit."""
    topics: TopicCreation | MissingTopics
    """Who makes missing topics, or tells of those that are left to the broker."""


class SourceSteps(ABC):
    """What a source loop does with what it polls; the loop itself, and what makes offsets count, is the subclass's.

    All methods run on the task's thread.
    Source: o.a.k.connect.runtime.AbstractWorkerSourceTask (Kafka 4.3).
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
        self._health = control.health
        self._poll_name = f"{type(parts.task).__name__}.poll()"
        self._retries = Retries(control, parts.task, "poll", first_s=_RETRY_FIRST_S, cap_s=parts.retry_delay_most_s)
        self._stop_seen_at: float | None = None

    # --- what a subclass decides ---

    @abstractmethod
    def run(self) -> None: ...

    @abstractmethod
    def _begin_unit(self, positions: Sequence[SourcePosition], records: int) -> Callable[[], None]:
        """A unit is about to be sent; what it gives is called, on any thread, when all of it is acknowledged."""

    def _end_unit(self, delivery: Delivery) -> None:
        """All of the unit is with the producer."""
        delivery.seal()

    @abstractmethod
    def _on_refused(self, failure: DeliveryFailure) -> bool:
        """A record was refused for good; says whether that is tolerated. Threads: any."""

    @abstractmethod
    def _send_before(self, polled: list[SourceRecord] | RecordBatch, failure: StageError) -> None:
        """A record fails the task: what is to be done with those before it."""

    # --- life ---

    def start(self) -> None:
        self._started = True
        self._control.when_cancelled(self._producer.abandon)
        with plugin_call(self._task, "initialize", self._health):
            self._task.initialize(self._parts.context)
        with plugin_call(self._task, "start", self._health):
            self._task.start(self._parts.task_config)

    def close(self) -> None:
        try:
            if self._started:
                with plugin_call(self._task, "stop", self._health):
                    self._task.stop()
        finally:
            self._producer.close()
            self._parts.topics.close()
            self._parts.transforms.close()
            self._parts.converters.close()

    # --- the steps, in the order of run() ---

    def _pause(self) -> None:
        self._control.report_paused()
        if self._control.await_resume():
            self._control.report_running()

    def _poll(self) -> list[SourceRecord] | RecordBatch | None:
        began = time.monotonic()
        self._health.call = (self._poll_name, began)
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
        if polled is not None and (isinstance(polled, str) or not isinstance(polled, Sequence | RecordBatch)):
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

    def _send(self, polled: list[SourceRecord] | RecordBatch) -> bool:
        """Take a poll's records to the producer; False when the task is to stop before all of them are there."""
        try:
            if self._reports_each:
                return self._send_each(records_of(polled))
            return self._send_all(polled)
        except (AttributeError, TypeError):  # looked for only now: a check of each record would cost all tasks
            odd = [item for item in records_of(polled) if not isinstance(item, SourceRecord)]
            if not odd:
                raise
            raise no_records_error(self._task, odd[:1]) from None

    def _send_all(self, polled: list[SourceRecord] | RecordBatch) -> bool:
        self._health.call = (CONVERSION, time.monotonic())
        try:
            payloads = self._to_kafka(polled)
        except StageError as failure:
            self._send_before(polled, failure)
            raise
        finally:
            self._health.call = None
        return self._produce(positions_of(polled), len(polled), payloads)

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

    # --- produce ---

    def _produce(self, positions: Sequence[SourcePosition], polled: int, payloads: Payloads) -> bool:
        """Hand one unit to the producer. Its offsets are committable once all of it is acknowledged.

        False when the task is to stop before all of it was taken.
        """
        topics = _topics(payloads)
        if self._control.is_cancelled or not self._are_there(topics):
            return False
        delivery = self._unit(positions, polled, len(payloads), topics)
        if isinstance(payloads, KafkaBatch):
            sent = self._producer.send_batch(payloads, delivery, self._gives_up)
        else:
            sent = all(self._send_record(record, delivery) for record in payloads if record is not None)
        if self._health.waiting_since_s is not None:
            self._health.waited(time.monotonic())
        if sent:
            self._end_unit(delivery)
        return sent

    def _are_there(self, topics: Collection[str]) -> bool:
        """Whether records may go to these topics; False when the task is to stop before that is known."""
        return self._parts.topics.ensure(topics)

    def _unit(self, positions: Sequence[SourcePosition], polled: int, kept: int, topics: Collection[str]) -> Delivery:
        acknowledged = self._begin_unit(positions, kept)
        counters = self._control.counters
        counters.records_dropped += polled - kept

        def on_end(is_acked: bool) -> None:
            if is_acked:
                acknowledged()
                self._control.used_topics(topics)
                with self._ended:
                    counters.records_written += kept
                    counters.records_active = (
                        counters.records_polled - counters.records_written - counters.records_dropped
                    )

        return self._producer.delivery(on_end, self._on_refused)

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

    def _send_each(self, records: Sequence[SourceRecord]) -> bool:
        """The path of tasks that want commit_record(): one record at a time, as Java's."""
        for record in records:
            after = self._parts.transforms.apply_record(record)
            payload = None if after is None else self._parts.converters.to_kafka_record(after)
            topics = () if payload is None else (payload.topic,)
            if self._control.is_cancelled or not self._are_there(topics):
                return False
            delivery = self._unit(positions_of([record]), 1, payload is not None, topics)
            if payload is None:
                self._written.append((record, None))
            elif not self._send_record(payload, RecordDelivery(delivery, partial(self._on_written, record))):
                return False
            self._end_unit(delivery)
        return True

    def _on_written(self, record: SourceRecord, written: WrittenRecord | None) -> None:
        if written is not None or self._parts.tolerates_all:
            self._written.append((record, written))

    def _gives_up(self) -> bool:
        """Whether to stop waiting for room: at once when fenced off, after half the budget when asked to stop.

        The producer asks only when it has none, so this is also where a wait begins.
        """
        if self._health.waiting_since_s is None:
            self._health.waiting_since_s = time.monotonic()
        if self._control.is_cancelled or self._refused is not None:
            return True
        if not self._control.is_stopping:
            return False
        if self._stop_seen_at is None:
            self._stop_seen_at = time.monotonic()
        return time.monotonic() - self._stop_seen_at > self._parts.stop_budget_s / 2

    def _call_record_hooks(self, written_records: deque[tuple[SourceRecord, WrittenRecord | None]]) -> None:
        """commit_record() for each of these, which are taken out."""
        while written_records:
            record, written = written_records.popleft()
            place = None
            if written is not None:
                place = RecordMetadata(written.topic, written.partition, written.offset, written.timestamp)
            self._call_hook("commit_record", record, place)

    def _call_hook(self, name: str, *args: Any) -> None:
        self._health.call = (f"{type(self._task).__name__}.{name}()", time.monotonic())
        try:
            getattr(self._task, name)(*args)
        except Exception:  # the plugin's; Java logs it and goes on
            with self._control.in_stage(name):
                log.exception("%s.%s() failed; the task goes on", type(self._task).__name__, name)
        finally:
            self._health.call = None


def reports_each_record(task_class: type[SourceTask]) -> bool:
    """Whether the class wants commit_record() for each record, which costs it the batches."""
    return task_class.commit_record is not SourceTask.commit_record


def _topics(payloads: Payloads) -> Collection[str]:
    """Topics of one unit: known before it is sent, so that no record is kept for it. 10 ns for a record of a list."""
    if isinstance(payloads, KafkaBatch):
        return (payloads.topic,)
    return {payload.topic for payload in payloads if payload is not None}
