"""What tasks move, in numbers: of one, of several together, of a connector; and rates out of totals."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from kconnect.model import ConnectorStatus, TaskId

K = TypeVar("K", bound=Hashable)

# Counters come once a second: over five, a rate does not jump
_WINDOW_S = 5.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What a task, or all tasks of a connector, move; None where nobody says."""

    rate: float | None = None
    """Records per second."""
    records: int | None = None
    """Records since the start of the task."""
    errors: int | None = None
    lag: int | None = None
    """Of a sink: records behind the ends of its topics. Known of whole connectors only."""


NO_FIGURES = Figures()


def summed(figures: Sequence[Figures]) -> Figures:
    """Of several together; a figure that none of them has stays unknown."""
    return Figures(
        _sum([each.rate for each in figures]),
        _sum([each.records for each in figures]),
        _sum([each.errors for each in figures]),
        _sum([each.lag for each in figures]),
    )


def figures_of(status: ConnectorStatus, tasks: Mapping[TaskId, Figures], lag: int | None = None) -> Figures:
    """Of a connector, out of its tasks'."""
    found = [figures for task in status.tasks if (figures := tasks.get(TaskId(status.name, task.id))) is not None]
    return replace(summed(found), lag=lag)


def most(lags: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Lags that several workers tell of, each connector's once: the largest, as the others' may be older."""
    found: dict[str, int] = {}
    for each in lags:
        for connector, lag in each.items():
            found[connector] = max(lag, found.get(connector, 0))
    return found


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


def _sum(values: Sequence[Any]) -> Any:  # ints stay ints, floats floats
    known = [value for value in values if value is not None]
    return sum(known) if known else None
