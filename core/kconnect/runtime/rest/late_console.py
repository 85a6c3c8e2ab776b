"""The console below /ui, loaded when somebody first asks for it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Console", "LateConsole", "MakeConsole"]

log = logging.getLogger(__name__)


class Console(Protocol):
    """Pages about the cluster, as one route; implemented by `kconnect.admin.console`."""

    @property
    def route(self) -> BaseRoute: ...
    def close(self) -> None: ...


MakeConsole: TypeAlias = Callable[[ASGIApp], Console]
"""Makes the pages for an application that has everything around it: what they ask of it is asked as by the caller."""


class LateConsole(BaseRoute):
    """Makes the console for its first page, in a thread: until then it takes neither time of a start nor memory.

    Lifecycle: serving -> close. Threads: the event loop.
    """

    def __init__(self, make: MakeConsole, app: ASGIApp) -> None:
        self._make = make
        self._app = app
        self._lock = threading.Lock()  # held while the console is made
        self._console: Console | None = None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        path = bytes(scope.get("raw_path") or scope["path"].encode())
        return (Match.FULL if path.split(b"/")[1:2] == [b"ui"] else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        console = self._console
        if console is None:
            try:
                console = await asyncio.to_thread(self._made)
            except Exception as error:  # the boundary of code that was not there when the worker started
                log.exception("The console cannot be loaded")
                text = f"The console cannot be loaded: {error}. The worker's log has the cause."
                await PlainTextResponse(text, 500)(scope, receive, send)
                return
        await console.route.handle(scope, receive, send)

    def close(self) -> None:
        """Pages in progress end by themselves."""
        with self._lock:
            if self._console is not None:
                self._console.close()

    def _made(self) -> Console:
        with self._lock:
            if self._console is None:
                self._console = self._make(self._app)
            return self._console
