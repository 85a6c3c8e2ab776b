"""Connector instances of this process, for either herder: start, transition and stop them, and get their task configs.

Source: Worker, AbstractHerder, HerderConnectorContext, WorkerConnector (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kconnect.clock import Clock
from kconnect.errors import ConfigError, ConnectError, RetriableError, TimedOutError
from kconnect.files.reread import digest_of
from kconnect.logs import redaction
from kconnect.model import ConnectorType, RunState, TargetState, TaskCondition
from kconnect.runtime.config.client_config import check_security
from kconnect.runtime.config.client_security import client_files, client_secrets
from kconnect.runtime.config.variables import Resolved, Variables, has_reference, plain_names, secret_values
from kconnect.runtime.herder.connectors.hosted_connector import ConnectorParts, HostedConnector, PluginTimes, TaskPlan
from kconnect.runtime.herder.connectors.plugin_classes import ConnectorPlugins, connector_kind, new_connector
from kconnect.runtime.herder.connectors.reloads import Reloads, WatchedConfigs, WatchedFiles
from kconnect.runtime.herder.decisions.connector_entry import (
    ConnectorEntry,
    complete_task_configs,
    report_too_many_tasks,
)
from kconnect.runtime.metrics import PluginMetricsRegistry, PluginValue
from kconnect.runtime.storage import CommittedOffsets, OffsetStore, read_source_offsets

if TYPE_CHECKING:
    from kconnect.api import Connector, ConnectorContext, OffsetStorageReader, PluginMetrics


log = logging.getLogger(__name__)

_CLASS_KEYS = ("connector.class", "connector.plugin.version")
# Connectors stopped at one time when the worker stops; each waits for a plugin, not for the processor
_STOPPERS = 16


class ConnectorStatuses(Protocol):
    """Keeps the reported states of connectors. Threads: any; must not block."""

    def expect_connector(self, name: str) -> None:
        """A connector is starting: the next RUNNING or FAILED is the result."""
        ...

    def set_connector(self, name: str, state: RunState, trace: str | None = None, version: str | None = None) -> None:
        """A connector reached a state; without `version` the known version is kept."""
        ...


class HostParts(Protocol):
    """What connectors of this process are made from; implemented by `HerderParts`."""

    @property
    def plugins(self) -> ConnectorPlugins: ...
    @property
    def offsets(self) -> OffsetStore:
        """The worker's own store of source offsets."""
        ...

    @property
    def variables(self) -> Variables:
        """Resolves `${..}` in connector configs."""
        ...

    @property
    def worker_config(self) -> Mapping[str, str]:
        """The raw worker properties, which tasks get as well."""
        ...

    @property
    def times(self) -> PluginTimes: ...
    @property
    def clock(self) -> Clock: ...


@dataclass(frozen=True, slots=True)
class GivenTasks:
    """The task configs a connector gave, complete as they are stored, and the version of the task's class."""

    configs: list[dict[str, str]] = field(repr=False)
    version: str


@dataclass(frozen=True, slots=True)
class _TaskValues:
    """What tasks start with, as far as it may change while a config stays the same."""

    connector: Mapping[str, str] = field(repr=False)
    worker: Mapping[str, str] = field(repr=False)
    """Says what clients show, trust and log in with where connectors do not."""
    files: Mapping[Path, bytes | None]
    """Files that clients read, with digests of what is in them."""


def _client_settings(worker: Mapping[str, str]) -> dict[str, str]:
    return {**client_secrets(worker), "security.protocol": worker.get("security.protocol", "PLAINTEXT")}


def _restarts(config: Mapping[str, str]) -> bool:
    return (config.get("config.action.reload") or "restart").strip().lower() == "restart"


