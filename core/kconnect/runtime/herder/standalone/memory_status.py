"""Statuses of a standalone worker: the last reported states of connectors and tasks, in memory.

Source: MemoryStatusBackingStore, AbstractHerder#connectorStatus (Kafka 4.3).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from kconnect.errors import NotFoundError
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskId, TaskState
from kconnect.runtime.metrics import Startups
from kconnect.runtime.storage.status_topic import Subject


@dataclass(frozen=True, slots=True)
class _TaskRun:
    run: int
    status: TaskState


class MemoryStatus:
    """The statuses. Threads: any. Nothing here blocks, so launchers may report from their own threads."""

    def __init__(self, worker_id: str = "") -> None:
        self.worker_id = worker_id
        self._lock = threading.Lock()
        self._connectors: dict[str, ConnectorState] = {}  # guarded by _lock
        # Guarded by _lock; by connector, so that a list of all connectors looks at each task once
        self._tasks: dict[str, dict[int, _TaskRun]] = {}
        self.on_change: Callable[[Subject, RunState | None, str | None], None] = lambda *_: None
        """Called with each change of a state; must not block."""
        self.connector_starts = Startups()
        self.task_starts = Startups()

    def expect_connector(self, name: str) -> None:
        """A connector is starting: the next RUNNING or FAILED is the result."""
        self.connector_starts.began(name)

    def set_connector(self, name: str, state: RunState, trace: str | None = None, version: str | None = None) -> None:
        """A connector reached a state; without `version` the known version is kept."""
        with self._lock:
            known = self._connectors.get(name)
            kept = version or (known.version if known else None)
            self._connectors[name] = ConnectorState(state, self.worker_id, trace, kept)
            self.on_change(name, state, trace)
        self.connector_starts.reached(name, state)

    def expect_task(
        self, task_id: TaskId, run: int, version: str | None, state: RunState = RunState.UNASSIGNED
    ) -> None:
        """A run of a task begins: it shows as `state` until a slot reports it; reports of other runs are dropped."""
        with self._lock:
            status = TaskState(task_id.task, state, self.worker_id, None, version)
            self._tasks.setdefault(task_id.connector, {})[task_id.task] = _TaskRun(run, status)
            self.on_change(task_id, state, None)
        self.task_starts.began((task_id, run))

    def report_task(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> bool:
        """A slot reported a task's state. Returns False if it belongs to an earlier run or a removed task, and is
        dropped.

        STOPPED, the end of a run that was stopped on request, shows as UNASSIGNED, as in Java.
        """
        shown = RunState.UNASSIGNED if state is RunState.STOPPED else state
        with self._lock:
            known = self._run_of(task_id)
            if known is None or known.run != run:
                return False
            status = replace(known.status, state=shown, trace=trace, worker_id=self.worker_id)
            self._tasks[task_id.connector][task_id.task] = _TaskRun(run, status)
            self.on_change(task_id, shown, trace)
        if state is RunState.STOPPED:
            self.task_starts.forget((task_id, run))
        else:
            self.task_starts.reached((task_id, run), state)
        return True

    def remove_tasks(self, ids: Collection[TaskId]) -> None:
        with self._lock:
            for task_id in ids:
                self._tasks.get(task_id.connector, {}).pop(task_id.task, None)
                self.on_change(task_id, None, None)

    def remove_connector(self, name: str) -> None:
        with self._lock:
            self._connectors.pop(name, None)
            for number in self._tasks.pop(name, {}):
                self.on_change(TaskId(name, number), None, None)
            self.on_change(name, None, None)

    def find_connector(self, name: str, kind: ConnectorType) -> ConnectorStatus | None:
        """A connector with its tasks in order; None if the connector does not exist."""
        with self._lock:
            state = self._connectors.get(name)
            tasks = [entry.status for entry in self._tasks.get(name, {}).values()]
        if state is None:
            return None
        return ConnectorStatus(name, state, tuple(sorted(tasks, key=lambda task: task.id)), kind)

    def task(self, task_id: TaskId) -> TaskState:
        """Errors: NotFoundError."""
        with self._lock:
            entry = self._run_of(task_id)
        if entry is None:
            raise NotFoundError(f"No status found for task {task_id}")
        return entry.status

    def _run_of(self, task_id: TaskId) -> _TaskRun | None:
        """Call with the lock held."""
        return self._tasks.get(task_id.connector, {}).get(task_id.task)
