"""AppTransport: requests of the console to the REST application of its own worker, without a socket.

They pass through the same middleware as the caller's own, with the caller's login, certificate and address: what the
caller may not do over REST the console cannot do either, and nothing is decided twice.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

from starlette.types import ASGIApp, Message

from kconnect.admin.console.cluster import Caller, carried
from kconnect.client import Request, Response
from kconnect.client.http_failures import late
from kconnect.client.patience import Patience
from kconnect.client.transport import ADVICE, READ_ADVICE
from kconnect.errors import UnreachableError

# A worker gives up after 90 s (Java's REST request timeout); a little longer, so that its answer is shown
_CHANGE_S = 95.0
# Headers of the caller that go along: who it is, and through whom it came
_CARRIED = frozenset({b"authorization", b"x-forwarded-for", b"forwarded", b"host"})


class AppTransport:
    """Implements `client.Transport` for one caller. Threads: any but that of the event loop, one at a time."""

    def __init__(
        self, app: ASGIApp, loop: asyncio.AbstractEventLoop, caller: Caller, url: str, patience: Patience
    ) -> None:
        self._app = app
        self._loop = loop
        self._caller = caller
        self._url = url
        self._patience = patience

    def send(self, request: Request) -> Response:
        """Errors: TimedOutError; UnreachableError while the worker stops."""
        coroutine = self._exchange(request)
        try:
            answer = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as err:
            coroutine.close()
            raise UnreachableError("The worker is stopping") from err
        is_read = request.method == "GET"
        turn = self._patience.begins()
        timeout_s = turn.share_s(is_last=True) if is_read else _CHANGE_S
        try:
            return answer.result(timeout_s)
        except TimeoutError as err:
            answer.cancel()
            if not is_read:
                raise late(self._url, str(request), timeout_s, ADVICE) from err
            self._patience.note_late()
            setting = None if turn.is_short else self._patience.setting
            raise late(self._url, str(request), round(timeout_s, 1), READ_ADVICE, setting=setting) from err
        except concurrent.futures.CancelledError as err:
            raise UnreachableError("The worker is stopping") from err

    def close(self) -> None:
        """There is no connection."""

    async def _exchange(self, request: Request) -> Response:
        messages: list[Message] = []
        bodies = [request.body or b""]

        async def receive() -> Message:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            messages.append(message)

        await self._app(self._scope(request), receive, send)
        start = next(message for message in messages if message["type"] == "http.response.start")
        body = b"".join(message.get("body", b"") for message in messages if message["type"] == "http.response.body")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start.get("headers", ())}
        return Response(start["status"], body, headers)

    def _scope(self, request: Request) -> dict[str, Any]:
        """The caller's scope with this request in the place of its own."""
        path, _, query = request.path.partition("?")
        own = self._caller.scope
        headers = [(name, value) for name, value in own["headers"] if name in _CARRIED]
        sent = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
        return {
            **carried(own),
            "type": "http",
            "asgi": own["asgi"],
            "http_version": "1.1",
            "method": request.method,
            "scheme": own["scheme"],
            "path": path,
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": [*headers, *sent, (b"user-agent", b"kconnect-console")],
            "client": own.get("client"),
            "server": own.get("server"),
        }
