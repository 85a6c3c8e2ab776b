"""What a connector may request from the worker that hosts it. Source: HerderConnectorContext, WorkerConnector (Kafka
4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from kconnect.runtime.storage import OffsetStore, read_source_offsets

if TYPE_CHECKING:
    from kconnect.api import OffsetStorageReader, PluginMetrics
    from kconnect.runtime.herder.connectors.hosted_connector import HostedConnector


class StoreOffsetReader:
    """Committed source offsets of one connector, straight from the worker's store: an OffsetStorageReader."""

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return read_source_offsets(self._store, self._connector, [partition])[0]

    def offsets(self, partitions: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return read_source_offsets(self._store, self._connector, list(partitions))


class SinkHostContext:
    """A SinkConnectorContext. A connector that was shut down or abandoned can no longer ask for anything."""

    def __init__(
        self, host: HostedConnector, request_reconfiguration: Callable[[], None], metrics: PluginMetrics
    ) -> None:
        self._host = host
        self._request = request_reconfiguration
        self._metrics = metrics

    def request_task_reconfiguration(self) -> None:
        if not self._host.is_shut_down:
            self._request()

    def raise_error(self, error: BaseException) -> None:
        self._host.fail(error)

    def plugin_metrics(self) -> PluginMetrics:
        return self._metrics


class SourceHostContext(SinkHostContext):
    """A SourceConnectorContext: that of a sink, plus a reader of offsets."""

    def __init__(
        self,
        host: HostedConnector,
        request_reconfiguration: Callable[[], None],
        metrics: PluginMetrics,
        reader: OffsetStorageReader,
    ) -> None:
        super().__init__(host, request_reconfiguration, metrics)
        self._reader = reader

    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._reader
