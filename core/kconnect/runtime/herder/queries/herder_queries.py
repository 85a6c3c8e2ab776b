"""Queries that both herders answer in the same way from their configs, statuses and topics, without changing anything.

Source: AbstractHerder (Kafka 4.3).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import kconnect
from kconnect.client.outage import Outage
from kconnect.errors import ConflictError, ConnectError, NotFoundError, TimedOutError, UnreachableError
from kconnect.logs.log_context import LoggerLevel
from kconnect.logs.log_tail import LogTail
from kconnect.logs.redaction import redact
from kconnect.model import (
    CONNECT_VERSION,
    ConnectorInfo,
    ConnectorStatus,
    ConnectorType,
    SinkLag,
    TaskCondition,
    TaskId,
    TaskInfo,
    TaskState,
)
from kconnect.runtime.config.variables import has_reference
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.herder.connectors.runner import call_once
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.health.reasons import Reason
from kconnect.runtime.herder.interface import PluginDescription, RuntimeInfo, ServerInfo, SlotInfo
from kconnect.runtime.herder.offsets.sink_lag import lag_settings
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.queries.kafka_reads import KafkaReads
from kconnect.runtime.herder.queries.logger_levels import WorkerLoggers
from kconnect.runtime.herder.queries.restart_views import RestartViews
from kconnect.runtime.herder.queries.start_state import StartState
from kconnect.runtime.herder.validation.config_infos import ConfigInfos
from kconnect.runtime.metrics import Moves
from kconnect.runtime.metrics.history import History

if TYPE_CHECKING:
    from kconnect.api.config_key import ConfigKey

Result = TypeVar("Result")


class KnownConfigs(Protocol):
    """Connectors by name, of this process or of the cluster."""

    def find(self, name: str) -> ConnectorEntry | None: ...
    def get(self, name: str) -> ConnectorEntry:
        """Errors: NotFoundError."""
        ...


class KnownStatuses(Protocol):
    """The last reported states of connectors and tasks; `worker_id` is this worker's."""

    worker_id: str

    def find_connector(self, name: str, kind: ConnectorType) -> ConnectorStatus | None: ...
    def task(self, task_id: TaskId) -> TaskState:
        """Errors: NotFoundError."""
        ...


class KnownTopics(Protocol):
    """Topics that connectors were seen to use. Errors: ForbiddenError when they are not tracked."""

    def of(self, connector: str) -> list[str]: ...
    def reset(self, connector: str) -> None: ...


