"""DirectClient: what the REST client reports about connectors, read from the internal topics instead.

What REST shows of connectors is made of the config and status topics by pure functions, below the class.

Source: AbstractHerder#connectorStatus, #connectorInfo, #connectorType (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.edit.connector_plans import delete_plan, target_state_plan, with_task_statuses_removed
from kconnect.admin.direct.edit.plan import EditPlan
from kconnect.admin.direct.group.live_group import live_group
from kconnect.admin.direct.group.other_groups import owners_of
from kconnect.admin.direct.read.connector_offsets import read_lags, read_offsets
from kconnect.admin.direct.read.connector_types import connector_type as type_by_settings
from kconnect.admin.direct.read.installed_plugins import InstalledConnectors
from kconnect.admin.direct.read.reader import ClusterReader, ConfigView, StatusView
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.api import Connector
from kconnect.errors import ConnectError, NotFoundError
from kconnect.java.compat.hash_map import hash_map_order
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    SinkLag,
    TargetState,
    TaskId,
    TaskState,
)
from kconnect.runtime.plugins.aliases import BUILTINS, short_names
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import StoredStatus

if TYPE_CHECKING:
    from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator


log = logging.getLogger(__name__)

_TARGET_STATES = {"pause": TargetState.PAUSED, "resume": TargetState.STARTED, "stop": TargetState.STOPPED}


class DirectClient:
    """Reads a cluster for one command; each topic is read once, except by `connector_statuses`, which reads it again.

    Its reading methods are those of ConnectClient. Errors: as ClusterReader; NotFoundError for unknown connectors.
    Threads: one.
    """

    def __init__(self, access: ClusterAccess) -> None:
        self.access = access
        self.reader = ClusterReader(access)
        self._configs: ConfigView | None = None
        self._statuses: StatusView | None = None
        self._installed = InstalledConnectors(access.worker.get("plugin.path"))
        self._live: bool | None = None

    @property
    def place(self) -> str:
        """Where it reads, for messages."""
        return f"topic {self.access.topic(InternalTopic.CONFIG)} of {self.access.bootstrap_servers}"

    @property
    def configs(self) -> ConfigView:
        if self._configs is None:
            self._configs = self.reader.configs()
        return self._configs

    @property
    def statuses(self) -> StatusView:
        if self._statuses is None:
            self._statuses = self.reader.known_statuses()
            if self._statuses.statuses.is_doubtful:  # a question more, and only then
                self._statuses.statuses.set_owners(self._assigned())
        return self._statuses

    def forget(self) -> None:
        """Read the topics again when they are next needed: they have been written to."""
        self._configs = self._statuses = None

    def connectors(self) -> list[str]:
        """Names of all connectors."""
        return sorted(self.configs.snapshot.connectors)

    def connector_statuses(self) -> dict[str, ConnectorStatus]:
        """All connectors in the states that workers wrote last."""
        self.forget()
        return connector_statuses(self.configs.snapshot, self.statuses.statuses, self._installed.connector_type)

    def connector_infos(self) -> dict[str, ConnectorInfo]:
        """Configs and task ids of all connectors."""
        return {name: self.connector(name) for name in self.connectors()}

    def connector(self, name: str) -> ConnectorInfo:
        return connector_info(name, self.configs.snapshot, self._installed.connector_type)

    def connector_status(self, name: str) -> ConnectorStatus:
        return connector_status(name, self.configs.snapshot, self.statuses.statuses, self._installed.connector_type)

    def states_to_come(self, names: Collection[str]) -> dict[str, TargetState]:
        """The states the next worker will bring these connectors to, where their statuses differ."""
        return states_to_come(self.configs.snapshot, self.statuses.statuses, names)

    def connector_offsets(self, name: str) -> list[ConnectorOffset]:
        info = self.connector(name)
        return read_offsets(self.access, self.reader, info)

    def offsets_and_lag(self, name: str) -> tuple[list[ConnectorOffset], SinkLag | None]:
        """The offsets, and how far a sink is behind; None for a source."""
        info = self.connector(name)
        offsets = read_offsets(self.access, self.reader, info)
        return offsets, read_lags(self.access, [info])[name] if info.type is ConnectorType.SINK else None

    def plan(self, verb: str, name: str) -> EditPlan:
        """What a worker would write for this REST call; and what workers would clean up afterwards, when
        none of them runs.

        Errors: NotFoundError.
        """
        view = self.configs
        left = self.statuses if verb in ("stop", "delete") and not self._has_workers() else None
        if verb == "delete":
            return delete_plan(view, name, left)
        plan = target_state_plan(view, name, _TARGET_STATES[verb])
        return plan if left is None else with_task_statuses_removed(plan, name, left)

    def _assigned(self) -> dict[str | TaskId, str]:
        """Current assignments; empty when the group is not known or the broker does not answer."""
        if not self.access.has_group:
            return {}
        try:
            return owners_of(live_group(self.access))
        except ConnectError as err:
            log.info("Which worker runs what is not known: %s", err)
            return {}

    def _has_workers(self) -> bool:
        """Whether there may be a worker to clean up: also when the group is not known."""
        if self._live is None:
            self._live = not self.access.has_group or live_group(self.access).is_live
        return self._live

    def plugin_config(self, plugin: str) -> list[dict[str, Any]]:
        """Names and types of a connector class's settings. Errors: NotFoundError when it is not installed here."""
        found = self._installed_class(plugin)
        return [{"name": key.name, "type": key.type.name} for key in found().config().sorted_keys()]

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> dict[str, Any]:
        """What a worker with this cluster's settings would answer, as `ConnectClient.validate`.

        Errors: NotFoundError when the plugin is not installed here; those of the validation.
        """
        self._installed_class(plugin)
        with self._validator() as checks:
            return checks.validate({**config, "connector.class": plugin}).to_json()

    def raise_if_invalid(self, config: Mapping[str, str]) -> None:
        """Refuse a config as a worker would. Errors: BadRequestError, also when the plugin is not installed here."""
        from kconnect.runtime.herder.validation.connector_checks import raise_for_errors

        with self._validator() as checks:
            raise_for_errors(config, checks.validate(config))

    @contextmanager
    def _validator(self) -> Iterator[ConnectorValidator]:
        from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

        variables = worker_variables(self.access.worker)
        try:
            yield self._installed.validator(self.access.worker, variables)
        finally:
            variables.close()

    def connector_class(self, name: str) -> type[Connector] | None:
        """A connector class, where it is installed here: one we ship, or a Python one."""
        return self._installed.connector_class(name)

    def as_configured(self, name: str, config: Mapping[str, str]) -> ConnectorInfo:
        """What a connector that does not exist would be with this config."""
        return connector_info(name, ClusterSnapshot(configs={name: config}), self._installed.connector_type)

    def _installed_class(self, plugin: str) -> type[Connector]:
        found = self.connector_class(plugin)
        if found is None:
            raise NotFoundError(f"{plugin} is not installed here")
        return found

    @property
    def masks(self) -> SecretMasks:
        """What of the records of these topics may be shown."""
        found = SecretMasks(self._installed.password_keys)
        found.learn(self.configs.snapshot.configs)
        return found

    def close(self) -> None:
        self.reader.close()


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
