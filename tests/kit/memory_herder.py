"""A Herder without tasks, threads or Kafka: what REST and the command line are tested against."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.api.config_key import NO_DEFAULT
from kconnect.api.configdef import ConfigDef
from kconnect.client.outage import Outage
from kconnect.errors import AlreadyExistsError, BadRequestError, NotFoundError
from kconnect.logs.log_context import LoggerLevel
from kconnect.logs.log_tail import LogTail
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TargetState,
    TaskId,
    TaskInfo,
    TaskState,
)
from kconnect.runtime.herder.decisions.etags import require_config, require_offsets_match, tags_of_offsets
from kconnect.runtime.herder.decisions.restart_plan import restart_plan
from kconnect.runtime.herder.health.reasons import Reason
from kconnect.runtime.herder.interface import PluginDescription, ServerInfo, SlotInfo
from kconnect.runtime.herder.validation.config_infos import ConfigInfo, ConfigInfos
from kconnect.runtime.metrics.history import History

NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
    "connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
)
_FRAME = (
    "Connector configuration is invalid and contains the following 1 error(s):\n{}\nYou can also find the above list "
    "of errors at the endpoint `/connector-plugins/{{connectorType}}/config/validate`"
)


_T = ConfigDef.Type
_I = ConfigDef.Importance
PLUGIN_TABLE = (
    ConfigDef()
    .define("connector.class", _T.STRING, "", None, _I.HIGH, "Class of the connector.")
    .define("topic", _T.STRING, NO_DEFAULT, None, _I.HIGH, "Topic to write to.")
    .define("batch.size", _T.INT, 2000, ConfigDef.Range.at_least(1), _I.LOW, "Lines at once.")
    .define("pin", _T.PASSWORD, None, None, _I.LOW, "A secret that its name does not give away.")
)


@dataclass
class _Connector:
    config: dict[str, str]
    state: TargetState
    has_tasks: bool
    offsets: dict[tuple, ConnectorOffset] = field(default_factory=dict)


class MemoryHerder:
    """Keeps connectors in a dict; every connector has one task while it is not stopped."""

    def __init__(self, worker_id="127.0.0.1:8083", version="4.3.0"):
        self.worker_id = worker_id
        self.peer_key: bytes | None = None
        """What workers of one cluster share."""
        self.version = version
        self.ready = True
        self.opened = True
        self.reasons: list[Reason] = []
        self.reported: list[str] = []
        """Why it is not healthy."""
        self.kafka_away: Outage | None = None
        self.known = {}
        self.calls = []
        self.failures = {}
        """Method name -> exception to raise from it."""
        self.gate = threading.Event()
        """While it is not set, every call of a method named in `held` waits."""
        self.held = set()
        self.conditions = {}
        self.own_conditions = {}
        self.hour = History()
        self.lags = {}
        """Connector -> how far it is behind."""
        self.tail = LogTail()
        self.spark = None
        self.traces = {}
        """Connector -> trace with which its task is FAILED; a restart takes it away."""
        self.unassigned = set()
        """Connectors whose task waits for its slot."""
        self.topics = {}
        self.levels = {"root": LoggerLevel("INFO", None)}

    def _called(self, method, *arguments):
        self.calls.append((method, *arguments))
        if method in self.held:
            self.gate.wait(30)
        if method in self.failures:
            raise self.failures[method]

    def _get(self, name, message="Connector {} not found"):
        if name not in self.known:
            raise NotFoundError(message.format(name))
        return self.known[name]

    def server_info(self):
        self._called("server_info")
        return ServerInfo("4.3.0", "abc", "cluster")

    def is_ready(self):
        self._called("is_ready")
        return self.ready

    def is_open(self):
        if "is_open" in self.failures:
            raise self.failures["is_open"]
        return self.opened

    def health(self):
        self._called("health")
        return self.reasons

    def notices(self):
        return self.reported

    def outage(self):
        return self.kafka_away

    def connectors(self):
        self._called("connectors")
        return sorted(self.known)

    def metrics(self):
        self._called("metrics")
        return []

    def slots(self):
        self._called("slots")
        return [SlotInfo(0, True, "localhost", 1, (TaskId("a/b", 0),))]

    def task_conditions(self):
        self._called("task_conditions")
        return dict(self.conditions)

    def connector_conditions(self):
        self._called("connector_conditions")
        return dict(self.own_conditions)

    def with_restarts(self, status):
        return status

    def rebalances(self):
        self._called("rebalances")
        return []

    def trace(self, since=None):
        self._called("trace", since)
        return {"format": 1, "last": 7, "entries": []}

    def connector_info(self, name) -> ConnectorInfo:
        self._called("connector_info", name)
        connector = self._get(name)
        tasks = (TaskId(name, 0),) if connector.has_tasks else ()
        return ConnectorInfo(name, connector.config, tasks, _type(connector))

    def connector_config(self, name):
        self._called("connector_config", name)
        return self._get(name).config

    def connector_status(self, name) -> ConnectorStatus:
        self._called("connector_status", name)
        connector = self._get(name, "No status found for connector {}")
        state = {TargetState.STARTED: RunState.RUNNING, TargetState.PAUSED: RunState.PAUSED}.get(
            connector.state, RunState.STOPPED
        )
        trace = self.traces.get(name)
        of_task = RunState.UNASSIGNED if name in self.unassigned else RunState.FAILED if trace else state
        task = TaskState(0, of_task, self.worker_id, trace, self.version)
        tasks = (task,) if connector.has_tasks else ()
        return ConnectorStatus(
            name, ConnectorState(state, self.worker_id, version=self.version), tasks, _type(connector)
        )

    def task_infos(self, name):
        self._called("task_infos", name)
        connector = self._get(name)
        task_class = f"org.apache.kafka.connect.file.{connector.config['connector.class']}Task"
        config = {**connector.config, "task.class": task_class}
        return [TaskInfo(TaskId(name, 0), config)] if connector.has_tasks else []

    def task_status(self, task_id) -> TaskState:
        self._called("task_status", task_id)
        if task_id.connector in self.known:
            for task in self.connector_status(task_id.connector).tasks:
                if task.id == task_id.task:
                    return task
        raise NotFoundError(f"No status found for task {task_id}")

    def put_connector(self, name, config: Mapping[str, str], *, initial_state=None, replace, expected=None):
        self._called("put_connector", name)
        require_config(expected, name, self.known[name].config if name in self.known else None)
        if not replace and name in self.known:
            raise AlreadyExistsError(f"Connector {name} already exists")
        if not name:
            raise BadRequestError(_FRAME.format("Invalid value  for configuration name: String may not be empty"))
        if config["connector.class"] == "FileStreamSource" and "topic" not in config:
            raise BadRequestError(_FRAME.format('Missing required configuration "topic" which has no default value.'))
        old = self.known.get(name)
        state = initial_state or (old.state if old else TargetState.STARTED)
        has_tasks = old.has_tasks if old else state is TargetState.STARTED
        self.known[name] = _Connector(dict(config), state, has_tasks, old.offsets if old else {})
        return old is None, self.connector_info(name)

    def create_with_offsets(self, name, config: Mapping[str, str], offsets, *, initial_state=None):
        self._called("create_with_offsets", name)
        info = self.put_connector(name, config, initial_state=initial_state, replace=False)[1]
        self.known[name].offsets = {tuple(sorted(item.partition.items())): item for item in offsets}
        return info, "The offsets for this connector have been altered successfully"

    def patch_connector(self, name, changes, *, expected=None):
        self._called("patch_connector", name, dict(changes))
        patched = {**self._get(name).config, **changes}
        config = {key: value for key, value in patched.items() if value is not None}
        return self.put_connector(name, config, replace=True, expected=expected)[1]

    def delete_connector(self, name, *, expected=None):
        self._called("delete_connector", name)
        require_config(expected, name, self._get(name).config)
        del self.known[name]

    def set_target_state(self, name, state):
        self._called("set_target_state", name, state)
        connector = self._get(name, "Unknown connector {}")
        connector.state = state
        if state is not TargetState.PAUSED:
            connector.has_tasks = state is TargetState.STARTED

    def restart_connector(self, name):
        self._called("restart_connector", name)
        self._get(name, "Unknown connector: {}")

    def restart_by_plan(self, name, *, include_tasks, only_failed):
        self._called("restart_by_plan", name, include_tasks, only_failed)
        self._get(name, "Unknown connector: {}")
        plan = restart_plan(self.connector_status(name), include_tasks=include_tasks, only_failed=only_failed)
        self.traces.pop(name, None)
        return plan.status

    def restart_task(self, task_id):
        self._called("restart_task", task_id)
        connector = self._get(task_id.connector, "Unknown connector: {}")
        if task_id.task != 0 or not connector.has_tasks:
            raise NotFoundError(f"Task {task_id} not found")
        self.traces.pop(task_id.connector, None)

    def request_task_reconfiguration(self, name):
        self._called("request_task_reconfiguration", name)

    def peer_signature(self, message):
        return None if self.peer_key is None else hmac.digest(self.peer_key, message, "sha256")

    def check_peer(self, signature, *, always=False):
        self._called("check_peer", signature)

    def put_task_configs(self, name, configs):
        self._called("put_task_configs", name, configs)
        raise BadRequestError("no cluster")

    def fence_zombies(self, name):
        self._called("fence_zombies", name)
        raise BadRequestError("no cluster")

    def connector_offsets(self, name):
        self._called("connector_offsets", name)
        return list(self._get(name).offsets.values())

    def alter_connector_offsets(self, name, offsets: Sequence[ConnectorOffset], *, expected=None):
        self._called("alter_connector_offsets", name)
        connector = self._stopped(name, expected)
        for offset in offsets:
            key = tuple(sorted(offset.partition.items()))
            if offset.offset is None:
                connector.offsets.pop(key, None)
            else:
                connector.offsets[key] = offset
        return "The offsets for this connector have been altered successfully"

    def reset_connector_offsets(self, name, *, expected=None):
        self._called("reset_connector_offsets", name)
        self._stopped(name, expected).offsets.clear()
        return "The offsets for this connector have been reset successfully"

    def connector_plugins(self, connectors_only=True):
        self._called("connector_plugins", connectors_only)
        found = [PluginDescription("kconnect.FileStreamSource", "source", "4.3.0", "/plugins/files")]
        return found if connectors_only else [*found, PluginDescription("kconnect.StringConverter", "converter", None)]

    def connector_topics(self, name):
        self._called("connector_topics", name)
        self._get(name)
        return list(self.topics.get(name, ()))

    def reset_connector_topics(self, name):
        self._called("reset_connector_topics", name)
        self._get(name)
        self.topics.pop(name, None)

    def plugin_config(self, plugin, version=None):
        self._called("plugin_config", plugin)
        if plugin not in ("FileStreamSource", "FileStreamSink", "Stamp$Value"):
            raise NotFoundError(f"Unknown plugin {plugin}.")
        return PLUGIN_TABLE.sorted_keys()

    def validate_config(self, config):
        self._called("validate_config", dict(config))
        values = PLUGIN_TABLE.validate(config)
        errors = sum(len(value.error_messages) for value in values)
        keys = PLUGIN_TABLE.config_keys
        infos = tuple(ConfigInfo(keys[value.name], value) for value in values)
        return ConfigInfos(config["connector.class"], errors, (), infos)

    def runtime(self):
        return self.spark

    def sink_lag(self, name):
        self._called("sink_lag", name)
        return self.lags.get(name)

    def webhooks(self):
        self._called("webhooks")
        return []

    def history(self):
        self._called("history")
        return self.hour

    def moves(self):
        return {}

    def log_tail(self):
        return self.tail

    def loggers(self):
        self._called("loggers")
        return dict(self.levels)

    def logger(self, name):
        self._called("logger", name)
        if name not in self.levels:
            raise NotFoundError(f"Logger {name} not found.")
        return self.levels[name]

    def set_logger(self, name, level, *, whole_cluster):
        self._called("set_logger", name, level, whole_cluster)
        self.levels[name] = LoggerLevel("DEBUG", 1)
        return [name]

    def _stopped(self, name, expected=None):
        connector = self._get(name)
        if connector.state is not TargetState.STOPPED:
            raise BadRequestError(NOT_STOPPED.format(name=name))
        tags = tags_of_offsets(expected, name, connector.config)
        require_offsets_match(tags, name, list(connector.offsets.values()))
        return connector


def _type(connector):
    return ConnectorType.SINK if "Sink" in connector.config["connector.class"] else ConnectorType.SOURCE


def file_source(**more):
    """A valid config of a file source."""
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/in.txt", "topic": "t", **more}
