"""The hooks of a source task, commit() and commit_record(): errors are logged and the task continues."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from kconnect.api import RecordMetadata, SourceRecord, SourceTask
from kconnect.java.plugins import JavaSourceTask
from kconnect.runtime.kafka import WrittenRecord
from kconnect.runtime.pipeline.ports import TaskControl

log = logging.getLogger(__name__)

WrittenRecords = deque[tuple[SourceRecord, WrittenRecord | None]]
"""Records and where they were written: None for those that were left out or refused."""


class TaskHooks:
    """Calls the hooks. Threads: the task's.

    Source: AbstractWorkerSourceTask, WorkerSourceTask (Kafka 4.3). Differs: called between polls, Java calls them from
    other threads.
    """

    def __init__(self, control: TaskControl, task: SourceTask) -> None:
        self._control = control
        self._task = task

    def call_commit_record(self, written: WrittenRecords) -> None:
        """Call commit_record() for each of these and remove it."""
        while written:
            record, place = written.popleft()
            metadata = None
            if place is not None:
                metadata = RecordMetadata(
                    place.topic, place.partition, place.offset, place.timestamp, place.key_size, place.value_size
                )
            self._call("commit_record", record, metadata)

    def drop(self, records: Sequence[SourceRecord]) -> None:
        """Nothing will be called for these, which were aborted. Source: ExactlyOnceWorkerSourceTask (Kafka 4.3)."""
        if isinstance(self._task, JavaSourceTask):
            self._task.forget(records)

    def call_commit(self) -> None:
        self._call("commit")

    def _call(self, name: str, *args: Any) -> None:
        self._control.health.call = (f"{type(self._task).__name__}.{name}()", time.monotonic())
        try:
            getattr(self._task, name)(*args)
        except Exception:  # the plugin's; Java logs it and goes on
            with self._control.in_stage(name):
                log.exception("%s.%s() failed; the task continues", type(self._task).__name__, name)
        finally:
            self._control.health.call = None


def wants_each_record(task: SourceTask) -> bool:
    """Whether its class overrides commit_record(), which rules out batches."""
    if isinstance(task, JavaSourceTask):
        return task.wants_each
    return type(task).commit_record is not SourceTask.commit_record


def release(task: SourceTask) -> None:
    """Let go of what `wants_each_record` opened, of a task that is not started."""
    if isinstance(task, JavaSourceTask):
        task.release()
