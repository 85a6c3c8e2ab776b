"""ConsoleRoute: everything below /ui, as one route of an ASGI application.

static file -> where the request comes from -> the page's route by its raw path -> form -> handler in a pool thread
-> HTML, with the headers of `security`. Errors become pages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final
from urllib.parse import parse_qsl, unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from kconnect.admin.console.answers import error_reply, html_response, is_fragment
from kconnect.admin.console.assets import assets
from kconnect.admin.console.cluster import Caller, Clusters
from kconnect.admin.console.page_request import Handler, PageRequest, Route, Tab
from kconnect.admin.console.security import PAGE_HEADERS, SAFE_METHODS, refusal
from kconnect.admin.console.shared_view import SharedView
from kconnect.errors import BadRequestError, NotFoundError, TimedOutError, UnreachableError

log = logging.getLogger(__name__)

# Pages that wait for the cluster at one time; never REST's own threads, which these wait for
_POOL_THREADS: Final = 16
# A worker's REST answers within 90 s, and a page makes a few requests
_DEADLINE_S: Final = 120.0
# The largest connector config seen in the wild is some 100 kB; as REST
_MAX_FORM_BYTES: Final = 8 * 1024 * 1024
_YEAR: Final = "public, max-age=31536000, immutable"


class ConsoleRoute(BaseRoute):
    """`on_loop` gets the event loop with each request. Lifecycle: serving -> close. Threads: the event loop."""

    def __init__(
        self,
        clusters: Clusters,
        routes: Sequence[Route],
        tabs: Sequence[Tab],
        on_loop: Callable[[asyncio.AbstractEventLoop], None] = lambda _loop: None,
    ) -> None:
        self._clusters = clusters
        self._routes = [(_segments(f"/ui{route.path}"), route) for route in routes]
        self._tabs = tabs
        self._on_loop = on_loop
        self._shared = SharedView(clusters)
        self._pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="console")

    @property
    def route(self) -> BaseRoute:
        """Returns self, for chaining."""
        return self

    def close(self) -> None:
        """Pages in progress end by themselves: what they ask of the worker is refused."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._clusters.close()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or _segments(_raw_path(scope))[:1] != ["ui"]:
            return Match.NONE, {}
        return Match.FULL, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except ClientDisconnect:
            log.debug("The client of %s %s disconnected", request.method, scope["path"])
            return
        for name, value in PAGE_HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        parts = _segments(_raw_path(request.scope))
        if parts[1:2] == ["static"]:
            return _static(request, parts)
        if (why := refusal(request.method, request.headers)) is not None:
            log.info("%s %s refused: %s", request.method, request.url.path, why)
            return Response(why, 403, media_type="text/plain")
        self._on_loop(asyncio.get_running_loop())
        form: list[tuple[str, str]] = []
        if request.method not in SAFE_METHODS:
            body = await _body(request)
            if body is None:
                return Response("The form is too large.", 413, media_type="text/plain")
            form = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
        job = asyncio.get_running_loop().run_in_executor(self._pool, partial(self._answer, request, parts, form))
        try:
            return await asyncio.wait_for(job, _DEADLINE_S)
        except TimeoutError:
            log.warning("%s %s did not end within %s s", request.method, request.url.path, _DEADLINE_S)
            return Response("The cluster did not answer in time.", 504, media_type="text/plain")

    def _answer(self, request: Request, parts: Sequence[str], form: Sequence[tuple[str, str]]) -> Response:
        """Runs in a pool thread: the console's error boundary."""
        caller = Caller(request.scope)
        with self._clusters.open(caller) as cluster:
            page_request = PageRequest(
                cluster,
                caller,
                self._shared,
                query=dict(parse_qsl(request.url.query, keep_blank_values=True)),
                form=form,
                method=request.method,
                is_fragment=is_fragment(request),
                theme=request.cookies.get("kconnect-theme", ""),
            )
            problem: Exception | None = None
            try:
                handler, path = self._find(request.method, parts)
                page_request = replace(page_request, path=path)
                reply = handler(page_request)
            except Exception as err:  # the console's boundary: every failure is a page
                problem = err
                reply = error_reply(err, request.method, request.url.path, fragment=page_request.is_fragment)
            if request.method not in SAFE_METHODS:  # something may have been changed, also by what failed
                self._shared.forget()
            elif isinstance(problem, TimedOutError | UnreachableError):
                self._shared.note_failure(caller, problem)
            return html_response(reply, page_request, self._tabs, self._clusters.place)

    def _find(self, method: str, parts: Sequence[str]) -> tuple[Handler, Mapping[str, str]]:
        """Errors: NotFoundError; BadRequestError for another method, and bad escapes."""
        for pattern, route in self._routes:
            values = _match(pattern, parts)
            if values is None:
                continue
            handler = route.handlers.get("GET" if method == "HEAD" else method)
            if handler is None:
                raise BadRequestError(f"This page does not take {method}")
            return handler, values
        raise NotFoundError("The page does not exist")


def _match(pattern: Sequence[str], parts: Sequence[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    values = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{") and part:
            try:
                values[wanted[1:-1]] = unquote(part, errors="strict")
            except UnicodeDecodeError:
                raise BadRequestError(f"The path contains bytes that are not UTF-8: {part}") from None
        elif wanted != part:
            return None
    return values


def _static(request: Request, parts: Sequence[str]) -> Response:
    """`/ui/static/HASH/NAME`; the hash is for caches, the name is looked up."""
    found = assets().get("/".join(parts[3:]))
    if found is None or request.method not in SAFE_METHODS or parts[2:3] != [found.digest]:
        return Response("The file does not exist.", 404, media_type="text/plain", headers={"cache-control": "no-store"})
    headers = {"cache-control": _YEAR, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(found.content, 200, headers, found.media_type)
    return Response(found.zipped, 200, {**headers, "content-encoding": "gzip"}, found.media_type)


async def _body(request: Request) -> bytes | None:
    """Returns None for a body that is too large."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > _MAX_FORM_BYTES:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _raw_path(scope: Scope) -> str:
    raw = scope.get("raw_path") or scope["path"].encode()
    return bytes(raw).decode("latin-1")


def _segments(path: str) -> Sequence[str]:
    """Both `/a/b` and `/a/b/` become a, b."""
    parts = path.split("/")[1:]
    return parts[:-1] if parts and not parts[-1] else parts
