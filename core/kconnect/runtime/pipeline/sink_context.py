"""SinkContext: a sink task's requests to its loop, kept until the loop handles them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol

from kconnect.api import ErrantRecordReporter, PluginMetrics, SinkRecord
from kconnect.model import TopicPartition
from kconnect.runtime.kafka import KafkaRecord
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.stages import Stage, StageError
from kconnect.runtime.pipeline.tolerance import Tolerance

log = logging.getLogger(__name__)


class HoldsPartitions(Protocol):
    """Whoever knows which partitions the task has; a SinkConsumer does."""

    @property
    def assignment(self) -> set[TopicPartition]: ...


def _no_reporter() -> ErrantRecordReporter | None:
    return None


class SinkContext:
    """Implements kconnect.api.SinkTaskContext. Threads: pause, resume and request_commit from any, the rest the task's.

    One for all that run a task: each takes what the task asked for when it is its turn.

    Source: o.a.k.connect.runtime.WorkerSinkTaskContext (Kafka 4.3).
    """

    def __init__(
        self,
        partitions: HoldsPartitions,
        configs: Callable[[], Mapping[str, str]],
        metrics: PluginMetrics,
        reporter: Callable[[], ErrantRecordReporter | None] = _no_reporter,
    ) -> None:
        """`reporter`: called each time the task asks for it."""
        self._partitions = partitions
        self._configs = configs
        self._metrics = metrics
        self._reporter = reporter
        self._offsets: dict[TopicPartition, int] = {}
        # The client serves one thread at a time and lets others wait without end: the loop does it, before it fetches.
        self._pauses: deque[tuple[bool, tuple[TopicPartition, ...]]] = deque()
        self._timeout_ms: int | None = None
        self._put_within_ms: int | None = None
        self._closes = self._ends = False
        self._commit_requested = threading.Event()

    # --- for the task ---

    def configs(self) -> Mapping[str, str]:
        return self._configs()

    def offset(self, tp: TopicPartition | Mapping[TopicPartition, int], offset: int | None = None) -> None:
        if not isinstance(tp, TopicPartition):
            for place, wanted in tp.items():
                self.offset(place, wanted)
            return
        if offset is None:
            raise ValueError(f"offset({tp}) needs the offset to go to")
        if offset < 0:  # some of these are names to the client: -1 is the end of the partition
            raise ValueError(f"offset({tp}, {offset}): seek offset must not be a negative number")
        self._offsets[tp] = offset

    def timeout(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms

    def plugin_metrics(self) -> PluginMetrics:
        return self._metrics

    def assignment(self) -> set[TopicPartition]:
        return self._partitions.assignment

    def pause(self, *partitions: TopicPartition) -> None:
        self._pauses.append((True, partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        self._pauses.append((False, partitions))

    def request_commit(self) -> None:
        self._commit_requested.set()

    def put_within(self, timeout_ms: int) -> None:
        self._put_within_ms = timeout_ms

    def is_closing(self) -> bool:
        return self._closes

    def is_ending(self) -> bool:
        return self._ends

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return self._reporter()

    # --- for the loop ---

    @property
    def has_offsets(self) -> bool:
        """The task asked to rewind."""
        return bool(self._offsets)

    @property
    def has_asked(self) -> bool:
        """The task asked to rewind, to pause or to resume partitions, which is not done yet."""
        return bool(self._offsets or self._pauses)

    def take_offsets(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Requested offsets for these partitions; each is returned once."""
        if not self._offsets:
            return {}
        return {partition: self._offsets.pop(partition) for partition in partitions & self._offsets.keys()}

    def drop_offsets(self) -> None:
        """Discard requested offsets for partitions that are not ours: their owner would never see the request."""
        for partition, offset in self._offsets.items():
            log.warning("Cannot rewind %s to offset %d: the partition is not assigned to this task", partition, offset)
        self._offsets.clear()

    def take_pauses(self) -> list[tuple[bool, tuple[TopicPartition, ...]]]:
        """Requests to pause (True) or to resume partitions since the last call, in their order."""
        taken = []
        while self._pauses:
            taken.append(self._pauses.popleft())
        return taken

    def take_timeout_s(self) -> float | None:
        """The wait before the next attempt; None unless the task set one. Returned once."""
        timeout_ms, self._timeout_ms = self._timeout_ms, None
        return None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000

    def take_put_within_s(self) -> float | None:
        """How soon the task wants to be called again; None unless it said so. Returned once."""
        within_ms, self._put_within_ms = self._put_within_ms, None
        return None if within_ms is None else max(within_ms, 0) / 1000

    @contextmanager
    def closing(self, *, is_end: bool = False) -> Iterator[None]:
        """A block in which the task is asked for the last time what may be committed.

        `is_end`: nothing comes behind what was put, and nobody gives it again.
        """
        self._closes, self._ends = True, is_end
        try:
            yield
        finally:
            self._closes = self._ends = False

    @property
    def is_commit_requested(self) -> bool:
        """The task wants a commit; see `take_commit_request`."""
        return self._commit_requested.is_set()

    def take_commit_request(self) -> bool:
        if self._commit_requested.is_set():
            self._commit_requested.clear()
            return True
        return False


class ErrantRecords:
    """Reports records that the task itself could not write. Implements kconnect.api.ErrantRecordReporter.

    Threads: any for report(); the loop calls raise_unhandled() after each put and before each commit.
    Source: o.a.k.connect.runtime.errors.WorkerErrantRecordReporter (Kafka 4.3).
    """

    def __init__(
        self,
        tolerance: Tolerance,
        task_class: type,
        raw_records: RawRecords,
        to_kafka: Callable[[SinkRecord], KafkaRecord | None],
    ) -> None:
        self._tolerance = tolerance
        self._task_class = task_class
        self._raw_records = raw_records
        self._to_kafka = to_kafka
        self._raised: StageError | None = None

    def report(self, record: SinkRecord, error: BaseException) -> Future[None]:
        """Report one record; the future ends when the dead letter topic has it."""
        original: Any = self._raw_records.of(record)
        if original is None:
            original = self._made_anew(record) if self._raw_records.is_wanted else record
        try:
            answers = self._tolerance.give_up(StageError(Stage.TASK_PUT, self._task_class, original, error))
        except StageError as failure:
            self._raised = self._raised or failure
            raise
        if answers:
            return answers[0]
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def require_tolerance(self, record: SinkRecord, error: BaseException) -> None:
        """Errors: StageError if this record, which is not at hand, may not be given up."""
        if not self._tolerance.settings.tolerate_all:
            raise StageError(Stage.TASK_PUT, self._task_class, record, error)

    def for_task(self) -> ErrantRecords:
        """The task asks for the reporter: from now on its records must know where they came from."""
        self._raw_records.expect_reports()
        return self

    def raise_unhandled(self) -> None:
        """Raise what report() raised, in case the task swallowed it: the record was not tolerated."""
        if self._raised is not None:
            raise self._raised

    def _made_anew(self, record: SinkRecord) -> FetchedRecord:
        """Bytes for a record that the task changed or created, as its converters write them."""
        made = self._to_kafka(record)
        assert made is not None, "converters without a policy drop nothing"
        return FetchedRecord(
            record.topic,
            record.kafka_partition or 0,
            record.kafka_offset,
            made.key,
            made.value,
            record.timestamp,
            record.timestamp_type,
            made.headers,
        )
