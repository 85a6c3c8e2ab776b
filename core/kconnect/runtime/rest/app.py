"""The ASGI application: the table of routes, and the path of a request through it.

match the raw path -> method -> may the caller do it -> Accept and Content-Type -> body -> the worker has started ->
handler in a pool thread -> JSON. All steps share one deadline. If a handler finds that another worker must handle the
request, it is forwarded.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from kconnect.client.outage import OUTAGE_HEADER
from kconnect.errors import (
    BadRequestError,
    ConflictError,
    ConnectError,
    ForbiddenError,
    PreconditionFailedError,
    WrongWorkerError,
)
from kconnect.runtime.herder.health.reasons import reasons_text
from kconnect.runtime.herder.interface import Herder
from kconnect.runtime.rest import (
    conditions,
    connectors,
    dead_letters,
    internal,
    logs,
    observe,
    plugins_api,
    root,
    workers,
)
from kconnect.runtime.rest.access.access import CHALLENGE, Access, DeniedError, Gatekeeper
from kconnect.runtime.rest.access.needs import NOTHING, Of
from kconnect.runtime.rest.audit.entry import Recorder
from kconnect.runtime.rest.audit.trail import AuditTrail
from kconnect.runtime.rest.bodies import BodyTooLargeError, read_body
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint, Handler, Others, ServerState, json_bytes
from kconnect.runtime.rest.forward import CARRIED_HEADERS, Forwarder
from kconnect.runtime.rest.operation import Operation, openapi_document
from kconnect.runtime.rest.problems import error_body, status_and_message

log = logging.getLogger(__name__)

# Every route of the server; one module for each root of URLs.
ENDPOINTS: tuple[Endpoint, ...] = (
    *root.ENDPOINTS,
    *connectors.ENDPOINTS,
    *internal.ENDPOINTS,
    *plugins_api.ENDPOINTS,
    *observe.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *logs.ENDPOINTS,
    *workers.ENDPOINTS,
    *conditions.ENDPOINTS,
)

_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
# How soon a request notices that the worker has started: negligible next to the seconds that a start takes
_LOOK_EVERY_S = 0.02
# How soon a request that waits for something notices it: a line of a log is read soon enough then
_ASK_EVERY_S = 0.2
_NOT_WRITTEN_DOWN = (
    "Nothing is changed now, as the audit log cannot be written (settings kconnect.audit.log.* of the worker); /health "
    "and the worker's log say why"
)
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class AppSettings:
    """Budgets of the application."""

    # Java's DEFAULT_REST_REQUEST_TIMEOUT_MS: a rebalance may take that long
    request_timeout_s: float = 90.0
    # The largest connector config seen in the wild is some 100 kB; offsets of 10 000 partitions are 2 MB
    max_body_bytes: int = 8 * 1024 * 1024


def endpoints_for(*, admin: bool | None) -> tuple[Endpoint, ...]:
    """Routes below /admin, all the others, or with None all routes."""
    return tuple(
        endpoint for endpoint in ENDPOINTS if admin is None or (_segments(endpoint.path)[:1] == ["admin"]) == admin
    )


def create_app(
    herder: Herder,
    executor: Executor,
    settings: AppSettings | None = None,
    endpoints: Sequence[Endpoint] = ENDPOINTS,
    *,
    login: bool = False,
    forwarder: Forwarder | None = None,
    others: Others | None = None,
    more_routes: Sequence[BaseRoute] = (),
    gatekeeper: Gatekeeper | None = None,
    trail: AuditTrail | None = None,
    changes: AuditTrail | None = None,
    server: ServerState | None = None,
) -> Starlette:
    """The application over a herder; handlers run in the executor. `login`: the document declares that a login is
    required.

    Without a forwarder, requests for another worker are a conflict. `more_routes` come after Connect's own, and guard
    themselves. Errors: ConnectError for an endpoint that does not say what it needs of its callers.
    """
    keeper, recorder = gatekeeper or Gatekeeper(), Recorder(trail, herder, changes)
    shared = _Shared(herder, executor, settings or AppSettings(), forwarder, others, keeper, recorder, server)
    routes = (*endpoints, _document(endpoints, herder, login))
    app = Starlette(routes=[*(_RawPathRoute(endpoint, shared) for endpoint in routes), *more_routes])
    app.router.redirect_slashes = False
    app.router.default = _no_route
    return app


def _document(endpoints: Sequence[Endpoint], herder: Herder, login: bool) -> Endpoint:
    """`GET /openapi.json`: these routes and this one."""

    def show(_call: Call[Herder]) -> Answer:
        return Answer(openapi_document((*endpoints, own), herder.server_info().version, login=login))

    own = Endpoint(
        "/openapi.json",
        {"GET": Operation(show, "This document", {200: {"type": "object"}}, needs=NOTHING)},
        awaits_start=False,
    )
    return own


@dataclass(frozen=True, slots=True)
class _Shared:
    herder: Herder
    executor: Executor
    settings: AppSettings
    forwarder: Forwarder | None
    others: Others | None
    gatekeeper: Gatekeeper
    recorder: Recorder
    server: ServerState | None


class _RawPathRoute(BaseRoute):
    """Matches the path's segments as received, and decodes them afterwards.

    So names with a slash, backslash or percent sign work.
    Differs: Java's Jetty refuses these as ambiguous with an HTML page.
    """

    def __init__(self, endpoint: Endpoint, shared: _Shared) -> None:
        self._endpoint = endpoint
        self._segments = _segments(endpoint.path)
        self._shared = shared
        self._operations = {method: _declared(endpoint, method) for method in endpoint.handlers}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        parts = _segments(scope["raw_path"].decode("latin-1"))
        if len(parts) != len(self._segments):
            return Match.NONE, {}
        values = {}
        for pattern, part in zip(self._segments, parts, strict=True):
            if pattern.startswith("{") and part:
                values[pattern[1:-1]] = part
            elif pattern != part:
                return Match.NONE, {}
        return Match.FULL, {"path_params": values}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except ClientDisconnect:
            log.debug("The client of %s %s disconnected", request.method, scope["path"])
            return
        except asyncio.CancelledError:
            # Only RestServer.stop cancels: the loop ends behind this answer, so there is nothing to pass on to
            response = _json_response(503, error_body(503, "The worker is stopping; it may still carry this out."))
        if outage := self._shared.herder.outage():
            response.headers[OUTAGE_HEADER] = outage.to_header()
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        method = request.method
        operation = self._operations.get("GET" if method == "HEAD" else method)
        if operation is None:
            return _options(self._endpoint) if method == "OPTIONS" else _plain_error(405, "Method Not Allowed")
        raw_path, recorder = request.scope["raw_path"].decode("latin-1"), self._shared.recorder
        connector = None
        try:
            connector = _decoded(request.path_params["name"]) if "name" in request.path_params else None
            access = self._shared.gatekeeper.access(request.scope, self._shared.herder.peer_signature)
        except (BadRequestError, ForbiddenError) as err:
            status, message = status_and_message(err, method, self._endpoint.path)
            body = error_body(status, message)
            if operation.is_change(method):  # nothing that another worker is said to say counts
                access = self._shared.gatekeeper.access(request.scope)
                recorder.attempt(method, self._endpoint.path, raw_path, connector).end(access, status, body, {})
            return _json_response(status, body)
        if not operation.is_change(method):
            return await self._admitted(request, operation, access, connector, operation)
        attempt = recorder.attempt(method, self._endpoint.path, raw_path, connector)
        if recorder.refuses_changes and not access.is_audited:
            return _json_response(503, error_body(503, _NOT_WRITTEN_DOWN))
        try:
            response = await self._admitted(request, operation, access, connector, attempt.around(operation))
        except ClientDisconnect:
            attempt.end(access, 499, b"", {})
            raise
        attempt.end(access, response.status_code, bytes(response.body), response.headers)
        return response

    async def _admitted(
        self, request: Request, operation: Operation, access: Access, connector: str | None, handler: Handler
    ) -> Response:
        """The answer to who may ask for it."""
        method, needs = request.method, operation.needs
        try:
            target = connector if needs.of is Of.CONNECTOR else None
            access.require(needs, target, f"{method} {request.scope['raw_path'].decode('latin-1')}")
        except DeniedError as err:
            return self._denied(err)
        if not _accepts(request.headers.get("accept"), self._endpoint.media_type):
            return _plain_error(406, "Not Acceptable")
        try:
            body = b""
            if method in _WITH_BODY:
                body = await read_body(request, self._shared.settings.max_body_bytes)
                if body and not _is_json(request.headers.get("content-type")):
                    return _plain_error(415, "Unsupported Media Type")
            if access.signed_caller is not None:
                access.signed_caller.check_body(body)
            call = self._call(request, body, access)
            await self._wait(call, request)
        except DeniedError as err:
            return self._denied(err)
        except (BadRequestError, ForbiddenError, BodyTooLargeError) as err:
            status = 413 if isinstance(err, BodyTooLargeError) else 403 if isinstance(err, ForbiddenError) else 400
            return _json_response(status, error_body(status, str(err)))
        return await self._run(handler, call, request)

    def _denied(self, error: DeniedError) -> Response:
        self._shared.gatekeeper.denied += 1
        return denied(error)

    async def _wait(self, call: Call[Herder], request: Request) -> None:
        """Wait for what the endpoint waits for, without a pool thread. Errors: BadRequestError, ClientDisconnect."""
        wait = self._endpoint.waits(call) if self._endpoint.waits is not None else None
        if wait is None:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait.most_s
        while not wait.is_over() and loop.time() < deadline:
            if await request.is_disconnected():
                raise ClientDisconnect
            await asyncio.sleep(min(_ASK_EVERY_S, max(deadline - loop.time(), 0)))

    def _call(self, request: Request, body: bytes, access: Access) -> Call[Herder]:
        return Call(
            herder=self._shared.herder,
            path={key: _decoded(value) for key, value in request.path_params.items()},
            query=parse_qsl(request.url.query, keep_blank_values=True),
            body=body,
            base_url=f"{request.url.scheme}://{request.headers.get('host') or _local_address(request.scope)}",
            method=request.method,
            raw_path=request.scope["raw_path"].decode("latin-1"),
            headers={name: request.headers[name] for name in CARRIED_HEADERS if name in request.headers},
            others=self._shared.others,
            access=access,
            sign=self._sign,
            server=self._shared.server,
        )

    def _sign(self, access: Access, method: str, target: str, body: bytes) -> Mapping[str, str]:
        shared = self._shared
        return shared.gatekeeper.headers_for(access, shared.herder.peer_signature, method, target, body)

    async def _run(self, handler: Handler, call: Call[Herder], request: Request) -> Response:
        deadline_s = self._endpoint.deadline_s or self._shared.settings.request_timeout_s
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        if self._endpoint.awaits_start and (refused := await self._await_start(call, deadline_s)) is not None:
            return refused
        job = loop.run_in_executor(
            self._shared.executor,
            partial(_answer, handler, call, request.method, request.url.path, self._endpoint.media_type),
        )
        try:
            answered = await asyncio.wait_for(job, deadline - loop.time())
            if isinstance(answered, WrongWorkerError):
                return await self._forward(answered, call, deadline - loop.time())
            return answered
        except TimeoutError:
            log.warning("%s %s did not end within %s s", request.method, request.url.path, deadline_s)
            if self._endpoint.when_late is not None:
                return _rendered(self._endpoint.when_late(call))
            message = (
                f"Request timed out. The worker did not end it within {deadline_s:g} s "
                f"(setting kconnect.request.timeout.ms); it may still be carried out. {self._starting()}"
            ).rstrip()
            return _json_response(500, error_body(500, message))

    def _starting(self) -> str:
        """What a worker that takes requests already waits for."""
        reasons = [reason for reason in self._shared.herder.health() if reason.is_starting]
        return reasons_text(reasons, time.time_ns() // 1_000_000)

    async def _await_start(self, call: Call[Herder], deadline_s: float) -> Response | None:
        """Wait for a starting worker, without a pool thread; returns the answer if it does not open.

        Source: DistributedHerder#addRequest: requests to a starting herder wait for it, as for a rebalance.
        """
        herder, loop = self._shared.herder, asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        try:
            while not herder.is_open():
                if loop.time() + _LOOK_EVERY_S > deadline:
                    waits_for = reasons_text(herder.health(), time.time_ns() // 1_000_000)
                    message = f"Request timed out. The worker is still starting up. {waits_for}".rstrip()
                    return _json_response(500, error_body(500, message))
                await asyncio.sleep(_LOOK_EVERY_S)
        except ConflictError as err:
            status, message = status_and_message(err, call.method, call.raw_path)
            return _json_response(status, error_body(status, message))
        return None

    async def _forward(self, error: WrongWorkerError, call: Call[Herder], timeout_s: float) -> Response:
        try:
            if self._shared.forwarder is None:
                raise error
            return _rendered(await self._shared.forwarder.forward(call, error, timeout_s))
        except ConflictError as err:
            status, message = status_and_message(err, call.method, call.raw_path)
            return _json_response(status, error_body(status, message))


def _declared(endpoint: Endpoint, method: str) -> Operation:
    """Errors: ConnectError for a handler that is open to everybody because nobody thought of it."""
    operation = endpoint.handlers[method]
    if not isinstance(operation, Operation):
        raise ConnectError(f"{method} {endpoint.path} does not say what it needs of its callers (Operation.needs)")
    if operation.needs.of is Of.CONNECTOR and "{name}" not in endpoint.path:
        raise ConnectError(f"{method} {endpoint.path} needs {operation.needs}, and its path has no {{name}}")
    return operation


def denied(error: DeniedError) -> Response:
    """401 or 403 with its sentence."""
    headers = {"www-authenticate": CHALLENGE} if error.status == 401 else {}
    return _json_response(error.status, error_body(error.status, str(error)), headers)


def _answer(
    handler: Handler, call: Call[Herder], method: str, path: str, media_type: str
) -> Response | WrongWorkerError:
    """Runs in a pool thread: REST's error boundary. A WrongWorkerError means: forward it."""
    try:
        return _rendered(handler(call), media_type)
    except WrongWorkerError as err:
        return err
    except Exception as err:
        status, message = status_and_message(err, method, path)
        tag = err.etag if isinstance(err, PreconditionFailedError) else None
        return _json_response(status, error_body(status, message), None if tag is None else {"etag": tag})


