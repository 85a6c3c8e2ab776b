"""The ways to a cluster for pages: inside of its worker, over a worker's URL, on its topics. Each is a Clusters.

AppTransport brings requests of the console to the REST application of its own worker, without a socket.

They pass through the same middleware as the caller's own, with the caller's login, certificate and address: what the
caller may not do over REST the console cannot do either, and nothing is decided twice.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from starlette.types import ASGIApp, Message

from kconnect.admin.cluster.broker_lags import BrokerLags
from kconnect.admin.cluster.port import Cluster, OpenSink
from kconnect.admin.cluster.rest_cluster import RestCluster, WorkerKind
from kconnect.admin.cluster.topic_cluster import TopicCluster
from kconnect.admin.console.cluster import Caller, carried
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.client import DirectClient
from kconnect.client import ConnectClient, Request, Response
from kconnect.client.http_failures import late
from kconnect.client.patience import LIMIT_S, Patience
from kconnect.client.transport import ADVICE, READ_ADVICE
from kconnect.errors import UnreachableError

READ_SETTING: Final = "kconnect.ui.read.timeout.ms"
# Brokers answer in a tenth of it; a page that is polled shows what comes later
_LAG_WAIT_S: Final = 1.0
# A rebalance of a quiet cluster takes 3 to 5 s; until it ends workers refuse changes
_REBALANCE_S = 15.0


class WorkerClusters:
    """The console of a worker: requests stay in the process, with the caller's identity. Implements Clusters.

    `app`: the worker's REST application with everything around it.
    """

    def __init__(self, app: ASGIApp, brokers: ClusterAccess | None = None, read_s: float = LIMIT_S) -> None:
        self._app = app
        self._read_s = read_s
        self._brokers = brokers
        # Of sinks on Java's workers of the group; a worker tells that of its own, and its pages wait for nobody else
        self._lags = None if brokers is None else BrokerLags(lambda: brokers, read_s, 0.0)
        self._kind = WorkerKind(True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def set_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """The event loop that runs the application; known with the first request."""
        self._loop = loop

    @property
    def place(self) -> str:
        return "this worker"

    @contextmanager
    def open(self, caller: Caller) -> Iterator[Cluster]:
        assert self._loop is not None
        url = _own_url(caller)
        transport = AppTransport(self._app, self._loop, caller, url, Patience(self._read_s, READ_SETTING))
        with ConnectClient(url, retry_conflicts_s=_REBALANCE_S, transport=transport) as client:
            yield RestCluster(client, self._kind, self._brokers, lends_login=True, lags=self._lags)

    def close(self) -> None:
        """Nothing is kept."""


class UrlClusters:
    """The console of `connect ui`: clients of a worker elsewhere, kept for the next request. Implements Clusters.

    `brokers`: those of its cluster, if they are known.
    """

    def __init__(
        self,
        place: str,
        connect: Callable[[], ConnectClient],
        brokers: ClusterAccess | None = None,
        open_sink: OpenSink | None = None,
    ) -> None:
        self._place = place
        self._connect = connect
        self._brokers = brokers
        self._open_sink = open_sink
        self._lags = None if brokers is None else BrokerLags(lambda: brokers, LIMIT_S, _LAG_WAIT_S)
        self._kind = WorkerKind()
        self._idle: queue.SimpleQueue[ConnectClient] = queue.SimpleQueue()
        self._all: list[ConnectClient] = []
        self._is_closed = False
        self._lock = threading.Lock()  # guards _all, _is_closed; what is closed is not idle

    @property
    def place(self) -> str:
        return self._place

    @contextmanager
    def open(self, caller: Caller) -> Iterator[Cluster]:
        client = self._client()
        try:
            yield RestCluster(client, self._kind, self._brokers, open_sink=self._open_sink, lags=self._lags)
        finally:
            with self._lock:
                if self._is_closed:
                    client.close()
                else:
                    self._idle.put(client)

    def close(self) -> None:
        """Ends also what waits for an answer: a worker that is frozen gives none. Idempotent."""
        with self._lock:
            self._is_closed = True
            for client in self._all:
                client.abort()
            with suppress(queue.Empty):
                while True:
                    self._idle.get_nowait().close()

    def _client(self) -> ConnectClient:
        """Errors: UnreachableError once it is closed."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            client = self._connect()
            with self._lock:
                if self._is_closed:
                    raise UnreachableError("The console is stopping") from None
                self._all.append(client)
            return client


def _own_url(caller: Caller) -> str:
    """The worker as the caller wrote it, for messages."""
    scope = caller.scope
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    fit = host and all(char.isalnum() or char in ".-:[]" for char in host)
    return f"{scope['scheme']}://{host}" if fit else f"{scope['scheme']}://localhost"


class TopicClusters:
    """Reads the topics again for each page. Implements Clusters. Threads: any."""

    def __init__(self, access: ClusterAccess, open_sink: OpenSink | None = None) -> None:
        self._access = access
        self._open_sink = open_sink
        self._lags = BrokerLags(lambda: access, LIMIT_S, _LAG_WAIT_S)

    @property
    def place(self) -> str:
        return DirectClient(self._access).place

    @contextmanager
    def open(self, caller: Caller) -> Iterator[Cluster]:
        client = DirectClient(self._access)
        try:
            yield TopicCluster(client, self._open_sink, self._lags)
        finally:
            client.close()

    def close(self) -> None:
        """Nothing is kept."""


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
