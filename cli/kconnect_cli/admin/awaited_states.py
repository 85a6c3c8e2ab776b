"""Whether connectors and their tasks are in the state that is waited for, or never will be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kconnect.errors import ConnectError
from kconnect_cli.screen.status_rows import failed_why, status_rows, why

if TYPE_CHECKING:
    from kconnect.model import ConnectorState, ConnectorStatus, TaskState

# Mend.WAITING, as rows have it
_RESTART_FOLLOWS = "waiting"


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
    """What is FAILED recovers only if an automatic restart follows. Errors: ConnectError with the cause."""
    if wished in ("FAILED", "GONE", "STOPPED"):
        return
    for row in status_rows(statuses):
        restarts = row.get("restarts")
        if row["state"] == "FAILED" and (restarts is None or restarts["state"] != _RESTART_FOLLOWS):
            what = row["name"] if row["task"] is None else f"{row['name']} task {row['task']}"
            reason = why(row) or "its worker does not say why"
            raise ConnectError(f"{what} FAILED: {reason}", hint=f"connect connectors show {row['name']} has its trace.")


def state_text(name: str, found: ConnectorStatus | None) -> str:
    """The states of a connector and its tasks, with why the first that FAILED did."""
    if found is None:
        return f"{name} does not exist"
    tasks = ", ".join(f"task {task.id} {task.state}" for task in found.tasks) or "no tasks"
    parts: list[ConnectorState | TaskState] = [found.connector, *found.tasks]
    cause = next(filter(None, (failed_why(part) for part in parts if str(part.state) == "FAILED")), "")
    return f"{name} is {found.connector.state}, {tasks}{f' ({cause})' if cause else ''}"
