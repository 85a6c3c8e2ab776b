"""One connector or task as every screen shows it: its health, why, and its place among the others. Pure.

What is wrong with a part outweighs what it should do: a connector that is PAUSED and has a FAILED task is
FAILED, because resuming it would not make that task run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from kconnect.logs.traces import root_cause
from kconnect.logs.wording import length_text
from kconnect.model import (
    AutoRestart,
    Condition,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Restarts,
    RunState,
    TaskCondition,
    TaskState,
)
from kconnect.runtime.health.flow_metrics import NO_METRICS, FlowMetrics

NO_CAUSE: Final = "its worker does not say why"


class ConnectorHealth(StrEnum):
    """What a connector or task is on the whole, worst first."""

    FAILED = "failed"
    DEGRADED = "degraded"
    """It runs without progress: stuck, without task configs, retrying, not committing, lagging."""
    WAITING = "waiting"
    """UNASSIGNED or RESTARTING: most of that passes by itself."""
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"

    @property
    def is_wrong(self) -> bool:
        """Whether somebody should look."""
        return self in _WRONG


_WRONG: Final = frozenset({ConnectorHealth.FAILED, ConnectorHealth.DEGRADED, ConnectorHealth.WAITING})
# What waits is run by nobody, and what failed has ended: a condition of either is the last that was known
_AT_WORK: Final = frozenset({ConnectorHealth.RUNNING, ConnectorHealth.PAUSED})
_PLACES: Final = {health: place for place, health in enumerate(ConnectorHealth)}
_CONDITIONS: Final = {condition: place for place, condition in enumerate(Condition)}
_BY_STATE: Final = {
    RunState.FAILED: ConnectorHealth.FAILED,
    RunState.UNASSIGNED: ConnectorHealth.WAITING,
    RunState.RESTARTING: ConnectorHealth.WAITING,
    RunState.RUNNING: ConnectorHealth.RUNNING,
    RunState.PAUSED: ConnectorHealth.PAUSED,
    RunState.STOPPED: ConnectorHealth.STOPPED,
    RunState.DESTROYED: ConnectorHealth.STOPPED,
}
_COUNTED: Final = {
    Condition.NO_TASK_CONFIGS: ("failed attempt", "failed attempts"),
    Condition.RETRYING: ("failed attempt", "failed attempts"),
    Condition.NOT_COMMITTING: ("failed commit", "failed commits"),
}


@dataclass(frozen=True, slots=True)
class PartView:
    """A connector itself, without its tasks, or one task."""

    task: int | None
    """It is None for the connector itself."""
    seen: ConnectorState | TaskState

    @property
    def words(self) -> str:
        """`connector`, `task 0`."""
        return "connector" if self.task is None else f"task {self.task}"

    @property
    def state(self) -> RunState:
        return self.seen.state

    @property
    def health(self) -> ConnectorHealth:
        found = _BY_STATE[self.seen.state]
        return ConnectorHealth.DEGRADED if self.trouble is not None and found in _AT_WORK else found

    @property
    def trouble(self) -> TaskCondition | None:
        """The condition, if it is not healthy."""
        found = self.seen.condition
        return None if found is None or found.condition is Condition.HEALTHY else found

    @property
    def restarts(self) -> Restarts | None:
        return self.seen.restarts

    @property
    def is_held_back(self) -> bool:
        """Whether nobody runs it because the group waits for its worker to come back."""
        return self.restarts is not None and self.restarts.state is AutoRestart.HELD_BACK

    @property
    def cause(self) -> str:
        """What a FAILED one failed with, in one line."""
        return _cause(self.seen.trace) or NO_CAUSE

    @property
    def since_ms(self) -> int | None:
        """Since when it is degraded, in ms since 1970."""
        return None if self.trouble is None else self.trouble.since_ms

    @property
    def place(self) -> tuple[int, int]:
        """Its place among others, the worst first: by health, those that are degraded by their condition."""
        found = self.health
        trouble = self.trouble if found is ConnectorHealth.DEGRADED else None
        return _PLACES[found], 0 if trouble is None else _CONDITIONS[trouble.condition]

    def why(self, now_ms: int, *, named: bool = True, lasted: bool = True) -> str:
        """What is wrong, in one line: `restart 2 of 5 in 8 s: OSError: gone`, `stuck for 34 s: put() hangs`.

        Shape: empty when nothing is. Without `lasted` for how long it has been so is left out, which changes from
        second to second; without `named` the condition's word, for tables that have it in a column.
        """
        if self.health is ConnectorHealth.FAILED:
            return _failure(self.seen, now_ms)
        if self.is_held_back:
            return restarts_text(self.restarts, now_ms)
        if self.health is ConnectorHealth.WAITING:  # its worker says why, if anything is in the way
            return _cause(self.seen.trace)
        found = self.trouble if self.health is ConnectorHealth.DEGRADED else None
        return "" if found is None else _condition_text(found, now_ms if lasted else None, named)


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """A connector with its tasks."""

    name: str
    type: ConnectorType
    own: PartView
    tasks: tuple[PartView, ...]
    metrics: FlowMetrics = NO_METRICS

    @property
    def parts(self) -> tuple[PartView, ...]:
        """The connector itself, then its tasks."""
        return (self.own, *self.tasks)

    @property
    def worst(self) -> PartView:
        """The first of the worst parts; the connector itself while nothing is wrong."""
        found = min(self.parts, key=lambda part: part.place)
        return found if found.health.is_wrong else self.own

    @property
    def health(self) -> ConnectorHealth:
        return self.worst.health

    @property
    def state(self) -> RunState:
        """FAILED, UNASSIGNED or RESTARTING if anything of it is; else the connector's own."""
        return self.own.state if self.health is ConnectorHealth.DEGRADED else self.worst.state

    @property
    def since_ms(self) -> int | None:
        """Since when its worst part is degraded."""
        return self.worst.since_ms

    @property
    def running(self) -> int:
        """How many tasks are RUNNING."""
        return sum(part.state is RunState.RUNNING for part in self.tasks)

    @property
    def place(self) -> tuple[int, int]:
        """Works as that of a part."""
        return self.worst.place

    def why(self, now_ms: int, *, lasted: bool = True, waits_for: str = "") -> str:
        """What is wrong with its worst part, and how many more are like that; the rest as of a part.

        `waits_for`: why what is UNASSIGNED does not run, where that is known of the whole cluster.
        """
        worst = self.worst
        text = worst.why(now_ms, lasted=lasted) or (waits_for if worst.state is RunState.UNASSIGNED else "")
        if not text:
            return ""
        begin = (
            "" if worst.task is None else f"{worst.words}{' ' if worst.health is ConnectorHealth.DEGRADED else ': '}"
        )
        more = sum(part.health is worst.health for part in self.parts) - 1
        return f"{begin}{text}{f' (and {more} more)' if more else ''}"


