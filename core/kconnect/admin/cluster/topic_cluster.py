"""TopicCluster: a cluster read from its internal topics, when no worker is up (--direct)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kconnect.admin.cluster.activity import Activity, sinks_without_lag
from kconnect.admin.cluster.port import Announced, Capabilities, OpenSink, content_tag
from kconnect.admin.cluster.topic_changes import TopicChanges
from kconnect.client.worker_start import WorkerHealth
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorStatus, SinkLag, offsets_to_json

if TYPE_CHECKING:
    from kconnect.admin.cluster.broker_lags import BrokerLags
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.direct.client import DirectClient


class TopicCluster:
    """Implements Cluster over a DirectClient. `lags`: what brokers tell of sinks."""

    rest = None
    outage = None
    held_up = None

    def __init__(self, client: DirectClient, open_sink: OpenSink | None = None, lags: BrokerLags | None = None) -> None:
        self._client = client
        self._lags = lags
        self._open_sink = open_sink

    @property
    def place(self) -> str:
        return self._client.place

    @property
    def direct(self) -> DirectClient:
        return self._client

    @property
    def open_sink(self) -> OpenSink | None:
        return self._open_sink

    @property
    def changes(self) -> TopicChanges:
        return TopicChanges(self._client)

    @property
    def brokers(self) -> ClusterAccess:
        return self._client.access

    def allow_letters(self, name: str, replay: Announced | None = None) -> None:
        """The login is the caller's own."""

    def health(self) -> WorkerHealth:
        return WorkerHealth()

    def server_info(self) -> Mapping[str, Any]:
        return {"kafka_cluster_id": self._client.reader.admin.cluster_id(self._client.access.timeout_s)}

    def capabilities(self) -> Capabilities:
        return Capabilities(has_workers=False, is_ours=False)

    def connectors(self) -> Sequence[str]:
        return self._client.connectors()

    def connector_infos(self) -> Mapping[str, ConnectorInfo]:
        return self._client.connector_infos()

    def connector_statuses(self) -> Mapping[str, ConnectorStatus]:
        return self._client.connector_statuses()

    def activities(self, statuses: Mapping[str, ConnectorStatus]) -> Mapping[str, Activity] | None:
        """Gives the lag of sinks alone."""
        sinks = sinks_without_lag(statuses, {})
        return None if self._lags is None else self._lags.activities(sinks, self._client.connector_infos)

    def connector(self, name: str) -> ConnectorInfo:
        return self._client.connector(name)

    def tagged_connector(self, name: str) -> tuple[ConnectorInfo, str]:
        info = self._client.connector(name)
        return info, content_tag(dict(info.config))

    def connector_status(self, name: str) -> ConnectorStatus:
        return self._client.connector_status(name)

    def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]:
        return self._client.connector_offsets(name)

    def offsets_and_lag(self, name: str) -> tuple[list[ConnectorOffset], SinkLag | None]:
        return self._client.offsets_and_lag(name)

    def tagged_offsets(self, name: str) -> tuple[Sequence[ConnectorOffset], str]:
        offsets = self._client.connector_offsets(name)
        return offsets, content_tag(offsets_to_json(offsets))

    def topics(self, name: str) -> Sequence[str] | None:
        return sorted(self._client.statuses.statuses.topics(name))

    def plugins(self) -> Sequence[Mapping[str, Any]]:
        return []

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        return self._client.plugin_config(plugin)

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Mapping[str, Any]:
        return self._client.validate(plugin, config)
