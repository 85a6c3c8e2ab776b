"""Whether Kafka answers this worker, judged by its answers and silences so far. Pure except for the given clock."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

from kconnect.client.outage import Outage
from kconnect.clock import Clock, SystemClock
from kconnect.runtime.metrics import KafkaView, Reading, kafka_readings


@dataclass(frozen=True, slots=True)
class Back:
    """Kafka answers again."""

    outage: Outage
    """Its state when it ended; `lasted_s` is the length of the gap between two answers."""


class KafkaContact:
    """States: unknown -> answering <-> away. Threads: any.

    An outage begins with the last answer before it, not with the first silence: nothing is known of the time between.
    """

    def __init__(self, servers: str, clock: Clock | None = None) -> None:
        self.servers = servers
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards all below
        self._last_s: float | None = None
        self._answers_since_s = 0.0  # without a gap until _last_s
        self._since_s = self._clock.monotonic()
        self._since_ms = self._clock.time_ms()
        self._problem: str | None = None
        self._attempts = 0
        self._outages = 0
        self._replaced = 0

    def answered(self, at_s: float | None = None) -> Back | None:
        """Kafka answered, at a monotonic time or just now. Returns the outage that this ends, if any."""
        with self._lock:
            now_s = self._clock.monotonic()
            at_s = now_s if at_s is None else at_s
            if self._last_s is not None and at_s <= self._last_s:
                return None
            if self._last_s is None or self._problem is not None:
                self._answers_since_s = at_s
            ended = self._outage(at_s)
            self._last_s = self._since_s = at_s
            self._since_ms = self._clock.time_ms() - round((now_s - at_s) * 1000)
            self._problem, self._attempts = None, 0
            return None if ended is None else Back(ended)

    def silent(self, problem: str) -> Outage | None:
        """An attempt failed. Returns the outage if it is a new one."""
        with self._lock:
            is_news = self._problem is None
            self._problem = problem
            self._attempts += 1
            self._outages += is_news
            return self._outage(self._clock.monotonic()) if is_news else None

    @property
    def outage(self) -> Outage | None:
        """The current outage; None while Kafka answers, and before the first check."""
        with self._lock:
            return self._outage(self._clock.monotonic())

    @property
    def outages(self) -> int:
        """How many there were, the present one included."""
        with self._lock:
            return self._outages

    def answering(self) -> tuple[float, float] | None:
        """From when until when (monotonic) Kafka has answered without a gap; None while it is away or not known."""
        with self._lock:
            return None if self._problem is not None or self._last_s is None else (self._answers_since_s, self._last_s)

    def client_replaced(self) -> None:
        """A client of the worker no longer had answers, though Kafka answers, and was replaced."""
        with self._lock:
            self._replaced += 1

    def readings(self) -> list[Reading]:
        """For `/metrics`."""
        view = KafkaView(self.outage is None, self.since_answer_s(), self.outages, self._replaced)
        return list(kafka_readings(view))

    def since_answer_s(self) -> float:
        """Seconds since the last answer; infinite before the first."""
        with self._lock:
            return math.inf if self._last_s is None else self._clock.monotonic() - self._last_s

    def _outage(self, now_s: float) -> Outage | None:
        """Call with the lock held."""
        if self._problem is None:
            return None
        return Outage(self._since_ms, max(0.0, now_s - self._since_s), self.servers, self._problem, self._attempts)