class HerderQueries:
    """The queries of `Herder`; subclasses provide the stores. Threads: any."""

    _parts: HerderParts
    _config: KnownConfigs
    _status: KnownStatuses
    _topics: KnownTopics
    _host: ConnectorHost
    _loggers: WorkerLoggers
    _start: StartState
    _restarts: RestartViews
    _kafka_reads: KafkaReads

    @property
    def worker_id(self) -> str:
        return self._status.worker_id

    def server_info(self) -> ServerInfo:
        return ServerInfo(CONNECT_VERSION, f"kconnect-{kconnect.__version__}", self._start.kafka_cluster_id)

    def is_ready(self) -> bool:
        return self._start.is_ready

    def is_open(self) -> bool:
        if self._start.is_stopping and not self._start.is_open:
            raise ConflictError("Worker is shutting down")
        return self._start.is_open

    def refuse_waiting(self) -> None:
        """A stop was requested: no one need wait for the start any longer. Threads: any."""
        self._start.refuse_waiting()

    def health(self) -> Sequence[Reason]:
        return self._parts.health.reasons()

    def notices(self) -> Sequence[str]:
        return self._parts.health.notices()

    def outage(self) -> Outage | None:
        return self._parts.kafka.outage

    def connector_info(self, name: str) -> ConnectorInfo:
        entry = self._config.get(name)
        return ConnectorInfo(name, entry.config, entry.task_ids, self._host.kind(entry.config))

    def connector_config(self, name: str) -> Mapping[str, str]:
        return self._config.get(name).config

    def connector_status(self, name: str) -> ConnectorStatus:
        entry = self._config.find(name)
        kind = self._host.kind(entry.config) if entry else ConnectorType.UNKNOWN
        found = self._status.find_connector(name, kind)
        if found is None:
            raise NotFoundError(f"No status found for connector {name}")
        return found

    def task_infos(self, name: str) -> list[TaskInfo]:
        entry = self._config.get(name)
        return [TaskInfo(task_id, entry.task_configs[task_id.task]) for task_id in entry.task_ids]

    def task_status(self, task_id: TaskId) -> TaskState:
        return self._status.task(task_id)

    def connector_plugins(self, connectors_only: bool = True) -> list[PluginDescription]:
        return [
            PluginDescription(plugin.class_name, str(plugin.type), plugin.version, plugin.location)
            for plugin in self._parts.plugins.describe()
            if not connectors_only or plugin.type in ("source", "sink")
        ]

    def plugin_config(self, plugin: str, version: str | None = None) -> Sequence[ConfigKey]:
        return self._checked(plugin, lambda: self._parts.plugin_config(plugin, version))

    def validate_config(self, config: Mapping[str, str | None]) -> ConfigInfos:
        name = config.get("name") or "(without name)"
        return self._checked(name, lambda: self._parts.explain(config))

    def connector_topics(self, name: str) -> list[str]:
        """Differs: Java returns an empty list for an unknown connector."""
        topics = self._topics.of(name)
        self._config.get(name)
        return topics

    def reset_connector_topics(self, name: str) -> None:
        """Differs: Java accepts this for an unknown connector."""
        self._topics.of(name)
        self._config.get(name)
        self._topics.reset(name)
        self._parts.launcher.forget_topics(name)

    def sink_lag(self, name: str) -> SinkLag | None:
        sinks = self._sinks([self._config.get(name)])
        if not sinks or self._parts.lags is None:
            return None
        make = self._parts.lags

        def read() -> SinkLag:
            lags = make()
            try:
                return lags.read(sinks)[name]
            finally:
                lags.close()

        try:
            return self._read_of_kafka("lag", name, read)
        except (TimedOutError, UnreachableError) as err:
            return SinkLag(problem=redact(str(err)))

    def _read_of_kafka(self, what: str, name: str, read: Callable[[], Result]) -> Result:
        """What only Kafka knows of a connector. Errors: as of `KafkaReads`."""
        return self._kafka_reads.ask((what, name), f"The {what} of connector {name}", read)

    def _readable_sinks(self, entries: Iterable[ConnectorEntry]) -> dict[str, Mapping[str, str]]:
        """Works as `_sinks`, without those whose references cannot be resolved: they fail, and their statuses
        say why.
        """
        found: dict[str, Mapping[str, str]] = {}
        for entry in entries:
            with suppress(ConnectError):
                found |= self._sinks([entry])
        return found

    def _sinks(self, entries: Iterable[ConnectorEntry]) -> dict[str, Mapping[str, str]]:
        """Gives the settings by which the lag of the sinks among these is found, with references resolved."""
        found: dict[str, Mapping[str, str]] = {}
        for entry in entries:
            if self._host.kind(entry.config) is not ConnectorType.SINK:
                continue
            settings: Mapping[str, str] = lag_settings(entry.config)
            if any(map(has_reference, settings.values())):  # of all others no provider is asked
                settings = self._parts.variables.resolve(settings, f"connector {entry.name}").values
            found[entry.name] = settings
        return found

    def slots(self) -> Sequence[SlotInfo]:
        found, ports = self._parts.launcher.slots(), self._parts.plugins.java_ports()
        if not ports:
            return found
        own = next((slot for slot in found if slot.slot is None), None)
        own = own or SlotInfo(None, True, socket.gethostname(), os.getpid(), (), executor="driver")
        return [*(slot for slot in found if slot.slot is not None), replace(own, java_ports=ports)]

    def runtime(self) -> RuntimeInfo | None:
        return self._parts.launcher.runtime()

    def webhooks(self) -> Sequence[Mapping[str, Any]]:
        return self._parts.webhooks.documents()

    def history(self) -> History:
        return self._parts.history

    def moves(self) -> Mapping[TaskId, Moves]:
        now_s = time.monotonic()
        return {task_id: meter.moves(now_s) for task_id, meter in self._parts.launcher.task_meters().items()}

    def log_tail(self) -> LogTail:
        return self._parts.log_tail

    def task_conditions(self) -> Mapping[TaskId, TaskCondition]:
        return self._restarts.conditions(self._parts.launcher.task_conditions(), self._config.find)

    def connector_conditions(self) -> Mapping[str, TaskCondition]:
        return self._host.conditions()

    def with_restarts(self, status: ConnectorStatus) -> ConnectorStatus:
        entry = self._config.find(status.name)
        return status if entry is None else self._restarts.shown(entry, status)

    def loggers(self) -> Mapping[str, LoggerLevel]:
        return self._loggers.all()

    def logger(self, name: str) -> LoggerLevel:
        return self._loggers.get(name)

    def _checked(self, name: str, check: Callable[[], Result]) -> Result:
        try:
            stack = partial(self._parts.plugins.java_stack, name, None)
            return call_once(name, f"validate of connector {name}", check, self._parts.times.call_s, stack)
        except ConnectError:
            raise
        except Exception as err:  # a plugin call
            raise ConnectError(f"The checks of connector {name} failed: {type(err).__name__}: {err}") from err
