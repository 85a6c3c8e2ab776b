"""`/ui/workers`: workers with their slots and tasks, how tasks are spread, the last rebalances, Spark.

Its values are pure: how work is spread, what slots cost, when the group rebalanced.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kconnect.admin.console.connector_rows import sparkline
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Reply, Route
from kconnect.client.slots import bounds
from kconnect.errors import NotFoundError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorStatus


def show(request: PageRequest) -> Reply:
    """The page."""
    return Page("workers.html", "Workers", _values(request), tab="workers")


def refresh(request: PageRequest) -> Reply:
    """What is on it, as it is now."""
    return Fragment("workers_body.html", _values(request))


def _values(request: PageRequest) -> dict[str, Any]:
    workers, history, is_ours = _read(request)
    statuses = list(request.cluster.connector_statuses().values())
    rows = worker_rows(workers, history)
    found = rounds(workers, time.time_ns() // 1_000_000)
    return {
        "workers": rows,
        "is_ours": is_ours,
        "rounds": found,
        "marks": [each for each in found if each.at is not None],
        "line_width": LINE_WIDTH,
        "spreads": spreads(statuses, [row.worker for row in rows]) if len(rows) > 1 else [],
    }


def _read(request: PageRequest) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any], bool]:
    """Workers, the load of their slots, and whether there are slots: Java's have none."""
    rest = request.cluster.rest
    if rest is not None and request.cluster.capabilities().is_ours:
        try:
            return rest.workers(), rest.history(slots=True, cluster=True), True
        except NotFoundError:  # an older one of ours
            pass
    return workers_of_statuses(request.cluster.connector_statuses().values()), {}, False


# The time line's width and the height of a worker's lane, in the units of its viewBox
LINE_WIDTH: Final = 720
HOUR_MS: Final = 3_600_000
_SHOWN_REBALANCES: Final = 20
_SHOWN_CONNECTORS: Final = 200


