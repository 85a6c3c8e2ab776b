"""Backoff: how long to wait before a call that may succeed later is made again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

__all__ = ["Backoff"]

# How far a wait is spread, so that tasks that lost the same system do not all come back at the same moment.
_SPREAD: Final = 0.2
# No cap makes a loop spin: errors.retry.delay.max.ms=0 means "soon".
_SHORTEST_CAP_S: Final = 0.1
_MOST_DOUBLINGS: Final = 30


class Backoff:
    """Waits that double with each failure up to a cap, each spread by a fifth.

    Source: o.a.k.common.utils.ExponentialBackoff (Kafka 4.3).
    """

    def __init__(self, first_s: float, cap_s: float, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._cap_s = max(cap_s, _SHORTEST_CAP_S)
        self._first_s = min(first_s, self._cap_s)
        self._uniform = uniform
        self.failures = 0
        """In a row, until now."""

    def next_s(self) -> float:
        """A call has failed: how long to wait before the next."""
        wait_s: float = self._first_s * 2.0 ** min(self.failures, _MOST_DOUBLINGS)
        self.failures += 1
        return min(wait_s * self._uniform(1 - _SPREAD, 1 + _SPREAD), self._cap_s)

    def reset(self) -> None:
        """A call has succeeded."""
        self.failures = 0
