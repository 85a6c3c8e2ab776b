"""A worker's metrics as readings: statuses, plugins in use and the meters of its tasks, at one moment."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from kconnect.model import ConnectorStatus, ConnectorType, TaskCondition, TaskId
from kconnect.runtime.herder.connectors.plugin_classes import ConnectorPlugins
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.interface import Launcher
from kconnect.runtime.herder.validation.plugin_keys import PluginLike
from kconnect.runtime.metrics import PluginUse, PluginValue, Reading, Startups, WorkerView, readings_of

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
) -> list[Reading]:
    """All current readings. A connector that is deleted meanwhile is omitted.

    `hosted`: those of `entries` that this worker has, where a connector and its tasks may run apart; of the others it
    has tasks, and `running` are the tasks that run here. `connector_plugins`: what the connectors keep of themselves.
    `conditions`: as of `WorkerView`.
    """
    known = list(plugins.describe(asks_java=False))
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
        used[entry.name] = plugins_in_use(entry, found, known, worker_config)
    view = WorkerView(
        now_s=time.monotonic(),
        statuses=statuses,
        plugins=used,
        guests=guests,
        task_count=None if hosted is None else len(running),
        meters=launcher.task_meters(),
        conditions=conditions,
        connector_plugins=connector_plugins,
        connector_starts=status.connector_starts.count(),
        task_starts=status.task_starts.count(),
    )
    return list(readings_of(view))


def plugins_in_use(
    entry: ConnectorEntry, status: ConnectorStatus, known: Sequence[PluginLike], worker_config: Mapping[str, str]
) -> list[PluginUse]:
    """Connector, task, converters, transformations and predicates of a connector, by their full class names."""
    config = entry.config
    connector = _used("connector", config.get("connector.class", ""), known)
    uses = [PluginUse("connector", connector.class_name, status.connector.version or connector.version)]
    if entry.task_configs:
        version = status.tasks[0].version if status.tasks else None
        uses.append(PluginUse("task", entry.task_configs[0].get("task.class", ""), version))
    for key in _CONVERTERS:
        name = config.get(key) or worker_config.get(key) or _DEFAULT_HEADER_CONVERTER
        uses.append(_used(key.replace(".", "-"), name, known))
    for keys, role in (("transforms", "transform"), ("predicates", "predicate")):
        for alias in [alias.strip() for alias in config.get(keys, "").split(",") if alias.strip()]:
            uses.append(_used(role, config.get(f"{keys}.{alias}.type", ""), known, alias))
    return uses


def _used(role: str, name: str, known: Sequence[PluginLike], alias: str = "") -> PluginUse:
    """A plugin by its name in a config: its class, or the end of its name, as plugin aliases work."""
    for plugin in known:
        if plugin.class_name == name:
            return PluginUse(role, plugin.class_name, plugin.version, alias)
    for plugin in known:
        simple = plugin.class_name.replace("$", ".")
        kind = "HeaderConverter" if role == "header-converter" else "Converter" if "converter" in role else ""
        suffixes = {name, f"{name}Connector" if role == "connector" else f"{name}{kind}"}
        if any(simple.endswith((f".{suffix}", f".{suffix}.Value")) for suffix in suffixes):
            return PluginUse(role, plugin.class_name, plugin.version, alias)
    return PluginUse(role, name, None, alias)
