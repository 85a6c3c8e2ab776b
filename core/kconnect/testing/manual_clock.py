"""ManualClock: a clock that a test moves."""

from __future__ import annotations

import threading


class ManualClock:
    """Time that stands still until `advance`, or until somebody waits: a wait returns at once, later by that much.

    So a connector that polls once an hour is tested in milliseconds. Implements kconnect.clock.Clock. Threads: any.
    """

    def __init__(self, time_ms: int = 1_700_000_000_000) -> None:
        self._lock = threading.Lock()
        self._passed_s = 0.0  # guarded by _lock
        self._began_ms = time_ms
        self.waits: list[float] = []
        """Every wait so far, in seconds."""

    def monotonic(self) -> float:
        """Seconds that have passed on it."""
        with self._lock:
            return self._passed_s

    def time_ms(self) -> int:
        """Its time of day, in ms since the epoch."""
        with self._lock:
            return self._began_ms + round(self._passed_s * 1000)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Move the clock by the timeout, unless the event is set."""
        if event.is_set():
            return True
        self.waits.append(timeout_s)
        self.advance(timeout_s)
        return event.is_set()

    def advance(self, seconds: float) -> None:
        """Let time pass. Errors: ValueError for a negative time."""
        if seconds < 0:
            raise ValueError(f"Time does not go back: advance({seconds})")
        with self._lock:
            self._passed_s += seconds
