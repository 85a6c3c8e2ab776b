"""SinkSteps: a sink task called step by step, by whoever has its records and knows when it is which step's turn.

The harness, `connect try`, a replay of dead letters and Spark's `df.write`; what reads a topic is a SinkLoop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext

from kconnect.api import ErrantRecordReporter, PluginMetrics, RecordBatch, SinkRecord, SinkTask
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.conversion import FetchedBatch
from kconnect.runtime.pipeline.plugin_call import Calling, plugin_call
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_context import SinkContext
from kconnect.runtime.pipeline.sink_partitions import HeldPartitions

Payload = RecordBatch | list[SinkRecord]


class SinkSteps:
    """One task, its context, and where it is in each partition. Threads: one.

    Lifecycle: constructed -> start -> open, put, pre_commit, close .. -> stop, which is due after any error, too.
    Errors: what the task raises, as `calling` gives it.
    """

    def __init__(
        self,
        task: SinkTask,
        config: Mapping[str, str],
        metrics: PluginMetrics,
        reporter: Callable[[], ErrantRecordReporter | None],
        calling: Calling = plugin_call,
        raw_records: RawRecords | None = None,
    ) -> None:
        self.task = task
        self.config = config
        self.context = SinkContext(self, lambda: config, metrics, reporter)
        self._calls = SinkCalls(task, config, self.context, calling, raw_records)
        self.positions: dict[TopicPartition, int] = {}
        """The offset of the next record of each partition that is open."""
        self._held = HeldPartitions()

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def start(self) -> None:
        self._calls.start()

    def open(self, positions: Mapping[TopicPartition, int]) -> None:
        """Give the task partitions, from these offsets on or from where it asks to begin."""
        if positions:
            self.positions.update(positions)
            self._calls.open(sorted(positions))
            self.positions.update(self.context.take_offsets(set(positions)))

    def is_held(self, place: TopicPartition) -> bool:
        """Whether the task wants nothing of this partition for now."""
        self._held.ask(self.context.take_pauses())
        return place in self._held

    def put(self, payload: Payload, fetched: Sequence[FetchedBatch] = ()) -> None:
        """Give the task records, a batch as a batch if it takes those; they were read as `fetched`."""
        if isinstance(payload, RecordBatch) and self.task.supports_batches:
            self._calls.put_batch(payload, fetched)
            return
        records = payload.to_records() if isinstance(payload, RecordBatch) else list(payload)
        self._calls.put(records, fetched)  # type: ignore[arg-type]  # a sink's batch gives sink records

    def pre_commit(
        self, partitions: Collection[TopicPartition], *, is_last: bool = False, is_end: bool = False
    ) -> dict[TopicPartition, int]:
        """What the task allows to commit; `is_last`, `is_end`: what its `is_closing` and `is_ending` say."""
        self.context.take_commit_request()
        closing = self.context.closing(is_end=is_end) if is_last or is_end else nullcontext()
        with closing:
            return dict(self._calls.pre_commit({place: self.positions[place] for place in sorted(partitions)}))

    def close(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._calls.close(sorted(partitions))
            for place in list(partitions):
                self.positions.pop(place, None)
            self._held.forget(partitions)

    def stop(self) -> None:
        self._calls.stop()
