"""When a task cannot keep up: a sink that falls behind, a source held up by Kafka. Pure."""

from __future__ import annotations

from typing import Final

# Two of a columnar sink's fetches (5,000): what lies between two looks at a busy topic is no lag.
_LEAST_BEHIND: Final = 10_000
# A source that waits for Kafka most of the time is held up by it.
_HELD_UP_SHARE: Final = 0.5


class GrowthWatch:
    """Whether a sink falls behind: more records before it than at any time in the last `after_s`, and growing.

    It begins when the number has been above its lowest for `after_s` and reached a new high meanwhile; it is over when
    no new high was reached for `after_s`, or the number is back at the low it grew from. So a sink that works off a
    large backlog is not lagging, one that moves as fast as records come neither. Zero: never.
    """

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._low: tuple[float, int] | None = None  # when and what
        self._high = (0.0, 0)
        self._is_lagging = False

    def look(self, now_s: float, behind: int) -> float | None:
        """Since when it has been lagging (s); None when it is not."""
        if self._low is None or behind <= self._low[1]:
            self._low, self._high, self._is_lagging = (now_s, behind), (now_s, behind), False
            return None
        if behind > self._high[1]:
            self._high = (now_s, behind)
        elif now_s - self._high[0] >= self._after_s:
            self._low, self._high, self._is_lagging = (now_s, behind), (now_s, behind), False
            return None
        if self._after_s and now_s - self._low[0] >= self._after_s and behind - self._low[1] >= _LEAST_BEHIND:
            self._is_lagging = True
        return self._low[0] if self._is_lagging else None


class WaitWatch:
    """Whether a source is held up: it waited for producer space for half of the last `after_s`. Zero: never."""

    def __init__(self, after_s: float, now_s: float) -> None:
        self._after_s = after_s
        self._window = (now_s, 0.0)  # when it began, and how much had been waited by then
        self._since_s: float | None = None
        self._share = 0.0

    def look(self, now_s: float, waited_s: float, waiting_since_s: float | None) -> tuple[float, float] | None:
        """Since when it has been held up (s), and for what share of the last window; None when it is not."""
        began_s, before_s = self._window
        passed_s = now_s - began_s
        if self._after_s and passed_s >= self._after_s:
            total_s = waited_s + (now_s - waiting_since_s if waiting_since_s is not None else 0.0)
            self._share = min((total_s - before_s) / passed_s, 1.0)
            self._window = (now_s, total_s)
            if self._share < _HELD_UP_SHARE:
                self._since_s = None
            elif self._since_s is None:
                self._since_s = began_s
        return None if self._since_s is None else (self._since_s, self._share)
