"""What a source task may ask of its runtime: configs, committed offsets, and waits that end with a stop.

One for all that run a task: what differs (waits, offsets, transactions, errant records) comes in by ports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kconnect.api import OffsetStorageReader, PluginMetrics, SourceRecord, SourceTask, TransactionContext
from kconnect.runtime.pipeline.plugin_call import Calling, plugin_call
from kconnect.runtime.pipeline.ports import WorkWaits


class SourceContext:
    """What a source task may ask. Implements kconnect.api.SourceTaskContext."""

    def __init__(
        self,
        waits: WorkWaits,
        offsets: OffsetStorageReader,
        configs: Callable[[], Mapping[str, str]],
        metrics: PluginMetrics,
        transactions: TransactionContext | None = None,
        give_up: Callable[[SourceRecord, BaseException], object] | None = None,
    ) -> None:
        """`give_up` takes what the task reports; without it a report fails the task."""
        self._waits = waits
        self._offsets = offsets
        self._configs = configs
        self._metrics = metrics
        self._transactions = transactions
        self._give_up = give_up

    def configs(self) -> Mapping[str, str]:
        return self._configs()

    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._offsets

    def transaction_context(self) -> TransactionContext | None:
        return self._transactions

    def report_errant(self, record: SourceRecord, error: BaseException) -> None:
        if self._give_up is None:
            raise error
        self._give_up(record, error)

    def plugin_metrics(self) -> PluginMetrics:
        return self._metrics

    def wait(self, timeout_s: float) -> bool:
        return self._waits.wait_for_work(timeout_s)

    def wake(self) -> None:
        self._waits.wake()


class SourceCalls:
    """The methods of a source task's life, called in one way by all that run one: a task and its context.

    Threads: one. Errors: what the task raises, as `calling` gives it.
    """

    def __init__(
        self, task: SourceTask, config: Mapping[str, str], context: SourceContext, calling: Calling = plugin_call
    ) -> None:
        self.task = task
        self.config = config
        self.context = context
        self._calling = calling

    def start(self) -> None:
        with self._calling(self.task, "initialize"):
            self.task.initialize(self.context)
        with self._calling(self.task, "start"):
            self.task.start(self.config)

    def poll(self) -> Any:  # whatever the plugin gives
        with self._calling(self.task, "poll"):
            return self.task.poll()

    def stop(self) -> None:
        with self._calling(self.task, "stop"):
            self.task.stop()
