"""Repeated messages: the first is logged at once, then how often it recurred, at growing intervals."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kconnect.logs.wording import pluralize

# The first count is logged after this time, each following one after twice as long, up to the cap.
_FIRST_INTERVAL_S: Final = 10.0
_LONGEST_INTERVAL_S: Final = 600.0
# A message not seen for this time counts as new; the longest pause between retries is 60 s by default.
_FORGET_AFTER_S: Final = 130.0
# Texts that differ each time (a counter, an address) must not fill memory.
_MOST_TEXTS: Final = 32


@dataclass(frozen=True, slots=True)
class Repeated:
    """A message to log now. `times` is 0 for the first, else how often it recurred since it was last logged."""

    times: int
    within_s: float


@dataclass(slots=True)
class _Seen:
    logged_s: float
    last_s: float
    interval_s: float = _FIRST_INTERVAL_S
    times: int = 0


class RepeatCounts:
    """Decides which of equal messages are logged. Pure: the time is passed to each call and never goes back."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def note(self, text: str, now_s: float) -> Repeated | None:
        """Note a message; None means it is only counted."""
        seen = self._seen.get(text)
        if seen is None or now_s - seen.last_s > _FORGET_AFTER_S:
            self._seen[text] = _Seen(now_s, now_s)
            self._seen.move_to_end(text)
            if len(self._seen) > _MOST_TEXTS:
                self._seen.popitem(last=False)
            return Repeated(0, 0.0)
        seen.last_s = now_s
        seen.times += 1
        passed_s = now_s - seen.logged_s
        if passed_s < seen.interval_s:
            return None
        repeated = Repeated(seen.times, passed_s)
        seen.logged_s, seen.times = now_s, 0
        seen.interval_s = min(seen.interval_s * 2, _LONGEST_INTERVAL_S)
        return repeated


class RepeatedMessages:
    """Logs equal messages once and then counts them: `.. (repeated 412 times in the last 40 s)`. Threads: any.

    For one place that may fail endlessly, such as the polls of one task; other messages are not affected.
    """

    def __init__(self, logger: logging.Logger, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards _counts
        self._counts = RepeatCounts()

    def log(self, level: int, message: str, *args: object) -> None:
        """Works as `Logger.log`; messages are compared by their full text."""
        text = message % args if args else message
        repeated = self._note(text)
        if repeated is None:
            return
        if repeated.times:
            text += f" (repeated {pluralize(repeated.times, 'time')} in the last {repeated.within_s:.0f} s)"
        self._logger.log(level, "%s", text, stacklevel=2)

    def is_due(self, text: str) -> bool:
        """Whether to log a message whose numbers vary; `text` is the part that stays the same."""
        return self._note(text) is not None

    def _note(self, text: str) -> Repeated | None:
        with self._lock:
            return self._counts.note(text, self._monotonic())
