"""`/ui/connectors/{name}`: one connector: its state, tasks with what failed, settings, topics, offsets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kconnect.admin.console.html import render, segment
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Reply, Route, Unchanged
from kconnect.client.masks import Masks
from kconnect.clock import now_ms
from kconnect.errors import ConnectError
from kconnect.logs.redaction import redact
from kconnect.model import ConnectorStatus, RunState
from kconnect.runtime.health.views import ConnectorHealth, connector_view

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


ROUTES: Final = (
    Route("/connectors/{name}", {"GET": show}),
    Route("/connectors/{name}/state", {"GET": state}),
)
