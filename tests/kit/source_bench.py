"""A source loop on a producer and stores in memory, driven by a script that runs inside of the task's poll()."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from kconnect.api import RecordMetadata, SourceRecord, SourceTask
from kconnect.api.task import SourcePartitionOffset
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.java.plugins import PolledRuns
from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.pipeline.boundaries import Boundary
from kconnect.runtime.pipeline.build import OWN_OFFSETS
from kconnect.runtime.pipeline.build_stages import SourceStages
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.exactly_once import ExactlyOnce, ExactlyOnceParts
from kconnect.runtime.pipeline.guarantee import AtLeastOnce, DeliveryGuarantee
from kconnect.runtime.pipeline.inflight import InFlight
from kconnect.runtime.pipeline.java_chain import JavaPolls
from kconnect.runtime.pipeline.offset_updates import OffsetUpdates
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.source import SourceCalls, SourceContext, SourceLoop, SourceParts
from kconnect.runtime.pipeline.source_offsets import SourceOffsetCommitter
from kconnect.runtime.pipeline.stages import RaiseAlways, TransformStep
from kconnect.runtime.pipeline.task_hooks import TaskHooks
from kconnect.runtime.pipeline.tolerance import Tolerance, ToleranceSettings
from kconnect.runtime.pipeline.topics import OtherTopics
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kconnect.runtime.pipeline.unit_producer import IdleClosingProducer, UnitProducer
from kconnect.runtime.storage import CommittedOffsets
from kconnect.runtime.storage.offset_topic import decode_value
from kit.memory_producer import MemoryProducer
from kit.pipeline_host import MemoryOffsets

__all__ = [
    "OFFSETS_TOPIC",
    "PARTITION",
    "TOPIC",
    "MovedNumbers",
    "Numbers",
    "ReportedNumbers",
    "ReportedRuns",
    "Runs",
    "SourceBench",
    "Timers",
]

TOPIC, OFFSETS_TOPIC = "numbers", "connect-offsets"
PARTITION = {"from": "one"}


class Timers:
    """Housekeeping whose ticks a test makes."""

    def __init__(self) -> None:
        self._ticks: list[Callable[[], None]] = []
        self.names: list[str] = []
        """Of the timers that are not cancelled."""
        self.come_late = False
        """A tick was about to begin when its timer is cancelled, and comes all the same."""

    def every(self, interval_s: float, tick: Callable[[], None], name: str) -> Any:
        self._ticks.append(tick)
        self.names.append(name)
        return _Ticket(lambda: self._cancel(tick, name))

    def tick(self) -> None:
        for tick in list(self._ticks):
            tick()

    def _cancel(self, tick: Callable[[], None], name: str) -> None:
        if tick in self._ticks:
            self._ticks.remove(tick)
            self.names.remove(name)
            if self.come_late:
                tick()


@dataclass
class _Ticket:
    cancel: Callable[[], None]


class Numbers(SourceTask):
    """Gives the numbers behind its offset; `script` says how many with each poll, after doing what it likes."""

    def __init__(self, script: Callable[[], int]) -> None:
        self._script = script
        self.last = 0
        self.reported: list[tuple[int, bool]] = []

    def start(self, props: Mapping[str, str]) -> None:
        offset = self.context.offset_storage_reader().offset(PARTITION)
        self.last = int(offset["last"]) if offset else 0

    def poll(self) -> list[SourceRecord] | None:
        count = self._script()
        numbers = range(self.last + 1, self.last + count + 1)
        self.last += count
        return [SourceRecord(PARTITION, {"last": number}, TOPIC, value=str(number)) for number in numbers] or None

    def stop(self) -> None: ...


class ReportedNumbers(Numbers):
    """The same, of a task that wants to hear of each record."""

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.reported.append((int(str(record.value)), metadata is not None))


class MovedNumbers(Numbers):
    """The same, of a task that says before each commit that it stands behind what it gave last."""

    def update_offsets(self, offsets: Sequence[SourcePartitionOffset]) -> Iterable[SourcePartitionOffset] | None:
        return [(PARTITION, {"last": self.last})] if self.last else None


class Runs(Numbers):
    """The same in runs of two, as of a task of Java's; all numbers of a poll have its last offset."""

    def poll(self) -> Any:  # what only a task of Java's gives
        records = super().poll() or []
        for record in records:
            record.source_offset = {"last": self.last}
        return PolledRuns([records[at : at + 2] for at in range(0, len(records), 2)]) if records else None


class ReportedRuns(Runs, ReportedNumbers):
    """The same, of a task that wants to hear of each record."""


