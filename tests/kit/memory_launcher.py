"""A Launcher without processes: tasks are entries in a table, their states come at once or when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

from kconnect.model import RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.herder.interface import LauncherEvents, SlotInfo
from kconnect.runtime.metrics import TaskCounters, TaskMeter


class MemoryLauncher:
    """Runs tasks in one imagined slot. With `is_up=False` tasks wait, as they do while Spark starts."""

    def __init__(self, *, is_up: bool = True) -> None:
        self._lock = threading.Lock()
        self._is_up = is_up
        self._events: LauncherEvents | None = None
        self.tasks: dict[TaskId, TaskSpec] = {}
        self.targets: dict[TaskId, TargetState] = {}
        self.starts: list[TaskSpec] = []
        self.stops: list[TaskId] = []
        self.cut_off: list[TaskId] = []
        """Of these, those that others may soon run."""
        self.forgotten: list[str] = []
        self.log_levels: list[tuple[str, int]] = []
        self.conditions: dict[TaskId, TaskCondition] = {}
        self.never_stop: set[TaskId] = set()
        """Tasks that are left behind when they are to stop."""

    @property
    def events(self) -> LauncherEvents:
        assert self._events is not None, "start() comes first"
        return self._events

    def start(self, events: LauncherEvents) -> None:
        self._events = events

    def start_tasks(self, specs: Sequence[TaskSpec]) -> None:
        with self._lock:
            for spec in specs:
                self.tasks[spec.id] = spec
                self.targets[spec.id] = spec.target_state
                self.starts.append(spec)
        if self._is_up:
            self._report([spec.id for spec in specs])

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float, *, is_cut_off: bool = False) -> set[TaskId]:
        with self._lock:
            present = [task_id for task_id in ids if task_id in self.tasks]
            specs = [self.tasks.pop(task_id) for task_id in present]
            self.stops.extend(present)
            self.cut_off += present if is_cut_off else []
        for spec in specs:
            if spec.id not in self.never_stop:
                self.events.task_status(spec.id, spec.run, RunState.STOPPED, None)
        return set(present) & self.never_stop

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None:
        with self._lock:
            changed = [task_id for task_id in ids if task_id in self.tasks]
            self.targets.update(dict.fromkeys(changed, state))
        if self._is_up:
            self._report(changed)

    def forget_topics(self, connector: str) -> None:
        self.forgotten.append(connector)

    def set_log_level(self, logger: str, level: int) -> None:
        self.log_levels.append((logger, level))

    def use_topic(self, task_id: TaskId, topic: str) -> None:
        """As a task that moved its first record of a topic."""
        self.events.topic_used(task_id, topic)

    def task_counters(self) -> Mapping[TaskId, TaskCounters]:
        return {task_id: TaskCounters() for task_id in list(self.tasks)}

    def task_meters(self) -> Mapping[TaskId, TaskMeter]:
        return {task_id: TaskMeter(spec.run, 0.0) for task_id, spec in list(self.tasks.items())}

    def runtime(self) -> None:
        """No Spark."""

    def task_conditions(self) -> Mapping[TaskId, TaskCondition]:
        return dict(self.conditions)

    def slots(self) -> Sequence[SlotInfo]:
        return [SlotInfo(0, self._is_up, "localhost", 1, tuple(self.tasks))]

    def waits_for(self) -> str | None:
        return None if self._is_up else "Spark is starting"

    def failure(self) -> str | None:
        return None

    def stop(self, timeout_s: float) -> None:
        self.stop_tasks(list(self.tasks), timeout_s)

    def lose_slot(self) -> None:
        """The slot dies: its tasks are not anywhere."""
        self._is_up = False
        for spec in list(self.tasks.values()):
            self.events.task_status(spec.id, spec.run, RunState.UNASSIGNED, None)

    def bring_slot_up(self) -> None:
        """The slot is there (again) and runs its tasks."""
        self._is_up = True
        self._report(list(self.tasks))

    def fail_task(self, task_id: TaskId, trace: str) -> None:
        spec = self.tasks[task_id]
        self.events.task_status(task_id, spec.run, RunState.FAILED, trace)

    def _report(self, ids: Collection[TaskId]) -> None:
        for task_id in ids:
            spec = self.tasks.get(task_id)
            if spec is None:  # another thread has stopped it meanwhile
                continue
            state = RunState.PAUSED if self.targets[task_id] is TargetState.PAUSED else RunState.RUNNING
            self.events.task_status(task_id, spec.run, state, None)
