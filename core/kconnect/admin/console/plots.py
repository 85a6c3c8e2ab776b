"""An hour of a connector as plots and a table: which lines there are, and what they say in numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kconnect.admin.console.connector_rows import number_text
from kconnect.runtime.metrics.history_sum import sum_of_tasks


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot. `now`, `mean`, `most`: of the hour, as people read them; empty without any value."""

    label: str
    values: tuple[float | None, ...]
    now: str
    mean: str
    most: str


@dataclass(frozen=True, slots=True)
class Plot:
    """`unit` follows its numbers."""

    title: str
    unit: str
    lines: tuple[Line, ...]

    def to_json(self) -> dict[str, Any]:
        lines = [{"label": line.label, "values": line.values} for line in self.lines]
        return {"title": self.title, "unit": self.unit, "lines": lines}


# Title, unit, and lines: label, series, how tasks are put together
_PLOTS: Final[tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...]] = (
    ("Records", "/s", (("in", "records_in_per_s", "sum"), ("out", "records_out_per_s", "sum"))),
    ("Lag", " records", (("most behind", "lag", "most"),)),
    ("Poll", " ms", (("mean", "poll_ms", "most"), ("longest", "poll_max_ms", "most"))),
    ("Put", " ms", (("mean", "put_ms", "most"), ("longest", "put_max_ms", "most"))),
    ("Commit of offsets", " ms", (("mean", "commit_ms", "most"),)),
    ("Bytes", "/s", (("to and from Kafka", "bytes_per_s", "sum"),)),
    ("Errors", " in ten seconds", (("records failed", "errors", "sum"), ("retries", "retries", "sum"))),
    ("Restarts", " in ten seconds", (("tasks", "restarts", "sum"),)),
)


_MOST_LINES: Final = 6
_MOST_MBEANS: Final = 40


def plots_of(history: Mapping[str, Any]) -> list[Plot]:
    """`history` of one connector. The records always, the others where there was anything."""
    found = []
    for title, unit, wanted in _PLOTS:
        lines = tuple(_line(label, sum_of_tasks(history["tasks"], name, how)) for label, name, how in wanted)
        if title == "Records" or any(any(line.values) for line in lines):
            found.append(Plot(title, unit, lines))
    return found + _of_mbeans(history["tasks"])


def _of_mbeans(tasks: Sequence[Mapping[str, Any]]) -> list[Plot]:
    """The numbers of MBeans that moved within the hour, a line for each task and set of labels."""
    lines: dict[str, list[Line]] = {}
    for task in tasks:
        for each in task.get("mbeans", ()):
            if len({value for value in each["series"] if value is not None}) > 1:
                label = ", ".join([str(task["task"]), *each["labels"].values()])
                lines.setdefault(each["name"], []).append(_line(label, each["series"]))
    return [Plot(name, "", tuple(lines[name][:_MOST_LINES])) for name in sorted(lines)][:_MOST_MBEANS]


def _line(label: str, values: Sequence[float | None]) -> Line:
    known = [value for value in values if value is not None]
    last = next((value for value in reversed(values[-3:]) if value is not None), None)
    return Line(
        label,
        tuple(values),
        now="" if last is None else number_text(last),
        mean=number_text(sum(known) / len(known)) if known else "",
        most=number_text(max(known)) if known else "",
    )
