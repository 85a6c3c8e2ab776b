"""Replies of pages as HTTP answers, and errors as replies."""

from __future__ import annotations

import gzip
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from kconnect.admin.console.html import render
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Redirect, Reply, Tab, Unchanged
from kconnect.admin.console.shared_view import ClusterView
from kconnect.client.exchange import AWAY_HINT
from kconnect.client.offset_move import WHICH_TASK_HINT
from kconnect.client.outage import NOTHING_CHANGED, Outage
from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConflictError,
    ConnectError,
    ForbiddenError,
    NotFoundError,
    PreconditionFailedError,
    TimedOutError,
    UnreachableError,
)
from kconnect.logs.redaction import redact

log = logging.getLogger(__name__)

# First match wins; what is not listed is 500
_STATUS_OF: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (NotFoundError, 404, "Not found"),
    (AlreadyExistsError, 409, "It exists already"),
    (ConflictError, 409, "Not now"),
    (PreconditionFailedError, 412, "It was changed meanwhile"),
    (BadRequestError, 400, "That cannot be done"),
    (ForbiddenError, 403, "You may not do that"),
    (ConfigError, 400, "Settings are wrong"),
    (TimedOutError, 504, "No answer in time"),
    (UnreachableError, 503, "The cluster does not answer"),
)
# Hints that name a command, and what shows the same here
_SHOWN_HERE: Final = (
    (AWAY_HINT, "Try again when the worker is well: the page Workers shows it."),
    (WHICH_TASK_HINT, "Its page shows which task does not end."),
)
_THEMES: Final = frozenset({"light", "dark"})
# Smaller ones gain nothing
_ZIPPED_FROM_BYTES: Final = 2_000


def html_response(reply: Reply, request: PageRequest, tabs: Sequence[Tab], place: str) -> Response:
    """The answer to a browser; pages get the navigation and the banners around them."""
    match reply:
        case Unchanged():
            return Response(status_code=204)
        case Redirect():
            return _redirect(reply, request)
        case Fragment():
            html = reply.html or render(reply.template, reply.values)
            return _html(html, reply.status, reply.headers, request)
        case Page():
            values = {**_around(request, tabs, place), "title": reply.title, "tab": reply.tab, **reply.values}
            return _html(render(reply.template, values), reply.status, {}, request)


def error_reply(error: Exception, method: str, path: str, *, fragment: bool) -> Reply:
    """A failure as a page, or a message on the page that is open: what failed, and what to do.

    What nobody expected is logged with its trace.
    """
    status, title = 500, "Something went wrong"
    for kind, its_status, its_title in _STATUS_OF:
        if isinstance(error, kind):
            status, title = its_status, its_title
            break
    else:
        if not isinstance(error, ConnectError):
            log.error("%s %s failed", method, path, exc_info=error)
    if NOTHING_CHANGED in str(error):  # the worker did answer
        title = NOTHING_CHANGED
    expected = isinstance(error, ConnectError)
    message = (
        redact(str(error).removeprefix(f"{NOTHING_CHANGED}: "))
        if expected
        else f"{type(error).__name__}: the worker's log has the trace."
    )
    hint = redact(getattr(error, "hint", None) or "") if expected else ""
    for of_commands, of_pages in _SHOWN_HERE:
        hint = hint.replace(of_commands, of_pages)
    values = {"title": title, "message": message, "hint": hint}
    return (
        Fragment("message.html", values, status=status)
        if fragment
        else Page("error.html", title, values, status=status)
    )


def is_fragment(request: Request) -> bool:
    """Whether htmx asks for a part of a page; not when it goes back in history, which needs a whole one."""
    return "hx-request" in request.headers and "hx-history-restore-request" not in request.headers


def _around(request: PageRequest, tabs: Sequence[Tab], place: str) -> dict[str, Any]:
    reported = banners(request)
    return {
        **reported,
        "tabs": [shown for shown in tabs if shown.is_shown(reported["view"])],
        "place": place,
        "theme": request.theme if request.theme in _THEMES else "",
        "note": request.query.get("note", ""),
    }


def banners(request: PageRequest) -> dict[str, Any]:
    """What every page says at its top: that Kafka, the cluster or a worker is away. `reported`: the same while
    that is.
    """
    try:
        view = request.view()
        problem = None
    except ConnectError as err:
        view, problem = ClusterView(), redact(str(err))
    outage = outage_of(view, request)
    worker = (view.starting, view.unhealthy, view.notices)
    facts = (problem, view.problem, view.since_ms, worker, view.capabilities, view.place)
    away = None if outage is None else (outage.since_ms, outage.problem)
    reported = hashlib.sha256(repr((facts, away)).encode("utf-8", "replace")).hexdigest()[:12]
    return {"view": view, "problem": problem, "outage": outage, "reported": reported}


def outage_of(view: ClusterView, request: PageRequest) -> Outage | None:
    """Kafka is away, by the newest answer there is."""
    return request.cluster.outage or view.outage


def _redirect(reply: Redirect, request: PageRequest) -> Response:
    url = reply.url
    if reply.note:
        url += f"{'&' if '?' in url else '?'}note={quote(reply.note, safe='')}"
    if request.is_fragment:
        return Response(status_code=204, headers={"hx-redirect": url})
    return Response(status_code=303, headers={"location": url})


def _html(html: str, status: int, headers: Mapping[str, str], request: PageRequest) -> Response:
    body, more = html.encode("utf-8", "replace"), dict(headers)
    accepted = next((value for name, value in request.caller.scope["headers"] if name == b"accept-encoding"), b"")
    if len(body) > _ZIPPED_FROM_BYTES and b"gzip" in accepted:
        # The fastest level: a page of 1,000 connectors takes 3 ms and a sixteenth of its size
        body, more["content-encoding"] = gzip.compress(body, 1, mtime=0), "gzip"
    more["vary"] = "accept-encoding, hx-request, cookie"
    return Response(body, status, more, media_type="text/html; charset=utf-8")
