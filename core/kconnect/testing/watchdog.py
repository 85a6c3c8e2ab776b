"""Runs plugin calls on a thread of their own, and stops waiting for one that does not return."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from kconnect.testing.plugin_calls import PluginCalls, hang_of

# Poll interval: how much later than its timeout a hang is noticed.
_LOOK_S = 0.05
# A call that only starts has this long in any case: `--timeout 0.1` is about waiting, not about slow machines.
_LEAST_CALL_S = 2.0
# After `cut_short` a poll() that waits in context.wait returns at once; this is for what it does then.
_GRACE_S = 1.0


class Watchdog:
    """Each call may take `call_s`; those of `allow` until a time that they share. Threads: the caller's, and one more.

    The thread is a daemon: a call that hangs cannot be ended, only left.
    """

    def __init__(self, calls: PluginCalls, call_s: float) -> None:
        self._calls = calls
        self._call_s = max(call_s, _LEAST_CALL_S)
        self._until: dict[str, float] = {}  # method -> monotonic; written by the watched thread

    def allow(self, method: str, seconds: float) -> float:
        """Calls of this method may take until so many seconds from now; gives that moment (monotonic)."""
        self._until[method] = time.monotonic() + seconds
        return self._until[method]

    def run(self, action: Callable[[], None], cut_short: Callable[[], None]) -> None:
        """Run `action` to its end. `cut_short` ends waits in `context.wait`.

        Errors: what the action raises; LateCallError for a call that does not return.
        """
        future: Future[None] = Future()
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(_into, future, action), name="plugin-calls", daemon=True)
        thread.start()
        try:
            self._wait(future, thread, cut_short)
        except KeyboardInterrupt:
            cut_short()
            thread.join(_GRACE_S)
            raise

    def _wait(self, future: Future[None], thread: threading.Thread, cut_short: Callable[[], None]) -> None:
        is_cut_short = False
        while True:
            thread.join(_LOOK_S)
            if future.done():
                return future.result()
            call = self._calls.current
            if call is None:
                continue
            waits = call.method in self._until
            late_s = time.monotonic() - (self._until[call.method] if waits else call.since_s + self._call_s)
            if late_s > 0 and waits and not is_cut_short:
                cut_short()
                is_cut_short = True
            if late_s > (_GRACE_S if waits else 0.0):
                raise hang_of(call, thread.ident, time.monotonic() - call.since_s)


def _into(future: Future[None], action: Callable[[], None]) -> None:
    try:
        action()
    except BaseException as error:  # a plugin call: the caller's
        future.set_exception(error)
    else:
        future.set_result(None)