@dataclass(frozen=True, slots=True)
class SlotRow:
    """One slot: where it is, its tasks, and its load over the last hour."""

    slot: int | str
    """Its number; `driver`: the worker's own process, in which queries run."""
    is_up: bool
    place: str
    job_group: str
    tasks: tuple[tuple[str, int], ...]
    connector: str
    """Whose own it is; empty: connectors share it."""
    cpu: str
    cpu_line: str
    memory: str
    memory_line: str


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker. `share`: its part of the tasks of the busiest one, 0 to 100."""

    worker: str
    role: str
    answers: bool
    connectors: int
    tasks: int
    share: int
    slots: tuple[SlotRow, ...]
    bounds: str
    """Between which numbers the slots are that connectors share, as `2..8`; empty where their number is fixed."""
    spark: Mapping[str, Any] | None
    refusal: str = ""
    """Why it refuses requests of the others."""


@dataclass(frozen=True, slots=True)
class Round:
    """One rebalance of the group, as all workers saw it. `at`: its place on the time line, None before its begin."""

    generation: int
    began_ms: int
    ended_ms: int
    took: str
    why: str
    moved: str
    at: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """Tasks of a connector on each worker, in the order of the workers; `is_uneven`: one has two more than another."""

    connector: str
    counts: tuple[int, ...]
    is_uneven: bool


def worker_rows(workers: Sequence[Mapping[str, Any]], history: Mapping[str, Any]) -> list[WorkerRow]:
    """`workers` of `GET /admin/workers`, `history` of `GET /admin/history?slots=true&cluster=true`."""
    most = max([len(worker["tasks"]) for worker in workers], default=0)
    loads = {(slot.get("worker", ""), slot["slot"]): slot["series"] for slot in history.get("slots", ())}
    return [
        WorkerRow(
            worker=worker["worker"],
            role="leader" if worker["is_leader"] and len(workers) > 1 else "",
            answers=worker["answers"],
            connectors=len(worker["connectors"]),
            tasks=len(worker["tasks"]),
            share=round(100 * len(worker["tasks"]) / most) if most else 0,
            slots=tuple(_slot_row(slot, loads.get((worker["worker"], slot["slot"]), {})) for slot in worker["slots"]),
            bounds=bounds(worker["slots"]),
            spark=worker.get("spark"),
            refusal=worker.get("refusal", ""),
        )
        for worker in workers
    ]


def workers_of_statuses(statuses: Iterable[ConnectorStatus]) -> list[dict[str, Any]]:
    """The same shape as `GET /admin/workers` for workers that do not have it: what statuses say of them."""
    found: dict[str, dict[str, Any]] = {}
    for status in statuses:
        _of(found, status.connector.worker_id)["connectors"].append(status.name)
        for task in status.tasks:
            _of(found, task.worker_id)["tasks"].append(f"{status.name}-{task.id}")
    return [found[worker] for worker in sorted(found) if worker]


def rounds(workers: Sequence[Mapping[str, Any]], now_ms: int) -> list[Round]:
    """The last rebalances, the newest first: those of one generation are one, with the reason its leader knows."""
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for worker in workers:
        for each in worker["rebalances"]:
            groups.setdefault((each["leader_url"], each["generation"]), []).append(each)
    found = [_round(generation, seen, now_ms) for (_, generation), seen in groups.items()]
    return sorted(found, key=lambda each: -each.ended_ms)[:_SHOWN_REBALANCES]


def spreads(statuses: Iterable[ConnectorStatus], workers: Sequence[str]) -> list[Spread]:
    """How the tasks of each connector are spread, the uneven ones first."""
    found = []
    for status in statuses:
        if len(status.tasks) < 2:
            continue
        counts = tuple(sum(task.worker_id == worker for task in status.tasks) for worker in workers)
        found.append(Spread(status.name, counts, len(counts) > 1 and max(counts) - min(counts) > 1))
    return sorted(found, key=lambda each: (not each.is_uneven, each.connector))[:_SHOWN_CONNECTORS]


def bytes_text(size: float | None) -> str:
    """`312 MB`, as people say it."""
    return "" if not size else f"{size / 1e6:,.0f} MB"


def _of(found: dict[str, dict[str, Any]], worker: str) -> dict[str, Any]:
    empty = {"worker": worker, "answers": True, "is_leader": False, "spark": None}
    return found.setdefault(worker, {**empty, **{key: [] for key in ("connectors", "tasks", "slots", "rebalances")}})


def _slot_row(slot: Mapping[str, Any], series: Mapping[str, Sequence[float | None]]) -> SlotRow:
    executor = f"executor {slot['executor']} on " if slot["executor"] not in (None, "driver") else ""
    cpu = slot["cpu_percent"]
    return SlotRow(
        slot="driver" if slot["slot"] is None else slot["slot"],
        is_up=slot["attached"],
        place=f"{executor}{slot['host']}, process {slot['pid']}" if slot["attached"] else "starting",
        job_group=slot["job_group"] or "",
        tasks=tuple((task["connector"], task["task"]) for task in slot["tasks"]),
        connector=slot.get("connector") or "",
        cpu="" if cpu is None else f"{cpu:.0f} %",
        cpu_line=_line(series.get("cpu_percent", ())),
        memory=_memory(slot["memory_bytes"], slot.get("memory_limit_bytes")),
        memory_line=_line(series.get("memory_bytes", ())),
    )


def _memory(size: float | None, most: float | None) -> str:
    return f"{bytes_text(size)} of {bytes_text(most)}" if size and most else bytes_text(size)


def _line(values: Sequence[float | None]) -> str:
    """A point for a minute of samples."""
    points = []
    for begin in range(0, len(values), 6):
        known = [value for value in values[begin : begin + 6] if value is not None]
        points.append(sum(known) / len(known) if known else 0.0)
    return sparkline(points)


def _round(generation: int, seen: Sequence[Mapping[str, Any]], now_ms: int) -> Round:
    began, ended = min(each["began_ms"] for each in seen), max(each["ended_ms"] for each in seen)
    why = next((each["why"] for each in seen if each["is_leader"]), seen[0]["why"])
    counts = {key: sum(each[key] for each in seen) for key in ("connectors_added", "tasks_added", "tasks_revoked")}
    added = counts["connectors_added"] + counts["tasks_added"]
    parts = [f"{added} assigned"] if added else []
    parts += [f"{pluralize(counts['tasks_revoked'], 'task')} taken back"] if counts["tasks_revoked"] else []
    since_ms = ended - (now_ms - HOUR_MS)
    return Round(
        generation=generation,
        began_ms=began,
        ended_ms=ended,
        took=f"{(ended - began) / 1000:.1f} s",
        why=why,
        moved=", ".join(parts),
        at=round(LINE_WIDTH * since_ms / HOUR_MS, 1) if 0 <= since_ms <= HOUR_MS else None,
    )


ROUTES: Final = (Route("/workers", {"GET": show}), Route("/workers/now", {"GET": refresh}))
