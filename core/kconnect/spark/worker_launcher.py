"""WorkerLauncher: the Launcher of a worker, which sends queries to the driver and every other task to a slot."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kconnect.errors import ConflictError
from kconnect.model import ConnectorOffset, ConnectorType, RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.herder.interface import LauncherEvents, RuntimeInfo, SlotInfo
from kconnect.runtime.herder.task_events import TaskEvents
from kconnect.runtime.metrics import TaskCounters, TaskMeter, TaskMeters
from kconnect.spark.application import SparkApplication
from kconnect.spark.launcher import SparkLauncher
from kconnect.spark.messages import FailedRecords, TaskMetrics
from kconnect.spark.query.engine import QueryEngine, set_current
from kconnect.spark.query.marks import is_query
from kconnect.spark.query.tallies import Tallies
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_spec import TallyAddress


class WorkerLauncher:
    """Slots and queries of one Spark application; implements Launcher.

    Lifecycle: constructed -> start -> stop. Threads: all methods from any. Events of one task come in the order things
    happened, one at a time.
    """

    def __init__(self, settings: SparkSettings, app: SparkApplication | None = None) -> None:
        """`app`: one of these settings, whose JVM may be launched already."""
        app = app or SparkApplication(settings)
        self._queries = QueryLauncher(settings, app, lambda timeout_s: self._slots.tally_address(timeout_s))
        self._slots = SparkLauncher(settings, app, query_said=self._queries.said)
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

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float, *, is_cut_off: bool = False) -> set[TaskId]:
        queries, others = self._parted(ids)
        with self._lock:
            self._in_driver -= set(queries)
        began_s = time.monotonic()
        stopping = self._queries.begin_stop(queries)  # both stop at one time
        left = self._slots.stop_tasks(others, timeout_s, is_cut_off=is_cut_off) if others else set()
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


log = logging.getLogger(__name__)


class QueryLauncher:
    """What WorkerLauncher needs of a Launcher, for queries. Its parts are made for the first of them.

    Lifecycle: constructed -> start -> stop. Threads: all methods from any; events come one at a time from one thread.
    """

    def __init__(
        self,
        settings: SparkSettings,
        app: SparkApplication,
        tally_address: Callable[[float], TallyAddress | None],
    ) -> None:
        """`tally_address` gives where processes of Spark reach this worker, None after so many seconds without."""
        self._tallies = Tallies()
        self._engine = QueryEngine(settings, app, self._tallies, tally_address)
        self._plugin_path = settings.plugin_path
        self._events: LauncherEvents | None = None
        self._lock = threading.Lock()  # guards the three below
        self._specs: dict[TaskId, TaskSpec] = {}
        self._host: Any = None  # a TaskHost; its package is loaded with the first query
        self._reported: TaskEvents | None = None
        self._meters = TaskMeters()
        # Held while the host is asked and its answer noted: it answers one thread at a time, and REST, the sampler and
        # the herder ask. Besides, an older answer would be noted after a newer one
        self._looking = threading.Lock()

    def start(self, events: LauncherEvents) -> None:
        self._events = events
        set_current(self._engine)

    def start_tasks(self, specs: Sequence[TaskSpec]) -> None:
        host = self._made_host()
        for spec in specs:
            with self._lock:
                self._specs[spec.id] = spec
            host.start(spec)

    def begin_stop(self, ids: Collection[TaskId]) -> list[Any]:
        """Have them begin to stop; `await_end` waits for what this gives. A start after this starts another run."""
        with self._lock:
            known = [task_id for task_id in ids if self._specs.pop(task_id, None) is not None]
            host = self._host
        self._meters.forget(known)
        self._tallies.forget(known)
        stopping: list[Any] = [] if host is None else host.begin_stop(known)
        return stopping

    def await_end(self, stopping: list[Any], timeout_s: float) -> set[TaskId]:
        """Wait for them. Returns those that did not end; they are fenced off."""
        host = self._host
        left: set[TaskId] = set() if host is None else host.await_end(stopping, timeout_s)
        return left

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None:
        if self._host is not None:
            self._host.set_target_state(ids, state)

    def forget_topics(self, connector: str) -> None:
        if self._host is not None:
            self._host.forget_topics(connector)

    def task_counters(self) -> Mapping[TaskId, TaskCounters]:
        self._count()
        return self._meters.counters()

    def task_meters(self) -> Mapping[TaskId, TaskMeter]:
        self._count()
        return self._meters.meters()

    def task_conditions(self) -> Mapping[TaskId, TaskCondition]:
        host = self._host
        with self._looking:
            for (task_id, run), condition in host.conditions().items() if host is not None else ():
                if self._is_current(task_id, run):
                    self._meters.fares(task_id, run, condition)
        return self._meters.conditions()

    def said(self, message: TaskMetrics | FailedRecords) -> FailedRecords | None:
        """A process of Spark has counted errors in records of a query, or asks or says which of them are reported."""
        if isinstance(message, FailedRecords):
            return self._tallies.reported(message)
        self._tallies.add(message)
        return None

    def slots(self) -> Sequence[SlotInfo]:
        """The driver, if it has queries."""
        with self._lock:
            tasks = tuple(sorted(self._specs))
        return [SlotInfo(None, True, socket.gethostname(), os.getpid(), tasks, executor="driver")] if tasks else []

    def stop(self, timeout_s: float) -> None:
        """Stop every query. Idempotent."""
        with self._lock:
            host, self._host = self._host, None
            self._specs.clear()
        set_current(None)
        if host is not None:
            host.close(timeout_s)
        self._engine.stop_session()
        if self._reported is not None:
            self._reported.stop(timeout_s)

    def _made_host(self) -> Any:  # a TaskHost
        from kconnect.runtime.pipeline import TaskHost
        from kconnect.runtime.plugins import PluginRegistry
        from kconnect.spark.query.loop import query_loop

        assert self._events is not None, "start() first"
        with self._lock:
            if self._host is None:
                reported = self._reported = TaskEvents(self._events, "query-events")
                self._host = TaskHost(
                    report=self._report,
                    offsets=reported,
                    may_run=self._check_run,
                    reconfigure=reported.reconfiguration_requested,
                    topic_used=reported.topic_used,
                    plugins=PluginRegistry.load(self._plugin_path, tells_skipped=False),
                    build=query_loop(self._engine),
                )
                reported.start()
            return self._host

    def _check_run(self, task_id: TaskId, run: int) -> None:
        """Errors: ConflictError for a run that was stopped or replaced; of a source also what its herder finds."""
        assert self._events is not None, "start() first"
        with self._lock:
            spec = self._specs.get(task_id)
        if spec is None or spec.run != run:
            raise ConflictError(f"Run {run} of task {task_id} is no longer wanted on this worker")
        if spec.type is ConnectorType.SOURCE:  # no round of fencing comes before the start of a sink
            self._events.check_run(task_id, run)

    def _count(self) -> None:
        host = self._host
        with self._looking:
            for (task_id, run), counters in host.counters_by_run().items() if host is not None else ():
                if self._is_current(task_id, run):
                    self._meters.take(task_id, run, counters)

    def _is_current(self, task_id: TaskId, run: int) -> bool:
        with self._lock:
            spec = self._specs.get(task_id)
            return spec is not None and spec.run == run

    def _report(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        if self._is_current(task_id, run):
            self._meters.entered(task_id, run, state)
            assert self._reported is not None, "its task was started"
            self._reported.task_status(task_id, run, state, trace)
