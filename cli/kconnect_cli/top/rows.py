"""The rows of each view: what stands in which column, how they are sorted, and which of them a filter leaves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kconnect.admin.cluster.activity import NO_ACTIVITY, task_metrics
from kconnect.client.outage import away_reason
from kconnect.client.slots import whose
from kconnect.clock import now_ms
from kconnect.logs.wording import length_text
from kconnect.model import RunState, TaskId, TaskState
from kconnect.runtime.health.flow_metrics import NO_METRICS, FlowMetrics, summed
from kconnect.runtime.health.views import ConnectorHealth, ConnectorView, PartView, connector_view
from kconnect_cli.top.facts import ClusterFacts, WorkerFacts

# How bad a row is: the first of them come first
BAD, WORRYING, WELL = 0, 1, 2


class View(StrEnum):
    """The lists of the screen, in the order of their keys."""

    CONNECTORS = "Connectors"
    TASKS = "Tasks"
    SLOTS = "Slots"
    WORKERS = "Workers"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a list. `values` by column: text, a number, or None where it is not known."""

    id: str
    values: Mapping[str, Any]
    grade: int = WELL
    place: tuple[int, int] = (0, 0)
    """Among the rows of its grade: of connectors and tasks by how they stand."""
    is_old: bool = False
    """Its worker does not answer any more: what it says is the last that was known."""
    connector: str | None = None
    task: int | None = None
    search: str = ""
    """What a filter looks at, in lower case."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `rank` says how long it stays when the screen gets narrow (0: always)."""

    title: str
    rank: int = 0
    is_number: bool = False
    shown: Callable[[Any], str] = str
    is_flexible: bool = False
    """Takes the room that is left."""


def whole(value: float) -> str:
    return f"{value:,.0f}"


def percent(value: float) -> str:
    return f"{value:.1f}"


def mebibytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"


COLUMNS: Mapping[View, tuple[Column, ...]] = {
    View.CONNECTORS: (
        Column("NAME"),
        Column("TYPE", 6),
        Column("STATE"),
        Column("TASKS", 1),
        Column("RECORDS/S", 2, True, whole),
        Column("LAG", 3, True, whole),
        Column("ERRORS", 4, True, whole),
        Column("WHY", 5, is_flexible=True),
    ),
    View.TASKS: (
        Column("NAME"),
        Column("TASK", 0, True),
        Column("STATE"),
        Column("CONDITION", 3),
        Column("RECORDS/S", 2, True, whole),
        Column("RECORDS", 7, True, whole),
        Column("ERRORS", 5, True, whole),
        Column("WORKER", 6),
        Column("WHY", 5, is_flexible=True),
    ),
    View.SLOTS: (
        Column("WORKER"),
        Column("SLOT", 0, True),
        Column("STATE"),
        Column("HOST", 5),
        Column("PID", 6, True),
        Column("CPU %", 1, True, percent),
        Column("MEMORY", 2, True, mebibytes),
        Column("COUNT", 3, True),
        Column("WHOSE", 7),
        Column("TASKS", 4, is_flexible=True),
    ),
    View.WORKERS: (
        Column("WORKER"),
        Column("STATE"),
        Column("KIND", 5),
        Column("VERSION", 6),
        Column("CONNECTORS", 3, True),
        Column("TASKS", 1, True),
        Column("RECORDS/S", 2, True, whole),
        Column("SLOTS", 4, True),
        Column("LAST ANSWER", 3),
        Column("WHY", 5, is_flexible=True),
    ),
}


def rows_of(view: View, facts: ClusterFacts, now_s: float) -> list[Row]:
    """All rows of a view, in no particular order."""
    match view:
        case View.CONNECTORS:
            moves, waits_for = facts.moves, "" if facts.outage is None else away_reason(facts.outage.problem)
            return [
                _connector_row(
                    connector_view(status, moves.get(name, NO_ACTIVITY).metrics),
                    f"{facts.to_come[name]} with the next worker" if name in facts.to_come else "",
                    waits_for,
                )
                for name, status in facts.statuses.items()
            ]
        case View.TASKS:
            metrics = task_metrics(facts.moves)
            return [
                _task_row(status.name, task, facts, metrics.get(TaskId(status.name, task.id), NO_METRICS))
                for status in facts.statuses.values()
                for task in status.tasks
            ]
        case View.SLOTS:
            return [_slot_row(worker, slot) for worker in facts.workers.values() for slot in (worker.slots or ())]
        case View.WORKERS:
            return [_worker_row(worker, facts, now_s) for worker in facts.workers.values()]


def arranged(rows: Sequence[Row], filter_: str, sort: str | None, *, is_reversed: bool) -> list[Row]:
    """The rows that match all words of the filter, sorted. `sort` None: the worst first. Unknown values come last."""
    words = filter_.lower().split()
    found = [row for row in rows if all(word in row.search for word in words)] if words else list(rows)
    found.sort(key=_name_key)
    if sort is None:
        found.sort(key=lambda row: (row.grade, row.place), reverse=is_reversed)
        return found
    known = [row for row in found if row.values.get(sort) is not None]
    known.sort(key=lambda row: row.values[sort], reverse=is_reversed)
    return known + [row for row in found if row.values.get(sort) is None]


