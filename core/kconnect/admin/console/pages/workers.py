"""`/ui/workers`: workers with their slots and tasks, how tasks are spread, the last rebalances, Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Reply, Route
from kconnect.admin.console.worker_rows import LINE_WIDTH, rounds, spreads, worker_rows, workers_of_statuses
from kconnect.errors import NotFoundError


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


ROUTES: Final = (Route("/workers", {"GET": show}), Route("/workers/now", {"GET": refresh}))
