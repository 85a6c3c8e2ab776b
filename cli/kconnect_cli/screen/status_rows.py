"""What connectors and tasks are seen doing, as rows of tables and of `-o json`, and why in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kconnect.client.outage import away_reason
from kconnect.clock import now_ms
from kconnect.runtime.health.views import PartView, connector_view
from kconnect_cli.screen.output import Row

if TYPE_CHECKING:
    from kconnect.client.outage import Outage
    from kconnect.model import ConnectorState, ConnectorStatus, TaskState

GONE = "GONE"
"""The state of a row whose connector or task was deleted."""


def status_rows(statuses: Sequence[ConnectorStatus]) -> list[dict[str, Any]]:
    """A row for each connector (task: null) and each task.

    Shape: name, task, state, worker_id; where there is one, condition {name, since_ms, count, cause, stack} and trace.
    """
    return [
        {"name": found.name, "task": part.task, "state": str(part.state), "worker_id": part.seen.worker_id}
        | more_of(part.seen)
        for found in statuses
        for part in connector_view(found).parts
    ]


def more_of(seen: ConnectorState | TaskState) -> dict[str, Any]:
    """Fields that a row has only if there is a value: the condition, automatic restarts, the trace."""
    more: dict[str, Any] = {} if seen.condition is None else {"condition": seen.condition.to_json()}
    more |= {} if seen.restarts is None else {"restarts": seen.restarts.to_json()}
    return more | ({"trace": seen.trace} if seen.trace else {})


def part_of(row: Row) -> PartView:
    """What a row reports; rows of an array without `task` are tasks, known by `id`."""
    from kconnect.client.answers import as_task_state  # the client is loaded where somebody is asked

    number = row.get("task", row.get("id"))
    return PartView(number, as_task_state({**row, "id": number}))


def why(row: Row) -> str:
    """Why a row is as it is, in one line: what failed, or since when and why a task makes no progress."""
    if row["state"] == GONE:
        return ""
    return part_of(row).why(now_ms(), named=False) or str(row.get("reason", ""))


def condition_name(row: Row) -> str:
    """The word; empty where it is not known, such as of Java's workers."""
    condition = row.get("condition")
    return "" if condition is None else str(condition["name"])


def with_reason(rows: Sequence[Row], worker: str, start: str, outage: str | None) -> list[Row]:
    """Rows with `reason`, for tables: why what is UNASSIGNED on the worker that was asked does not run.

    `worker`: host and port by which it was asked. Where the rows name one worker only it is that one, by whatever name.
    `start`: what it waits for while it starts, else empty; `outage`: why Kafka does not answer, if it is away.
    """
    reason = start.rstrip(".") or ("" if outage is None else away_reason(outage))
    is_alone = len({row["worker_id"] for row in rows}) == 1
    return [
        {**row, "reason": reason}
        if reason and row["state"] == "UNASSIGNED" and (is_alone or row["worker_id"] == worker)
        else row
        for row in rows
    ]


def as_known(rows: list[dict[str, Any]], outage: Outage | None) -> list[dict[str, Any]]:
    """While Kafka is away each row has `kafka_away_since`, an ISO time: what it says is the last that was known."""
    return rows if outage is None else [{**row, "kafka_away_since": outage.since} for row in rows]
