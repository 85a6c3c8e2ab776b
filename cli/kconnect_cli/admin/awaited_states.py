"""Whether connectors and their tasks are in the state that is waited for, or never will be. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kconnect.clock import now_ms
from kconnect.model import AutoRestart, ConnectorStatus
from kconnect.runtime.health.views import ConnectorHealth, connector_view
from kconnect_cli.exits import FoundError


def is_reached(found: ConnectorStatus | None, wished: str) -> bool:
    if found is None or wished == "GONE":
        return found is None and wished == "GONE"
    tasks = [str(task.state) for task in found.tasks]
    if wished == "RUNNING" and not tasks:
        return False  # RUNNING is reported before the connector has generated its tasks
    if wished == "FAILED":
        return str(found.connector.state) == wished or wished in tasks
    return str(found.connector.state) == wished and all(state == wished for state in tasks)


def raise_if_hopeless(statuses: Sequence[ConnectorStatus], wished: str) -> None:
    """What is FAILED recovers only if an automatic restart follows. Errors: FoundError with the cause."""
    if wished in ("FAILED", "GONE", "STOPPED"):
        return
    for status in statuses:
        for part in connector_view(status).parts:
            if part.health is ConnectorHealth.FAILED and (
                part.restarts is None or part.restarts.state is not AutoRestart.WAITING
            ):
                what = status.name if part.task is None else f"{status.name} {part.words}"
                hint = f"connect connectors show {status.name} has its trace."
                raise FoundError(f"{what} FAILED: {part.why(now_ms())}", hint=hint)


def state_text(name: str, found: ConnectorStatus | None) -> str:
    """The states of a connector and its tasks, with what is wrong with the worst."""
    if found is None:
        return f"{name} does not exist"
    tasks = ", ".join(f"task {task.id} {task.state}" for task in found.tasks) or "no tasks"
    view = connector_view(found)
    cause = view.worst.why(now_ms()) if view.health in (ConnectorHealth.FAILED, ConnectorHealth.DEGRADED) else ""
    return f"{name} is {found.connector.state}, {tasks}{f' ({cause})' if cause else ''}"
