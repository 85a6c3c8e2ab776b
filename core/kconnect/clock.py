"""Time as a dependency: code that waits or measures takes a Clock, which tests move; and pauses before a retry."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

JITTER: Final = (0.8, 1.2)
"""The least and the greatest share of a pause: those that lost the same system do not all return at one moment."""
# 2.0 to this power is a billion; a larger one would overflow after an outage of weeks
_MOST_STEPS: Final = 30


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


def now_ms() -> int:
    """Milliseconds since the epoch, for who only shows how long something has lasted."""
    return time.time_ns() // 1_000_000


def moment(timestamp_ms: int | None) -> str | None:
    """A time as ISO 8601 in UTC, to the millisecond; None for none, and for one beyond all calendars."""
    if timestamp_ms is None:
        return None
    try:
        found = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SystemClock:
    """The system clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return now_ms()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to pause before a retry: longer after each failure, up to a limit, and spread by chance.

    Source: o.a.k.common.utils.ExponentialBackoff (Kafka 4.3).
    Differs: there, of the pauses at the limit half are as long as it is; here they are spread below it.
    """

    first_s: float
    most_s: float
    factor: float = 2.0
    jitter: tuple[float, float] = JITTER

    def pause_s(self, failures: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
        """`failures`: how many came before the one that is paused for. Never longer than `most_s`."""
        pause_s: float = min(self.first_s * self.factor ** min(failures, _MOST_STEPS), self.most_s)
        if pause_s <= 0:
            return 0.0
        low, high = self.jitter
        return min(pause_s * uniform(low, min(high, self.most_s / pause_s)), self.most_s)


class Pauses:
    """The pauses of one thing that is tried again and again. Threads: one, or under the owner's lock."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.failures = 0
        """In a row, until now."""

    def next_s(self) -> float:
        """A try has failed: how long to pause before the next."""
        pause_s = self._backoff.pause_s(self.failures)
        self.failures += 1
        return pause_s

    def reset(self) -> None:
        """A try has succeeded."""
        self.failures = 0


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
