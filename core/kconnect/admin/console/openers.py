"""The ways to a cluster for pages: inside of its worker, over a worker's URL, on its topics. Each is a Clusters."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from starlette.types import ASGIApp

from kconnect.admin.cluster.port import Cluster, OpenSink
from kconnect.admin.cluster.rest_cluster import RestCluster, WorkerKind
from kconnect.admin.cluster.topic_cluster import TopicCluster
from kconnect.admin.console.app_transport import AppTransport
from kconnect.admin.console.cluster import Caller
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.client import DirectClient
from kconnect.client import ConnectClient
from kconnect.client.patience import LIMIT_S, Patience
from kconnect.errors import UnreachableError

READ_SETTING: Final = "kconnect.ui.read.timeout.ms"
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
            yield RestCluster(client, self._kind, self._brokers, lends_login=True)

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
            yield RestCluster(client, self._kind, self._brokers, open_sink=self._open_sink)
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

    @property
    def place(self) -> str:
        return DirectClient(self._access).place

    @contextmanager
    def open(self, caller: Caller) -> Iterator[Cluster]:
        client = DirectClient(self._access)
        try:
            yield TopicCluster(client, self._open_sink)
        finally:
            client.close()

    def close(self) -> None:
        """Nothing is kept."""
