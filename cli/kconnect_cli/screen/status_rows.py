"""What connectors and tasks are seen doing, as rows of tables and of `-o json`, and why in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kconnect_cli.screen.conditions import condition_why
from kconnect_cli.screen.output import Row

if TYPE_CHECKING:
    from kconnect.model import ConnectorState, ConnectorStatus, TaskState
    from kconnect.outage import Outage

# How our workers begin a trace; of a failed record: "Task x-0 failed: CAUSE. Record of topic .. failed in STAGE of .."
_FAILED, _ROOT_CAUSE, _RECORD, _IN_STAGE = " failed: ", " Root cause: ", ". Record of topic ", " failed in "
_PLUGIN: Final = re.compile(r"\w+ of [\w.<>]*\w")
_GIVEN: Final = re.compile(r"The (?:key|value) (?:is|begins with) b.*?(?=\.(?: Since|$))")


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
    """Fields that a row has only if there is a value: the condition of a task, the trace of what failed."""
    condition = getattr(seen, "condition", None)
    more: dict[str, Any] = {} if condition is None else {"condition": condition.to_json()}
    return more | ({"trace": seen.trace} if seen.trace else {})


def why(row: Row) -> str:
    """Why a row is as it is, in one line: what failed, or since when and why a task does not get on."""
    return root_cause(row.get("trace")) or condition_why(row.get("condition")) or str(row.get("reason", ""))


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


def root_cause(trace: str | None) -> str:
    """The last cause of a trace, in one line, and which record: the part an operator wants to read first."""
    if not trace:
        return ""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    cause, _, record = lines[0].partition(_FAILED)[2].partition(_RECORD)
    if record:
        place, _, stage = record.partition(_IN_STAGE)
        plugin, given = _PLUGIN.match(stage), _GIVEN.search(stage)
        in_stage = f" in {plugin[0]}" if plugin is not None else ""
        return f"{cause}{_RECORD}{place}{in_stage}" + (f". {given[0]}" if given is not None else "")
    if _ROOT_CAUSE in lines[0]:  # our workers say it at once
        return lines[0].partition(_ROOT_CAUSE)[2]
    caused = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if caused:
        return caused[-1]
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]
