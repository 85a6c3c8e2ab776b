"""When a source task has nothing more to give: what it waits with tells."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

# An empty poll that is as quick as this did not look for long: there is nothing
_AT_ONCE_S: Final = 0.005
# How many times longer a task may be slow and empty before its first record
_SLOW_FACTOR: Final = 30


class Idleness:
    """Implements WorkWaits. Threads: the task's; `wake` and `stop` any.

    A task that gives nothing for `end_after(idle_s)` is at its end. That looks like a stop: its wait returns True and
    poll() comes back. What waits in `wait_for_work`, or comes back empty at once, has nothing. A poll that is slow and
    empty may be busy before the first record, as with a query that has no row yet, and gets more time; behind records
    it is one that waits for more, as polls of Java's do (a file source of Java's for a second).
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards what stands below
        self._is_woken = False
        self._is_stopping = False
        self._idle_since: float | None = None
        self._idle_s: float | None = None
        self._empty_since: float | None = None
        self._has_given = False
        self._failing_until = float("inf")

    # --- for the task ---

    def wait_for_work(self, timeout_s: float) -> bool:
        with self._changed:
            self._begin_idling()
            deadline = min(time.monotonic() + timeout_s, self._failing_until)
            while not (self._is_woken or self.is_at_end):
                left = min(deadline, self._end_at()) - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._is_woken = False
            return self.is_at_end

    def wake(self) -> None:
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    # --- for the runtime ---

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_at_end(self) -> bool:
        """Whether the task must stop, or has given nothing for so long that a bounded read ends."""
        return self._is_stopping or time.monotonic() >= self._end_at()

    @property
    def is_idle(self) -> bool:
        """Whether the task said that there is nothing: poll() came back empty, or waits."""
        return self._idle_since is not None

    def pause(self, timeout_s: float) -> bool:
        """Wait between retries, which is no idling. True when the task must stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, timeout_s)
            return self._is_stopping

    def end_after(self, idle_s: float | None) -> None:
        """End once the task has given nothing for so long."""
        with self._changed:
            self._idle_s = idle_s
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def fails_until(self, deadline_s: float) -> None:
        """poll() failed and is repeated until then: a wait is no idling now, and is over then. inf: it went well."""
        with self._changed:
            self._failing_until = deadline_s
            if deadline_s < float("inf"):
                self._idle_since = self._empty_since = None

    def gave(self, *, any_records: bool, took_s: float) -> None:
        """poll() came back."""
        with self._changed:
            if any_records:
                self._idle_since = self._empty_since = None
                self._has_given = True
            elif took_s < _AT_ONCE_S:
                self._begin_idling()
            elif self._empty_since is None:
                self._empty_since = time.monotonic()

    def _begin_idling(self) -> None:
        if self._idle_since is None and self._failing_until == float("inf"):
            self._idle_since = time.monotonic()

    def _end_at(self) -> float:
        if self._idle_s is None:
            return float("inf")
        idle = float("inf") if self._idle_since is None else self._idle_since + self._idle_s
        slow_s = self._idle_s if self._has_given else self._idle_s * _SLOW_FACTOR
        slow = float("inf") if self._empty_since is None else self._empty_since + slow_s
        return min(idle, slow)


def is_empty(polled: Any) -> bool:
    """Whether a poll gave nothing."""
    return polled is None or len(polled) == 0
