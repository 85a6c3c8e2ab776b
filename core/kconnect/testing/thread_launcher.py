"""A Launcher without Spark: tasks run in threads of this process, through the same TaskHost a slot uses."""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from kconnect.herder.interface import LauncherEvents, SlotInfo
from kconnect.logs import LogLevels
from kconnect.metrics import TaskCounters, TaskMeter, TaskMeters
from kconnect.model import ConnectorOffset, RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.pipeline import TaskHost
from kconnect.plugins import PluginRegistry

log = logging.getLogger(__name__)

# A state of a task, a topic it used, or a connector to ask for task configs.
_Notice: TypeAlias = tuple[TaskId, int, RunState, str | None] | tuple[TaskId, str] | str


class ThreadLauncher:
    """One slot, always up, that is this process. Implements herder.interface.Launcher.

    Lifecycle: constructed -> start -> stop. Threads: all methods from any; events come one at a time from one thread,
    in the order things happened, as from SparkLauncher.
    """

    def __init__(self, plugins: PluginRegistry | None = None) -> None:
        self._plugins = plugins
        self._events: LauncherEvents | None = None
        self._notices: queue.SimpleQueue[_Notice | None] = queue.SimpleQueue()
        self._deliverer = threading.Thread(target=self._deliver_all, name="launcher-events", daemon=True)
        self._lock = threading.Lock()  # guards the two below
        self._tasks: dict[TaskId, TaskSpec] = {}
        self._host: TaskHost | None = None
        self._meters = TaskMeters()

    def start(self, events: LauncherEvents) -> None:
        self._events = events
        self._host = TaskHost(
            report=self._report,
            offsets=_Offsets(events),
            may_run=events.check_run,
            reconfigure=self._notices.put,
            topic_used=lambda task_id, topic: self._notices.put((task_id, topic)),
            plugins=self._plugins if self._plugins is not None else PluginRegistry.load(None),
        )
        self._deliverer.start()

    def start_tasks(self, specs: Sequence[TaskSpec]) -> None:
        host = self._running_host()
        for spec in specs:
            with self._lock:
                self._tasks[spec.id] = spec
            host.start(spec)

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float) -> set[TaskId]:
        with self._lock:
            known = [task_id for task_id in ids if self._tasks.pop(task_id, None) is not None]
        self._meters.forget(known)
        return self._running_host().stop(known, timeout_s)

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
        self._notices.put(None)
        self._deliverer.join(timeout_s)

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
                self._notices.put((task_id, run, state, trace))

    def _deliver_all(self) -> None:
        assert self._events is not None
        while (notice := self._notices.get()) is not None:
            try:
                if isinstance(notice, str):
                    self._events.reconfiguration_requested(notice)
                elif len(notice) == 2:
                    self._events.topic_used(*notice)
                else:
                    self._events.task_status(*notice)
            except Exception:  # a callback that fails must not stop the ones after it
                log.exception("Delivering %s failed", notice)


class _Offsets:
    """OffsetPort straight to the worker's side."""

    def __init__(self, events: LauncherEvents) -> None:
        self._events = events

    def read(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._events.read_offsets(connector, partitions)

    def commit(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        self._events.commit_offsets(connector, offsets)
