"""The work of one worker of a cluster, without its herder's thread: the test gives the orders and reads what comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kconnect.model import RunState
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.fenced_starts import FencedStarts
from kconnect.runtime.herder.cluster.local_work import LocalWork
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.herder.connectors.hosted_connector import PluginTimes
from kconnect.runtime.herder.connectors.plugin_classes import ConnectorPlugins
from kconnect.runtime.herder.connectors.task_runs import TaskRuns
from kconnect.runtime.herder.decisions.events import Event
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit.distributed import herder_parts
from kit.memory_launcher import MemoryLauncher
from kit.sample_connectors import Journal, fresh_journal


class _Reports:
    """LauncherEvents of which only states count here."""

    def __init__(self, status: ClusterStatus) -> None:
        self._status = status

    def task_status(self, task_id, run, state, trace) -> None:
        self._status.report_task(task_id, run, state, trace)


@dataclass
class World:
    """LocalWork with what it acts on, all of it in memory."""

    work: LocalWork
    configs: TopicConfigStore
    status: ClusterStatus
    statuses: TopicStatusStore
    launcher: MemoryLauncher
    journal: Journal
    events: list[Event] = field(default_factory=list)
    """What came of the orders."""

    def connector(self, name: str, tasks: int = 0, **config: str) -> ClusterSnapshot:
        """Write a connector, and that many tasks, to the topic."""
        props = {"name": name, "connector.class": "source", **{key.replace("_", "."): config[key] for key in config}}
        self.configs.put_connector_config(name, props)
        self.configs.put_task_configs(name, [{"n": str(number)} for number in range(tasks)])
        return self.configs.snapshot()

    def state(self, name: str) -> RunState | None:
        known = self.statuses.status(name)
        return None if known is None else known.state


@contextmanager
def world(
    *,
    call_s: float = 30.0,
    times: PluginTimes | None = None,
    plugins: ConnectorPlugins | None = None,
    variables: Variables | None = None,
    ask_leader: Callable[[TopicConfigStore, str], None] | None = None,
    launcher: MemoryLauncher | None = None,
) -> Iterator[World]:
    """`ask_leader`: tasks are exactly-once ones, and wait for this to fence off former ones."""
    journal, launcher = fresh_journal(), launcher or MemoryLauncher()
    configs = TopicConfigStore(MemoryRecordLog(MemoryTopic("configs")))
    statuses = TopicStatusStore(MemoryRecordLog(MemoryTopic("statuses")))
    offsets = TopicOffsetStore(MemoryRecordLog(MemoryTopic("offsets")))
    status = ClusterStatus(statuses)
    events: list[Event] = []
    parts = herder_parts(launcher, offsets, variables or Variables())
    parts = replace(parts, times=times or parts.times, plugins=plugins or parts.plugins)
    host = ConnectorHost(parts, status, request_tasks=lambda _: None, look_again=lambda _: None)
    starts = None
    if ask_leader is not None:
        ask = ask_leader
        starts = FencedStarts(configs, lambda connector: ask(configs, connector), timeout_s=30)
    work = LocalWork(
        host,
        TaskRuns(launcher, status, parts.worker_config, parts.times.stop_s),
        status,
        events.append,
        replace(parts.times, call_s=call_s),
        starts,
    )
    for store in (configs, statuses, offsets):
        store.start()
    launcher.start(_Reports(status))  # type: ignore[arg-type] # all that these tests need
    try:
        yield World(work, configs, status, statuses, launcher, journal, events)
    finally:
        journal.gate.open()
        work.close(5)
        for store in (configs, statuses, offsets):
            store.stop()
