"""Cross-origin requests of browsers: `access.control.allow.origin` and `access.control.allow.methods`.

Source: RestServer and Jetty's CrossOriginHandler (Kafka 4.3). Preflights are passed to the application, as in Java.
Differs: an origin is plain text unless it looks like a regular expression, so that `.` only means a dot. A change that
a page of another origin asks for is refused unless its origin is allowed: a POST without a body, as of a restart, takes
no preflight, and the browser sends the user's login or certificate along.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kconnect.errors import ConfigError
from kconnect.runtime.rest.problems import error_body

_DEFAULT_METHODS: Final = "GET,POST,HEAD"
_MAX_AGE_S: Final = 60
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
_REGULAR = re.compile(r"[\\*+?|()\[\]^$]")


class CrossOrigin:
    """Tells browsers which other origins may read the application's answers."""

    def __init__(self, app: ASGIApp, origins: str, methods: str) -> None:
        self._app = app
        self._allows = origin_check(origins)
        self._methods = ",".join(item.strip() for item in (methods.strip() or _DEFAULT_METHODS).split(","))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        more = self._headers(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(raw=message.setdefault("headers", [])).update(more)
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _headers(self, scope: Scope) -> dict[str, str]:
        """Every answer varies with the origin, so that no cache mixes them up."""
        more = {"vary": "Origin"}
        origin = Headers(scope=scope).get("origin")
        if not origin or not self._allows(origin):
            return more
        more["access-control-allow-origin"] = origin
        if is_preflight(scope):
            more["access-control-allow-methods"] = self._methods
            more["access-control-allow-headers"] = "Content-Type"
            more["access-control-max-age"] = str(_MAX_AGE_S)
        return more


class OwnPages:
    """Refuses changes that a page of another origin asks for, by what browsers say of it; programs say nothing.

    Over plain http browsers say it of localhost only. Origin is not compared with Host instead: a proxy before the
    worker may have changed that.
    """

    def __init__(self, app: ASGIApp, origins: str) -> None:
        self._app = app
        self._allows = origin_check(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["method"] not in _SAFE:
            headers = Headers(scope=scope)
            site, origin = headers.get("sec-fetch-site"), headers.get("origin", "")
            if site in _OTHER_SITES and not self._allows(origin):
                problem = f"A page of another origin ({origin or site}) asks for this: see access.control.allow.origin"
                app = Response(error_body(403, problem), 403, media_type="application/json")
        await app(scope, receive, send)


def is_preflight(scope: Scope) -> bool:
    """Whether it is a browser's preflight, which precedes a page's request."""
    headers = Headers(scope=scope)
    return bool(scope["method"] == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers)


def origin_check(origins: str) -> Callable[[str], bool]:
    """Whether an Origin header is one of `origins`. Errors: ConfigError for an invalid regular expression."""
    patterns = [item.strip() for item in origins.split(",") if item.strip()]
    if "*" in patterns:
        return lambda _origin: True
    compiled = [_compiled(pattern) for pattern in patterns]
    return lambda origin: any(pattern.fullmatch(origin) for pattern in compiled)


def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern if _REGULAR.search(pattern) else re.escape(pattern)
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as err:
        raise ConfigError.invalid(
            "access.control.allow.origin", pattern, f"neither an origin nor a regular expression: {err}"
        ) from err
