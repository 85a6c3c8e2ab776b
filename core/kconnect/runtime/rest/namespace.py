"""Namespace: the REST server of a MirrorMaker flow's worker, which has many flows' workers for neighbours.

Workers of one flow ask each other below the flow's path, as Java's do; for anybody else there is this machine alone.
Source: InternalMirrorResource (Kafka 4.3). Differs: Java's has no other endpoints at all.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import unquote

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_OF_PEERS: Final = re.compile(rb"/connectors/[^/]+/(tasks|fence)")
_FOR_ALL: Final = (b"/health",)


class Namespace:
    """The application with what other workers ask below `path`, such as `/east/west`; on the event loop."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        inner = raw.removeprefix(self._path)
        if len(inner) < len(raw) and _OF_PEERS.fullmatch(inner):
            await self._app({**scope, "raw_path": inner, "path": unquote(inner.decode())}, receive, send)
        elif _is_here(scope) or raw in _FOR_ALL:
            await self._app(scope, receive, send)
        else:
            text = "Only the workers of its own flow may ask the worker of a mirror from another machine"
            await JSONResponse({"error_code": 403, "message": text}, 403)(scope, receive, send)


def _is_here(scope: Scope) -> bool:
    host = (scope.get("client") or ("", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # an IPv4 caller of a socket for both
    return (mapped or address).is_loopback
