"""The herder of one process: runs every connector it is told of, keeps configs and statuses in memory.

Source: StandaloneHerder, AbstractHerder, Worker (Kafka 4.3). `Differs:` is said where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import kconnect
from kconnect import redaction
from kconnect.config.variables import Resolved, has_reference, secret_values
from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConnectError,
    NotFoundError,
    RetriableError,
)
from kconnect.herder.active_topics import ActiveTopics
from kconnect.herder.config_infos import ConfigInfos
from kconnect.herder.connector_context import SinkHostContext, SourceHostContext, StoreOffsetReader
from kconnect.herder.connector_plugins import connector_kind, new_connector
from kconnect.herder.connector_runner import call_once
from kconnect.herder.hosted_connector import ConnectorParts, HostedConnector, StatusListener
from kconnect.herder.interface import LauncherEvents, PluginDescription, ServerInfo, SlotInfo
from kconnect.herder.launcher_events import HerderEvents
from kconnect.herder.measured import worker_readings
from kconnect.herder.memory_config import (
    ConnectorEntry,
    MemoryConfig,
    complete_task_configs,
    patched,
    report_too_many_tasks,
    require_stopped,
)
from kconnect.herder.memory_status import MemoryStatus
from kconnect.herder.offsets_admin import OffsetsAdmin
from kconnect.herder.orders import Orders
from kconnect.herder.parts import HerderParts
from kconnect.herder.reloads import Reloads
from kconnect.herder.restart import restart_plan
from kconnect.herder.task_runs import TaskRuns
from kconnect.logs import LoggerLevel, LogLevels
from kconnect.metrics import Reading
from kconnect.model import (
    CONNECT_VERSION,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TargetState,
    TaskId,
    TaskInfo,
    TaskState,
)

if TYPE_CHECKING:
    from kconnect.api import Connector, ConnectorContext
    from kconnect.api.configdef import ConfigKey

__all__ = ["StandaloneHerder"]

log = logging.getLogger(__name__)
Result = TypeVar("Result")

# Connectors stopped at one time when the worker stops; each waits for a plugin, not for the processor
_STOPPERS = 16


class StandaloneHerder:
    """Implements `Herder`; its `events` implement `LauncherEvents`. States: new -> started -> stopped.

    Threads: every method from any. Orders of one connector run one after the other, those of different connectors side
    by side, so that a plugin that hangs holds up its own connector alone (`Orders`); plugin code runs on the
    connector's own thread (`ConnectorRunner`).
    Differs: Java takes one lock for all, so that a connector that hangs in start holds up the whole worker.
    """

    def __init__(self, parts: HerderParts) -> None:
        self._parts = parts
        self._config = MemoryConfig()
        self._status = MemoryStatus()
        self._orders = Orders(parts.times.call_s)
        self._reloads = Reloads(self._look_again)
        self._offsets = OffsetsAdmin(parts.offsets, parts.groups, parts.times.call_s)
        self._hosted: dict[str, HostedConnector] = {}  # a connector's entry is touched only under its order
        self._tasks = TaskRuns(parts.launcher, self._status, parts.worker_config, parts.times.stop_s)
        self._topics = ActiveTopics(is_tracking=parts.tracks_topics, allows_reset=parts.allows_topics_reset)
        self._log_levels = LogLevels()
        self._cluster_id: str | None = None
        self._ready = False
        self.events: LauncherEvents = HerderEvents(
            self._config, self._status, parts.offsets, self._topics, self._update_tasks_soon
        )
        """What the launcher calls back; hand it to `Launcher.start`."""

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self, worker_id: str, kafka_cluster_id: str | None) -> None:
        """Begin: `worker_id` is the advertised host:port, shown in every status."""
        self._status.worker_id = worker_id
        self._cluster_id = kafka_cluster_id
        log.info("Herder started as worker %s", worker_id)

    def ready(self) -> None:
        """Start-up is complete."""
        self._ready = True

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks gracefully, then the connectors. Takes no orders any more. Idempotent."""
        if not self._orders.close(timeout_s):
            return
        self._reloads.close(timeout_s)
        self._ready = False
        ids = [task_id for entry in self._config.all() for task_id in entry.task_ids]
        self._tasks.stop(ids, timeout_s)
        with ThreadPoolExecutor(_STOPPERS, thread_name_prefix="connector-stop") as pool:
            for hosted in list(self._hosted.values()):
                pool.submit(hosted.shut_down)
        log.info("Herder stopped")

    # -- questions ----------------------------------------------------------------------------------------------------

    def server_info(self) -> ServerInfo:
        return ServerInfo(CONNECT_VERSION, f"kconnect-{kconnect.__version__}", self._cluster_id)

    def is_ready(self) -> bool:
        return self._ready

    def connectors(self) -> list[str]:
        return sorted(entry.name for entry in self._config.all())

    def connector_info(self, name: str) -> ConnectorInfo:
        entry = self._config.get(name)
        return ConnectorInfo(name, entry.config, entry.task_ids, self._kind(entry.config))

    def connector_config(self, name: str) -> Mapping[str, str]:
        return self._config.get(name).config

    def connector_status(self, name: str) -> ConnectorStatus:
        entry = self._config.find(name)
        return self._status.connector(name, self._kind(entry.config) if entry else ConnectorType.UNKNOWN)

    def task_infos(self, name: str) -> list[TaskInfo]:
        entry = self._config.get(name)
        return [TaskInfo(task_id, entry.task_configs[task_id.task]) for task_id in entry.task_ids]

    def task_status(self, task_id: TaskId) -> TaskState:
        return self._status.task(task_id)

    def connector_plugins(self, connectors_only: bool = True) -> list[PluginDescription]:
        return [
            PluginDescription(plugin.class_name, str(plugin.type), plugin.version)
            for plugin in self._parts.plugins.describe()
            if not connectors_only or plugin.type in ("source", "sink")
        ]

    def plugin_config(self, plugin: str, version: str | None = None) -> Sequence[ConfigKey]:
        return self._checked(plugin, lambda: self._parts.plugin_config(plugin, version))

    def validate_config(self, config: Mapping[str, str | None]) -> ConfigInfos:
        name = config.get("name") or "(without name)"
        return self._checked(name, lambda: self._parts.explain(config))

    def connector_topics(self, name: str) -> list[str]:
        """Differs: Java gives an empty list for an unknown connector."""
        topics = self._topics.of(name)
        self._config.get(name)
        return topics

    def metrics(self) -> Sequence[Reading]:
        entries = self._config.all()
        kinds = {entry.name: self._kind(entry.config) for entry in entries}
        parts = self._parts
        return worker_readings(kinds, entries, self._status, parts.launcher, parts.plugins, parts.worker_config)

    def slots(self) -> Sequence[SlotInfo]:
        return self._parts.launcher.slots()

    def loggers(self) -> Mapping[str, LoggerLevel]:
        return self._log_levels.all()

    def logger(self, name: str) -> LoggerLevel:
        found = self._log_levels.find(name)
        if found is None:
            raise NotFoundError(f"Logger {name} not found.")
        return found

    # -- orders -------------------------------------------------------------------------------------------------------

    def put_connector(
        self, name: str, config: Mapping[str, str], *, initial_state: TargetState | None = None, replace: bool
    ) -> tuple[bool, ConnectorInfo]:
        """Create or change. A connector that fails to start is kept, FAILED, and the error is raised, as in Java.

        Differs: when task_configs raises, Java's request hangs until its deadline; here it answers with the error.
        """
        config = {"name": name} | dict(config) if "name" not in config else dict(config)
        self._validate(name, config)
        with self._orders.of(name):
            known = self._config.find(name)
            if known is not None and not replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            if known is None:
                self._configure(ConnectorEntry(name, config, initial_state or TargetState.STARTED))
            else:
                self._configure(known.reconfigured(config, initial_state))
            return known is None, self.connector_info(name)

    def patch_connector(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        """Merge changes into the config. As Java does, a changed `name` is kept as a setting and renames nothing."""
        while True:
            base = self._config.get(name).config
            config = patched(base, changes)
            self._validate(name, config)
            with self._orders.of(name):
                known = self._config.get(name)
                if known.config is base:  # else another request changed it while this one was checked
                    self._configure(known.reconfigured(config, None))
                    return self.connector_info(name)

    def delete_connector(self, name: str) -> None:
        self._config.get(name)
        with self._orders.of(name):
            self._config.get(name)
            self._remove_tasks(name)
            self._shut_down(name)
            self._config.remove(name)
            self._reloads.schedule(name, None)
            redaction.forget(f"connector {name}")
            self._status.remove_connector(name)
            self._topics.forget(name)

    def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause, resume or stop. A connector that fails on the way is FAILED with its trace; the request succeeds.

        Differs: for STOPPED of an unknown connector Java answers 500.
        """
        self._config.get(name, f"Unknown connector {name}")
        with self._orders.of(name):
            entry = self._config.get(name, f"Unknown connector {name}")
            if state is TargetState.STOPPED:
                self._remove_tasks(name)
                entry = self._config.get(name)
            entry = self._config.put(entry.with_target(state))
            if entry.task_ids:
                self._parts.launcher.set_target_state(entry.task_ids, state)
            try:
                self._hosted[name].transition_to(state)
            except ConnectError as err:
                log.error("Failed to transition connector %s to target state %s: %s", name, state, err)
                return
            if state is TargetState.STARTED:
                self._update_tasks_soon(name)

    def restart_connector(self, name: str) -> None:
        """Stop the connector and start a new instance; its tasks are untouched unless it gives them other configs.

        Differs: for an unknown connector Java answers 500 with the text of a NullPointerException.
        """
        self._config.get(name, f"Unknown connector: {name}")
        with self._orders.of(name):
            entry = self._config.get(name, f"Unknown connector: {name}")
            self._shut_down(name)
            self._start_connector(name)
            if entry.target_state is TargetState.STARTED:
                self._update_tasks(name)

    def restart_by_plan(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Restart what the flags choose. A connector that fails again shows so in its status; the request succeeds.

        Differs: Java does not ask the restarted connector for task configs, so one that had failed before it gave any
        stays without tasks.
        """
        self._config.get(name, f"Unknown connector: {name}")
        with self._orders.of(name):
            entry = self._config.get(name, f"Unknown connector: {name}")
            plan = restart_plan(self.connector_status(name), include_tasks=include_tasks, only_failed=only_failed)
            tasks = [task_id for task_id in plan.tasks if task_id in entry.task_ids]
            versions = {task_id: self._status.task(task_id).version for task_id in tasks}
            if plan.restart_connector:
                self._shut_down(name)
                self._status.set_connector(name, RunState.RESTARTING)
            self._tasks.stop(tasks)
            if plan.restart_connector:
                self._try_start(name)
            for task_id in tasks:
                kind = self._kind(entry.config)
                self._tasks.start(entry, [task_id], kind, versions[task_id], RunState.RESTARTING)
            if plan.restart_connector and entry.target_state is TargetState.STARTED:
                self._update_tasks_soon(name)
            return plan.status

    def restart_task(self, task_id: TaskId) -> None:
        """Stop the task and start a new run of it. Differs: for an unknown connector Java answers 500."""
        name = task_id.connector
        self._config.get(name, f"Unknown connector: {name}")
        with self._orders.of(name):
            entry = self._config.get(name, f"Unknown connector: {name}")
            if task_id not in entry.task_ids:
                raise NotFoundError(f"Task {task_id} not found")
            version = self._status.task(task_id).version
            self._tasks.stop([task_id])
            self._tasks.start(entry, [task_id], self._kind(entry.config), version)

    def request_task_reconfiguration(self, name: str) -> None:
        """Ask the connector for task configs again, in the background."""
        self._config.get(name, f"Unknown connector {name}")
        self._update_tasks_soon(name)

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        raise BadRequestError(
            "Kafka Connect in standalone mode does not support externally setting task configurations."
        )

    def fence_zombies(self, name: str) -> None:
        raise BadRequestError("Kafka Connect in standalone mode does not support exactly-once source connectors.")

    def reset_connector_topics(self, name: str) -> None:
        """Differs: Java accepts this for an unknown connector."""
        self._topics.of(name)
        self._config.get(name)
        self._topics.reset(name)
        self._parts.launcher.forget_topics(name)

    def set_logger(self, name: str, level: int, *, whole_cluster: bool) -> list[str]:
        """One worker is the whole cluster here."""
        changed = self._log_levels.set(name, level)
        self._parts.launcher.set_log_level(name, level)
        return changed

    # -- offsets ------------------------------------------------------------------------------------------------------

    def connector_offsets(self, name: str) -> list[ConnectorOffset]:
        entry = self._config.get(name)
        return self._offsets.read(name, self._kind(entry.config), self._resolved(entry).values)

    def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        if not offsets:
            raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")
        with self._stopped(name) as entry:
            kind = self._kind(entry.config)
            config = self._resolved(entry).values
            return self._offsets.alter(name, kind, config, offsets, lambda: self._new_plugin(config))

    def reset_connector_offsets(self, name: str) -> str:
        with self._stopped(name) as entry:
            kind = self._kind(entry.config)
            config = self._resolved(entry).values
            return self._offsets.reset(name, kind, config, lambda: self._new_plugin(config))

    # -- steps; the caller holds the connector's order ----------------------------------------------------------------

    @contextmanager
    def _stopped(self, name: str) -> Iterator[ConnectorEntry]:
        """The order of a connector whose offsets may change. Errors: NotFoundError, BadRequestError."""
        self._config.get(name)
        with self._orders.of(name):
            entry = self._config.get(name)
            require_stopped(entry)
            yield entry

    def _validate(self, name: str, config: Mapping[str, str]) -> None:
        """Connect's checks and the connector's own, with a deadline. Errors: BadRequestError, TimedOutError."""
        self._checked(name, lambda: self._parts.validate(config))

    def _checked(self, name: str, check: Callable[[], Result]) -> Result:
        try:
            return call_once(name, f"validate of connector {name}", check, self._parts.times.call_s)
        except ConnectError:
            raise
        except Exception as err:  # a plugin call
            raise ConnectError(f"The checks of connector {name} failed: {type(err).__name__}: {err}") from err

    def _configure(self, entry: ConnectorEntry) -> None:
        """Take an entry in place of the one before, start its connector anew and give it its tasks."""
        name = entry.name
        self._shut_down(name)
        self._config.put(entry)
        self._start_connector(name)
        try:
            self._update_tasks(name)
        except RetriableError as err:
            log.warning("Connector %s gave no task configs yet and is asked again: %s", name, err)
            self._update_tasks_soon(name)

    def _try_start(self, name: str) -> None:
        try:
            self._start_connector(name)
        except ConnectError as err:
            log.error("Connector %s was restarted and failed: %s", name, err)

    def _start_connector(self, name: str) -> None:
        entry = self._config.get(name)
        times = self._parts.times
        parts = ConnectorParts(
            name, lambda: self._new_plugin(entry.config), self._context_of(entry), self._listener(name), times
        )
        self._status.expect_connector(name)
        hosted = self._hosted[name] = HostedConnector(parts, lambda: self._resolved(entry))
        hosted.transition_to(entry.target_state)

    def _resolved(self, entry: ConnectorEntry) -> Resolved:
        """The config with its references replaced, to be looked at again if a provider says so. Errors: ConfigError."""
        resolved = self._parts.variables.resolve(entry.config, f"connector {entry.name}")
        secrets = {*secret_values(resolved.values), *resolved.references}
        redaction.remember(f"connector {entry.name}", secrets)
        restarts = (resolved.values.get("config.action.reload") or "restart").strip().lower() == "restart"
        self._reloads.schedule(entry.name, resolved.ttl_ms if restarts else None)
        return resolved

    def _look_again(self, name: str) -> None:
        self._orders.soon(name, lambda: self._reload(name), "reload")

    def _reload(self, name: str) -> bool:
        """Restart connector and tasks if a value they were started with has changed; gives True: it is done."""
        entry, hosted = self._config.find(name), self._hosted.get(name)
        if entry is None or hosted is None or not hosted.is_running:
            return True
        before = hosted.resolved.values
        try:
            if self._resolved(entry).values == before:
                return True
            log.info("What the config of connector %s refers to has changed: connector and tasks restart", name)
            self._remove_tasks(name)
            self._shut_down(name)
            self._start_connector(name)
        except ConnectError as err:
            log.error("Connector %s can not be restarted with what its config refers to: %s", name, err)
            return True
        return self._try_update(name)

    def _shut_down(self, name: str) -> None:
        hosted = self._hosted.pop(name, None)
        if hosted is not None:
            hosted.shut_down()

    def _update_tasks(self, name: str) -> None:
        """Ask for task configs; start tasks anew if they changed. Errors: RetriableError; others fail the connector."""
        entry, hosted = self._config.get(name), self._hosted[name]
        if not hosted.is_running or entry.target_state is not TargetState.STARTED:
            log.info("Skipping update of tasks for connector %s since it is not running", name)
            return
        try:
            limits = replace(entry, config=hosted.resolved.values)
            plan = hosted.task_plan(limits.max_tasks)
            if len(plan.configs) > limits.max_tasks:
                report_too_many_tasks(limits, len(plan.configs))
            task_class = self._parts.plugins.java_name(plan.task_class)
            configs = complete_task_configs(
                name, entry.config, task_class, hosted.resolved.unresolved(entry.config, plan.configs)
            )
        except RetriableError:
            raise
        except Exception as err:  # a plugin call
            hosted.fail(err)
            if isinstance(err, ConnectError):
                raise
            raise ConnectError(f"Connector {name} failed to give task configs", hint=str(err)) from err
        if entry.tasks_differ(configs):
            self._remove_tasks(name)
            entry = self._config.put(entry.with_tasks(configs))
            self._tasks.start(entry, entry.task_ids, self._kind(entry.config), plan.version)

    def _update_tasks_soon(self, name: str) -> None:
        self._orders.soon(name, lambda: self._try_update(name))

    def _try_update(self, name: str) -> bool:
        """False: ask again later."""
        if self._config.find(name) is None or name not in self._hosted:
            return True
        try:
            self._update_tasks(name)
        except RetriableError as err:
            log.warning("Connector %s gave no task configs and is asked again later: %s", name, err)
            return False
        except ConnectError as err:
            log.error("Tasks of connector %s can not be updated: %s", name, err)
        return True

    def _remove_tasks(self, name: str) -> None:
        entry = self._config.get(name)
        self._tasks.stop(entry.task_ids)
        self._status.remove_tasks(entry.task_ids)
        self._config.put(entry.without_tasks())

    # -- plugins ------------------------------------------------------------------------------------------------------

    def _new_plugin(self, config: Mapping[str, str]) -> Connector:
        return new_connector(self._parts.plugins, self._with_class(config))

    def _kind(self, config: Mapping[str, str]) -> ConnectorType:
        return connector_kind(self._parts.plugins, self._with_class(config))

    def _with_class(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The config as it is, unless its `connector.class` is a reference that can be resolved."""
        name = config.get("connector.class")
        if name is None or not has_reference(name):
            return config
        try:
            return {**config, **self._parts.variables.resolve({"connector.class": name}, "a connector").values}
        except ConfigError:
            return config  # told where the connector starts; its kind is unknown until then

    def _context_of(self, entry: ConnectorEntry) -> Callable[[HostedConnector], ConnectorContext]:
        name, kind = entry.name, self._kind(entry.config)

        def context(host: HostedConnector) -> ConnectorContext:
            request = partial(self._update_tasks_soon, name)
            if kind is ConnectorType.SINK:
                return SinkHostContext(host, request)
            return SourceHostContext(host, request, StoreOffsetReader(self._parts.offsets, name))

        return context

    def _listener(self, name: str) -> StatusListener:
        return partial(self._status.set_connector, name)
