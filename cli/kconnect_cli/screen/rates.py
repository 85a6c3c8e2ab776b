"""Rates: records per second out of totals that are looked at again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Counters come once a second: over five, a rate does not jump
_WINDOW_S = 5.0


class Rates(Generic[K]):
    """Records per second of each task, over the last seconds. Threads: one."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[K, int]]] = deque()

    def add(self, now_s: float, totals: Mapping[K, int]) -> dict[K, float]:
        """Take totals as they are now; gives rates of tasks that were seen before, not below zero (a new run)."""
        self._seen.append((now_s, dict(totals)))
        while len(self._seen) > 2 and self._seen[1][0] <= now_s - _WINDOW_S:
            self._seen.popleft()
        then_s, before = self._seen[0]
        if now_s <= then_s:
            return {}
        return {key: max(0, total - before[key]) / (now_s - then_s) for key, total in totals.items() if key in before}
