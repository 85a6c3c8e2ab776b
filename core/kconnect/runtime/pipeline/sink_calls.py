"""SinkCalls: the methods of a sink task, called in one way by all that run one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kconnect.api import RecordBatch, SinkRecord, SinkTask
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.plugin_call import Calling, plugin_call
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_context import SinkContext


class SinkCalls:
    """A task and its context. Threads: one. Errors: what the task raises, as `calling` gives it."""

    def __init__(
        self,
        task: SinkTask,
        config: Mapping[str, str],
        context: SinkContext,
        calling: Calling = plugin_call,
        raw_records: RawRecords | None = None,
    ) -> None:
        """`raw_records` learns what is put, so that a report finds what a record was read as."""
        self.task = task
        self.config = config
        self.context = context
        self._calling = calling
        self._raw_records = raw_records or RawRecords(is_wanted=False)

    def start(self) -> None:
        with self._calling(self.task, "initialize"):
            self.task.initialize(self.context)
        with self._calling(self.task, "start"):
            self.task.start(self.config)

    def open(self, partitions: Collection[TopicPartition]) -> None:
        with self._calling(self.task, "open"):
            self.task.open(list(partitions))

    def put(self, records: list[SinkRecord], fetched: Sequence[FetchedBatch] = ()) -> None:
        """`fetched`: what the records were read as, where anybody asks."""
        self._raw_records.put(records, fetched)
        with self._calling(self.task, "put"):
            self.task.put(records)

    def put_batch(self, batch: RecordBatch, fetched: Sequence[FetchedBatch] = ()) -> None:
        """Works as put, for a task that takes batches."""
        self._raw_records.put_batch(batch, fetched)
        with self._calling(self.task, "put_batch"):
            self.task.put_batch(batch)

    def end_put(self) -> None:
        """Forget what was put: messages held until the next fetch would cost it the CPU's cache."""
        self._raw_records.put((), ())

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """What the task allows to be committed."""
        with self._calling(self.task, "pre_commit"):
            return self.task.pre_commit(dict(offsets)) or {}

    def close(self, partitions: Collection[TopicPartition]) -> None:
        with self._calling(self.task, "close"):
            self.task.close(list(partitions))

    def stop(self) -> None:
        with self._calling(self.task, "stop"):
            self.task.stop()
