"""One sink task under the harness: its partitions, positions and stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import Any

from kconnect.api import ErrantRecordReporter, RecordBatch, SinkRecord, SinkTask, TimestampType
from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.conversion import FetchedBatch
from kconnect.runtime.pipeline.sink_context import SinkContext
from kconnect.runtime.pipeline.sink_partitions import HeldPartitions
from kconnect.testing.connector_run import TaskStages
from kconnect.testing.memory_log import MemoryLog, MemoryRecord
from kconnect.testing.plugin_calls import PluginCalls

Commit = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
Payload = RecordBatch | list[SinkRecord]


class SinkTaskRun:
    """Threads: the test's."""

    def __init__(
        self,
        task: SinkTask,
        config: Mapping[str, str],
        stages: TaskStages,
        log: MemoryLog,
        reporter: Callable[[], ErrantRecordReporter | None],
        calls: PluginCalls,
    ) -> None:
        self.task = task
        self._calls = calls
        self.config = config
        self.stages = stages
        self._log = log
        self.context = SinkContext(self, lambda: config, stages.metrics, reporter)
        self._positions: dict[TopicPartition, int] = {}
        self._held = HeldPartitions()

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self._positions)

    def start(self) -> None:
        self.task.initialize(self.context)
        with self._calls.calling(self.task, "start"):
            self.task.start(self.config)

    def stop(self) -> None:
        try:
            with self._calls.calling(self.task, "stop"):
                self.task.stop()
        finally:
            self.stages.close()

    def take(self, partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, int]) -> None:
        """Open partitions and read them from the committed offsets, or where the task's open() asks to."""
        if not partitions:
            return
        self._positions.update({partition: committed.get(partition, 0) for partition in partitions})
        with self._calls.calling(self.task, "open"):
            self.task.open(sorted(partitions))
        self._rewind()

    def give_up(self, partitions: Collection[TopicPartition], commit: Commit) -> None:
        """Flush, close (whatever flush does), commit, in the worker's order."""
        if not partitions:
            return
        wanted: Mapping[TopicPartition, int] = {}
        try:
            wanted = self.pre_commit(partitions, is_last=True)
        finally:
            self.lose(partitions)
        commit(wanted)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Close without committing."""
        if not partitions:
            return
        with self._calls.calling(self.task, "close"):
            self.task.close(sorted(partitions))
        for partition in list(partitions):
            self._positions.pop(partition, None)
        self._held.forget(partitions)

    def fetch(self) -> tuple[list[Payload], dict[TopicPartition, int]]:
        """The next records to put, and the positions after them. Errors: StageError."""
        self._rewind()
        self._held.ask(self.context.take_pauses())
        payloads: list[Payload] = []
        after: dict[TopicPartition, int] = {}
        for partition, position in sorted(self._positions.items()):
            if partition in self._held:
                continue
            found = self._log.read(partition, position)
            if found:
                payloads += self._convert(found)
                after[partition] = position + len(found)
        return _joined(payloads), after

    def put(self, payload: Payload) -> None:
        if isinstance(payload, RecordBatch):
            if self.task.supports_batches:
                with self._calls.calling(self.task, "put_batch"):
                    self.task.put_batch(payload)
                return
            payload = payload.to_records()  # type: ignore[assignment]  # a sink's batch gives sink records
        with self._calls.calling(self.task, "put"):
            self.task.put(list(payload))  # type: ignore[arg-type]

    def moved(self, after: Mapping[TopicPartition, int]) -> None:
        """The records up to here are put; where the task asked to go back meanwhile, it goes back."""
        self._positions.update({tp: offset for tp, offset in after.items() if tp in self._positions})
        self._rewind()

    def go_back(self, committed: Mapping[TopicPartition, int]) -> None:
        """Go back to the committed offsets."""
        for partition in self._positions:
            self._positions[partition] = committed.get(partition, 0)

    def pre_commit(
        self, partitions: Collection[TopicPartition], *, is_last: bool = False, is_end: bool = False
    ) -> dict[TopicPartition, int]:
        """What the task allows to commit. Errors: what it raises; ConnectError for an offset that was never read."""
        self.context.take_commit_request()
        current = {tp: self._positions[tp] for tp in sorted(partitions)}
        closing = self.context.closing(is_end=is_end) if is_last or is_end else nullcontext()
        with closing, self._calls.calling(self.task, "pre_commit"):
            allowed = dict(self.task.pre_commit(dict(current)) or {})
        for partition, offset in allowed.items():
            if partition not in current or offset > current[partition]:
                raise ConnectError(
                    f"{type(self.task).__name__}.pre_commit() allows offset {offset} of {partition}; "
                    f"it was given {current.get(partition)}",
                    hint="The worker would ignore it, with a warning: give what pre_commit was given, or less.",
                )
        return allowed

    # --- inside ---

    def _rewind(self) -> None:
        self._positions.update(self.context.take_offsets(self.assignment))

    def _convert(self, found: list[MemoryRecord]) -> list[Payload]:
        """Converters for what is bytes, then transforms, for runs of records of one kind."""
        payloads: list[Payload] = []
        run: list[MemoryRecord] = []
        for record in [*found, None]:
            if run and (record is None or (record.connect is None) != (run[0].connect is None)):
                payloads.append(self._convert_run(run))
                run = []
            if record is not None:
                run.append(record)
        return payloads

    def _convert_run(self, run: list[MemoryRecord]) -> Payload:
        made: Any = [record.connect for record in run]  # Payload
        if run[0].connect is None:
            fetched = _fetched(run)
            converters = self.stages.converters
            made = (
                converters.to_connect_batch(fetched)
                if self.task.supports_batches
                else converters.to_connect_records(fetched)
            )
        if isinstance(made, RecordBatch):
            kept: Any = self.stages.transforms.apply_batch(made)
        else:
            kept = self.stages.transforms.apply_records(made)
        return [] if kept is None else kept


def _fetched(run: list[MemoryRecord]) -> FetchedBatch:
    has_headers = any(record.headers for record in run)
    return FetchedBatch(
        run[0].topic,
        run[0].partition,
        [record.offset for record in run],
        [record.key for record in run] if any(record.key is not None for record in run) else None,
        [record.value for record in run],
        [record.timestamp for record in run],
        TimestampType.CREATE_TIME,
        [list(record.headers) for record in run] if has_headers else None,
    )


def _joined(payloads: list[Payload]) -> list[Payload]:
    """Records of one fetch go into one put, as in the worker; batches stay apart; what is empty is left out."""
    joined: list[Payload] = []
    for payload in payloads:
        if not len(payload):
            continue
        if isinstance(payload, list) and joined and isinstance(joined[-1], list):
            joined[-1] = joined[-1] + payload
        else:
            joined.append(payload)
    return joined
