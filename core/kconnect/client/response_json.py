"""Parses JSON of Connect's answers. KeyError, TypeError and ValueError mean that it is not Connect's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Restarts,
    RunState,
    SinkLag,
    TaskCondition,
    TaskId,
    TaskInfo,
    TaskState,
    offsets_from_json,
)

Json = Any  # whatever a worker answers


def as_object(body: Json) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise TypeError("no object")
    return body


def as_list(body: Json) -> list[Any]:
    if not isinstance(body, list):
        raise TypeError("no list")
    return body


def as_objects(body: Json) -> list[dict[str, Any]]:
    return [as_object(item) for item in as_list(body)]


def as_names(body: Json) -> list[str]:
    return [str(name) for name in as_list(body)]


def as_message(body: Json) -> str:
    return str(as_object(body)["message"])


def as_info(body: Json) -> ConnectorInfo:
    tasks = tuple(TaskId(task["connector"], task["task"]) for task in body["tasks"])
    return ConnectorInfo(body["name"], body["config"], tasks, _type(body))


def as_infos(body: Json) -> dict[str, ConnectorInfo]:
    return {name: as_info(item["info"]) for name, item in as_object(body).items()}


def as_status(body: Json) -> ConnectorStatus:
    own = body["connector"]
    return ConnectorStatus(
        name=body["name"],
        connector=ConnectorState(
            RunState(own["state"]), own["worker_id"], own.get("trace") or None, own.get("version"), _restarts(own)
        ),
        tasks=tuple(as_task_state(task) for task in body["tasks"]),
        type=_type(body),
    )


def as_statuses(body: Json) -> dict[str, ConnectorStatus]:
    return {name: as_status(item["status"]) for name, item in as_object(body).items()}


def as_task_infos(body: Json) -> list[TaskInfo]:
    return [TaskInfo(TaskId(item["id"]["connector"], item["id"]["task"]), item["config"]) for item in as_list(body)]


def as_task_state(body: Json) -> TaskState:
    condition = body.get("condition")
    return TaskState(
        body["id"],
        RunState(body["state"]),
        body["worker_id"],
        body.get("trace") or None,
        body.get("version"),
        None if condition is None else TaskCondition.from_json(condition),
        _restarts(body),
    )


def _restarts(body: Mapping[str, Any]) -> Restarts | None:
    found = body.get("restarts")
    return None if found is None else Restarts.from_json(found)


def as_conditions(body: Json) -> dict[TaskId, TaskCondition]:
    return {
        TaskId(str(item["connector"]), int(item["task"])): TaskCondition.from_json(item["condition"])
        for item in as_list(body)
    }


def as_offsets_and_lag(body: Json) -> tuple[list[ConnectorOffset], SinkLag | None]:
    """Java's workers, and those before this resource, say nothing of the lag."""
    lag = body.get("lag") if isinstance(body, dict) else None
    return offsets_from_json(body), None if lag is None else SinkLag.from_json(lag)


def _type(body: Mapping[str, Any]) -> ConnectorType:
    return ConnectorType(body.get("type") or "unknown")
