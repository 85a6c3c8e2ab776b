"""`/ui/connectors/{name}`: one connector: its state, tasks with what failed, settings, topics, offsets.

Its activity is an hour of it, plotted: a part of the page that keeps itself current. `plots_of` is pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson

from kconnect.admin.cluster.activity import NO_ACTIVITY
from kconnect.admin.console.connector_rows import number_text
from kconnect.admin.console.html import render
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Reply, Route, Unchanged
from kconnect.client.exchange import segment
from kconnect.client.masks import Masks
from kconnect.clock import now_ms
from kconnect.errors import ConnectError, NotFoundError
from kconnect.logs.redaction import redact
from kconnect.model import ConnectorStatus, RunState
from kconnect.runtime.health.views import ConnectorHealth, connector_view
from kconnect.runtime.metrics.history_sum import sum_of_tasks

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sub:
    """A page about the connector, in the row below its name."""

    title: str
    url: str
    is_here: bool


def show(request: PageRequest) -> Reply:
    """The page."""
    name = request.path["name"]
    status, info = request.cluster.connector_status(name), request.cluster.connector(name)
    config = Masks(request.cluster).masked(info.config)
    topics, topics_problem = if_reported(lambda: request.cluster.topics(name))
    offsets, offsets_problem = if_reported(lambda: request.cluster.connector_offsets(name))
    values = {
        **header(request, status, config, "status"),
        **state_values(status),
        "config": sorted(config.items()),
        "topics": topics,
        "topics_problem": topics_problem,
        "offsets": [(cell(item.partition), cell(item.offset)) for item in offsets or ()],
        "offsets_problem": offsets_problem,
    }
    return Page("connector.html", name, values, tab="connectors")


def state(request: PageRequest) -> Reply:
    """What polling keeps current: state and tasks."""
    status = request.cluster.connector_status(request.path["name"])
    values = state_values(status)
    if request.query.get("v") == values["version"]:
        return Unchanged()
    values = {**header(request, status, {}, "status"), **values}
    # What can be done about it has changed as well
    actions = render("connector_actions.html", {**values, "out_of_band": True})
    return Fragment(html=render("connector_state.html", values) + actions)


def header(request: PageRequest, status: ConnectorStatus, config: Mapping[str, str], here: str) -> dict[str, Any]:
    """Values that the head of every page about a connector needs."""
    name = status.name
    own = f"/ui/connectors/{segment(name)}"
    subs = [("status", "Status", own)]
    if request.cluster.rest is not None:
        subs.append(("config", "Edit config", f"{own}/config"))
    subs.append(("offsets", "Offsets", f"{own}/offsets"))
    subs.append(("topics", "Topics", f"{own}/topics"))
    if (brokers := request.cluster.brokers) is not None:
        if brokers.worker.get("config.storage.topic"):
            subs.append(("history", "History", f"{own}/history"))
        subs.append(("dead-letters", "Dead letters", f"{own}/dead-letters"))
    return {
        "name": name,
        "own": own,
        "status": status,
        "health": str(connector_view(status).health),
        "class_name": config.get("connector.class", ""),
        "subs": [Sub(title, url, key == here) for key, title, url in subs],
        "held_up": request.cluster.held_up,
        "verbs": verbs_of(status, has_workers=request.cluster.rest is not None),
    }


def verbs_of(status: ConnectorStatus, *, has_workers: bool) -> list[tuple[str, str]]:
    """What can be done now, as the path's end and the words of the button."""
    found = []
    if status.connector.state in (RunState.PAUSED, RunState.STOPPED):
        found.append(("resume", "Resume"))
    else:
        found.append(("pause", "Pause"))
    if status.connector.state is not RunState.STOPPED:
        found.append(("stop", "Stop"))
    if has_workers and status.connector.state is not RunState.STOPPED:
        if connector_view(status).health is ConnectorHealth.FAILED:
            found.insert(0, ("restart-failed", "Restart what failed"))
        found.append(("restart", "Restart"))
    return [*found, ("delete", "Delete")]


def state_values(status: ConnectorStatus) -> dict[str, Any]:
    """Values of the part that polling keeps current."""
    view, at_ms = connector_view(status), now_ms()
    # The seconds until a restart go on while nothing else does
    counts_down = any(part.restarts is not None and part.restarts.due_ms is not None for part in view.parts)
    shown = json.dumps([status.to_json(), at_ms // 1000 if counts_down else 0], sort_keys=True)
    version = hashlib.sha256(shown.encode()).hexdigest()[:12]
    failures = [part for part in view.parts if part.health is ConnectorHealth.FAILED]
    return {"version": version, "failures": failures, "stands": view, "status": status, "now_ms": at_ms}


def if_reported(ask: Callable[[], T]) -> tuple[T | None, str]:
    """What the cluster tells, or why it does not: the rest of the page is there all the same."""
    try:
        return ask(), ""
    except ConnectError as err:
        return None, redact(str(err))


def cell(value: object) -> str:
    """JSON for a cell of a table, with sorted keys, so that equal values read the same."""
    return "none" if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)


def show_activity(request: PageRequest) -> Reply:
    """The plots' place, their values and metrics."""
    return Fragment("activity.html", _activity_values(request))


def refresh_activity(request: PageRequest) -> Reply:
    """The values and metrics alone."""
    return Fragment("activity_data.html", _activity_values(request))


def _activity_values(request: PageRequest) -> dict[str, Any]:
    name, rest = request.path["name"], request.cluster.rest
    empty: dict[str, Any] = {"name": name, "plots": [], "data": "", "why": "", "sink": NO_ACTIVITY}
    if rest is None or not request.cluster.capabilities().is_ours:
        found = request.cluster.activities({name: request.cluster.connector_status(name)}) or {}
        why = "Rates of the last hour are kept by kconnect's own workers."
        return {**empty, "why": why, "sink": found.get(name, NO_ACTIVITY)}
    try:
        history = rest.history(name, cluster=True)
    except NotFoundError:
        return {**empty, "why": "This worker is an older kconnect, which keeps no history."}
    if not history["tasks"]:
        return {**empty, "why": "No task has run within the last hour, or the first ten seconds are not over."}
    plots = plots_of(history)
    data = {"times": [time // 1000 for time in history["times"]], "plots": [plot.to_json() for plot in plots]}
    return {**empty, "plots": plots, "data": orjson.dumps(data).decode()}


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


ROUTES: Final = (
    Route("/connectors/{name}", {"GET": show}),
    Route("/connectors/{name}/state", {"GET": state}),
    Route("/connectors/{name}/activity", {"GET": show_activity}),
    Route("/connectors/{name}/activity/now", {"GET": refresh_activity}),
)
