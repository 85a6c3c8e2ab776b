"""The histories of several workers as one: their samples have the same times. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kconnect.model import TaskId
from kconnect.runtime.metrics.history import empty_line
from kconnect.runtime.metrics.sensors import Moves

Values: TypeAlias = Sequence[float | None]
Document: TypeAlias = Mapping[str, Any]


def sum_of_histories(documents: Sequence[Document]) -> dict[str, Any]:
    """The answers of several workers to `GET /admin/history` for one connector, as one answer.

    A task that has moved has one series, with the values of whoever ran it. Slots have their `worker`.
    """
    times, every_ms = _times(documents)
    tasks: dict[tuple[str, int], dict[str, list[float | None]]] = {}
    mbeans: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    slots: list[dict[str, Any]] = []
    for document in documents:
        shift = _Shift(document["times"], times)
        for task in document["tasks"]:
            key = task["connector"], task["task"]
            _add_mbeans(mbeans.setdefault(key, {}), task.get("mbeans", ()), shift)
            into = tasks.setdefault(key, {})
            for name, values in task["series"].items():
                moved = shift.moved(values)
                into[name] = [_either(a, b) for a, b in zip(into[name], moved, strict=True)] if name in into else moved
        slots += _slots(document, shift)
    shown = [
        {
            "connector": key[0],
            "task": key[1],
            "series": tasks[key],
            **({"mbeans": [*mbeans[key].values()]} if mbeans[key] else {}),
        }
        for key in sorted(tasks)
    ]
    return {
        "every_ms": every_ms,
        "times": times,
        "tasks": shown,
        "slots": slots,
        "left_out": sum(document.get("left_out", 0) for document in documents),
    }


def _add_mbeans(into: dict[str, dict[str, Any]], found: Sequence[Mapping[str, Any]], shift: _Shift) -> None:
    """Takes, for a task that has moved, the value from where it is now."""
    for each in found:
        key, moved = f"{each['name']}{each['labels']}", shift.moved(each["series"])
        known = into.setdefault(key, {**each, "series": moved})
        known["series"] = [_either(a, b) for a, b in zip(known["series"], moved, strict=True)]
        known["value"] = each["value"] if known["value"] is None else known["value"]


def with_moves(overview: Document, moves: Mapping[TaskId, Moves]) -> dict[str, Any]:
    """A worker's overview with what its tasks move now: of each connector `now_per_s` and `tasks`."""
    points = len(overview["times"])
    names = dict.fromkeys([*overview["connectors"], *(task.connector for task in moves)])
    lines = {
        name: {**(overview["connectors"].get(name) or empty_line(points)), "now_per_s": 0.0, "tasks": []}
        for name in names
    }
    for task, found in sorted(moves.items()):
        line = lines[task.connector]
        line["now_per_s"] = round(line["now_per_s"] + found.per_s, 3)
        reported = {
            "task": task.task,
            "records_per_s": round(found.per_s, 3),
            "records": found.records,
            "errors": found.errors,
            "forms": None if found.forms is None else found.forms.to_json(),
        }
        line["tasks"].append(reported)
    return {**overview, "connectors": lines}


def sum_of_overviews(documents: Sequence[Document]) -> dict[str, Any]:
    """The answers of several workers to `GET /admin/history` without a connector, as one answer."""
    times, every_ms = _times(documents)
    lines: dict[str, dict[str, Any]] = {}
    for document in documents:
        shift = _Shift(document["times"], times)
        for name, line in document["connectors"].items():
            into = lines.setdefault(name, {**empty_line(len(times)), "now_per_s": 0.0, "tasks": []})
            moved = shift.moved(line["records_per_s"])
            into["records_per_s"] = [a + (b or 0.0) for a, b in zip(into["records_per_s"], moved, strict=True)]
            # Each worker looks at its own time, and a connector that moved is known to two for a while
            known = [each for each in (into, line) if each["lag"] is not None]
            newest = max(known, key=lambda each: (each.get("lag_at_ms") or 0, each["lag"]), default=into)
            into["lag"], into["lag_at_ms"] = newest["lag"], newest.get("lag_at_ms")
            into["tasks"] = sorted([*into["tasks"], *line.get("tasks", ())], key=lambda task: task["task"])
            for key in ("now_per_s", "errors", "restarts"):
                into[key] += line[key]
    return {"every_ms": every_ms, "times": times, "connectors": lines}


def sum_of_tasks(tasks: Sequence[Mapping[str, Any]], name: str, how: str) -> list[float | None]:
    """One series of all tasks of a connector: their `sum`, or the `most` of them; None where there is no value."""
    columns: list[list[float]] = []
    for task in tasks:
        for place, value in enumerate(task["series"].get(name, ())):
            if place == len(columns):
                columns.append([])
            if value is not None:
                columns[place].append(value)
    if how == "sum":
        return [sum(values) if values else None for values in columns]
    return [max(values) if values else None for values in columns]


def _times(documents: Sequence[Document]) -> tuple[list[int], int]:
    found = sorted({time for document in documents for time in document["times"]})
    longest = max((len(document["times"]) for document in documents), default=0)
    return found[len(found) - longest :], next((document["every_ms"] for document in documents), 0)


class _Shift:
    """Moves the values of one worker to the times of all."""

    def __init__(self, own: Sequence[int], times: Sequence[int]) -> None:
        places = {time: place for place, time in enumerate(own)}
        self._places = [places.get(time) for time in times]

    def moved(self, values: Values) -> list[float | None]:
        return [None if place is None or place >= len(values) else values[place] for place in self._places]


def _slots(document: Document, shift: _Shift) -> list[dict[str, Any]]:
    worker = document.get("worker", "")
    return [
        {
            "worker": slot.get("worker", worker),
            "slot": slot["slot"],
            "series": {name: shift.moved(values) for name, values in slot["series"].items()},
        }
        for slot in document.get("slots", ())
    ]


def _either(first: float | None, second: float | None) -> float | None:
    return second if first is None else first
