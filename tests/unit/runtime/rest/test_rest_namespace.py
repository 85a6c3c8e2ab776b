"""The REST server of a MirrorMaker flow's worker: peers below its path, anything else from this machine alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kconnect.runtime.rest.options import Namespace


def asked(raw: str, client: tuple[str, int] | None) -> tuple[int, str]:
    """The status, and what path the application saw."""
    seen: list[str] = []
    statuses: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["raw_path"].decode())
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "PUT", "raw_path": raw.encode(), "path": raw, "client": client, "headers": []}
    asyncio.run(Namespace(app, "/us%20east/west")(scope, receive, send))
    return statuses[0], seen[0] if seen else ""


@pytest.mark.parametrize("client", [("10.0.0.7", 5), ("127.0.0.1", 5), None])
def test_peers_ask_below_the_path_from_anywhere(client: tuple[str, int] | None) -> None:
    assert asked("/us%20east/west/connectors/a%2Fb/tasks", client) == (204, "/connectors/a%2Fb/tasks")
    assert asked("/us%20east/west/connectors/x/fence", client) == (204, "/connectors/x/fence")


@pytest.mark.parametrize("path", ["/connectors", "/us%20east/west/connectors/x", "/west/us/connectors/x/tasks", "/ui"])
def test_all_else_is_for_this_machine(path: str) -> None:
    for here in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert asked(path, (here, 5)) == (204, path)
    for away in (("10.0.0.7", 5), ("::ffff:10.0.0.7", 5), ("", 0), None):
        assert asked(path, away) == (403, "")
    assert asked("/health", ("10.0.0.7", 5)) == (204, "/health")
