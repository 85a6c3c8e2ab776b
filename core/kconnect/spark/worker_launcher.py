"""WorkerLauncher: the Launcher of a worker, which sends queries to the driver and every other task to a slot."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kconnect.model import ConnectorOffset, RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.herder.interface import LauncherEvents, RuntimeInfo, SlotInfo
from kconnect.runtime.metrics import TaskCounters, TaskMeter
from kconnect.spark.application import SparkApplication
from kconnect.spark.launcher import SparkLauncher
from kconnect.spark.query.marks import is_query
from kconnect.spark.query_launcher import QueryLauncher
from kconnect.spark.settings import SparkSettings


class WorkerLauncher:
    """Slots and queries of one Spark application; implements Launcher.

    Lifecycle: constructed -> start -> stop. Threads: all methods from any. Events of one task come in the order things
    happened, one at a time.
    """

    def __init__(self, settings: SparkSettings) -> None:
        app = SparkApplication(settings)
        self._queries = QueryLauncher(settings, app, lambda timeout_s: self._slots.tally_address(timeout_s))
        self._slots = SparkLauncher(settings, app, note_tally=self._queries.note_tally)
        self._lock = threading.Lock()  # guards the one below
        self._in_driver: set[TaskId] = set()

    def start(self, events: LauncherEvents) -> None:
        in_turn = _InTurn(events)
        self._queries.start(in_turn)
        self._slots.start(in_turn)

    def start_tasks(self, specs: Sequence[TaskSpec]) -> None:
        queries = [spec for spec in specs if is_query(spec.task_config)]
        others = [spec for spec in specs if not is_query(spec.task_config)]
        with self._lock:
            self._in_driver -= {spec.id for spec in others}
            self._in_driver |= {spec.id for spec in queries}
        if others:
            self._slots.start_tasks(others)
        if queries:
            self._queries.start_tasks(queries)

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float) -> set[TaskId]:
        queries, others = self._parted(ids)
        with self._lock:
            self._in_driver -= set(queries)
        began_s = time.monotonic()
        stopping = self._queries.begin_stop(queries)  # both stop at one time
        left = self._slots.stop_tasks(others, timeout_s) if others else set()
        if stopping:
            left |= self._queries.await_end(stopping, max(timeout_s - (time.monotonic() - began_s), 0.1))
        return left

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None:
        queries, others = self._parted(ids)
        if others:
            self._slots.set_target_state(others, state)
        if queries:
            self._queries.set_target_state(queries, state)

    def forget_topics(self, connector: str) -> None:
        self._slots.forget_topics(connector)
        self._queries.forget_topics(connector)

    def set_log_level(self, logger: str, level: int) -> None:
        self._slots.set_log_level(logger, level)

    def task_counters(self) -> Mapping[TaskId, TaskCounters]:
        return {**self._slots.task_counters(), **self._queries.task_counters()}

    def task_meters(self) -> Mapping[TaskId, TaskMeter]:
        return {**self._slots.task_meters(), **self._queries.task_meters()}

    def task_conditions(self) -> Mapping[TaskId, TaskCondition]:
        return {**self._slots.task_conditions(), **self._queries.task_conditions()}

    def slots(self) -> Sequence[SlotInfo]:
        return [*self._slots.slots(), *self._queries.slots()]

    def runtime(self) -> RuntimeInfo | None:
        return self._slots.runtime()

    def waits_for(self) -> str | None:
        return self._slots.waits_for()

    def failure(self) -> str | None:
        return self._slots.failure()

    def stop(self, timeout_s: float) -> None:
        began_s = time.monotonic()
        self._queries.stop(timeout_s / 2)
        self._slots.stop(max(timeout_s - (time.monotonic() - began_s), timeout_s / 2))

    def _parted(self, ids: Collection[TaskId]) -> tuple[list[TaskId], list[TaskId]]:
        """Queries, and tasks in slots."""
        with self._lock:
            return (
                [task_id for task_id in ids if task_id in self._in_driver],
                [task_id for task_id in ids if task_id not in self._in_driver],
            )


class _InTurn:
    """The events of two launchers, one at a time, except for what may block. Implements LauncherEvents."""

    def __init__(self, events: LauncherEvents) -> None:
        self._events = events
        self._turn = threading.Lock()

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        with self._turn:
            self._events.task_status(task_id, run, state, trace)

    def reconfiguration_requested(self, connector: str) -> None:
        with self._turn:
            self._events.reconfiguration_requested(connector)

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        with self._turn:
            self._events.topic_used(task_id, topic)

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._events.read_offsets(connector, partitions)

    def check_run(self, task_id: TaskId, run: int) -> None:
        self._events.check_run(task_id, run)

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        self._events.commit_offsets(connector, offsets)
