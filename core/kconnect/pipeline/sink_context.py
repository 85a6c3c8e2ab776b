"""SinkContext: what a sink task may ask of its loop, kept until the loop takes it up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from kconnect.api import ErrantRecordReporter, SinkRecord
from kconnect.kafka import RecordConsumer
from kconnect.model import TopicPartition
from kconnect.pipeline.stages import Stage, StageError
from kconnect.pipeline.tolerance import Tolerance

__all__ = ["ErrantRecords", "SinkContext"]


class SinkContext:
    """Implements kconnect.api.SinkTaskContext. Threads: the task's own; request_commit() from any.

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
        self.paused.update(partitions)
        self._consumer.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused.difference_update(partitions)
        self._consumer.resume(partitions)

    def request_commit(self) -> None:
        self._commit_requested.set()

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return self._reporter

    # --- for the loop ---

    def take_offsets(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets asked for, of these partitions; each is given once."""
        if not self._offsets:
            return {}
        found = {partition: self._offsets.pop(partition) for partition in partitions & self._offsets.keys()}
        return found

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