def _rendered(answer: Answer, media_type: str = "application/json") -> Response:
    if answer.empty:
        return Response(status_code=answer.status, headers=dict(answer.headers))
    if answer.text is not None:
        return Response(answer.text.encode(), answer.status, {**answer.headers, "content-type": media_type})
    return _json_response(answer.status, json_bytes(answer.body), dict(answer.headers))


def _json_response(status: int, body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


def _plain_error(status: int, reason: str) -> Response:
    """An error of routing: JSON without a Content-Type, as Jersey answers."""
    return Response(error_body(status, f"HTTP {status} {reason}"), status)


async def _no_route(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await _plain_error(404, "Not Found")(scope, receive, send)


def _options(endpoint: Endpoint) -> Response:
    """Allowed methods, in the order Jersey was seen to list them."""
    given = [method for method in ("POST", "PUT", "PATCH", "DELETE", "GET") if method in endpoint.handlers]
    methods = [*(["HEAD"] if "GET" in given else []), *given, "OPTIONS"]
    headers = {"content-type": "text/plain", "allow": ",".join(methods)}
    return Response(", ".join(methods), 200, headers)


def _segments(path: str) -> Sequence[str]:
    """Both `/a/b` and `/a/b/` become a, b."""
    parts = path.split("/")[1:]
    return parts[:-1] if parts and not parts[-1] else parts


def _decoded(segment: str) -> str:
    if _BAD_ESCAPE.search(segment):
        raise BadRequestError(f"A % of the path is not followed by two hexadecimal digits: {segment}")
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise BadRequestError(f"The path contains bytes that are not UTF-8: {segment}") from None


def _accepts(accept: str | None, media_type: str) -> bool:
    """Whether the caller accepts an endpoint's media type. Parameters such as a version are not compared."""
    if not accept:
        return True
    wanted = media_type.split(";")[0]
    group = wanted.split("/")[0]
    for choice in accept.split(","):
        kind, *params = (part.strip().lower() for part in choice.split(";"))
        refused = any(param.startswith("q=") and _is_zero(param[2:]) for param in params)
        if kind in (wanted, f"{group}/*", "*/*", "*") and not refused:
            return True
    return False


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0
    except ValueError:
        return False


def _is_json(content_type: str | None) -> bool:
    """Not without the header, as in Java: browsers send a page's POST to any origin if it has none."""
    return content_type is not None and content_type.split(";")[0].strip().lower() == "application/json"


def _local_address(scope: dict[str, Any] | Scope) -> str:
    host, port = scope.get("server") or ("localhost", None)
    return f"{host}:{port}" if port else str(host)
