"""What a source task may ask of its runtime: configs, committed offsets, and waits that end with a stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kconnect.api import OffsetStorageReader, PluginMetrics, SourceRecord, TransactionContext
from kconnect.runtime.pipeline.ports import OffsetPort, TaskControl


class SourceContext:
    """What a source task may ask. Implements kconnect.api.SourceTaskContext."""

    def __init__(
        self,
        control: TaskControl,
        offsets: OffsetPort,
        configs: Callable[[], Mapping[str, str]],
        transactions: TransactionContext | None = None,
        give_up: Callable[[SourceRecord, BaseException], object] | None = None,
    ) -> None:
        """`give_up` takes what the task reports; without it a report fails the task."""
        self._control = control
        self._reader = _OffsetReader(control, offsets)
        self._configs = configs
        self._transactions = transactions
        self._give_up = give_up

    def configs(self) -> Mapping[str, str]:
        return self._configs()

    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._reader

    def transaction_context(self) -> TransactionContext | None:
        return self._transactions

    def report_errant(self, record: SourceRecord, error: BaseException) -> None:
        if self._give_up is None:
            raise error
        self._give_up(record, error)

    def plugin_metrics(self) -> PluginMetrics:
        return self._control.monitor.of_task

    def wait(self, timeout_s: float) -> bool:
        return self._control.wait_for_work(timeout_s)

    def wake(self) -> None:
        self._control.wake()


class _OffsetReader:
    def __init__(self, control: TaskControl, offsets: OffsetPort) -> None:
        self._connector = control.spec.id.connector
        self._offsets = offsets

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._offsets.read(self._connector, [partition])[0]

    def offsets(self, partitions: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._offsets.read(self._connector, list(partitions))