def _name_key(row: Row) -> tuple[str, int, str]:
    return (row.connector or row.id, -1 if row.task is None else row.task, row.id)


def _connector_row(view: ConnectorView, to_come: str, waits_for: str) -> Row:
    why = view.why(now_ms(), waits_for=waits_for) or to_come
    state, metrics = str(view.state), view.metrics
    values = {
        "NAME": view.name,
        "TYPE": str(view.type),
        "STATE": state,
        "TASKS": f"{view.running}/{len(view.tasks)}",
        "RECORDS/S": metrics.rate,
        "LAG": metrics.lag,
        "ERRORS": metrics.errors,
        "WHY": why,
    }
    search = f"{view.name} {view.type} {state} {why}".lower()
    return Row(view.name, values, _grade(view.health), view.place, connector=view.name, search=search)


def _grade(health: ConnectorHealth) -> int:
    return BAD if health is ConnectorHealth.FAILED else WORRYING if health.is_wrong else WELL


def _task_row(name: str, task: TaskState, facts: ClusterFacts, metrics: FlowMetrics) -> Row:
    worker = facts.workers.get(task.worker_id)
    part = PartView(task.id, task)
    condition = "" if task.condition is None else str(task.condition.condition)
    why, grade = part.why(now_ms(), named=False), _grade(part.health)
    is_old = worker is not None and bool(worker.problem)
    if is_old and not why:
        why = "its worker does not answer"
        grade = min(grade, WORRYING)
    if facts.outage is not None and task.state is RunState.UNASSIGNED and not why:
        why = away_reason(facts.outage.problem)
    values = {
        "NAME": name,
        "TASK": task.id,
        "STATE": str(task.state),
        "CONDITION": condition,
        "RECORDS/S": metrics.rate,
        "RECORDS": metrics.records,
        "ERRORS": metrics.errors,
        "WORKER": task.worker_id,
        "WHY": why,
    }
    search = f"{name} {name}-{task.id} {task.state} {condition} {task.worker_id} {why}".lower()
    return Row(f"{name}-{task.id}", values, grade, part.place, is_old, name, task.id, search)


def _slot_row(worker: WorkerFacts, slot: Mapping[str, Any]) -> Row:
    tasks = [f"{task['connector']}-{task['task']}" for task in slot.get("tasks", ())]
    attached = bool(slot.get("attached"))
    values = {
        "WORKER": worker.id,
        "SLOT": slot.get("slot"),
        "STATE": "unreachable" if worker.problem else "up" if attached else "starting",
        "HOST": slot.get("host") or None,
        "PID": slot.get("pid"),
        "CPU %": slot.get("cpu_percent"),
        "MEMORY": slot.get("memory_bytes"),
        "COUNT": len(tasks),
        "WHOSE": whose(slot),
        "TASKS": " ".join(tasks),
    }
    search = f"{worker.id} {slot.get('host')} {values['WHOSE']} {' '.join(tasks)}".lower()
    grade = WELL if attached and not worker.problem else WORRYING
    return Row(f"{worker.id} {slot.get('slot')}", values, grade, is_old=bool(worker.problem), search=search)


def _worker_row(worker: WorkerFacts, facts: ClusterFacts, now_s: float) -> Row:
    connectors = [status for status in facts.statuses.values() if status.connector.worker_id == worker.id]
    tasks = [task for status in facts.statuses.values() for task in status.tasks if task.worker_id == worker.id]
    is_known = bool(connectors or tasks) or len(facts.workers) > 1
    state = "unreachable" if worker.problem else "unhealthy" if worker.unwell else "up" if worker.kind else "asked"
    age = None if worker.answered_s is None else f"{length_text(max(0.0, now_s - worker.answered_s))} ago"
    values = {
        "WORKER": worker.id,
        "STATE": state,
        "KIND": worker.kind or None,
        "VERSION": worker.version or None,
        "CONNECTORS": len(connectors) if is_known else len(facts.statuses),
        "TASKS": len(tasks) if is_known else sum(len(status.tasks) for status in facts.statuses.values()),
        "RECORDS/S": None if worker.problem else summed([each.metrics for each in worker.moves.values()]).rate,
        "SLOTS": None if worker.slots is None else len(worker.slots),
        "LAST ANSWER": age or ("never" if worker.problem else None),
        "WHY": worker.problem or worker.unwell,
    }
    grade = BAD if worker.problem or worker.unwell else WELL
    search = f"{worker.id} {worker.kind} {values['STATE']}".lower()
    return Row(worker.id, values, grade, is_old=bool(worker.problem), search=search)
