"""RestCluster: a cluster through the REST API of a worker, ours or Java's; from inside the worker or elsewhere."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from starlette.types import ASGIApp

from kconnect.admin.cluster.activity import Activity, activities
from kconnect.admin.cluster.rest_changes import RestChanges
from kconnect.admin.console.app_transport import AppTransport
from kconnect.admin.console.cluster import Announced, Caller, Capabilities, Cluster, OpenSink
from kconnect.admin.console.seen import content_tag
from kconnect.admin.direct.access import ClusterAccess
from kconnect.client import ConnectClient
from kconnect.client.outage import Outage
from kconnect.client.patience import LIMIT_S, Patience
from kconnect.errors import BadRequestError, ConnectError, NotFoundError, UnreachableError
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    RunState,
    TaskState,
    offsets_to_json,
)

READ_SETTING: Final = "kconnect.ui.read.timeout.ms"
# A rebalance of a quiet cluster takes 3 to 5 s; until it ends workers refuse changes
_REBALANCE_S = 15.0


class RestCluster:
    """Implements Cluster over a client. `lends_login`: `brokers` have the worker's login, not the caller's own."""

    def __init__(
        self,
        client: ConnectClient,
        kind: WorkerKind,
        brokers: ClusterAccess | None = None,
        *,
        lends_login: bool = False,
        open_sink: OpenSink | None = None,
    ) -> None:
        self._client = client
        self._kind = kind
        self._brokers = brokers
        self._lends_login = lends_login
        self._open_sink = open_sink
        # The client may be a kept one: what it was told for an earlier request may be over
        self._earlier_outage = client.outage

    @property
    def place(self) -> str:
        return self._client.url

    @property
    def rest(self) -> ConnectClient:
        return self._client

    direct = None

    @property
    def outage(self) -> Outage | None:
        found = self._client.outage
        return None if found is self._earlier_outage else found

    @property
    def brokers(self) -> ClusterAccess | None:
        return self._brokers

    def allow_letters(self, name: str, replay: Announced | None = None) -> None:
        """The worker says whether it lends its login to this caller."""
        if not self._lends_login:
            return
        self._client.connector(name)
        try:
            if replay is not None:
                self._client.announce_replay(name, replay.targets, edited=replay.edited)
            else:
                self._client.dead_letter_place(name)
        except NotFoundError:
            raise BadRequestError(
                "This listener does not say who may read records: it does not serve /admin",
                hint="Open the console at the worker's admin.listeners, or use `connect dlq` with your own login.",
            ) from None

    @property
    def open_sink(self) -> OpenSink | None:
        return self._open_sink

    @property
    def changes(self) -> RestChanges:
        return RestChanges(lambda: self._client)

    def starting(self) -> str | None:
        """Workers before Kafka 3.9 cannot say it."""
        try:
            body = self._client.health()
        except NotFoundError:
            return None
        # One whose Spark is starting takes requests already
        return str(body.get("message", "")) if body.get("answers_requests") is False else None

    def server_info(self) -> Mapping[str, Any]:
        return self._client.server_info()

    def capabilities(self) -> Capabilities:
        return Capabilities(is_ours=self._kind.is_ours(self._client))

    def connector_statuses(self) -> Mapping[str, ConnectorStatus]:
        return self._client.connector_statuses()

    def activities(self) -> Mapping[str, Activity]:
        """None of a Java worker, and none where only admin listeners tell it."""
        if not self._kind.is_ours(self._client):
            return {}
        return activities(self._client) or {}

    def connector(self, name: str) -> ConnectorInfo:
        return self._client.connector(name)

    def tagged_connector(self, name: str) -> tuple[ConnectorInfo, str]:
        info, tag = self._client.tagged_connector(name)
        return info, tag or content_tag(dict(info.config))

    def connector_status(self, name: str) -> ConnectorStatus:
        """A connector that was only just created has none yet: it is UNASSIGNED."""
        try:
            return self._client.connector_status(name)
        except NotFoundError:
            info = self._client.connector(name)
            tasks = tuple(TaskState(task.task, RunState.UNASSIGNED, "") for task in info.tasks)
            return ConnectorStatus(name, ConnectorState(RunState.UNASSIGNED, ""), tasks, info.type)

    def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]:
        return self._client.connector_offsets(name)

    def tagged_offsets(self, name: str) -> tuple[Sequence[ConnectorOffset], str]:
        offsets, tag = self._client.tagged_offsets(name)
        return offsets, tag or content_tag(offsets_to_json(offsets))

    def topics(self, name: str) -> Sequence[str] | None:
        try:
            return self._client.topics(name)
        except NotFoundError:
            raise
        except ConnectError:  # 403: topic.tracking.enable=false
            return None

    def plugins(self) -> Sequence[Mapping[str, Any]]:
        return self._client.plugins(connectors_only=False)

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        return self._client.plugin_config(plugin)

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Mapping[str, Any]:
        return self._client.validate(plugin, config)


class WorkerKind:
    """Whether a worker is one of ours; asked once. Threads: any."""

    def __init__(self, is_ours: bool | None = None) -> None:
        self._is_ours = is_ours

    def is_ours(self, client: ConnectClient) -> bool:
        """Java's answers 404 to what only ours have; a refused caller says nothing about the worker."""
        if self._is_ours is None:
            try:
                client.slots()
                self._is_ours = True
            except NotFoundError:
                self._is_ours = False
        return self._is_ours


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
