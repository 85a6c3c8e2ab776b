"""A Launcher without Spark: tasks run in threads of this process, through the same TaskHost a slot uses."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Collection, Mapping, Sequence

from kconnect.logs.log_context import LogLevels
from kconnect.model import RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.herder.interface import LauncherEvents, SlotInfo
from kconnect.runtime.herder.task_events import TaskEvents
from kconnect.runtime.metrics import TaskCounters, TaskMeter, TaskMeters
from kconnect.runtime.pipeline import TaskHost
from kconnect.runtime.plugins import PluginRegistry

log = logging.getLogger(__name__)


class ThreadLauncher:
    """One slot, always up, that is this process. Implements herder.interface.Launcher.

    Lifecycle: constructed -> start -> stop. Threads: all methods from any; events come one at a time from one thread,
    in the order things happened, as from SparkLauncher.
    """

    def __init__(self, plugins: PluginRegistry | None = None) -> None:
        self._plugins = plugins
        self._reported: TaskEvents | None = None
        self._lock = threading.Lock()  # guards the two below
        self._tasks: dict[TaskId, TaskSpec] = {}
        self._host: TaskHost | None = None
        self._meters = TaskMeters()

    def start(self, events: LauncherEvents) -> None:
        reported = self._reported = TaskEvents(events, "launcher-events")
        self._host = TaskHost(
            report=self._report,
            offsets=reported,
            may_run=events.check_run,
            reconfigure=reported.reconfiguration_requested,
            topic_used=reported.topic_used,
            plugins=self._plugins if self._plugins is not None else PluginRegistry.load(None),
        )
        reported.start()

    def start_tasks(self, specs: Sequence[TaskSpec]) -> None:
        host = self._running_host()
        for spec in specs:
            with self._lock:
                self._tasks[spec.id] = spec
            host.start(spec)

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float, *, is_cut_off: bool = False) -> set[TaskId]:
        with self._lock:
            known = [task_id for task_id in ids if self._tasks.pop(task_id, None) is not None]
        self._meters.forget(known)
        return self._running_host().stop(known, timeout_s, is_cut_off=is_cut_off)

    def set_target_state(self, ids: Collection[TaskId], state: TargetState) -> None:
        self._running_host().set_target_state(ids, state)

    def forget_topics(self, connector: str) -> None:
        self._running_host().forget_topics(connector)

    def set_log_level(self, logger: str, level: int) -> None:
        LogLevels().set(logger, level)

    def task_counters(self) -> Mapping[TaskId, TaskCounters]:
        self._count()
        return self._meters.counters()

    def task_meters(self) -> Mapping[TaskId, TaskMeter]:
        self._count()
        return self._meters.meters()

    def runtime(self) -> None:
        """No Spark."""

    def task_conditions(self) -> Mapping[TaskId, TaskCondition]:
        host = self._host
        for (task_id, run), condition in host.conditions().items() if host is not None else ():
            self._meters.fares(task_id, run, condition)
        return self._meters.conditions()

    def slots(self) -> Sequence[SlotInfo]:
        with self._lock:
            return [SlotInfo(0, True, socket.gethostname(), os.getpid(), tuple(sorted(self._tasks)))]

    def waits_for(self) -> str | None:
        return None

    def failure(self) -> str | None:
        return None

    def stop(self, timeout_s: float) -> None:
        with self._lock:
            host, self._host = self._host, None
            self._tasks.clear()
        if host is None:
            return
        host.close(timeout_s)
        if self._reported is not None:
            self._reported.stop(timeout_s)

    def _count(self) -> None:
        host = self._host
        for (task_id, run), counters in host.counters_by_run().items() if host is not None else ():
            self._meters.take(task_id, run, counters)

    def _running_host(self) -> TaskHost:
        host = self._host
        if host is None:
            raise RuntimeError("ThreadLauncher is not running: start() comes first, stop() last")
        return host

    def _report(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        with self._lock:
            spec = self._tasks.get(task_id)
            if spec is not None and spec.run == run:
                self._meters.entered(task_id, run, state)
                assert self._reported is not None, "start() first"
                self._reported.task_status(task_id, run, state, trace)
