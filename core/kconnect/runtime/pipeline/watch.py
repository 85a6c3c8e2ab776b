"""TaskWatch: observes a task from outside, names calls that hang, and gives the task's condition."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from kconnect.logs.redaction import redact
from kconnect.logs.stacks import place_in_java, place_of_thread
from kconnect.model import RunState, TaskCondition
from kconnect.runtime.pipeline.health import Call
from kconnect.runtime.pipeline.ports import TaskControl

log = logging.getLogger(__name__)

_ENDED = frozenset({RunState.FAILED, RunState.STOPPED})


class TaskWatch:
    """Threads: one at a time, never the task's own, which may be blocked."""

    def __init__(
        self, control: TaskControl, thread: threading.Thread, java_stack: Callable[[], list[str] | None]
    ) -> None:
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
        call, place = self._control.health.call, place_of_thread(self._thread.ident)
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
