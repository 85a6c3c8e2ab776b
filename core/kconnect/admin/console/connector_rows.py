"""The overview as values: one row for each connector, what is wrong first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kconnect.admin.console.cluster import Activity
from kconnect.logs.traces import root_cause
from kconnect.model import Condition, ConnectorState, ConnectorStatus, RunState, TaskState


class Standing(StrEnum):
    """What a connector is on the whole, worst first."""

    FAILED = "failed"
    SICK = "sick"
    """A task runs and does not get on: stuck, retrying, not committing, lagging."""
    WAITING = "waiting"
    """Something is UNASSIGNED or RESTARTING."""
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


_ORDER: Final = {standing: place for place, standing in enumerate(Standing)}
# Points of a sparkline, and its height, in the units of its viewBox
_LINE_WIDTH, _LINE_HEIGHT = 60, 16


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """One line of the overview. `why`: what is wrong, in one line; empty when nothing is."""

    name: str
    type: str
    standing: Standing
    tasks: str
    """`4/4`: running of all."""
    task_states: tuple[tuple[str, int], ...]
    why: str
    per_s: str
    line: str
    """Points of the sparkline; empty without any."""
    lag: str
    errors: str


@dataclass(frozen=True, slots=True)
class Filter:
    """Which connectors are shown: a part of the name, of the reason or the type, and a standing."""

    text: str = ""
    standing: str = ""

    def admits(self, row: ConnectorRow) -> bool:
        if self.standing and row.standing != self.standing:
            return False
        words = self.text.casefold().split()
        place = f"{row.name} {row.type} {row.why}".casefold()
        return all(word in place for word in words)


def connector_rows(
    statuses: Mapping[str, ConnectorStatus], activities: Mapping[str, Activity]
) -> tuple[ConnectorRow, ...]:
    """Worst first, and by name."""
    rows = [connector_row(status, activities.get(name)) for name, status in statuses.items()]
    return tuple(sorted(rows, key=lambda row: (_ORDER[row.standing], row.name)))


def connector_row(status: ConnectorStatus, activity: Activity | None) -> ConnectorRow:
    """One connector's line."""
    states = [task.state for task in status.tasks]
    counts = tuple((str(state), states.count(state)) for state in dict.fromkeys(sorted(states)))
    standing = standing_of(status)
    return ConnectorRow(
        name=status.name,
        type=str(status.type),
        standing=standing,
        tasks=f"{states.count(RunState.RUNNING)}/{len(states)}" if states else "0",
        task_states=counts,
        why=_why(status, standing),
        per_s="" if activity is None else number_text(activity.now_per_s),
        line="" if activity is None else sparkline(activity.per_s),
        lag="" if activity is None or not activity.lag else number_text(activity.lag),
        errors="" if activity is None or not activity.errors else number_text(activity.errors),
    )


def standing_of(status: ConnectorStatus) -> Standing:
    """The worst of a connector and its tasks."""
    states = {status.connector.state, *(task.state for task in status.tasks)}
    if RunState.FAILED in states:
        return Standing.FAILED
    if any(_is_sick(task) for task in status.tasks):
        return Standing.SICK
    if states & {RunState.UNASSIGNED, RunState.RESTARTING}:
        return Standing.WAITING
    if status.connector.state is RunState.STOPPED:
        return Standing.STOPPED
    return Standing.PAUSED if status.connector.state is RunState.PAUSED else Standing.RUNNING


def number_text(value: float) -> str:
    """Three digits at most, so that a table stays calm: 0, 0.4, 12, 3.4k, 2.1M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            scaled = value / size
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.1f}".rstrip("0").rstrip(".") + unit
    if value >= 10 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}"


def sparkline(values: Iterable[float]) -> str:
    """Points of an SVG polyline, each series as high as its own largest value; empty when all are zero.

    It begins where something first moved: what was before, perhaps no worker at all, is left blank.
    """
    found = list(values)
    top = max(found, default=0.0)
    if top <= 0 or len(found) < 2:
        return ""
    step, room = _LINE_WIDTH / (len(found) - 1), _LINE_HEIGHT - 2
    begin = max(0, next(place for place, value in enumerate(found) if value > 0) - 1)
    seen = enumerate(found[begin:], begin)
    points = ((place * step, _LINE_HEIGHT - 1 - room * value / top) for place, value in seen)
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in points)


def _is_sick(task: TaskState) -> bool:
    return task.condition is not None and task.condition.condition is not Condition.HEALTHY


def _why(status: ConnectorStatus, standing: Standing) -> str:
    """The root cause of the first thing that failed, or the condition of the first sick task."""
    if standing is Standing.FAILED:
        failed: list[tuple[str, ConnectorState | TaskState]] = [("connector", status.connector)]
        failed += [(f"task {task.id}", task) for task in status.tasks]
        failed = [(who, seen) for who, seen in failed if seen.state is RunState.FAILED]
        who, first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return f"{who}: {root_cause(first.trace) or 'the worker does not say why'}{more}"
    if standing is Standing.SICK:
        task = next(task for task in status.tasks if _is_sick(task))
        assert task.condition is not None
        cause = f": {task.condition.cause}" if task.condition.cause else ""
        return f"task {task.id} is {task.condition.condition}{cause}"
    return ""
