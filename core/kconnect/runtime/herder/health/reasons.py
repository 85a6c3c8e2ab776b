"""Why a worker is not healthy: one list of reasons, to which every part adds its own; `/health` and live views show it.

Source: RootResource#healthCheck, WorkerStatus (Kafka 4.3; KIP-1017).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kconnect.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a worker is not healthy: `sentence` begins with a capital and has no full stop."""

    sentence: str
    since_ms: int
    """Milliseconds since the epoch."""
    is_starting: bool = False
    """What a starting worker waits for; for a started one, what is wrong."""

    def to_json(self) -> dict[str, Any]:
        return {
            "reason": self.sentence,
            "status": "starting" if self.is_starting else "unhealthy",
            "since_ms": self.since_ms,
        }


class Health:
    """The reasons of one worker; none means that it is healthy. Threads: any; never blocks.

    A part that can report at any time adds a source; a step of the start is reported while it lasts.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._sources: list[Callable[[], Iterable[Reason]]] = []  # guarded by _lock
        self._notices: list[Callable[[], Iterable[str]]] = []  # guarded by _lock
        self._steps: list[Reason] = []  # guarded by _lock: of the start, those that last

    def add_source(self, source: Callable[[], Iterable[Reason]]) -> None:
        """Call `source` whenever the reasons are read. It must not block or raise."""
        with self._lock:
            self._sources.append(source)

    def add_notice(self, source: Callable[[], Iterable[str]]) -> None:
        """Works as `add_source`, for sentences on what a healthy worker should say: without a full stop."""
        with self._lock:
            self._notices.append(source)

    def notices(self) -> list[str]:
        """What a healthy worker has to say."""
        with self._lock:
            sources = list(self._notices)
        return [sentence for source in sources for sentence in source()]

    @contextmanager
    def starting(self, sentence: str) -> Iterator[None]:
        """Inside, the worker is starting and waits for this."""
        step = Reason(sentence, self._clock.time_ms(), is_starting=True)
        with self._lock:
            self._steps.append(step)
        try:
            yield
        finally:
            with self._lock:
                self._steps.remove(step)

    def reasons(self) -> list[Reason]:
        """What is wrong now; what the start waits for is last."""
        with self._lock:
            sources, steps = list(self._sources), list(self._steps)
        found = [reason for source in sources for reason in source()] + steps
        return sorted(found, key=lambda reason: reason.is_starting)


def reasons_text(reasons: Sequence[Reason], now_ms: int) -> str:
    """The reasons as sentences, each with how long it has lasted: `Spark is starting (3 s).`"""
    return " ".join(f"{reason.sentence} ({_age(now_ms - reason.since_ms)})." for reason in reasons)


def _age(age_ms: int) -> str:
    return f"{max(0, age_ms) // 1000} s"
