"""Call an ASGI application without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from kconnect.runtime.rest.app import AppSettings, create_app


@dataclass(frozen=True)
class Answered:
    """What the application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        assert self.json["error_code"] == self.status
        return self.json["message"]


class RestCaller:
    """The REST application over a herder; `ask("GET", "/connectors")` runs one request through it."""

    def __init__(self, herder, settings: AppSettings | None = None, **more):
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="rest")
        self._app = create_app(herder, self._pool, settings, **more)

    def ask(self, method, target, body=None, *, headers=None, chunks=None, scope=None) -> Answered:
        """`body`: bytes as they are, anything else as JSON. `target` is the raw path and query, `scope` goes on top."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {"host": "worker:8083", **(headers or {})}
        if body is not None:
            sent.setdefault("content-type", "application/json")
        return asyncio.run(_called(self._app, method, target, chunks or [raw], sent, scope or {}))

    def close(self):
        self._pool.shutdown()


def call_app(app: ASGIApp, method: str, target: str, headers: Mapping[str, str]) -> Answered:
    """One request without a body to any application."""
    return asyncio.run(_called(app, method, target, [b""], {"host": "worker:8083", **headers}, {}))


async def _called(app, method, target, chunks, headers, more) -> Answered:
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(key.lower().encode(), value.encode()) for key, value in headers.items()],
        "server": ("127.0.0.1", 8083),
        **more,
    }
    left = list(chunks)
    sent = []

    async def receive():
        chunk = left.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    start, *bodies = sent
    return Answered(
        start["status"],
        {key.decode(): value.decode() for key, value in start["headers"]},
        b"".join(part.get("body", b"") for part in bodies),
    )