class ConnectorHost:
    """The instances by name. States: open -> stopped.

    Threads: any; who calls start, transition, task_configs or shut_down holds that connector's order. `kind`,
    `resolved` and `new_plugin` need none. `request_tasks` is called when a connector has new task configs, `look_again`
    when the values that its config refers to may have changed; neither may block.
    """

    def __init__(
        self,
        parts: HostParts,
        status: ConnectorStatuses,
        *,
        request_tasks: Callable[[str], None],
        look_again: Callable[[str], None],
        offsets_of: Callable[[str], OffsetStore] | None = None,
    ) -> None:
        """`offsets_of`: the store of a connector's source offsets, by default that of the worker."""
        self._parts = parts
        self._status = status
        self._request_tasks = request_tasks
        self._offsets_of = offsets_of or (lambda _name: parts.offsets)
        self._reloads = Reloads(look_again)
        self._watched = WatchedConfigs(parts.variables, look_again)
        self._files = WatchedFiles(look_again)
        self._worker_secrets = _client_settings(parts.worker_config)
        self._hosted: dict[str, HostedConnector] = {}  # a connector's entry is touched only under its order
        self._metrics: dict[str, PluginMetricsRegistry] = {}  # of their own, likewise
        # configs that tasks here were started with, as written and with values
        self._tasks_have: dict[str, tuple[Mapping[str, str], _TaskValues]] = {}
        self._passwords: dict[str, frozenset[str]] = {}  # settings of that type, since the last start
        self._changed_to: dict[str, _TaskValues] = {}  # touched by the threads that look again, and when forgotten

    def find(self, name: str) -> HostedConnector | None:
        return self._hosted.get(name)

    def names(self) -> list[str]:
        return list(self._hosted)

    def plugin_values(self) -> list[PluginValue]:
        """The metrics that the connectors here keep of themselves. Threads: any."""
        return [value for registry in list(self._metrics.values()) for value in registry.values()]

    def conditions(self) -> dict[str, TaskCondition]:
        """Why connectors here that are RUNNING give no task configs; those that do are left out. Threads: any."""
        found = {name: hosted.condition for name, hosted in list(self._hosted.items())}
        return {name: condition for name, condition in found.items() if condition is not None}

    def start(self, entry: ConnectorEntry) -> None:
        """Create the instance and bring it to its target state. Errors: ConnectError; its status shows why."""
        name = entry.name
        parts = ConnectorParts(
            name,
            lambda: self.new_plugin(entry.config),
            self._context_of(entry),
            partial(self._status.set_connector, name),
            self._parts.times,
            partial(self._parts.plugins.abandon, name, None),
            partial(self._parts.plugins.java_stack, name, None),
        )
        self._status.expect_connector(name)
        hosted = self._hosted[name] = HostedConnector(parts, lambda: self.resolved(entry, is_starting=True))
        hosted.transition_to(entry.target_state)

    def java_stack(self, connector: str, task: int | None) -> list[str] | None:
        """Works as PluginRegistry.java_stack."""
        return self._parts.plugins.java_stack(connector, task)

    def transition(self, name: str, state: TargetState) -> None:
        """Bring the instance to a state; tasks are not touched. Errors: ConnectError; its status shows why."""
        self._hosted[name].transition_to(state)

    def task_configs(self, entry: ConnectorEntry, *, is_asked_again: bool = False) -> GivenTasks | None:
        """Returns the task configs; None if the connector is not running.

        Errors: RetriableError, to retry later; any other ConnectError has failed the connector. With `is_asked_again`
        the call is retried whatever the plugin raises, as in Java's distributed herder.
        """
        hosted = self._hosted[entry.name]
        if not hosted.is_running or entry.target_state is not TargetState.STARTED:
            log.info("Skipping update of tasks for connector %s since it is not running", entry.name)
            return None
        try:
            limits = replace(entry, config=hosted.resolved.values)
            plan = self._task_plan(hosted, limits, is_asked_again)
            if len(plan.configs) > limits.max_tasks:
                report_too_many_tasks(limits, len(plan.configs))
            task_class = self._parts.plugins.java_name(plan.task_class)
            configs = complete_task_configs(
                entry.name, entry.config, task_class, hosted.resolved.unresolved(entry.config, plan.configs)
            )
        except RetriableError as err:
            hosted.note_answer(err, self._parts.clock.time_ms())
            raise
        except Exception as err:  # a plugin call
            hosted.fail(err)
            if isinstance(err, ConnectError):
                raise
            raise ConnectError(f"Connector {entry.name} failed to give task configs", hint=str(err)) from err
        hosted.note_answer(None, self._parts.clock.time_ms())
        return GivenTasks(configs, plan.version)

    def _task_plan(self, hosted: HostedConnector, limits: ConnectorEntry, is_asked_again: bool) -> TaskPlan:
        try:
            return hosted.task_plan(limits.max_tasks)
        except (RetriableError, TimedOutError):  # a plugin that hangs would hang again
            raise
        except Exception as err:  # a plugin call
            if not is_asked_again:
                raise
            raise RetriableError(f"{type(err).__name__}: {err}") from err

    def shut_down(self, name: str) -> None:
        """Stop the instance for good, if there is one. Never raises."""
        hosted = self._hosted.pop(name, None)
        self._metrics.pop(name, None)
        if hosted is not None:
            hosted.shut_down()

    def forget(self, name: str) -> None:
        """Forget the references in the config of a connector that no longer runs here."""
        self._tasks_have.pop(name, None)
        self._changed_to.pop(name, None)
        self._passwords.pop(name, None)
        self._reloads.schedule(name, None)
        self._watched.watch(name, {})
        self._files.watch(name, ())
        redaction.forget(f"connector {name}")

    def close_reloads(self, timeout_s: float) -> None:
        """Stop all checks of config references."""
        self._reloads.close(timeout_s)
        self._watched.close()
        self._files.close(timeout_s)

    def shut_down_all(self) -> None:
        """Stop all instances; no other thread may start one meanwhile."""
        with ThreadPoolExecutor(_STOPPERS, thread_name_prefix="connector-stop") as pool:
            for hosted in list(self._hosted.values()):
                pool.submit(hosted.shut_down)

    def resolved(self, entry: ConnectorEntry, *, is_starting: bool = False) -> Resolved:
        """Returns the config with its references replaced; it is checked again later if a provider requests that.
        Errors: ConfigError.

        Only with `is_starting` are plugins queried for their password settings: such a call may hang.
        """
        resolved = self._parts.variables.resolve(entry.config, f"connector {entry.name}")
        if is_starting:
            self._passwords[entry.name] = self._parts.plugins.password_keys(resolved.values)
        passwords = self._passwords.get(entry.name, frozenset())
        secrets = {*secret_values(resolved.values, passwords), *resolved.references}
        redaction.remember(f"connector {entry.name}", secrets, {entry.name, *plain_names(entry.config, passwords)})
        restarts = _restarts(resolved.values)
        self._reloads.schedule(entry.name, resolved.ttl_ms if restarts else None)
        self._watched.watch(entry.name, entry.config if restarts else {})
        return resolved

    def refers(self, entry: ConnectorEntry) -> bool:
        """Whether anything that its tasks use may change while its config stays: references, and files of clients."""
        used = (*entry.config.values(), *self._worker_secrets.values())
        return any(map(has_reference, used)) or bool(client_files(self._worker_secrets) or client_files(entry.config))

    def note_tasks(self, entry: ConnectorEntry) -> None:
        """A connector's tasks start here: watch its config references, whether or not its instance is here too, and the
        files that the tasks' clients read.

        May wait for a config provider.
        """
        try:
            have = self._task_values(entry)
        except ConfigError as err:  # the tasks fail for the same reason, and their status shows it
            log.debug("What the config of connector %s refers to cannot be watched: %s", entry.name, err)
            return
        self._tasks_have[entry.name] = (entry.config, have)
        referred = {**self._worker_secrets, **client_secrets(entry.config)}
        files = {*have.files, *self._parts.variables.files(referred)}
        self._files.watch(entry.name, files if _restarts(have.connector) else ())

    def change_of(self, entry: ConnectorEntry) -> str | None:
        """Why it, or tasks noted here, must restart, as a part of a sentence; None if they run with what holds now.

        It is reported once per change, as a restart takes some time. Errors: ConfigError, also for what is only half
        written.
        """
        hosted, (of_config, have) = self.find(entry.name), self._tasks_have.get(entry.name, (None, None))
        if of_config != entry.config:  # the tasks are about to be replaced anyway
            have = None
        instance = hosted.resolved.values if hosted is not None and hosted.is_running else None
        if have is None and instance is None:
            return None
        now = self._task_values(entry)
        is_old = (instance is not None and instance != now.connector) or (have is not None and have != now)
        if not is_old or self._changed_to.get(entry.name) == now:
            return None
        check_security({**self._parts.worker_config, **now.worker}, now.connector)
        self._changed_to[entry.name] = now
        files = [] if have is None else [path for path in now.files if now.files[path] != have.files.get(path)]
        if files:
            return f"its tasks' Kafka clients read {', '.join(map(str, files))}, which changed"
        return "a value that its config refers to changed"

    def _task_values(self, entry: ConnectorEntry) -> _TaskValues:
        """Errors: ConfigError."""
        connector = self.resolved(entry).values
        worker = self._parts.variables.resolve(self._worker_secrets, "the worker").values
        files = dict.fromkeys([*client_files(worker), *client_files(connector)])
        return _TaskValues(connector, worker, {path: digest_of(path) for path in files})

    def new_plugin(self, config: Mapping[str, str]) -> Connector:
        """A new instance, neither initialized nor started. Errors: ConnectError, and any error of its constructor."""
        return new_connector(self._parts.plugins, self._with_class(config))

    def kind(self, config: Mapping[str, str]) -> ConnectorType:
        """Source or sink; UNKNOWN when the class cannot be found."""
        return connector_kind(self._parts.plugins, self._with_class(config))

    def _with_class(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The unchanged config, unless its class or version is a reference that can be resolved."""
        referring = {key: config[key] for key in _CLASS_KEYS if has_reference(config.get(key) or "")}
        if not referring:
            return config
        try:
            return {**config, **self._parts.variables.resolve(referring, "a connector").values}
        except ConfigError:
            return config  # reported when the connector starts; its kind is unknown until then

    def _context_of(self, entry: ConnectorEntry) -> Callable[[HostedConnector], ConnectorContext]:
        name, kind = entry.name, self.kind(entry.config)
        registry = self._metrics[name] = PluginMetricsRegistry()
        metrics = registry.of_plugin(connector=name)

        def context(host: HostedConnector) -> ConnectorContext:
            request = partial(self._request_tasks, name)
            if kind is ConnectorType.SINK:
                return SinkHostContext(host, request, metrics)
            return SourceHostContext(
                host, request, metrics, CommittedOffsets(partial(read_source_offsets, self._offsets_of(name), name))
            )

        return context


class SinkHostContext:
    """A SinkConnectorContext. A connector that was shut down or abandoned can no longer ask for anything."""

    def __init__(
        self, host: HostedConnector, request_reconfiguration: Callable[[], None], metrics: PluginMetrics
    ) -> None:
        self._host = host
        self._request = request_reconfiguration
        self._metrics = metrics

    def request_task_reconfiguration(self) -> None:
        if not self._host.is_shut_down:
            self._request()

    def raise_error(self, error: BaseException) -> None:
        self._host.fail(error)

    def plugin_metrics(self) -> PluginMetrics:
        return self._metrics


class SourceHostContext(SinkHostContext):
    """A SourceConnectorContext: that of a sink, plus a reader of offsets."""

    def __init__(
        self,
        host: HostedConnector,
        request_reconfiguration: Callable[[], None],
        metrics: PluginMetrics,
        reader: OffsetStorageReader,
    ) -> None:
        super().__init__(host, request_reconfiguration, metrics)
        self._reader = reader

    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._reader
