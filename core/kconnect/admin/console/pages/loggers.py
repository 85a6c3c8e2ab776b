"""`/ui/loggers`: levels of a worker's loggers, and setting one; `/ui/log`: the last lines of all workers, live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Redirect, Reply, Route
from kconnect.client import ConnectClient
from kconnect.errors import BadRequestError, NotFoundError

LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
_FIRST_LINES: Final = 200
_MORE_LINES: Final = 500


def show(request: PageRequest) -> Reply:
    """Loggers with their levels, and a form that sets one."""
    text = request.query.get("q", "").strip()
    found = {} if request.cluster.rest is None else request.cluster.rest.loggers()
    rows: list[dict[str, Any]] = [
        {"name": name, "level": level.get("level"), "modified_ms": level.get("last_modified")}
        for name, level in sorted(found.items())
        if text.casefold() in name.casefold()
    ]
    rows.sort(key=lambda row: -(row["modified_ms"] or 0))  # what was changed comes first
    values = {"loggers": rows, "text": text, "all": len(found), "levels": LEVELS,
              "chosen": request.query.get("logger", ""), "has_worker": request.cluster.rest is not None}  # fmt: skip
    return Page("loggers.html", "Loggers", values, tab="loggers")


def set_level(request: PageRequest) -> Reply:
    """Set one, on this worker or on all. Errors: BadRequestError."""
    name, level, scope = request.field("logger").strip(), request.field("level"), request.field("scope", "worker")
    if not name:
        raise BadRequestError("Name a logger; root is all of them")
    if level not in LEVELS or scope not in ("worker", "cluster"):
        raise BadRequestError(f"Unknown level or scope: {level}, {scope}")
    changed = _worker(request).set_logger(name, level, scope=scope)
    where = "on every worker" if scope == "cluster" else f"here; {len(changed)} loggers changed"
    return Redirect(f"/ui/loggers?{urlencode({'q': request.field('q')})}", f"{name} logs {level} {where}.")


def show_log(request: PageRequest) -> Reply:
    """The last lines, and a place for those to come."""
    rest, values = request.cluster.rest, _query(request) | {"line_context": line_context}
    values |= {"levels": LEVELS[:-1], "has_log": False}
    if rest is None or not request.cluster.capabilities().is_ours:
        return Page("log.html", "Log", {**values, "lines": [], "cursor": ""}, tab="log")
    try:
        page = rest.logs(cluster="true", limit=_FIRST_LINES, **_asked(request))
    except NotFoundError:
        return Page("log.html", "Log", {**values, "lines": [], "cursor": ""}, tab="log")
    found = {"lines": page["lines"], "cursor": page["cursor"], "silent": page.get("silent"), "has_log": True}
    return Page("log.html", "Log", {**values, **found}, tab="log")


def more(request: PageRequest) -> Reply:
    """Lines behind the cursor: they are put behind those that are shown. Where some are gone by now, that is said."""
    cursor = request.query.get("cursor", "")
    page = _worker(request).logs(cluster="true", limit=_MORE_LINES, cursor=cursor, **_asked(request))
    values = {"line_context": line_context, **{key: page.get(key) for key in ("lines", "cursor", "missed", "silent")}}
    return Fragment("log_more.html", {**_query(request), **values})


def _worker(request: PageRequest) -> ConnectClient:
    if request.cluster.rest is None:
        raise BadRequestError("This needs a worker, and this console reads the topics")
    return request.cluster.rest


def _asked(request: PageRequest) -> dict[str, str]:
    return {key: value for key, value in _query(request).items() if value}


def _query(request: PageRequest) -> dict[str, Any]:
    level = request.query.get("level", "")
    return {"connector": request.query.get("connector", "").strip(), "level": level if level in LEVELS else ""}


def line_context(line: Mapping[str, Any]) -> str:
    """`[orders|task-0]`, or nothing."""
    if line["connector"] is None:
        return ""
    parts = [line["connector"], *([] if line["task"] is None else [f"task-{line['task']}"])]
    return f"[{'|'.join([*parts, *([line['stage']] if line['stage'] else [])])}] "


ROUTES: Final = (
    Route("/loggers", {"GET": show, "POST": set_level}),
    Route("/log", {"GET": show_log}),
    Route("/log/more", {"GET": more}),
)
