"""One task and its thread: builds the loop, runs it, reports how it ended.

TaskWatch observes a task from outside, names calls that hang, and gives the task's condition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from kconnect.errors import ConnectError
from kconnect.logs import redaction
from kconnect.logs.log_context import set_log_context
from kconnect.logs.redaction import redact
from kconnect.logs.stacks import JavaStack, place_in_java, place_of_call, place_of_thread
from kconnect.logs.traces import trace_with_cause, what_failed
from kconnect.model import RunState, TargetState, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.config.variables import plain_names, secret_values
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.build import build_loop
from kconnect.runtime.pipeline.health import Call
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.stages import StageError

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry


log = logging.getLogger(__name__)


class TaskLoop(Protocol):
    """The data path of one task. All three are called on the task's own thread."""

    def start(self) -> None:
        """Give the plugin its context and config. From then on close() calls the plugin's stop().

        Not called for a task that is stopped before.
        """
        ...

    def run(self) -> None:
        """Move records until asked to stop; commits completed work before it returns or raises."""
        ...

    def close(self) -> None:
        """Stop the plugin and close clients and stages. Called exactly once, also after a failure."""
        ...


class TaskThread:
    """A Connect task on its own thread.

    Lifecycle: constructed (no effect) -> start() -> RUNNING | PAUSED -> STOPPED | FAILED. A task that starts PAUSED
    builds nothing until it is resumed. An abandoned task (join() was False, then cancel()) is fenced off: its thread
    may keep running, but reports, produces and commits nothing.
    Errors: whatever the plugin raises ends this task as FAILED with its trace, and nothing else.
    Source: o.a.k.connect.runtime.WorkerTask (Kafka 4.3).
    Differs: Java only logs an error raised in the task's stop(); here it is FAILED with its trace.
    """

    def __init__(
        self,
        spec: TaskSpec,
        ports: TaskPorts,
        build: Callable[[TaskControl, TaskPorts], TaskLoop] = build_loop,
    ) -> None:
        self.spec = spec
        self._ports = ports
        self._build = build
        self._control = TaskControl(spec, ports)
        # Before anything can hang in Java; later it could meet what the next run of the task has there
        self._control.when_cancelled(lambda: ports.plugins.abandon(spec.id.connector, spec.id.task))
        # Daemon: a plugin that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=f"task-{spec.id}", daemon=True)
        self._watch = TaskWatch(
            self._control, self._thread, lambda: ports.plugins.java_stack(spec.id.connector, spec.id.task)
        )

    @property
    def id(self) -> TaskId:
        return self.spec.id

    @property
    def state(self) -> RunState:
        """The state reported last; UNASSIGNED before the first report."""
        return self._control.state

    @property
    def thread_id(self) -> int | None:
        """The system's number of its thread; None before it begins."""
        return self._thread.native_id

    def counter_snapshot(self) -> TaskCounters:
        """A copy of its counters so far."""
        return self._control.counter_snapshot()

    def look(self) -> TaskCondition | None:
        """Its condition now; None once it has ended. Threads: one at a time, not the task's own."""
        return self._watch.look()

    def where(self) -> str:
        """What its thread is doing, as a sentence for logging when a wait for it is given up."""
        return self._watch.where()

    def start(self) -> None:
        self._thread.start()

    def request_stop(self, *, is_cut_off: bool = False) -> None:
        """Ask the task to finish; returns at once. `is_cut_off`: as of `TaskControl`."""
        self._control.stop(is_cut_off=is_cut_off)

    def pause(self) -> None:
        self._control.set_target(TargetState.PAUSED)

    def resume(self) -> None:
        self._control.set_target(TargetState.STARTED)

    def forget_topics(self) -> None:
        """Report each topic used from now on again."""
        self._control.forget_topics()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; True when the thread has ended (or never began)."""
        if self._thread.ident is None:
            return True
        self._thread.join(max(timeout_s, 0))
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Fence the task off: whenever it ends, nothing is reported."""
        self._control.cancel()

    def _run(self) -> None:
        control = self._control
        set_log_context(self.spec.id.connector, self.spec.id.task)
        try:
            self._start_and_run()
        except BaseException as failure:  # the thread's top: the plugin is guilty, the worker lives on
            control.stop()
            with control.in_stage(failure.log_stage if isinstance(failure, ConnectError) else None):
                self._log_failure(failure)
            control.report(RunState.FAILED, failure_text(self.spec.id, failure))
        else:
            control.stop()
            control.report(RunState.STOPPED)

    def _log_failure(self, failure: BaseException) -> None:
        if self._control.is_cancelled:
            log.warning("Task %s, abandoned earlier, has now ended with an error", self.spec.id, exc_info=failure)
        else:
            what = what_failed(failure)
            log.error("Task %s failed: %s", self.spec.id, what, exc_info=failure)

    def _start_and_run(self) -> None:
        control = self._control
        if control.should_pause:
            control.report(RunState.PAUSED)
            control.await_resume()
        if control.is_stopping:
            return
        control.spec = resolved_spec(control.spec, self._ports.plugins)
        if control.is_stopping:
            return
        loop = self._build(control, self._ports)
        try:
            if control.is_stopping:  # or given up: another run may have begun elsewhere
                return
            loop.start()
            control.report(RunState.RUNNING)
            loop.run()
        finally:
            loop.close()