@dataclass
class SourceBench:
    """What outlives a run of the task: what Kafka has, and the offsets."""

    log: list[int] = field(default_factory=list)
    offsets: MemoryOffsets = field(default_factory=MemoryOffsets)

    def at_least_once(
        self,
        task: Numbers,
        *,
        room: int | None = None,
        stop_budget_s: float = 1,
        tolerates_all: bool = False,
        steps: Sequence[TransformStep] = (),
    ) -> Run:
        run = Run(self, task, room)
        inflight = InFlight()
        producer = IdleClosingProducer("numbers-0", run.open_client, lambda: run.now_s)
        run.assemble(
            AtLeastOnce(
                run.control,
                producer,
                inflight,
                SourceOffsetCommitter(
                    run.control, run.ports, inflight, producer.serve, OffsetUpdates.of_task(run.control, task)
                ),
                TaskHooks(run.control, task),
                flush_interval_s=1,
                stop_budget_s=stop_budget_s,
                tolerates_all=tolerates_all,
            ),
            producer,
            steps,
        )
        return run

    def exactly_once(self, task: Numbers, boundary: Boundary, *, room: int | None = None) -> Run:
        run = Run(self, task, room, stop_budget_s=0.01)
        producer = run.open_client()
        parts = ExactlyOnceParts(
            producer=producer,
            boundary=boundary,
            offsets_topic=OFFSETS_TOPIC,
            copies=None,
            copies_every_s=1,
            verify=lambda: None,
            updates=OffsetUpdates.of_task(run.control, task),
            updates_every_s=0,
            housekeeping=run.timers,
            look_again_s=1,
            stop_budget_s=1,
        )
        run.assemble(ExactlyOnce(run.control, parts, TaskHooks(run.control, task)), producer)
        return run

    @property
    def committed(self) -> int:
        """The last number that a restart would not poll again."""
        (offset,) = self.offsets.of("numbers") or [None]
        return int(offset["last"]) if offset else 0


class Run:
    """One life of the task: run() moves until the script stops it, or something raises; then it is closed.

    `clients` are those its producer had, one after the other. `now_s` is the producer's clock, which the script moves.
    """

    def __init__(self, bench: SourceBench, task: Numbers, room: int | None, stop_budget_s: float = 1) -> None:
        self._bench = bench
        self._stop_budget_s = stop_budget_s
        self._room = room
        self.task = task
        self.clients: list[MemoryProducer] = []
        self.now_s = 0.0
        self.timers = Timers()
        self.topics = _AnyTopic()
        self.ports = TaskPorts(
            report=lambda *reported: None,
            offsets=bench.offsets,
            reconfigure=lambda name: None,
            housekeeping=self.timers,
            plugins=cast("Any", None),
        )
        self.control = TaskControl(TaskSpec(TaskId("numbers", 0), 1, ConnectorType.SOURCE, {}, {}, {}), self.ports)

    @property
    def producer(self) -> MemoryProducer:
        return self.clients[-1]

    def open_client(self) -> MemoryProducer:
        self.clients.append(MemoryProducer(self._room, self.producer.log if self.clients else None))
        return self.producer

    def assemble(
        self, guarantee: DeliveryGuarantee, producer: UnitProducer, steps: Sequence[TransformStep] = ()
    ) -> None:
        converter = StringConverter()
        converter.configure({}, is_key=False)
        offsets = CommittedOffsets(partial(self._bench.offsets.read, "numbers"))
        context = SourceContext(self.control, offsets, dict, self.control.monitor.of_task)
        tolerance = Tolerance(ToleranceSettings(retry_delay_max_ms=0), self.control.wait)
        converters = Converters(converter, converter, SimpleHeaderConverter())
        parts = SourceParts(
            calls=SourceCalls(self.task, {}, context, partial(plugin_call, health=self.control.health)),
            stages=SourceStages(tolerance, TransformChain(steps), converters, None),
            producer=producer,
            topics=OtherTopics(self.topics, {OFFSETS_TOPIC: OWN_OFFSETS}),
            stop_budget_s=self._stop_budget_s,
            form_of=JavaPolls(RaiseAlways()),
        )
        self.loop = SourceLoop(self.control, parts, guarantee)

    def __call__(self) -> Exception | None:
        """Live; gives what ended it, None when it was asked to stop."""
        try:
            self.loop.start()
            self.loop.run()
        except Exception as error:
            return error
        finally:
            self.loop.close()
            self._keep(self.producer.log)
        return None

    def _keep(self, written: Sequence[tuple[str, bytes | None, bytes | None]]) -> None:
        """What Kafka has outlives the run; offsets that were written in transactions are those of the store."""
        for topic, _, value in written:
            if topic == TOPIC:
                self._bench.log.append(int(value or b"0"))
            else:
                self._bench.offsets.kept["numbers", frozenset(PARTITION.items())] = decode_value(value)


class _AnyTopic:
    def __init__(self) -> None:
        self.is_there: Callable[[], bool] = lambda: True
        """Whether a topic can be written to; False when the task is stopped before one is created."""

    def ensure(self, topics: Any) -> bool:
        return self.is_there()

    def close(self) -> None: ...
