"""The thread of one connector: every call of its plugin runs there, one after the other, each with a deadline."""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from kconnect.errors import ConnectError, TimedOutError
from kconnect.logs.log_context import set_log_context
from kconnect.logs.stacks import JavaStack, ThreadPlace, place_of_call
from kconnect.logs.traces import trace_with_cause

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def trace_of(subject: str, error: BaseException) -> str:
    """The trace that the status of a `subject`, such as Connector a, shows; of a call that hangs where it is."""
    if isinstance(error, HeldUpError):
        return f"{error}\n{error.stack}"
    return trace_with_cause(subject, error)


class ConnectorRunner:
    """Runs plugin calls of one connector on their own thread, so that a call that never returns delays no other
    connector.

    States: new -> running -> closed. A call that misses its deadline leaves the runner stuck: it refuses further calls
    until that call returns. Threads: any. The thread is a daemon because a plugin that hangs cannot be ended.
    Source: WorkerConnector (Kafka 4.3), whose thread does the same.
    """

    def __init__(self, name: str, java_stack: JavaStack = lambda: None) -> None:
        """`java_stack`: as PluginRegistry.java_stack, of this connector."""
        self._name = name
        self._java_stack = java_stack
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._overdue: tuple[str, Future[Any]] | None = None  # guarded by _lock: the call that missed its deadline
        self._closed = False  # guarded by _lock

    def call(self, what: str, action: Callable[[], Result], timeout_s: float) -> Result:
        """Run `action` on the connector's thread and wait. `what` names it in errors: `start of connector X`.

        Errors: the action's own; TimedOutError with the place where the thread is stuck.
        """
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                raise ConnectError(f"Connector {self._name} is shut down")
            if self._overdue is not None and not self._overdue[1].done():
                raise TimedOutError(f"{self._overdue[0]} has still not returned, so {what} is impossible")
            self._overdue = None
            if self._thread is None:
                context = contextvars.copy_context()
                self._thread = threading.Thread(
                    target=context.run, args=(self._run,), name=f"connector-{self._name}", daemon=True
                )
                self._thread.start()
            self._calls.put((future, action))
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if future.done():  # the plugin itself raised TimeoutError, or the call returned just now
                return future.result()
            with self._lock:
                self._overdue = (what, future)
            future.cancel()
            place = place_of_call(self._thread.ident, self._java_stack)
            raise HeldUpError(what, timeout_s, place) from None

    def close(self, timeout_s: float) -> bool:
        """Take no more calls and wait for the thread. False: it hangs in a call and is abandoned."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._calls.put(None)
            thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_s)
        if thread.is_alive():
            place = place_of_call(thread.ident, self._java_stack)
            where, stack = (place.line, place.stack) if place is not None else ("its end", "")
            message = "Connector %s was abandoned: a call of its plugin does not return, it is at %s\n%s"
            log.warning(message, self._name, where, stack.rstrip())
            return False
        return True

    def _run(self) -> None:
        set_log_context(self._name)
        while (item := self._calls.get()) is not None:
            future, action = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(action())
            except BaseException as err:  # a plugin call: any error belongs to the caller, not to this thread
                future.set_exception(err)
            del future, action, item  # keep no result alive while waiting for the next call


def call_once(
    name: str, what: str, action: Callable[[], Result], timeout_s: float, java_stack: JavaStack = lambda: None
) -> Result:
    """One call of a plugin of connector `name` on its own thread. Errors: as ConnectorRunner.call."""
    runner = ConnectorRunner(name, java_stack)
    try:
        return runner.call(what, action, timeout_s)
    finally:
        runner.close(0.2)


class HeldUpError(TimedOutError):
    """A call of a connector's plugin that has not returned; `stack` is where it was then."""

    def __init__(self, what: str, timeout_s: float, place: ThreadPlace | None) -> None:
        where = f": it is at {place.line}" if place is not None else ""
        super().__init__(
            f"{what} did not return within {timeout_s:g} s{where}",
            hint="The plugin blocks. kconnect.connector.start.timeout.ms is how long a connector may take.",
        )
        self.stack = place.stack if place is not None else ""
