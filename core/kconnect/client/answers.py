"""What workers answer, parsed: JSON of Connect, and samples of a worker's `/metrics`, Prometheus' text format.

KeyError, TypeError and ValueError mean that JSON is not Connect's. A worker with a thousand tasks answers `/metrics`
with a hundred thousand lines: one regular expression picks those that are wanted, and the rest is never taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

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


def having(*keys: str) -> Callable[[Json], dict[str, Any]]:
    """Parses an object that has these keys: another service answers with JSON too."""

    def parse(body: Json) -> dict[str, Any]:
        found = as_object(body)
        for key in keys:
            found[key]
        return found

    return parse


def as_list(body: Json) -> list[Any]:
    if not isinstance(body, list):
        raise TypeError("no list")
    return body


def as_objects(body: Json) -> list[dict[str, Any]]:
    return [as_object(item) for item in as_list(body)]


def as_workers(body: Json) -> list[dict[str, Any]]:
    """The one that was asked, and others."""
    own, *others = [having("worker")(item) for item in as_list(body)]
    return [own, *others]


def as_names(body: Json) -> list[str]:
    return [str(name) for name in as_list(body)]


def as_topics(body: Json, name: str) -> list[str]:
    return as_names(as_object(as_object(body)[name])["topics"])


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
            RunState(own["state"]),
            own["worker_id"],
            own.get("trace") or None,
            own.get("version"),
            _restarts(own),
            _condition(own),
        ),
        tasks=tuple(as_task_state(task) for task in body["tasks"]),
        type=_type(body),
    )


def as_statuses(body: Json) -> dict[str, ConnectorStatus]:
    return {name: as_status(item["status"]) for name, item in as_object(body).items()}


def as_task_infos(body: Json) -> list[TaskInfo]:
    return [TaskInfo(TaskId(item["id"]["connector"], item["id"]["task"]), item["config"]) for item in as_list(body)]


def as_task_state(body: Json) -> TaskState:
    return TaskState(
        body["id"],
        RunState(body["state"]),
        body["worker_id"],
        body.get("trace") or None,
        body.get("version"),
        _condition(body),
        _restarts(body),
    )


def _condition(body: Mapping[str, Any]) -> TaskCondition | None:
    found = body.get("condition")
    return None if found is None else TaskCondition.from_json(found)


def _restarts(body: Mapping[str, Any]) -> Restarts | None:
    found = body.get("restarts")
    return None if found is None else Restarts.from_json(found)


def as_conditions(body: Json) -> dict[str | TaskId, TaskCondition]:
    """By name of connectors, which have no task."""
    return {_subject(item): TaskCondition.from_json(item["condition"]) for item in as_list(body)}


def _subject(item: Json) -> str | TaskId:
    name = str(item["connector"])
    return TaskId(name, int(item["task"])) if "task" in item else name


def as_offsets_and_lag(body: Json) -> tuple[list[ConnectorOffset], SinkLag | None]:
    """Java's workers, and those before this resource, say nothing of the lag."""
    lag = body.get("lag") if isinstance(body, dict) else None
    return offsets_from_json(body), None if lag is None else SinkLag.from_json(lag)


def _type(body: Mapping[str, Any]) -> ConnectorType:
    return ConnectorType(body.get("type") or "unknown")


_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One line: `kafka_connect_x{connector="orders",task="0"} 12`."""

    name: str
    labels: dict[str, str]
    value: float


def samples_of(text: str, names: Collection[str]) -> Iterator[Sample]:
    """The samples with these names, in the text's order. Values that are not numbers are left out."""
    wanted = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    for found in re.finditer(rf"^({wanted})(?:\{{(.*)\}})? (\S+)", text, re.MULTILINE):
        name, labels, value = found.groups()
        try:
            number = float(value)
        except ValueError:
            continue
        yield Sample(name, {key: _plain(text) for key, text in _LABEL.findall(labels or "")}, number)


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
