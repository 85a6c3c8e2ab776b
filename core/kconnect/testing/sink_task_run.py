"""One sink task under the harness: called step by step, with what the log has for it.

By the worker's calls, context, conversion and retries, but not by its SinkLoop. The loop decides itself what comes next
and when to commit, and logs what it goes on after; here a test, `connect try` or a replay decides that, and is given
each error where it comes. A replay's records are single ones in any order besides, so that no position says what of
them was put.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import Any

from kconnect.api import (
    ErrantRecordReporter,
    ErrantRecordsError,
    RecordBatch,
    SinkRecord,
    SinkTask,
    TimestampType,
)
from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_context import SinkContext
from kconnect.runtime.pipeline.sink_partitions import HeldPartitions
from kconnect.testing.connector_run import TaskStages
from kconnect.testing.memory_log import MemoryLog, MemoryRecord
from kconnect.testing.plugin_calls import PluginCalls

Payload = RecordBatch | list[SinkRecord]
Commit = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]


class SinkTaskRun:
    """One task, its context, and where it is in each partition. Threads: the test's.

    Errors: those of the task, as they are.
    Lifecycle: constructed -> start -> open, put, pre_commit, close .. -> stop, which is due after any error, too.
    """

    def __init__(
        self,
        task: SinkTask,
        config: Mapping[str, str],
        stages: TaskStages,
        reporter: Callable[[], ErrantRecordReporter | None],
        calls: PluginCalls,
    ) -> None:
        self.task = task
        self.config = config
        self.stages = stages
        self.context = SinkContext(self, lambda: config, stages.metrics, reporter)
        self.positions: dict[TopicPartition, int] = {}
        """The offset of the next record of each partition that is open."""
        self._calls = SinkCalls(task, config, self.context, calls.calling)
        self._held = HeldPartitions()
        self._refused: dict[TopicPartition, set[int]] = {}

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def start(self) -> None:
        self._calls.start()

    def stop(self) -> None:
        try:
            self._calls.stop()
        finally:
            self.stages.close()

    def open(self, positions: Mapping[TopicPartition, int]) -> None:
        """Give the task partitions, from these offsets on or from where it asks to begin."""
        if positions:
            self.positions.update(positions)
            self._calls.open(sorted(positions))
            self.positions.update(self.context.take_offsets(set(positions)))

    def close(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._calls.close(sorted(partitions))
            for place in list(partitions):
                self.positions.pop(place, None)
            self._held.forget(partitions)

    def put(self, payload: Payload) -> None:
        """Give the task records, a batch as a batch if it takes those."""
        if isinstance(payload, RecordBatch) and self.task.supports_batches:
            self._calls.put_batch(payload)
            return
        records = payload.to_records() if isinstance(payload, RecordBatch) else list(payload)
        self._calls.put(records)  # type: ignore[arg-type]  # a sink's batch gives sink records

    def take(self, partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, int]) -> None:
        """Open partitions and read them from the committed offsets, or where the task's open() asks to."""
        self.open({partition: committed.get(partition, 0) for partition in partitions})

    def give_up(self, partitions: Collection[TopicPartition], commit: Commit) -> None:
        """Flush, close (whatever flush does), commit, in the worker's order."""
        if not partitions:
            return
        wanted: Mapping[TopicPartition, int] = {}
        try:
            wanted = self.pre_commit(partitions, is_last=True)
        finally:
            self.close(partitions)
        commit(wanted)

    def fetch(self, log: MemoryLog) -> tuple[list[Payload], dict[TopicPartition, int]]:
        """The next records to put, and the positions after them. Errors: StageError."""
        self._rewind()
        self._held.ask(self.context.take_pauses())
        payloads: list[Payload] = []
        after: dict[TopicPartition, int] = {}
        for partition, position in sorted(self.positions.items()):
            found = [] if partition in self._held else log.read(partition, position)
            if found:
                refused = self._refused.get(partition, ())
                payloads += self._convert([record for record in found if record.offset not in refused])
                after[partition] = position + len(found)
        return _joined(payloads), after

    def moved(self, after: Mapping[TopicPartition, int]) -> None:
        """The records up to here are put; where the task asked to go back meanwhile, it goes back."""
        self.positions.update({tp: offset for tp, offset in after.items() if tp in self.positions})
        self._rewind()

    def go_back(self, committed: Mapping[TopicPartition, int]) -> None:
        """Go back to the committed offsets."""
        for partition in self.positions:
            self.positions[partition] = committed.get(partition, 0)

    def leave_out(
        self, error: ErrantRecordsError, log: MemoryLog, committed: Mapping[TopicPartition, int]
    ) -> list[SinkRecord]:
        """Go back to the committed offsets, and on without the records that the task named; gives these.

        Errors: ConnectError for one that it was not given since the last commit.
        """
        found: list[SinkRecord] = []
        for place, offset in error.errors:
            known = self._refused.setdefault(place, set())
            records = log.read(place, offset)[:1] if place in self.positions and offset not in known else []
            if not records or offset < committed.get(place, 0):
                raise ConnectError(f"{error}. But the task was not passed {place}, offset {offset}") from error
            known.add(offset)
            (payload,) = self._convert(records)
            found += payload.to_records() if isinstance(payload, RecordBatch) else payload  # type: ignore[arg-type]  # a sink's batch
        self.go_back(committed)
        return found

    def pre_commit(
        self, partitions: Collection[TopicPartition], *, is_last: bool = False, is_end: bool = False
    ) -> dict[TopicPartition, int]:
        """What the task allows to commit; `is_last`, `is_end`: what its `is_closing` and `is_ending` say.

        Errors: what the task raises; ConnectError for an offset that was never read.
        """
        self.context.take_commit_request()
        closing = self.context.closing(is_end=is_end) if is_last or is_end else nullcontext()
        with closing:
            allowed = dict(self._calls.pre_commit({place: self.positions[place] for place in sorted(partitions)}))
        for partition, offset in allowed.items():
            given = self.positions[partition] if partition in partitions else None
            if given is None or offset > given:
                raise ConnectError(
                    f"{type(self.task).__name__}.pre_commit() allows offset {offset} of {partition}; "
                    f"it was given {given}",
                    hint="The worker would ignore it, with a warning: give what pre_commit was given, or less.",
                )
        return allowed

    # --- inside ---

    def _rewind(self) -> None:
        self.positions.update(self.context.take_offsets(self.assignment))

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
