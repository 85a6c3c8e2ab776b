"""A launcher's callbacks to the standalone herder, and what tasks request through it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kconnect.errors import ConflictError
from kconnect.model import ConnectorOffset, RunState, TaskId
from kconnect.runtime.herder.connectors.task_runs import report_task
from kconnect.runtime.herder.standalone.active_topics import ActiveTopics
from kconnect.runtime.herder.standalone.memory_config import MemoryConfig
from kconnect.runtime.herder.standalone.memory_status import MemoryStatus
from kconnect.runtime.storage import OffsetStore, commit_source_offsets, read_source_offsets

log = logging.getLogger(__name__)


class HerderEvents:
    """Implements `LauncherEvents`. Threads: the launcher's. Only reads and commits of offsets may block, on the store.

    It is a separate object because Herder and LauncherEvents both have a method `task_status`.
    """

    def __init__(
        self,
        config: MemoryConfig,
        status: MemoryStatus,
        offsets: OffsetStore,
        topics: ActiveTopics,
        reconfigure: Callable[[str], None],
    ) -> None:
        self._config = config
        self._status = status
        self._offsets = offsets
        self._topics = topics
        self._reconfigure = reconfigure

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        report_task(self._status, task_id, run, state, trace)

    def reconfiguration_requested(self, connector: str) -> None:
        if self._config.find(connector) is None:
            log.error("Task that requested reconfiguration does not exist: %s", connector)
            return
        self._reconfigure(connector)

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        if self._config.find(task_id.connector) is not None:
            self._topics.used(task_id.connector, topic)

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return read_source_offsets(self._offsets, connector, partitions)

    def check_run(self, task_id: TaskId, run: int) -> None:
        """No worker but this one runs its tasks."""

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Errors: ConflictError for a connector without tasks: an abandoned task must not undo an alter."""
        entry = self._config.find(connector)
        if entry is None or not entry.task_configs:
            raise ConflictError(f"Connector {connector} has no tasks: its offsets are not committed")
        commit_source_offsets(self._offsets, connector, offsets)
