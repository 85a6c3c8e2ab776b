"""A worker's metrics as readings: statuses, plugins in use and the meters of its tasks, at one moment.

Samplers look something up now and then, each on a thread of its own: the lag of all sinks at once, for `/metrics`,
the history and webhooks, and the samples of the history, every ten seconds.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol

from kconnect.model import ConnectorStatus, ConnectorType, TaskCondition, TaskId
from kconnect.runtime.herder.connectors.plugin_classes import ConnectorPlugins
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.health.watch_thread import WatchThread
from kconnect.runtime.herder.interface import Launcher, SlotInfo
from kconnect.runtime.herder.offsets.sink_lags import Lags, SinkLags
from kconnect.runtime.metrics import PluginUse, PluginValue, Reading, SlotCount, Startups, WorkerView, readings_of
from kconnect.runtime.metrics.history import EVERY_S, History, SlotLoad

log = logging.getLogger(__name__)


_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_DEFAULT_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class MeasuredStatus(Protocol):
    """Statuses, and how starts have ended."""

    connector_starts: Startups
    task_starts: Startups

    def find_connector(self, name: str, kind: ConnectorType) -> ConnectorStatus | None: ...


def worker_readings(
    kinds: Mapping[str, ConnectorType],
    entries: Iterable[ConnectorEntry],
    status: MeasuredStatus,
    launcher: Launcher,
    plugins: ConnectorPlugins,
    worker_config: Mapping[str, str],
    hosted: Collection[str] | None = None,
    running: Collection[TaskId] = (),
    connector_plugins: Sequence[PluginValue] = (),
    conditions: Mapping[TaskId, TaskCondition] = MappingProxyType({}),
    connector_conditions: Mapping[str, TaskCondition] = MappingProxyType({}),
) -> list[Reading]:
    """All current readings. A connector that is deleted meanwhile is omitted.

    `hosted`: those of `entries` that this worker has, where a connector and its tasks may run apart; of the others it
    has tasks, and `running` are the tasks that run here. `connector_plugins`: what the connectors keep of themselves.
    `conditions`, `connector_conditions`: as of `WorkerView`.
    """
    find = functools.cache(lambda role, name: _used(role, name, plugins))  # thousands of connectors name the same few
    statuses: list[ConnectorStatus] = []
    guests: list[ConnectorStatus] = []
    used: dict[str, Sequence[PluginUse]] = {}
    for entry in entries:
        found = status.find_connector(entry.name, kinds[entry.name])
        if found is None:
            continue
        if hosted is None or entry.name in hosted:
            statuses.append(found)
        else:
            own = tuple(task for task in found.tasks if TaskId(entry.name, task.id) in running)
            guests.append(replace(found, tasks=own))
        used[entry.name] = plugins_in_use(entry, found, find, worker_config)
    view = WorkerView(
        now_s=time.monotonic(),
        statuses=statuses,
        plugins=used,
        guests=guests,
        task_count=None if hosted is None else len(running),
        meters=launcher.task_meters(),
        conditions=conditions,
        connector_conditions=connector_conditions,
        connector_plugins=connector_plugins,
        connector_starts=status.connector_starts.count(),
        task_starts=status.task_starts.count(),
        slots=_shared_slots(launcher.slots()),
    )
    return list(readings_of(view))


def _shared_slots(slots: Iterable[SlotInfo]) -> SlotCount | None:
    shared = [slot for slot in slots if slot.shared_least is not None and slot.shared_most is not None]
    if not shared:
        return None
    least, most = shared[0].shared_least, shared[0].shared_most
    assert least is not None
    assert most is not None
    return SlotCount(sum(slot.attached for slot in shared), least, most)


def plugins_in_use(
    entry: ConnectorEntry,
    status: ConnectorStatus,
    find: Callable[[str, str], PluginUse],
    worker_config: Mapping[str, str],
) -> list[PluginUse]:
    """Connector, task, converters, transformations and predicates of a connector, by their full class names."""
    config = entry.config
    connector = find("connector", config.get("connector.class", ""))
    uses = [PluginUse("connector", connector.class_name, status.connector.version or connector.version)]
    if entry.task_configs:
        version = status.tasks[0].version if status.tasks else None
        uses.append(PluginUse("task", entry.task_configs[0].get("task.class", ""), version))
    for key in _CONVERTERS:
        name = config.get(key) or worker_config.get(key) or _DEFAULT_HEADER_CONVERTER
        uses.append(find(key.replace(".", "-"), name))
    for keys, role in (("transforms", "transform"), ("predicates", "predicate")):
        for alias in [alias.strip() for alias in config.get(keys, "").split(",") if alias.strip()]:
            uses.append(replace(find(role, config.get(f"{keys}.{alias}.type", "")), alias=alias))
    return uses


def _used(role: str, name: str, plugins: ConnectorPlugins) -> PluginUse:
    """A plugin by its name in a config, or its name alone where the worker has no plugin that is called so."""
    known = plugins.describe_one(name)
    return PluginUse(role, known[0].class_name, known[0].version) if known else PluginUse(role, name, None)


# How soon a sink that has come is looked at
_NOTICE_S: Final = 5.0
_LASTING: Final = 2


class LagWatch:
    """States: new -> start() -> stop(). Threads: start and stop from one.

    `sinks`: the configs, with references resolved, of the sinks to look at: running, paused or stopped. `lags` is made
    when there is a first one, and closed at the end.
    """

    def __init__(
        self,
        sinks: Callable[[], Mapping[str, Mapping[str, str]]],
        lags: Callable[[], Lags],
        into: SinkLags,
        interval_s: float,
        is_away: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`interval_s` 0: never. `is_away`: whether Kafka is known not to answer; then nobody is asked."""
        self._sinks = sinks
        self._make_lags = lags
        self._into = into
        self._interval_s = interval_s
        self._is_away = is_away
        self._monotonic = monotonic
        self._lags: Lags | None = None
        self._known: Collection[str] = ()
        self._looked_at_s = float("-inf")
        self._troubles = 0
        self._thread = WatchThread("sink-lag", self._run)

    def start(self) -> None:
        if self._interval_s > 0:
            self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Idempotent."""
        self._thread.stop(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        try:
            while not stop.wait(min(self._interval_s, _NOTICE_S)):
                try:
                    self.look()
                except Exception:  # thread top; a worker does not end for want of a number
                    log.exception("The lag of sinks was not looked up")
        finally:
            if self._lags is not None:
                self._lags.close()

    def look(self) -> None:
        """Look the sinks up if the interval has passed, or others have come."""
        if self._is_away():
            self._into.set({})
            self._known = ()
            return
        sinks, now_s = self._sinks(), self._monotonic()
        if now_s - self._looked_at_s < self._interval_s and sinks.keys() <= set(self._known):
            return
        self._known, self._looked_at_s = set(sinks), now_s
        if not sinks:
            self._into.set({})
            return
        self._lags = self._lags or self._make_lags()
        at_ms = int(time.time() * 1000)
        found = self._lags.read(sinks)
        self._into.set(found, at_ms)
        self._tell(next((f"{name}: {lag.problem}" for name, lag in sorted(found.items()) if lag.problem), None))

    def _tell(self, problem: str | None) -> None:
        """Once for each trouble that lasts: while it does, `/metrics` has no lag of these sinks. Of an outage, which
        ends what is being looked up, others tell.
        """
        self._troubles = 0 if problem is None else self._troubles + 1
        if self._troubles == _LASTING:
            log.warning("The lag of a sink cannot be looked up, so /metrics does not show it: %s", problem)


class HistorySampler:
    """States: new -> start() -> stop(). Threads: start and stop from one."""

    def __init__(
        self, launcher: Launcher, history: History, lags: SinkLags, wall_s: Callable[[], float] = time.time
    ) -> None:
        self._launcher = launcher
        self._history = history
        self._lags = lags
        self._wall_s = wall_s
        self._thread = WatchThread("history", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Idempotent."""
        self._thread.stop(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        # At the multiples of the interval, as all workers do: their samples can be added up
        while not stop.wait(EVERY_S - self._wall_s() % EVERY_S):
            try:
                self.take()
            except Exception:  # thread top; a worker does not end for want of a plot
                log.exception("A sample of the worker's history was not taken")

    def take(self) -> None:
        """One sample of now."""
        loads = [
            SlotLoad(slot.slot, slot.cpu_percent, slot.memory_bytes, len(slot.tasks))
            for slot in self._launcher.slots()
            if slot.slot is not None
        ]
        meters = self._launcher.task_meters()
        self._history.sample(
            time.monotonic(), int(self._wall_s() * 1000), meters, loads, self._lags.totals(), self._lags.at_ms()
        )