def resolved_spec(spec: TaskSpec, plugins: PluginRegistry) -> TaskSpec:
    """The same task with references resolved; from now on this process hides their secrets in logs and traces.

    Source: Worker.startTask, ClusterConfigState.taskConfig (Kafka 4.3), which resolve just before a task starts.
    Errors: ConfigError that names the reference, the connector or worker, and what to do.
    """
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(spec.worker_config, plugins)
    try:
        worker = variables.resolve(spec.worker_config, "the worker")
        connector = variables.resolve(spec.connector_config, f"connector {spec.id.connector}")
        task = variables.resolve(spec.task_config, f"task {spec.id}")
    finally:
        variables.close()
    passwords = plugins.password_keys(connector.values)
    redaction.remember(
        f"task {spec.id}",
        {
            *secret_values(worker.values),
            *secret_values(connector.values, passwords),
            *secret_values(task.values, passwords),
            *(value for resolved in (worker, connector, task) for value in resolved.references),
        },
        {spec.id.connector, *plain_names(spec.connector_config, passwords)},
    )
    return replace(spec, worker_config=worker.values, connector_config=connector.values, task_config=task.values)


def failure_text(task_id: TaskId, failure: BaseException) -> str:
    """The trace shown by REST: one line with what failed, where, the root cause and a hint, then the traceback.

    For a failed record the line leads with the root cause and the record's coordinates.
    """
    since = f" Since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC." if isinstance(failure, StageError) else ""
    return trace_with_cause(f"Task {task_id}", failure, since)


_ENDED = frozenset({RunState.FAILED, RunState.STOPPED})


class TaskWatch:
    """Threads: one at a time, never the task's own, which may be blocked."""

    def __init__(self, control: TaskControl, thread: threading.Thread, java_stack: JavaStack) -> None:
        """`java_stack`: as PluginRegistry.java_stack, of this task."""
        self._control = control
        self._thread = thread
        self._java_stack = java_stack
        self._named: Call | None = None
        self._asked: Call | None = None
        """The call of which Java was asked where it is."""

    def look(self) -> TaskCondition | None:
        """The condition now; None once the task has ended. Logs an overdue call once, and again when it returns."""
        if self._control.state in _ENDED or self._control.is_cancelled:
            return None
        now_s, health = time.monotonic(), self._control.health
        if self._named is not None and health.call is not self._named:
            self._tell_return(self._named, now_s)
            self._named = None
        call = health.overdue(now_s)
        if call is not None:
            self._name(call, now_s)
        found = health.look(now_s)
        return found if found.cause is None else replace(found, cause=redact(found.cause))

    def where(self) -> str:
        """Where the task's thread is, as a sentence for logging when a wait for it is given up."""
        call, place = self._control.health.call, place_of_call(self._thread.ident, self._java_stack)
        if place is None:
            return "its thread has since ended"
        if call is None:
            return f"its thread is at {place.line}"
        return f"{call[0]} has not returned for {time.monotonic() - call[1]:.0f} s, at {place.line}"

    def _name(self, call: Call, now_s: float) -> None:
        place = place_of_thread(self._thread.ident)
        if place is not None:
            java = self._java_stack()
            if java == [] and self._asked is not call:
                self._asked = call
                return  # Java has answered by the next look, unless it is frozen
            if java:
                place = place_in_java(java)
        if place is None or self._control.health.call is not call:
            return
        name, began_s = call
        cause = redact(f"{name} has not returned: it is at {place.line}")
        self._control.health.named(call, cause, redact(place.stack))
        if self._named is call:
            return
        self._named = call
        with self._control.in_stage(None):
            log.warning(
                "%s has not returned for %.1f s, at %s. Until it does, the task can do nothing else, not even pause or "
                "stop. If poll() may wait this long for something to read, raise kconnect.task.stuck.after.ms.\n%s",
                name,
                now_s - began_s,
                place.line,
                place.stack.rstrip(),
            )

    def _tell_return(self, call: Call, now_s: float) -> None:
        name, began_s = call
        with self._control.in_stage(None):
            log.info("%s has returned after %.1f s", name, now_s - began_s)
