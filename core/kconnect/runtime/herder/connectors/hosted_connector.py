"""One connector instance in this worker: starts, pauses and stops it, and gets its task configs, on its own thread.

Source: WorkerConnector (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from kconnect.errors import ConnectError, TimedOutError
from kconnect.logs.redaction import redact
from kconnect.logs.stacks import JavaStack
from kconnect.model import Condition, RunState, TargetState, TaskCondition
from kconnect.runtime.config.variables import Resolved
from kconnect.runtime.herder.connectors.runner import ConnectorRunner, trace_of
from kconnect.runtime.plugins.connector_answers import checked_task_class, checked_task_configs

if TYPE_CHECKING:
    from kconnect.api import Connector, ConnectorContext

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PluginTimes:
    """How long plugin calls may take."""

    call_s: float = 90.0
    """start, task_configs, validate, alter_offsets. Java's REST requests give up after 90 s."""
    stop_s: float = 5.0
    """stop; `task.shutdown.graceful.timeout.ms`."""
    stop_margin_s: float = 1.0
    """On top of it for a worker of a cluster: the rest of a stop."""
    note_s: float = 1.0
    """How long tasks wait for a note of the values that they start with, which config providers may hold up."""


class StatusListener(Protocol):
    """Receives every state a connector reaches, in that order. Must not block, nor call the connector.

    Threads: that of the caller, or the connector's own (raise_error).
    """

    def __call__(self, state: RunState, trace: str | None = None, version: str | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class ConnectorParts:
    """What a hosted connector is made of: `make` creates an instance, `context` initializes it."""

    name: str
    make: Callable[[], Connector]
    context: Callable[[HostedConnector], ConnectorContext]
    on_status: StatusListener
    times: PluginTimes
    let_go: Callable[[], object] = lambda: None
    """Gives up what the instance has in Java, where a call hangs: the thread that waits for it comes back."""
    java_stack: JavaStack = lambda: None
    """Works as PluginRegistry.java_stack, of this connector."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A connector's answer: its task class, that class's version, and one config per task."""

    task_class: type
    version: str
    configs: list[Mapping[str, str]]


class _State(Enum):
    INIT = auto()
    STARTED = auto()
    PAUSED = auto()
    STOPPED = auto()
    FAILED = auto()


class HostedConnector:
    """States: init -> started <-> paused, stopped; failed can only be stopped or shut down; shut down at last.

    `resolve` gives the config with its references replaced, again at each start, on the connector's thread.
    Threads: one caller at a time (the herder's order of that connector); `fail` from any.
    Differs: `stop` is called for a failed connector too, so that it can release its resources.
    """

    def __init__(self, parts: ConnectorParts, resolve: Callable[[], Resolved]) -> None:
        self._parts = parts
        self._resolve = resolve
        self._resolved = Resolved({})
        self._runner = ConnectorRunner(parts.name, parts.java_stack)
        self._connector: Connector | None = None
        self._version: str | None = None
        self._must_stop = False
        self._unanswered: TaskCondition | None = None
        self._lock = threading.Lock()
        # Both are written under _lock, because `fail` comes from any thread; and states are reported under it, so that
        # the last one reported is the one that holds
        self._state = _State.INIT
        self._is_shut_down = False

    @property
    def is_running(self) -> bool:
        return self._state is _State.STARTED

    @property
    def resolved(self) -> Resolved:
        """The config it was started with last, its references replaced; empty before the first start."""
        return self._resolved

    @property
    def is_shut_down(self) -> bool:
        return self._is_shut_down

    @property
    def condition(self) -> TaskCondition | None:
        """Why a connector that is RUNNING gives no task configs; None where it does, or was not asked yet."""
        return self._unanswered if self.is_running else None

    def note_answer(self, error: ConnectError | None, now_ms: int) -> None:
        """It was asked for task configs; with an error it will be asked again."""
        if error is None:
            self._unanswered = None
            return
        before = self._unanswered
        since_ms, count = (now_ms, 0) if before is None else (before.since_ms, before.count)
        self._unanswered = TaskCondition(Condition.NO_TASK_CONFIGS, since_ms, count + 1, redact(_said(error)))

    def transition_to(self, target: TargetState) -> None:
        """Bring the connector to a state. Errors: ConnectError if that fails; its status shows why."""
        match target:
            case TargetState.STARTED:
                self._start()
            case TargetState.PAUSED:
                self._pause()
            case TargetState.STOPPED:
                self._stop()

    def task_plan(self, max_tasks: int) -> TaskPlan:
        """Returns the task class and the task configs. Errors: the connector's own, TimedOutError."""
        connector = self._connector
        if connector is None:
            raise ConnectError(f"Connector {self._parts.name} has no instance: it failed to start")
        return self._runner.call(
            f"task_configs of connector {self._parts.name}",
            lambda: _plan_of(connector, max_tasks),
            self._parts.times.call_s,
        )

    def fail(self, error: BaseException) -> None:
        """Mark the connector FAILED with this trace; the first failure is kept. Tasks are not touched."""
        with self._lock:
            if self._state is _State.FAILED or self._is_shut_down:
                return
            self._state = _State.FAILED
            trace = redact(trace_of(f"Connector {self._parts.name}", error))
            self._parts.on_status(RunState.FAILED, trace, self._version)
        log.error("Connector %s has failed", self._parts.name, exc_info=error)

    def shut_down(self) -> None:
        """Stop for good; it is abandoned if it does not stop in time. Never raises. Idempotent."""
        if self._is_shut_down:
            return
        try:
            self._stop_plugin()
        except Exception as err:  # a plugin call
            self.fail(err)
            with self._lock:
                self._is_shut_down = True
        else:
            with self._lock:
                self._is_shut_down = True
                self._parts.on_status(RunState.UNASSIGNED)
        self._close_runner(0.2)  # the call before had its deadline already

    def _start(self) -> None:
        name = self._parts.name
        if self._state is _State.STARTED:
            return
        if self._state is _State.FAILED:
            raise ConnectError(f"Connector {name} cannot be started since it has failed", hint="Restart it.")
        try:
            self._runner.call(f"start of connector {name}", self._start_plugin, self._parts.times.call_s)
        except TimedOutError as err:
            self.fail(err)
            raise
        except Exception as err:  # a plugin call
            self.fail(err)
            raise ConnectError(f"Failed to transition connector {name} to state STARTED", hint=_cause(err)) from err
        self._reach(_State.STARTED, RunState.RUNNING)

    def _start_plugin(self) -> None:
        self._resolved = self._resolve()
        connector = self._instance()
        self._must_stop = True
        connector.start(dict(self._resolved.values))

    def _instance(self) -> Connector:
        """The version is asked first, as in Java: a status has it also where the connector does not start."""
        if self._connector is None:
            connector = self._parts.make()
            self._version = connector.version()
            connector.initialize(self._parts.context(self))
            self._connector = connector
        return self._connector

    def _pause(self) -> None:
        name = self._parts.name
        if self._state is _State.PAUSED:
            return
        if self._state is _State.FAILED:
            raise ConnectError(f"Connector {name} cannot be paused since it has failed", hint="Restart it.")
        try:
            self._make_idle()
            self._stop_plugin()
        except Exception as err:  # a plugin call
            self.fail(err)
            raise ConnectError(f"Failed to transition connector {name} to state PAUSED", hint=_cause(err)) from err
        self._reach(_State.PAUSED, RunState.PAUSED)

    def _stop(self) -> None:
        """A connector that is to stop shows STOPPED whatever its stop() does."""
        if self._state is _State.STOPPED:
            return
        failed = self._state is _State.FAILED
        try:
            self._make_idle()
            self._stop_plugin()
        except Exception:  # a plugin call
            log.exception("Connector %s did not stop cleanly; it is treated as stopped", self._parts.name)
            failed = True
        if failed:
            self._discard_instance()
        with self._lock:
            self._state = _State.STOPPED
            self._parts.on_status(RunState.STOPPED, None, self._version)

    def _reach(self, state: _State, shown: RunState) -> None:
        with self._lock:
            if self._state is _State.FAILED:  # raise_error was called in the meantime
                return
            self._state = state
            self._parts.on_status(shown, None, self._version)

    def _make_idle(self) -> None:
        """Make a connector that is not to start (initial_state PAUSED or STOPPED), for its version."""
        if self._state is _State.INIT:
            self._runner.call(f"start of connector {self._parts.name}", self._instance, self._parts.times.call_s)

    def _stop_plugin(self) -> None:
        connector = self._connector
        if connector is None or not self._must_stop:
            return
        self._must_stop = False
        self._runner.call(f"stop of connector {self._parts.name}", connector.stop, self._parts.times.stop_s)

    def _discard_instance(self) -> None:
        """Use a new instance and thread for the next start: this one is broken or hangs."""
        self._close_runner(0)
        self._runner = ConnectorRunner(self._parts.name, self._parts.java_stack)
        self._connector = None

    def _close_runner(self, timeout_s: float) -> None:
        if not self._runner.close(timeout_s):
            self._parts.let_go()


def _said(error: ConnectError) -> str:
    """What a plugin raised, or what is wrong with what it gave."""
    raised = error.__cause__ or error
    return str(raised) if isinstance(raised, ConnectError) else _cause(raised)


def _cause(err: BaseException) -> str:
    return f"{type(err).__name__}: {err}"


def _plan_of(connector: Connector, max_tasks: int) -> TaskPlan:
    task_class = checked_task_class(connector, connector.task_class())
    configs = checked_task_configs(connector, connector.task_configs(max_tasks))
    return TaskPlan(task_class, _version_of(task_class, connector), configs)


def _version_of(task_class: type, connector: Connector) -> str:
    """The version of the task; that of its connector if the task cannot be created here."""
    try:
        return str(task_class().version())
    except Exception:  # a plugin call
        return connector.version()
