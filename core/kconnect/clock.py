"""Time as a dependency: code that waits or measures takes a Clock, which tests can move."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the code may ask about time."""

    def monotonic(self) -> float:
        """Monotonic seconds, for deadlines and durations."""
        ...

    def time_ms(self) -> int:
        """Milliseconds since the epoch, for records and statuses."""
        ...

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until the event is set or the time has passed; return whether it is set."""
        ...


class SystemClock:
    """The system clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(timeout_s)
