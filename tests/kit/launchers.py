"""What tests of launchers share: events that remember, and specs of tasks."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from kconnect.model import ConnectorOffset, ConnectorType, RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.herder.interface import Launcher
from kit.waiting import eventually

_RUNS = count(1)


class SeenEvents:
    """LauncherEvents that keep all they are reported, with offsets in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[tuple[TaskId, int, RunState, str | None]] = []
        self.offsets: dict[str, Mapping[str, Any]] = {}
        self.topics: list[tuple[TaskId, str]] = []

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        with self._lock:
            self._seen.append((task_id, run, state, trace))

    def reconfiguration_requested(self, connector: str) -> None:
        raise AssertionError(f"no task of {connector} asks for that here")

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        with self._lock:
            self.topics.append((task_id, topic))

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return [self.offsets.get(f"{connector}/{partition['name']}") for partition in partitions]

    def check_run(self, task_id: TaskId, run: int) -> None:
        """All may run."""

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        for offset in offsets:
            self.offsets[f"{connector}/{offset.partition['name']}"] = offset.offset or {}

    def states(self, task: TaskSpec) -> list[RunState]:
        """All states of this run, in the order they were reported."""
        with self._lock:
            return [state for task_id, run, state, _ in self._seen if (task_id, run) == (task.id, task.run)]

    def trace(self, task: TaskSpec) -> str:
        """The trace reported last for this run, or no text."""
        with self._lock:
            traces = [trace for task_id, run, _, trace in self._seen if (task_id, run) == (task.id, task.run) and trace]
        return traces[-1] if traces else ""

    def await_state(self, state: RunState, *tasks: TaskSpec, within_s: float = 20.0) -> None:
        """Wait until `state` is the last each task was seen in."""
        eventually(
            lambda: all(self.states(task)[-1:] == [state] for task in tasks),
            within_s,
            f"{[str(task.id) for task in tasks]} {state}, seen {[self.states(task) for task in tasks]}",
            pause_s=0.01,
        )


def journal_spec(
    name: str,
    journal: object,
    *,
    task: int = 0,
    target: TargetState = TargetState.STARTED,
    bootstrap: str = "127.0.0.1:1",
    **settings: str,
) -> TaskSpec:
    """A task of kit.journal_tasks. Keywords with `_` become keys with `.` (`hang_in="stop"`)."""
    config = {
        "name": name,
        "connector.class": "kit.journal_tasks:JournalSource",
        "journal": str(journal),
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    worker = {
        "bootstrap.servers": bootstrap,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": "unused",
    }
    tasks = {**config, "task.class": "kit.journal_tasks:JournalTask"}
    return TaskSpec(TaskId(name, task), next(_RUNS), ConnectorType.SOURCE, config, tasks, worker, target)


def await_slots(launcher: Launcher, within_s: float = 60.0) -> None:
    """Wait until every slot is up."""

    def all_up() -> bool:
        assert launcher.failure() is None, launcher.failure()
        return bool(launcher.slots()) and all(slot.attached for slot in launcher.slots())

    eventually(all_up, within_s, "all slots up", pause_s=0.01)


class RecordedEvents:
    """LauncherEvents that keep everything in the order it came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: list[tuple[TaskId, int, RunState, str | None]] = []
        self.notices: list[object] = []
        self.markers: list[object] = []
        """Those of `MemorySpark.settle`."""
        self.traces: dict[TaskId, str] = {}
        """The last trace of each task that had one."""
        self.commits: list[tuple[str, Sequence[ConnectorOffset]]] = []

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        with self._lock:
            self._states.append((task_id, run, state, trace))
            if trace is not None:
                self.traces[task_id] = trace

    def reconfiguration_requested(self, connector: str) -> None:
        (self.markers if connector.startswith("marker-") else self.notices).append(connector)

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        self.notices.append((task_id, topic))

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return [None for _ in partitions]

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        self.commits.append((connector, offsets))

    def check_run(self, task_id: TaskId, run: int) -> None:
        """All may run."""

    def by_run(self, *, with_reasons: bool = True) -> dict[tuple[TaskId, int], list[RunState]]:
        """The states of each run of a task, in order.

        `with_reasons`: also those that only say why one that is UNASSIGNED waits.
        """
        found: defaultdict[tuple[TaskId, int], list[RunState]] = defaultdict(list)
        with self._lock:
            for task_id, run, state, trace in self._states:
                states = found[task_id, run]
                is_reason = trace is not None and state is RunState.UNASSIGNED and states[-1:] == [state]
                if with_reasons or not is_reason:
                    states.append(state)
        return dict(found)

    def count(self) -> int:
        return len(self._states) + len(self.notices)
