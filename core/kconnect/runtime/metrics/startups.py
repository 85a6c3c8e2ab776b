"""Counts how starts of connectors and tasks ended."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, replace

from kconnect.model import RunState


@dataclass(slots=True)
class StartupCount:
    """Completed starts."""

    successes: int = 0
    failures: int = 0

    @property
    def attempts(self) -> int:
        return self.successes + self.failures


class Startups:
    """Counts the first RUNNING or FAILED after each beginning. Threads: any. Source: WorkerMetricsGroup (Kafka 4.3)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: set[Hashable] = set()  # guarded by _lock, as is _count
        self._count = StartupCount()

    def began(self, key: Hashable) -> None:
        with self._lock:
            self._begun.add(key)

    def reached(self, key: Hashable, state: RunState) -> None:
        if state not in (RunState.RUNNING, RunState.FAILED):
            return
        with self._lock:
            if key not in self._begun:
                return
            self._begun.discard(key)
            if state is RunState.RUNNING:
                self._count.successes += 1
            else:
                self._count.failures += 1

    def forget(self, key: Hashable) -> None:
        """It ended before it was RUNNING or FAILED."""
        with self._lock:
            self._begun.discard(key)

    def count(self) -> StartupCount:
        with self._lock:
            return replace(self._count)
