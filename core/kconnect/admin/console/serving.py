"""serve: the console on this machine, for `connect ui`. Only who has its token gets in.

A page that another site shows cannot reach it: the token is in a cookie that browsers send along from the console's own
pages only. Neither can another user of the machine, who would otherwise act with our login. The token is in the first
address only, which the browser leaves at once.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kconnect.admin.console.cluster import Clusters
from kconnect.admin.console.console import console
from kconnect.admin.console.security import PAGE_HEADERS
from kconnect.errors import EnvironmentProblemError

_COOKIE: Final = "kconnect-console"
# A page that is being made ends within that time, or is broken off; half of it by itself, then what it waits for ends
_STOP_S: Final = 2


def serve(clusters: Clusters, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until the process is asked to end. `ready` gets the URL to open, with the token in it.

    Errors: EnvironmentProblemError when the port is taken.
    """
    sock = _bound(host, port)
    token = secrets.token_urlsafe(24)
    pages = console(clusters)
    app = TokenGate(Starlette(routes=[pages.route]), token)
    server = _Server(
        pages.close,
        uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_STOP_S,
        ),
    )
    shown = f"[{host}]" if ":" in host else host
    try:
        ready(f"http://{shown}:{sock.getsockname()[1]}/ui?token={token}")
        server.run([sock])
    finally:
        pages.close()
        sock.close()


class _Server(uvicorn.Server):
    """`give_up`: ends what pages wait for, as the process cannot end before their threads have."""

    def __init__(self, give_up: Callable[[], None], config: uvicorn.Config) -> None:
        super().__init__(config)
        self._give_up = give_up

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        late = asyncio.get_running_loop().call_later(_STOP_S / 2, self._give_up)
        try:
            await super().shutdown(sockets)
        finally:
            late.cancel()


class TokenGate:
    """Lets requests through that carry the token: in the cookie, or in the address that sets it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = _cookie_name(headers.get("host", ""))
        if self._is_right(cookie_parser(headers.get("cookie", "")).get(name, "")):
            await self._app(scope, receive, send)
            return
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        if self._is_right(given):
            cookie = f"{name}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            response = Response(status_code=303, headers={"location": "/ui", "set-cookie": cookie, **PAGE_HEADERS})
        else:
            message = "Open the address that `connect ui` printed: it has the token in it.\n"
            response = Response(message, 401, dict(PAGE_HEADERS), media_type="text/plain")
        await response(scope, receive, send)

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())


def _cookie_name(host: str) -> str:
    """Browsers keep one cookie of a name for all ports of a host: consoles of several clusters must not share it."""
    port = host.rpartition(":")[2]
    return f"{_COOKIE}-{port}" if port.isascii() and port.isdecimal() else _COOKIE


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as err:
        raise EnvironmentProblemError(
            f"The console cannot listen at {host}:{port}: {err.strerror or err}",
            hint="--port 0 takes any port that is free.",
        ) from err
    sock.listen(128)
    return sock
