"""What a task needs from its surroundings: the ports its host provides, and its own control."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api.config_parse import parse_type
from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConfigError
from kconnect.logs.log_context import log_context
from kconnect.logs.redaction import redact
from kconnect.model import ConnectorOffset, RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.config.worker_config import KCONNECT_CONFIG, STANDALONE_CONFIG
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.health import HealthSettings, TaskHealth
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

log = logging.getLogger(__name__)


class OffsetPort(Protocol):
    """Where a task reads and commits source offsets. Threads: any; every call blocks and has a deadline."""

    def read(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Committed offsets, one for each partition asked for, None where there is none."""
        ...

    def commit(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Make offsets durable; returns once they are. Errors: ConnectError when they are not, or not in time."""
        ...


class WorkWaits(Protocol):
    """What a source task waits with while it has nothing to give. TaskControl is one."""

    def wait_for_work(self, timeout_s: float) -> bool:
        """Wait for `wake`, or for a stop; returns whether the task must stop. Threads: the task's."""
        ...

    def wake(self) -> None:
        """There is work: a wait ends, also one that has yet to begin. Threads: any."""
        ...


class Ticket(Protocol):
    """A registered timer."""

    def cancel(self) -> None:
        """No call becomes due after this; one that is about to begin may still run. Idempotent; waits for no call."""
        ...


class Housekeeping(Protocol):
    """Timers of many tasks on one thread."""

    def every(self, interval_s: float, tick: Callable[[], None], name: str) -> Ticket:
        """Call `tick` each `interval_s` on the housekeeping thread. An exception is logged and the timer continues."""
        ...


def tell_nobody(task_id: TaskId, topic: str) -> None:
    """Ignores used topics, for hosts that do not track them."""


def let_all_run(task_id: TaskId, run: int) -> None:
    """Lets every task run, for hosts whose tasks cannot run elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPorts:
    """All a task may ask of its host."""

    report: Callable[[TaskId, int, RunState, str | None], None]
    """A state was reached: task, run, state, trace. RUNNING, PAUSED, STOPPED (ended as asked) or FAILED.

    Called from the task's thread; must be quick and must not raise.
    """
    offsets: OffsetPort
    reconfigure: Callable[[str], None]
    """The connector of this name requests task reconfiguration."""
    housekeeping: Housekeeping
    plugins: PluginRegistry
    topic_used: Callable[[TaskId, str], None] = tell_nobody
    """A task has written to a topic, or read from it; called once each. Threads: any; must be quick and not raise."""
    may_run: Callable[[TaskId, int], None] = let_all_run
    """Whether this run of an exactly-once task is still current, called once it could write; blocks, has a deadline.

    Errors: ConnectError when it is not, or that cannot be determined.
    """
    clock: Clock = field(default_factory=SystemClock)


class TaskControl:
    """Controls one task: its target state and its reports. Safe from any thread.

    Once cancelled the task is fenced off: it reports nothing more, and its loop produces and commits nothing more.
    Source: the state fields of o.a.k.connect.runtime.WorkerTask.
    """

    def __init__(self, spec: TaskSpec, ports: TaskPorts) -> None:
        self.spec = spec
        self.counters = TaskCounters()
        self.monitor = PluginMonitor(spec.id)
        now_s = time.monotonic()
        self.health = TaskHealth(health_settings(spec), now_s, (time.time() - now_s) * 1000)
        self._counted = TaskCounters()
        self._counts: list[Callable[[TaskCounters], None]] = []
        self._ports = ports
        self._changed = threading.Condition()  # guards what stands below
        self._stopping = threading.Event()
        self._woken = False
        self._cancelled = False
        self._is_cut_off = False
        self._target = spec.target_state
        self._seen = spec.target_state  # the wish the loop acts on; the task's thread only
        self._state = RunState.UNASSIGNED
        self._cancel_hooks: list[Callable[[], None]] = []
        tracking = spec.worker_config.get("topic.tracking.enable") or "true"
        self._tracks_topics = tracking.strip().lower() != "false"
        self._reported_topics: set[str] = set()  # no lock: a topic reported twice does no harm

    def count_with(self, count: Callable[[TaskCounters], None]) -> None:
        """Register `count` to complete the counters before each read; called on other threads, must be quick."""
        self._counts.append(count)

    def counter_snapshot(self) -> TaskCounters:
        """A copy of the counters, complete; the same as last time if nothing has moved. Threads: one at a time."""
        counters = self.counters
        for count in self._counts:
            count(counters)
        counters.plugins = self.monitor.registry.values()
        # Of a thousand idle tasks each is looked at every second: a copy costs 30 us, to see that none is needed 4
        if counters != self._counted or counters.has_new_maxima:
            self._counted = counters.snapshot()
        return self._counted

    @property
    def state(self) -> RunState:
        """The state reported last; UNASSIGNED before the first report."""
        return self._state

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    @property
    def is_cut_off(self) -> bool:
        """Whether it stops because it may soon run elsewhere: the plugin stops first, the rest is committed after."""
        return self._is_cut_off

    @property
    def should_pause(self) -> bool:
        """Whether the task should be paused now; from here on a wait ends when that changes. Threads: the task's."""
        self._seen = self._target
        return self._seen is TargetState.PAUSED

    def stop(self, *, is_cut_off: bool = False) -> None:
        with self._changed:
            self._is_cut_off |= is_cut_off
            self._stopping.set()
            self._changed.notify_all()

    def cancel(self) -> None:
        with self._changed:
            self._cancelled = True
            self._stopping.set()
            self._changed.notify_all()
            hooks, self._cancel_hooks = self._cancel_hooks, []
        for hook in hooks:
            hook()

    def when_cancelled(self, hook: Callable[[], None]) -> None:
        """Call `hook` once when the task is fenced off, on the host's thread, or now if it is; it must be quick.

        Errors: none may come from it.
        """
        with self._changed:
            if not self._cancelled:
                self._cancel_hooks.append(hook)
                return
        hook()

    def set_target(self, target: TargetState) -> None:
        """Set the target state; STOPPED is the same as stop(). Ignored once stopping."""
        with self._changed:
            if self._stopping.is_set():
                return
            self._target = target
            if target is TargetState.STOPPED:
                self._stopping.set()
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a stop or another target state (a pause); returns whether the task must stop.

        A change since the loop last checked `should_pause` ends the wait at once; each change ends one wait, so that
        a loop which waits several times before it looks again does not spin.
        """
        with self._changed:
            self._changed.wait_for(self._is_wished_anew, timeout_s)
            self._seen = self._target
            return self._stopping.is_set()

    def wait_for_work(self, timeout_s: float) -> bool:
        """Like `wait`, but `wake` ends it too, even one that came before this call."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or self._is_wished_anew(), timeout_s)
            self._woken = False
            self._seen = self._target
            return self._stopping.is_set()

    def _is_wished_anew(self) -> bool:
        return self._stopping.is_set() or self._target is not self._seen

    def wake(self) -> None:
        """There is work. Threads: any."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def await_resume(self) -> bool:
        """Block while paused. False when the task must stop instead of resuming."""
        with self._changed:
            while self._target is TargetState.PAUSED and not self._stopping.is_set():
                self._changed.wait(timeout=60)  # a lost notification costs a minute at most
            self._seen = self._target
            return not self._stopping.is_set()

    def used_topics(self, topics: Iterable[str]) -> None:
        """Report topics with acknowledged or converted records to the host; each once until `forget_topics`."""
        if not self._tracks_topics:
            return
        for topic in topics:
            # A record without topic, or with something else as its topic, is refused by the producer
            if isinstance(topic, str) and topic and topic not in self._reported_topics and not self._cancelled:
                self._reported_topics.add(topic)
                self._ports.topic_used(self.spec.id, topic)

    def forget_topics(self) -> None:
        """Report every topic used from now on again."""
        self._reported_topics = set()

    def in_stage(self, stage: str | None) -> AbstractContextManager[None]:
        """A block whose log lines name a stage of this task. For errors only, never per record."""
        return log_context(self.spec.id.connector, self.spec.id.task, stage)

    def report_paused(self) -> None:
        self.report(RunState.PAUSED)

    def report_running(self) -> None:
        self.report(RunState.RUNNING)

    def report(self, state: RunState, trace: str | None = None) -> None:
        """Report a state to the host, once per change and never once cancelled. Hides secrets."""
        with self._changed:
            if self._cancelled or (state is self._state and trace is None):
                return
            self._state = state
        self._ports.report(self.spec.id, self.spec.run, state, None if trace is None else redact(trace))


def health_settings(spec: TaskSpec) -> HealthSettings:
    """When the task counts as stuck, as lagging, as late with a commit.

    An invalid value in the connector config is logged and ignored: monitoring settings must not fail a task.
    """
    return HealthSettings(
        stuck_after_s=_seconds(spec, "kconnect.task.stuck.after.ms"),
        lagging_after_s=_seconds(spec, "kconnect.task.lagging.after.ms"),
        commit_late_after_s=_seconds(spec, "offset.flush.timeout.ms", is_connectors=False),
    )


def _seconds(spec: TaskSpec, name: str, *, is_connectors: bool = True) -> float:
    table = KCONNECT_CONFIG if name in KCONNECT_CONFIG.config_keys else STANDALONE_CONFIG
    key = table.config_keys[name]
    sources = [spec.connector_config, spec.worker_config] if is_connectors else [spec.worker_config]
    for config in sources:
        if name in config:
            try:
                value = parse_type(name, config[name], key.type)
                if key.validator is not None:
                    key.validator.ensure_valid(name, value)
                return float(value) / 1000
            except ConfigError as error:
                log.warning("%s; it has no effect on task %s", error, spec.id)
    return float(key.default) / 1000