def connector_view(status: ConnectorStatus, metrics: FlowMetrics = NO_METRICS) -> ConnectorView:
    """`metrics`: of all its tasks together."""
    tasks = tuple(PartView(task.id, task) for task in status.tasks)
    return ConnectorView(status.name, status.type, PartView(None, status.connector), tasks, metrics)


def worst_first(views: Iterable[ConnectorView]) -> list[ConnectorView]:
    """The order of every list of connectors: what is wrong, then what runs, then what is paused or stopped; by name
    within that.
    """
    return sorted(views, key=lambda view: (view.place, view.name))


def restarts_text(restarts: Restarts | None, now_ms: int) -> str:
    """What automatic restarts have come to: `given up after 5 restarts`, `restart 2 of 5 in 8 s`, `not restarted ..`.

    Where nobody can say when the next one is due: `restart 2 of 5 follows`, with what it waits for if that is known.
    """
    if restarts is None:
        return ""
    left_ms = None if restarts.due_ms is None else restarts.due_ms - now_ms
    match restarts.state:
        case AutoRestart.GIVEN_UP:
            again = "" if left_ms is None else f" (tried again {_until(left_ms)})"
            return f"given up after {_counted(restarts.count)}{again}"
        case AutoRestart.WAITING:
            waits = "follows" if restarts.why is None else f"follows {restarts.why}"
            when = waits if left_ms is None else "is due" if left_ms <= 0 else _until(left_ms)
            return f"restart {restarts.count + 1} of {restarts.most} {when}"
        case AutoRestart.NOT_RESTARTED:
            return f"not restarted because {restarts.why}" if restarts.why else "not restarted"
        case AutoRestart.HELD_BACK:
            when = "" if left_ms is None else f", which hands it out {_until(left_ms)}"
            return f"its worker left the group{when} (scheduled.rebalance.max.delay.ms)"
        case AutoRestart.RESTARTED:
            return f"restarted {restarts.count} time{'' if restarts.count == 1 else 's'}"


def _counted(restarts: int) -> str:
    return f"{restarts} restart{'' if restarts == 1 else 's'}"


def _until(ms: int) -> str:
    """To a tenth where it is less than a second."""
    if ms <= 0:
        return "now"
    in_s = f"{ms / 1000:.1f} s" if ms < 1_000 else f"{ms / 1000:.0f} s"
    return f"in {in_s if ms < 120_000 else f'{ms / 60_000:.0f} min'}"


@lru_cache(maxsize=1024)
def _cause(trace: str | None) -> str:
    """Traces come again with each look: taken apart once."""
    return root_cause(trace)


def _failure(seen: ConnectorState | TaskState, now_ms: int) -> str:
    """What failed, behind what its restarts have come to; why there is none comes last, as a line is short."""
    cause, restarts = _cause(seen.trace) or NO_CAUSE, seen.restarts
    if restarts is None or (restarts.state is AutoRestart.NOT_RESTARTED and not restarts.why):
        return cause
    if restarts.state is AutoRestart.NOT_RESTARTED:
        return f"{cause} ({restarts_text(restarts, now_ms)})"
    return f"{restarts_text(restarts, now_ms)}: {cause}"


def _condition_text(found: TaskCondition, now_ms: int | None, named: bool) -> str:
    words = [str(found.condition)] if named else []
    if found.condition is Condition.KEEPS_FAILING:  # it is not known since when, but when it was restarted last
        words.append(f"after {_counted(found.count)}")
    elif now_ms is not None:
        lasted = f"for {length_text(max(0, now_ms - found.since_ms) / 1000)}"
        if found.count and (noun := _COUNTED.get(found.condition)):
            lasted += f", {found.count:,} {noun[found.count != 1]}"
        words.append(lasted)
    return ": ".join(each for each in (" ".join(words), found.cause or "") if each)
