"""`/ui/connectors/{name}/activity`: an hour of a connector, plotted; a part of its page that keeps itself current."""

from __future__ import annotations

from typing import Any, Final

import orjson

from kconnect.admin.console.page_request import Fragment, PageRequest, Reply, Route
from kconnect.admin.console.plots import plots_of
from kconnect.errors import NotFoundError


def show(request: PageRequest) -> Reply:
    """The plots' place, their values and metrics."""
    return Fragment("activity.html", _values(request))


def refresh(request: PageRequest) -> Reply:
    """The values and metrics alone."""
    return Fragment("activity_data.html", _values(request))


def _values(request: PageRequest) -> dict[str, Any]:
    name, rest = request.path["name"], request.cluster.rest
    empty: dict[str, Any] = {"name": name, "plots": [], "data": "", "why": ""}
    if rest is None or not request.cluster.capabilities().is_ours:
        return {**empty, "why": "Rates of the last hour are kept by kconnect's own workers."}
    try:
        history = rest.history(name, cluster=True)
    except NotFoundError:
        return {**empty, "why": "This worker is an older kconnect, which keeps no history."}
    if not history["tasks"]:
        return {**empty, "why": "No task has run within the last hour, or the first ten seconds are not over."}
    plots = plots_of(history)
    data = {"times": [time // 1000 for time in history["times"]], "plots": [plot.to_json() for plot in plots]}
    return {**empty, "plots": plots, "data": orjson.dumps(data).decode()}


ROUTES: Final = (
    Route("/connectors/{name}/activity", {"GET": show}),
    Route("/connectors/{name}/activity/now", {"GET": refresh}),
)
