"""A launcher's callbacks to the herder of a cluster, and what tasks request through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kconnect.clock import Clock
from kconnect.errors import ConflictError
from kconnect.model import ConnectorOffset, RunState, TaskId
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.offset_stores import ClusterOffsets
from kconnect.runtime.herder.cluster.topic_tracking import ClusterTopics
from kconnect.runtime.herder.connectors.task_runs import report_task
from kconnect.runtime.storage import commit_source_offsets, read_source_offsets


class ClusterEvents:
    """Implements `LauncherEvents`. Threads: the launcher's. Only reads and commits of offsets may block."""

    def __init__(
        self,
        status: ClusterStatus,
        topics: ClusterTopics,
        offsets: ClusterOffsets,
        reconfigure: Callable[[str], None],
        clock: Clock,
        may_write: Callable[[TaskId], None] = lambda task_id: None,
    ) -> None:
        """`may_write` raises ConnectError when an exactly-once task may have been fenced off before it began."""
        self._status = status
        self._topics = topics
        self._offsets = offsets
        self._reconfigure = reconfigure
        self._clock = clock
        self._may_write = may_write

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        report_task(self._status, task_id, run, state, trace)

    def reconfiguration_requested(self, connector: str) -> None:
        self._reconfigure(connector)

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        """Too late for a connector without tasks here: its topics may have been reset since."""
        if self._status.runs(task_id.connector):
            self._topics.used(task_id, topic, self._clock.time_ms())

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return read_source_offsets(self._offsets.store_of(connector), connector, partitions)

    def check_run(self, task_id: TaskId, run: int) -> None:
        """Errors: ConflictError for a run that was stopped or replaced; as `may_write`."""
        if not self._status.is_run(task_id, run):
            raise ConflictError(f"Run {run} of task {task_id} is no longer wanted on this worker")
        self._may_write(task_id)

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Errors: ConflictError when no task of it runs here: an abandoned one must not undo what others did."""
        if not self._status.runs(connector):
            raise ConflictError(f"Connector {connector} has no tasks on this worker: its offsets are not committed")
        commit_source_offsets(self._offsets.commit_store_of(connector), connector, offsets)
