"""A sink loop on a consumer in memory, driven by a script that runs inside of the consumer's fetch().

The task of the bench keeps what it is given in a buffer until it is flushed, as a writer of files does: what is not
flushed when its partitions go, when flush fails or when the task ends is gone, and has to be given to it again. The
bench looks at each put and each commit: nothing is skipped or out of order, nothing is committed that is not flushed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from kconnect.api import RecordBatch, SinkRecord, SinkTask, SinkTaskContext
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.clock import ManualClock
from kconnect.errors import ConnectError
from kconnect.model import ConnectorType, RunState, TaskId, TaskSpec, TopicPartition
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.build_stages import SinkStages
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink import SinkLoop, SinkParts
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_commits import CommitTimes
from kconnect.runtime.pipeline.sink_context import ErrantRecords, SinkContext
from kconnect.runtime.pipeline.stages import StageError
from kconnect.runtime.pipeline.tolerance import Tolerance, ToleranceSettings
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kit.memory_consumer import MemoryConsumer, MemoryPartitions
from kit.pipeline_host import MemoryOffsets

__all__ = ["PLACES", "TIMES", "Buffered", "BufferedColumns", "SinkBench", "SinkRun", "Steps", "idle"]

PLACES = [TopicPartition("numbers", 0), TopicPartition("numbers", 1), TopicPartition("letters", 0)]
STRANGER = TopicPartition("strangers", 0)
TIMES = CommitTimes(interval_s=1.0, timeout_s=0.5, end_timeout_s=0.5)


class Buffered(SinkTask):
    """Keeps records until they are flushed; a test says which of its next calls fail, and how."""

    def __init__(self) -> None:
        self.run: SinkRun | None = None
        self.puts: deque[Exception] = deque()
        """What the next puts raise."""
        self.in_put: deque[Callable[[SinkTaskContext], None]] = deque()
        """What the task does in its next put, whether that fails or not."""
        self.flushes: deque[Exception | str] = deque()
        """What the next calls of pre_commit raise, or give: `less`, `more`, `none`."""
        self.calls: list[str] = []
        self.put_at_s: list[float] = []
        """When put() was called, by the clock of the run."""
        self._buffer: list[tuple[TopicPartition, int]] = []

    @property
    def _run(self) -> SinkRun:
        assert self.run is not None
        return self.run

    def start(self, props: Mapping[str, str]) -> None:
        self.calls.append("start")

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append("open")

    def put(self, records: list[SinkRecord]) -> None:
        offsets = [
            (TopicPartition(record.original_topic, record.original_kafka_partition), record.original_kafka_offset)
            for record in records
        ]
        self._take(offsets)

    def _take(self, offsets: list[tuple[TopicPartition, int]]) -> None:
        after = self._run.after(offsets)
        self.calls.append(f"put {len(offsets)}")
        self.put_at_s.append(self._run.clock.monotonic())
        if self.in_put:
            self.in_put.popleft()(self.context)
        if self.puts:
            raise self.puts.popleft()
        self._buffer += offsets
        self._run.expected.update(after)

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.calls.append("pre_commit")
        for partition, offset in current_offsets.items():
            assert offset == self._run.expected[partition], "the task is reported how far put() got"
        answer = self.flushes.popleft() if self.flushes else "all"
        if isinstance(answer, Exception):
            self._drop(current_offsets)
            raise answer
        for partition, offset in self._buffer:
            if partition in current_offsets:
                self._run.bench.flushed[partition].add(offset)
        self._drop(current_offsets)
        match answer:
            case "less":
                return {partition: max(offset - 1, 0) for partition, offset in current_offsets.items()}
            case "more":
                return {STRANGER: 3, **{partition: offset + 5 for partition, offset in current_offsets.items()}}
            case "none":
                return {}
        return current_offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append("close")
        self._drop(partitions)

    def stop(self) -> None:
        self.calls.append("stop")

    def buffered(self, place: TopicPartition) -> set[int]:
        """The records of a partition that the next flush writes."""
        return {offset for partition, offset in self._buffer if partition == place}

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self._buffer = [entry for entry in self._buffer if entry[0] not in partitions]


class BufferedColumns(Buffered):
    """The same, of a task that takes batches."""

    supports_batches = True

    def put_batch(self, batch: RecordBatch) -> None:
        place = TopicPartition(batch.topic, batch.kafka_partition or 0)
        self._take([(place, record.kafka_offset) for record in cast("list[SinkRecord]", batch.to_records())])


class SinkBench:
    """What outlives a run of the task: what Kafka has, and what the task has flushed."""

    def __init__(self) -> None:
        self.kafka = MemoryPartitions({place: [] for place in PLACES})
        self.flushed: dict[TopicPartition, set[int]] = {place: set() for place in PLACES}
        self.skipped: dict[TopicPartition, int] = {}
        """Where the task asked to read on: what stands before that is its own affair."""

    def write(self, place: TopicPartition, count: int) -> None:
        log = self.kafka.logs[place]
        log.extend(b"%d" % number for number in range(len(log), len(log) + count))

    def missing(self, place: TopicPartition, before: int) -> set[int]:
        """Which records before this offset nobody has flushed."""
        return set(range(self.skipped.get(place, 0), before)) - self.flushed[place]

    def position(self, place: TopicPartition) -> int:
        return self.kafka.committed.get(place, 0)


class SinkRun:
    """One life of the task: run() moves until the script stops it, or something raises; then it is closed."""

    def __init__(
        self,
        bench: SinkBench,
        task: Buffered,
        script: Callable[[SinkRun], None],
        *,
        most: int = 3,
        tolerates_all: bool = True,
    ) -> None:
        self.bench = bench
        self.task = task
        task.run = self
        self.clock = ManualClock()
        self.expected: dict[TopicPartition, int] = {}
        """The offset that put() has to be given next, by partition."""
        self.settles: deque[ConnectError] = deque()
        """What the dead letters' next settle() raises."""
        self.letters = _Letters(self.settles)
        self.states: list[RunState] = []
        self.consumer = MemoryConsumer(bench.kafka, lambda: script(self), moved=self._moved, passes=self.clock.advance)
        bench.kafka.on_commit = self._look_at_commit
        ports = TaskPorts(
            report=lambda task_id, run, state, trace: self.states.append(state),
            offsets=MemoryOffsets(),
            reconfigure=lambda name: None,
            housekeeping=cast("Any", None),
            plugins=cast("Any", None),
            clock=self.clock,
        )
        self.control = TaskControl(TaskSpec(TaskId("numbers", 0), 1, ConnectorType.SINK, {}, {}, {}), ports)
        converter = StringConverter()
        converter.configure({}, is_key=False)
        converters = Converters(converter, converter, SimpleHeaderConverter())
        settings = ToleranceSettings(tolerate_all=tolerates_all, retry_delay_max_ms=1000)
        tolerance = Tolerance(settings, self.control.wait, [self.letters])
        raw_records = RawRecords(is_wanted=False)
        errant = ErrantRecords(tolerance, type(task), raw_records, converters.unguarded().to_kafka_record)
        self.context = SinkContext(self.consumer, dict, PluginMetricsRegistry().of_plugin(), errant.for_task)
        stages = SinkStages(tolerance, TransformChain([]), converters, raw_records, errant, None)
        calling = partial(plugin_call, health=self.control.health)
        parts = SinkParts(
            calls=SinkCalls(task, {}, self.context, calling, raw_records),
            forms=stages.conversion(self.control.used_topics, takes_batches=task.supports_batches),
            stages=stages,
            consumer=self.consumer,
            commit_times=TIMES,
            topics=["numbers", "letters"],
            max_records=most,
            clock=self.clock,
        )
        self.loop = SinkLoop(self.control, parts)

    def __call__(self) -> Exception | None:
        """Live; gives what ended it, None when it was asked to stop."""
        try:
            self.loop.start()
            self.loop.run()
        except AssertionError:
            raise
        except Exception as error:
            if isinstance(error.__cause__, AssertionError):
                raise error.__cause__ from None
            return error
        finally:
            self.owned = self.consumer.assignment
            self.loop.close()
        return None

    def after(self, offsets: list[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
        """Where partitions stand once these records are taken; the records must be the next ones."""
        assert not self.states or self.states[-1] is not RunState.PAUSED, "put() while paused"
        after: dict[TopicPartition, int] = {}
        for place, offset in offsets:
            assert place in self.consumer.assignment, "put() of a partition that is not ours"
            assert offset == after.get(place, self.expected[place]), f"put() of {place} is out of order"
            after[place] = offset + 1
        return after

    def ask_for(self, place: TopicPartition, offset: int) -> None:
        """The task wants to read on from here; called from within its put()."""
        self.bench.skipped[place] = max(offset, self.bench.skipped.get(place, 0))
        self.task.context.offset(place, offset)

    def _moved(self, place: TopicPartition, offset: int, is_seek: bool) -> None:
        if is_seek and offset != self.bench.skipped.get(place):
            missing = self.bench.missing(place, offset) - self.task.buffered(place)
            assert not missing, "goes past what was not flushed"
        self.expected[place] = offset

    def _look_at_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert not self.control.is_cancelled, "a commit of a task that is fenced off"
        assert not self.letters.waiting, "a commit past dead letters that are not written"
        for place, offset in offsets.items():
            assert not self.bench.missing(place, offset), f"{place} is committed over what was not flushed"


class Steps:
    """Does these things, one in each fetch, then stops; the first one is given all partitions."""

    def __init__(self, *steps: Callable[[SinkRun], object]) -> None:
        self._steps = [lambda run: run.consumer.assign(*PLACES), *steps]

    def __call__(self, run: SinkRun) -> None:
        if self._steps:
            self._steps.pop(0)(run)
        else:
            run.control.stop()


def idle(run: SinkRun) -> None:
    """A fetch with nothing else."""


class _Letters:
    """Implements ReportQueue."""

    def __init__(self, settles: deque[ConnectError]) -> None:
        self._settles = settles
        self.waiting: list[StageError] = []
        self.written: list[StageError] = []

    def report(self, failure: StageError, attempts: int) -> Future[None] | None:
        self.waiting.append(failure)
        return None

    def settle(self, timeout_s: float) -> None:
        if self._settles:
            raise self._settles.popleft()
        self.written += self.waiting
        self.waiting.clear()

    def close(self) -> None: ...
