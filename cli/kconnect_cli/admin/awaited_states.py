"""Whether connectors and their tasks are in the state that is waited for, or never will be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kconnect.errors import ConnectError
from kconnect.traces import root_cause
from kconnect_cli.screen.status_rows import status_rows

if TYPE_CHECKING:
    from kconnect.model import ConnectorStatus


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
    """A FAILED task does not recover by itself. Errors: ConnectError with the cause."""
    if wished in ("FAILED", "GONE", "STOPPED"):
        return
    for row in status_rows(statuses):
        if row["state"] == "FAILED":
            what = row["name"] if row["task"] is None else f"{row['name']} task {row['task']}"
            raise ConnectError(
                f"{what} FAILED: {root_cause(row.get('trace'))}",
                hint=f"connect connectors show {row['name']} has its trace.",
            )


def state_text(name: str, found: ConnectorStatus | None) -> str:
    if found is None:
        return f"{name} does not exist"
    tasks = ", ".join(f"task {task.id} {task.state}" for task in found.tasks) or "no tasks"
    return f"{name} is {found.connector.state}, {tasks}"
