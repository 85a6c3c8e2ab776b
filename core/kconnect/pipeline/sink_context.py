"""SinkContext: what a sink task may ask of its loop, kept until the loop takes it up."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from kconnect.api import ErrantRecordReporter, SinkRecord
from kconnect.kafka import RecordConsumer
from kconnect.model import TopicPartition
from kconnect.pipeline.stages import Stage, StageError
from kconnect.pipeline.tolerance import Tolerance

__all__ = ["ErrantRecords", "SinkContext"]


class SinkContext:
    """Implements kconnect.api.SinkTaskContext. Threads: pause, resume and request_commit from any, the rest the task's.

    Source: o.a.k.connect.runtime.WorkerSinkTaskContext (Kafka 4.3).
    """

    def __init__(
        self,
        consumer: RecordConsumer,
        configs: Callable[[], Mapping[str, str]],
        reporter: ErrantRecordReporter | None = None,
    ) -> None:
        self.paused: set[TopicPartition] = set()
        """Partitions the task itself paused."""
        self._consumer = consumer
        self._configs = configs
        self._reporter = reporter
        self._offsets: dict[TopicPartition, int] = {}
        # The client serves one thread at a time and lets others wait without end: the loop does it, before it fetches.
        self._pauses: deque[tuple[bool, tuple[TopicPartition, ...]]] = deque()
        self._timeout_ms: int | None = None
        self._commit_requested = threading.Event()

    # --- for the task ---

    def configs(self) -> Mapping[str, str]:
        return self._configs()

    def offset(self, tp: TopicPartition | Mapping[TopicPartition, int], offset: int | None = None) -> None:
        if isinstance(tp, TopicPartition):
            if offset is None:
                raise ValueError(f"offset({tp}) needs the offset to go to")
            self._offsets[tp] = offset
        else:
            self._offsets.update(tp)

    def timeout(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms

    def assignment(self) -> set[TopicPartition]:
        return self._consumer.assignment

    def pause(self, *partitions: TopicPartition) -> None:
        self._pauses.append((True, partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        self._pauses.append((False, partitions))

    def request_commit(self) -> None:
        self._commit_requested.set()

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return self._reporter

    # --- for the loop ---

    def take_offsets(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets asked for, of these partitions; each is given once."""
        if not self._offsets:
            return {}
        return {partition: self._offsets.pop(partition) for partition in partitions & self._offsets.keys()}

    def take_pauses(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Partitions to pause and to resume now, as asked since the last call; `paused` is up to date after it."""
        before = set(self.paused)
        while self._pauses:
            is_pause, partitions = self._pauses.popleft()
            if is_pause:
                self.paused.update(partitions)
            else:
                self.paused.difference_update(partitions)
        return self.paused - before, before - self.paused

    def take_timeout_s(self) -> float | None:
        """How long to wait before the next try; None when the task did not say. Given once."""
        timeout_ms, self._timeout_ms = self._timeout_ms, None
        return None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000

    def take_commit_request(self) -> bool:
        if self._commit_requested.is_set():
            self._commit_requested.clear()
            return True
        return False


class ErrantRecords:
    """Reports records that the task itself could not write. Implements kconnect.api.ErrantRecordReporter.

    The report is written when report() returns, so that the future it gives has ended.
    Source: o.a.k.connect.runtime.errors.WorkerErrantRecordReporter (Kafka 4.3).
    """

    def __init__(self, tolerance: Tolerance, task_class: type) -> None:
        self._tolerance = tolerance
        self._task_class = task_class

    def report(self, record: SinkRecord, error: BaseException) -> Future[None]:
        self._tolerance.give_up(StageError(Stage.TASK_PUT, self._task_class, record, error))
        done: Future[None] = Future()
        done.set_result(None)
        return done
