"""What REST shows of connectors, made of the config and status topics. Pure: no topic is read here.

Source: AbstractHerder#connectorStatus, #connectorInfo, #connectorType (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kconnect.admin.direct.read.connector_types import connector_type as type_by_settings
from kconnect.errors import NotFoundError
from kconnect.java.compat.hash_map import hash_map_order
from kconnect.model import (
    ConnectorInfo,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TargetState,
    TaskState,
)
from kconnect.runtime.plugins.aliases import BUILTINS, short_names
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import StoredStatus

TypeOfClass = Callable[[str], ConnectorType | None]
"""The type of a connector class that is installed here; None when it is not."""

_NEVER_SEEN = StoredStatus(RunState.UNASSIGNED, "", -1)
_ENDS = {"Source": ConnectorType.SOURCE, "Sink": ConnectorType.SINK}


def connector_statuses(
    snapshot: ClusterSnapshot, statuses: StatusCache, installed: TypeOfClass | None = None
) -> dict[str, ConnectorStatus]:
    """All connectors of the config topic, by name, in the states that workers wrote last.

    Differs: REST leaves out a connector without a status, which no worker has started yet.
    """
    return {name: connector_status(name, snapshot, statuses, installed) for name in sorted(snapshot.connectors)}


def connector_status(
    name: str, snapshot: ClusterSnapshot, statuses: StatusCache, installed: TypeOfClass | None = None
) -> ConnectorStatus:
    """A connector and its tasks in the states that workers wrote last; UNASSIGNED, of no worker, without a status.

    Errors: NotFoundError.
    """
    kind = connector_type(name, snapshot, installed)
    seen = statuses.status(name) or _NEVER_SEEN
    return ConnectorStatus(
        name=name,
        connector=ConnectorState(seen.state, seen.worker_id, seen.trace, seen.version),
        tasks=tuple(
            TaskState(task.task, status.state, status.worker_id, status.trace, status.version)
            for task, status in statuses.tasks(name).items()
        ),
        type=kind,
    )


def connector_info(name: str, snapshot: ClusterSnapshot, installed: TypeOfClass | None = None) -> ConnectorInfo:
    """A connector's config with its references unresolved, and its tasks. Errors: NotFoundError."""
    kind = connector_type(name, snapshot, installed)
    config = hash_map_order(_config_of(name, snapshot))
    return ConnectorInfo(name=name, config=config, tasks=snapshot.tasks(name), type=kind)


def connector_type(name: str, snapshot: ClusterSnapshot, installed: TypeOfClass | None = None) -> ConnectorType:
    """Source or sink, by the first of these that decides: a class we ship, the end of the class's name, a class that is
    installed here, the end of the name of its tasks' class, topics to read (a sink has to name some).

    Differs: a worker knows it from the class. Errors: NotFoundError.
    """
    config = _config_of(name, snapshot)
    class_name = (config.get("connector.class") or "").strip()
    tasks = snapshot.task_configs.get(name, {})
    found = (
        _shipped(class_name)
        or _by_end_of_name(class_name, "Connector")
        or (installed(class_name) if installed is not None and class_name else None)
        or next(
            (kind for task in tasks.values() if (kind := _by_end_of_name(task.get("task.class") or "", "Task"))), None
        )
    )
    return found or type_by_settings(config)


def states_to_come(snapshot: ClusterSnapshot, statuses: StatusCache, names: Collection[str]) -> dict[str, TargetState]:
    """Target states of these connectors, where the last status written differs."""
    found = {}
    for name in names:
        wanted, seen = snapshot.target_state(name), statuses.status(name) or _NEVER_SEEN
        is_started = seen.state not in (RunState.PAUSED, RunState.STOPPED)
        if wanted is not None and not (is_started if wanted is TargetState.STARTED else str(seen.state) == str(wanted)):
            found[name] = wanted
    return found


def _config_of(name: str, snapshot: ClusterSnapshot) -> Mapping[str, str]:
    config = snapshot.raw_config(name)
    if config is None:
        raise NotFoundError(f"Unknown connector {name}")
    return config


def _shipped(class_name: str) -> ConnectorType | None:
    for plugin in BUILTINS:
        for kind in plugin.types:
            if kind.is_connector and class_name in (plugin.java_name, *short_names(plugin.java_name, kind)):
                return ConnectorType(str(kind))
    return None


def _by_end_of_name(class_name: str, suffix: str) -> ConnectorType | None:
    simple = class_name.replace(":", ".").rsplit(".", 1)[-1].removesuffix(suffix)
    return next((kind for word, kind in _ENDS.items() if simple.endswith(word)), None)
