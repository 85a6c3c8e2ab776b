"""Runs of tasks: starts and stops them through the launcher, numbered so that reports of old runs can be
distinguished.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Protocol

from kconnect.model import ConnectorType, RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.interface import Launcher

log = logging.getLogger(__name__)


class TaskStatuses(Protocol):
    """Keeps the reported states of tasks. Threads: any; must not block."""

    def expect_task(
        self, task_id: TaskId, run: int, version: str | None, state: RunState = RunState.UNASSIGNED
    ) -> None:
        """A run of a task begins: it shows as `state` until a slot reports it; reports of other runs are dropped."""
        ...

    def report_task(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> bool:
        """A slot saw a task in a state. False: it is of another run than the present one, and is dropped."""
        ...


class TaskRuns:
    """Threads: any; the caller holds the connector's order."""

    def __init__(
        self, launcher: Launcher, status: TaskStatuses, worker_config: Mapping[str, str], stop_timeout_s: float
    ) -> None:
        self._launcher = launcher
        self._status = status
        self._worker_config = worker_config
        self._stop_timeout_s = stop_timeout_s
        self._numbers = count(1)

    def start(
        self,
        entry: ConnectorEntry,
        ids: Sequence[TaskId],
        kind: ConnectorType,
        version: str | None,
        state: RunState = RunState.UNASSIGNED,
    ) -> None:
        """Begin a new run of each task; they show as `state` until the launcher reports them."""
        specs = [
            TaskSpec(
                id=task_id,
                run=next(self._numbers),
                type=kind,
                connector_config=entry.config,
                task_config=entry.task_configs[task_id.task],
                worker_config=self._worker_config,
                target_state=entry.target_state,
            )
            for task_id in ids
        ]
        for spec in specs:
            self._status.expect_task(spec.id, spec.run, version, state)
        self._launcher.start_tasks(specs)

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None:
        """Pause or resume tasks that run."""
        self._launcher.set_target_state(ids, state)

    def stop(self, ids: Collection[TaskId], timeout_s: float | None = None, *, is_cut_off: bool = False) -> None:
        """Stop gracefully and wait; what does not end in time is abandoned, with a warning.

        `is_cut_off`: as of `Launcher.stop_tasks`.
        """
        if not ids:
            return
        within_s = self._stop_timeout_s if timeout_s is None else timeout_s
        leftovers = self._launcher.stop_tasks(ids, within_s, is_cut_off=is_cut_off)
        if leftovers:
            names = ", ".join(str(task_id) for task_id in sorted(leftovers))
            log.warning(
                "Tasks did not stop within task.shutdown.graceful.timeout.ms and were abandoned, fenced off: %s", names
            )


def report_task(statuses: TaskStatuses, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
    """Record a state that a slot reported, and log a failure."""
    if not statuses.report_task(task_id, run, state, trace):
        log.debug("Dropped the report %s of run %s of task %s: it is not the current run", state, run, task_id)
    elif state is RunState.FAILED:
        # The slot has logged the trace
        log.error("Task %s has failed", task_id)
