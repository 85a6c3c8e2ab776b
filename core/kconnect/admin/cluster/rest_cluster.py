"""RestCluster: a cluster through the REST API of a worker, ours or Java's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kconnect.admin.cluster.activity import Activity, activities, sinks_without_lag, with_lags
from kconnect.admin.cluster.port import Announced, Capabilities, OpenSink, content_tag
from kconnect.admin.cluster.rest_changes import RestChanges
from kconnect.client.patience import LIMIT_S
from kconnect.client.worker_start import WorkerHealth, health_of
from kconnect.errors import BadRequestError, ConnectError, NotFoundError, TimedOutError
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    SinkLag,
    TaskState,
    offsets_to_json,
)

if TYPE_CHECKING:
    from kconnect.admin.cluster.broker_lags import BrokerLags
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.client import ConnectClient
    from kconnect.client.outage import Outage


class RestCluster:
    """Implements Cluster over a client.

    `lends_login`: `brokers` have the worker's login, not the caller's own. `lags`: asked where workers tell no lag.
    """

    def __init__(
        self,
        client: ConnectClient,
        kind: WorkerKind,
        brokers: ClusterAccess | None = None,
        *,
        lends_login: bool = False,
        open_sink: OpenSink | None = None,
        lags: BrokerLags | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._kind = kind
        self._brokers = brokers
        self._lends_login = lends_login
        self._open_sink = open_sink
        self._lags = lags
        self._monotonic = monotonic
        # The client may be a kept one: what it reported for an earlier request may be over
        self._earlier_outage = client.outage
        self._remembered: Mapping[str, ConnectorInfo] = {}
        self._remembered_until_s = float("-inf")
        self._held_up: str | None = None

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
    def held_up(self) -> str | None:
        return self._held_up

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

    def health(self) -> WorkerHealth:
        return health_of(self._client)

    def server_info(self) -> Mapping[str, Any]:
        return self._client.server_info()

    def capabilities(self) -> Capabilities:
        return Capabilities(is_ours=self._kind.is_ours(self._client))

    def connectors(self) -> Sequence[str]:
        return self._client.connectors()

    def connector_infos(self) -> Mapping[str, ConnectorInfo]:
        return self._client.connector_infos()

    def connector_statuses(self) -> Mapping[str, ConnectorStatus]:
        return self._client.connector_statuses()

    def activities(self, statuses: Mapping[str, ConnectorStatus]) -> Mapping[str, Activity] | None:
        """Gives None of a Java worker, and where only admin listeners report it, unless brokers tell the lag."""
        reported = activities(self._client) if self._kind.is_ours(self._client) else None
        # While Kafka is away nobody tells it
        if self._lags is None or self._client.outage is not None:
            return reported
        silent = sinks_without_lag(statuses, reported or {})
        found = self._lags.activities(silent, self._client.connector_infos) if silent else {}
        return reported if reported is None and not found else with_lags(reported or {}, found)

    def connector(self, name: str) -> ConnectorInfo:
        return self._asked_or_remembered(name, lambda: (self._client.connector(name), None))[0]

    def tagged_connector(self, name: str) -> tuple[ConnectorInfo, str]:
        info, tag = self._asked_or_remembered(name, lambda: self._client.tagged_connector(name))
        return info, tag or content_tag(dict(info.config))

    def _asked_or_remembered(
        self, name: str, ask: Callable[[], tuple[ConnectorInfo, str | None]]
    ) -> tuple[ConnectorInfo, str | None]:
        """In Java's workers the thread that answers for one connector may wait for Kafka; another answers for all.

        What that one said is used for as long as the client has no patience for another late answer.
        """
        if self._monotonic() < self._remembered_until_s and (info := self._remembered.get(name)) is not None:
            return info, None
        self._held_up = None
        try:
            return ask()
        except TimedOutError as late:
            try:
                found = self._client.connector_infos()
            except ConnectError:
                raise late from None
            if name not in found:
                raise NotFoundError(f"Connector {name} not found") from late
            self._remembered, self._remembered_until_s = found, self._monotonic() + LIMIT_S
            self._held_up = f"{late}: its config is shown as the worker has it in memory"
            return found[name], None

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

    def offsets_and_lag(self, name: str) -> tuple[list[ConnectorOffset], SinkLag | None]:
        offsets, lag = self._client.offsets_and_lag(name)
        # A source's are by what it reads; a new sink has none yet
        if lag is None and self._lags is not None and all("kafka_topic" in each.partition for each in offsets):
            info = self._client.connector(name)
            lag = self._lags.of(info) if info.type is ConnectorType.SINK else None
        return offsets, lag

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
