"""What connectors and tasks are seen doing, as rows of tables and of `-o json`, and why in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kconnect.logs.traces import root_cause
from kconnect_cli.screen.conditions import condition_why
from kconnect_cli.screen.output import Row

if TYPE_CHECKING:
    from kconnect.client.outage import Outage
    from kconnect.model import ConnectorState, ConnectorStatus, Restarts, TaskState


def status_rows(statuses: Sequence[ConnectorStatus]) -> list[dict[str, Any]]:
    """A row for each connector (task: null) and each task.

    Shape: name, task, state, worker_id; where there is one, condition {name, since_ms, count, cause, stack} and trace.
    """
    rows: list[dict[str, Any]] = []
    for found in statuses:
        parts: list[tuple[int | None, ConnectorState | TaskState]] = [(None, found.connector)]
        parts += [(task.id, task) for task in found.tasks]
        for number, seen in parts:
            row = {"name": found.name, "task": number, "state": str(seen.state), "worker_id": seen.worker_id}
            rows.append(row | more_of(seen))
    return rows


def more_of(seen: ConnectorState | TaskState) -> dict[str, Any]:
    """Fields that a row has only if there is a value: the condition of a task, automatic restarts, the trace."""
    condition = getattr(seen, "condition", None)
    more: dict[str, Any] = {} if condition is None else {"condition": condition.to_json()}
    more |= {} if seen.restarts is None else {"restarts": seen.restarts.to_json()}
    return more | ({"trace": seen.trace} if seen.trace else {})


def why(row: Row) -> str:
    """Why a row is as it is, in one line: what failed, or since when and why a task does not get on."""
    cause = root_cause(row.get("trace"))
    restarts = restart_words(row.get("restarts"))
    if cause and restarts:
        return f"{restarts}: {cause}"
    return cause or condition_why(row.get("condition")) or str(row.get("reason", ""))


def restart_words(restarts: Mapping[str, Any] | Restarts | None) -> str:
    """`given up after 5 restarts`: what the automatic restarts of a part that failed have come to."""
    if restarts is None:
        return ""
    from kconnect.model import Restarts

    return (restarts if isinstance(restarts, Restarts) else Restarts.from_json(restarts)).words()


def failed_why(seen: ConnectorState | TaskState) -> str:
    """Why it has FAILED, and what its automatic restarts have come to; empty of what has not."""
    cause, restarts = root_cause(seen.trace), restart_words(seen.restarts)
    return f"{restarts}: {cause}" if cause and restarts else cause


def with_reason(rows: Sequence[Row], worker: str, start: str, outage: Outage | None) -> list[Row]:
    """Rows with `reason`, for tables: why what is UNASSIGNED on the worker that was asked does not run.

    `worker`: host and port by which it was asked. Where the rows name one worker only it is that one, by whatever name.
    `start`: what it waits for while it starts, else empty.
    """
    reason = start.rstrip(".") or ("" if outage is None else f"Kafka is away: {outage.problem}")
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
