"""Findings on tasks that are RUNNING and do not get on, as the workers that run them say. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kconnect.direct.doctor.facts import Facts, Finding, Severity
from kconnect.model import Condition

__all__ = ["task_findings"]

_SEVERITY: Final = {Condition.LAGGING: Severity.INFO}
_HINT: Final = {
    Condition.STUCK: "connect tasks show has the stack. A restart abandons the call and begins anew.",
    Condition.RETRYING: "It goes on by itself when the cause is gone.",
    Condition.NOT_COMMITTING: "Until that is mended its records come again after a restart.",
    Condition.LAGGING: "More tasks (tasks.max), or more partitions, may help.",
}


def task_findings(facts: Facts) -> Iterator[Finding]:
    """One for each task that is not healthy."""
    for task_id, (worker, found) in sorted(facts.conditions.items()):
        if found.condition is Condition.HEALTHY:
            continue
        lasted_s = max((facts.now_ms - found.since_ms) // 1000, 0)
        yield Finding(
            code=f"task-{str(found.condition).replace(' ', '-')}",
            severity=_SEVERITY.get(found.condition, Severity.WARNING),
            sentence=f"Task {task_id} on {worker} has been {found.condition} for {lasted_s:,} s: {found.cause or ''}",
            connector=task_id.connector,
            repair=_repair(found.condition, task_id.connector, task_id.task),
            hint=_HINT[found.condition],
        )


def _repair(condition: Condition, connector: str, task: int) -> tuple[str, ...]:
    return ("connect", "tasks", "restart", connector, str(task)) if condition is Condition.STUCK else ()
