"""What each stage of a connector costs a record, in this process, without Kafka and Spark; for `connect try --measure`.

The task's own calls and the worker's conversion, in batches of the worker's size; Kafka's clients come on top. Calls
for whole batches are measured by the wall and by the process's processor time. Calls for one record are measured by the
wall alone, less what measuring takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Final

import psutil

from kconnect.api import ConnectRecord, RecordBatch, TimestampType
from kconnect.errors import ConnectError, RetriableError
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.build import fetch_size
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.polled import checked_poll, polled_by
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_conversion import SinkConversion
from kconnect.runtime.pipeline.stages import SomeRows, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kconnect.testing.connector_run import ConnectorRun, TaskStages
from kconnect.testing.measured import BETWEEN, Measured, StageCost
from kconnect.testing.sink_harness import SinkHarness
from kconnect.testing.source_harness import SourceHarness
from kconnect.testing.trial import InputRecord, Misspelt, to_the_end, under_own_name
from kconnect.testing.watchdog import Watchdog

# A source that has given records and nothing for this long is at its end
_ENDED_S = 1.0
_IDLE_S = 0.001
_CALIBRATION_CALLS = 2_000
# The calls of converters for one record, and those for many, whose column comes last; with what counts their records
_ONE: Final = ("from_connect_data", "to_connect_data", "from_connect_header", "to_connect_header")
_MANY: Final = {
    "from_connect_batch": "by_columns",
    "to_connect_batch": "by_columns",
    "to_connect_list": "by_lists",
}


class Meter:
    """The costs of the stages, in their order. Threads: the one that runs the plugins."""

    def __init__(self) -> None:
        self.costs: dict[str, StageCost] = {}
        self._singles = 0
        self._inside_ns, self._around_ns = 0, 0
        self._inside_ns, self._around_ns = self._calibrated()

    def of(self, stage: str, plugin: object = None) -> StageCost:
        return self.costs.setdefault(stage, StageCost(stage, "" if plugin is None else type(plugin).__name__))

    def whole(self, cost: StageCost, call: Callable[[], Any]) -> Any:
        """The answer of a call for many records; who calls says how many they were."""
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        try:
            return call()
        finally:
            cost.took(time.perf_counter_ns() - wall, time.process_time_ns() - cpu)

    def timed(self, cost: StageCost, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, which is for one record, measured."""
        clock = time.perf_counter_ns

        def measured(*given: Any) -> Any:
            began = clock()
            try:
                return call(*given)
            finally:
                spent = clock() - began - self._inside_ns
                cost.took(spent, spent, records=1)
                self._singles += 1

        return measured

    @contextmanager
    def between(self, cost: StageCost) -> Iterator[None]:
        """Around calls of stages: what is left of the time without them, and without the measuring, is `cost`'s."""
        wall_before, cpu_before = self._spent()
        singles = self._singles
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        yield
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        wall_after, cpu_after = self._spent()
        own = (self._singles - singles) * self._around_ns
        cost.took(max(0, wall - own - (wall_after - wall_before)), max(0, cpu - own - (cpu_after - cpu_before)))

    def _spent(self) -> tuple[int, int]:
        return sum(cost.wall_ns for cost in self.costs.values()), sum(cost.cpu_ns for cost in self.costs.values())

    def _calibrated(self) -> tuple[int, int]:
        """What `timed` adds to a call of nothing, in ns: between its two looks at the clock, and in all."""
        inside, around = [], []
        for _ in range(5):
            cost = StageCost("")
            began = time.perf_counter_ns()
            for _ in range(_CALIBRATION_CALLS):
                _nothing()
            plain_ns = time.perf_counter_ns() - began
            measured = self.timed(cost, _nothing)
            began = time.perf_counter_ns()
            for _ in range(_CALIBRATION_CALLS):
                measured()
            around.append((time.perf_counter_ns() - began - plain_ns) / _CALIBRATION_CALLS)
            inside.append((cost.wall_ns - plain_ns) / _CALIBRATION_CALLS)
        self._singles = 0
        return max(0, int(min(inside))), max(0, int(min(around)))  # a busy machine only adds to it


def _nothing() -> None:
    """What calls are compared with."""


def measure_source(
    config: Mapping[str, str],
    worker: Mapping[str, str],
    *,
    limit: int | None,
    timeout_s: float,
    warn: Misspelt | None = None,
) -> Measured:
    """Poll for `timeout_s`, or until `limit` records came, or until the source has given nothing for a second.

    Polls that give nothing do not count, and nothing is committed.
    Errors: as `try_source`; ConnectError when it gave no record.
    """
    harness = _MeasuredSource(config, worker, warn)
    watch = Watchdog(harness.calls, timeout_s)

    def steps() -> None:
        harness.start()
        deadline = watch.allow("poll", timeout_s)
        last = time.monotonic()
        while time.monotonic() < deadline and (limit is None or harness.records < limit):
            if harness.step():
                last = time.monotonic()
            elif harness.records and time.monotonic() - last > _ENDED_S:
                return
            else:
                time.sleep(_IDLE_S)

    return _run(watch, harness, steps)


def measure_sink(
    config: Mapping[str, str],
    worker: Mapping[str, str],
    records: Iterable[InputRecord],
    *,
    limit: int | None,
    timeout_s: float,
    warn: Misspelt | None = None,
) -> Measured:
    """Put the records, from the start again until there were `limit`, or until the time is over; then flush.

    Errors: as `try_sink`; ConnectError without records.
    """
    harness = _MeasuredSink(config, worker, warn)
    watch = Watchdog(harness.calls, timeout_s)
    given = list(records)

    def steps() -> None:
        harness.start()
        deadline = time.monotonic() + timeout_s
        for fetched in harness.fetches(given, len(given) if limit is None else limit):
            harness.step(fetched)
            if time.monotonic() > deadline:
                break
        harness.end()

    return _run(watch, harness, steps)


def _run(watch: Watchdog, harness: _MeasuredSource | _MeasuredSink, steps: Callable[[], None]) -> Measured:
    """Run the steps, and say what they took. Errors: ConnectError when there was no record."""
    others_s = [0.0]

    def measured() -> None:
        before_s = _others_cpu_s()
        steps()
        others_s[0] = _others_cpu_s() - before_s

    watch.run(lambda: to_the_end(harness, harness.calls, measured), harness.cut_short)
    if not harness.records:
        raise ConnectError("There was no record to measure", hint="--timeout TIME waits longer.")
    stages = [cost for cost in harness.meter.costs.values() if cost.calls]
    return Measured(harness.records, harness.kept, stages, others_s[0], os.getloadavg()[0] > (os.cpu_count() or 1))


def _others_cpu_s() -> float:
    """Processor time of the processes below this one, such as a JVM of Java's plugins."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system
    return total


class _MeasuredSource(SourceHarness):
    """The harness, with each stage measured, and nothing kept of the records."""

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str], warn: Misspelt | None) -> None:
        super().__init__(config["connector.class"], {**config, "tasks.max": "1"}, worker=worker)
        self.meter = Meter()
        self._polls = self.meter.of("poll")
        self._run.warn_unknown = warn
        self._run.stages = _measured_stages(self._run, self.meter)  # type: ignore[method-assign]
        self.calls = self._run.calls
        self.cut_short = self._run.end_waits
        self.records = 0
        self.kept = 0

    def step(self) -> bool:
        """One poll, converted; whether it gave anything."""
        self._run.raise_failure()
        (task,) = self._tasks
        self._polls.plugin = type(task.task).__name__
        took = StageCost("poll")
        try:
            given = self.meter.whole(took, task.calls.poll)
        except RetriableError as error:
            pause_s = task.pauses.next_s()
            self._run.wait(pause_s if error.retry_after_s is None else error.retry_after_s)
            return False
        task.pauses.reset()
        polled = polled_by(task.task, given)
        if polled is None:
            return False
        self._polls.took(took.wall_ns, took.cpu_ns)  # a poll that gave nothing waited for records: it costs none
        if not self.records:
            checked_poll(task.task, given)
        self.records += polled.size
        if isinstance(given, RecordBatch):
            self._polls.by_columns += polled.size
        else:
            self._polls.by_records += polled.size
        with self.meter.between(self.meter.of(BETWEEN)):
            for part in polled.parts:
                for ready in part.units(task.conversion):
                    self.kept += ready.kept
        return True


class _MeasuredSink(SinkHarness):
    """The harness, with each stage measured, fed in fetches of the worker's size."""

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str], warn: Misspelt | None) -> None:
        super().__init__(config["connector.class"], {**under_own_name(config), "tasks.max": "1"}, worker=worker)
        self.meter = Meter()
        self._run.warn_unknown = warn
        self._run.stages = _measured_stages(self._run, self.meter)  # type: ignore[method-assign]
        self.calls = self._run.calls
        self.cut_short = self._run.end_waits
        self.records = 0
        self.kept = 0
        self._ends: dict[TopicPartition, int] = {}

    def fetches(self, given: Sequence[InputRecord], limit: int) -> Iterator[FetchedBatch]:
        """The records as a consumer fetches them, from the start again until there were `limit`."""
        (task,) = self._tasks
        most = fetch_size(self._run.worker, self._run.config, task.task)
        by_place = groupby(given, lambda one: (one.topic or self._topic, one.partition))
        places = [(place, list(group)) for place, group in by_place]
        left = limit
        while left > 0 and places:
            rounds = max(1, min(most, left) // len(given))
            for (topic, partition), group in places:
                whole = group * rounds
                for start in range(0, len(whole), most):
                    records = whole[start : start + min(most, left)]
                    if records:
                        left -= len(records)
                        yield self._fetched(TopicPartition(topic, partition), records)

    def _fetched(self, place: TopicPartition, records: Sequence[InputRecord]) -> FetchedBatch:
        first = self._ends.get(place, 0)
        self._ends[place] = first + len(records)
        stamp = self.clock.time_ms()
        return FetchedBatch(
            place.topic,
            place.partition,
            list(range(first, first + len(records))),
            [record.key for record in records] if any(record.key is not None for record in records) else None,
            [record.value for record in records],
            [stamp if record.timestamp is None else record.timestamp for record in records],
            TimestampType.CREATE_TIME,
            [list(record.headers) or None for record in records] if any(record.headers for record in records) else None,
        )

    def step(self, fetched: FetchedBatch) -> None:
        """One fetch, converted and put."""
        self._run.raise_failure()
        (task,) = self._tasks
        place = TopicPartition(fetched.topic, fetched.partition)
        if place not in task.assignment:
            task.open({place: 0})
        forms = SinkConversion(
            task.stages.converters,
            task.stages.transforms,
            RawRecords(is_wanted=False),
            lambda topics: None,
            takes_batches=task.task.supports_batches,
            fewest_in_batch=task.task.fewest_in_batch,
        )
        with self.meter.between(self.meter.of(BETWEEN)):
            made = forms.convert_fetched(fetched)
        self.records += len(fetched)
        self.kept += len(made)
        cost = self.meter.of("put", task.task)
        if isinstance(made, RecordBatch):
            cost.by_columns += len(made)
        else:
            cost.by_records += len(made)
        self.meter.whole(cost, lambda: task.put(made))
        task.moved({place: fetched.offsets[-1] + 1})

    def end(self) -> None:
        """Have the task write out what it gathered, as before a commit."""
        (task,) = self._tasks
        self.meter.whole(self.meter.of("flush", task.task), lambda: task.pre_commit(task.assignment, is_last=True))


def _measured_stages(run: ConnectorRun, meter: Meter) -> Callable[..., TaskStages]:
    """`run.stages`, with transformations and converters that are measured."""
    make = run.stages

    def stages(*reporters: Any) -> TaskStages:
        made = make(*reporters)
        for name, converter in made.converters.each():
            _measure_converter(converter, meter.of(name, converter), meter)
        made.steps = [_MeasuredStep.of(step, meter, name) for step, name in zip(made.steps, made.names, strict=True)]
        made.transforms = TransformChain(made.steps, made.tolerance)
        return made

    return stages


@dataclass(frozen=True, slots=True)
class _MeasuredStep(TransformStep):
    """A transformation's step, measured."""

    meter: Any = None  # Meter
    cost: Any = None  # StageCost
    measured_apply: Any = None
    measured_expand: Any = None

    @classmethod
    def of(cls, step: TransformStep, meter: Meter, name: str) -> _MeasuredStep:
        cost = meter.of(f"transforms.{name}", step.transformation)
        own = (step.transformation, step.predicate, step.negate, step.place, step.predicate_place)
        return cls(*own, meter, cost, meter.timed(cost, step.apply), meter.timed(cost, step.expand))

    def without_predicate(self) -> TransformStep:
        plain, timed = TransformStep(self.transformation, place=self.place), self.meter.timed
        return replace(
            self,
            predicate=None,
            measured_apply=timed(self.cost, plain.apply),
            measured_expand=timed(self.cost, plain.expand),
        )

    def expand(self, record: ConnectRecord) -> Sequence[ConnectRecord]:
        made: Sequence[ConnectRecord] = self.measured_expand(record)
        return made

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        made: ConnectRecord | None = self.measured_apply(record)
        return made

    def expand_list(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord] | Any:
        made = self.meter.whole(self.cost, lambda: TransformStep.expand_list(self, records))
        if made is not NotImplemented:
            self.cost.by_lists += len(records)
        return made

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any | None:
        made = self.meter.whole(self.cost, lambda: TransformStep.apply_batch(self, batch))
        if made is not NotImplemented and not isinstance(made, SomeRows):
            self.cost.by_columns += len(batch)
        return made


def _measure_converter(converter: Any, cost: StageCost, meter: Meter) -> None:  # Converter or HeaderConverter
    """Have the calls of this object measured. What one with `__slots__` takes is counted in `between`."""

    def many(form: str, own: Callable[..., Any], *given: Any) -> Any:
        made = meter.whole(cost, lambda: own(*given))
        if made is not NotImplemented:
            setattr(cost, form, getattr(cost, form) + len(given[-1]))
        return made

    if not hasattr(converter, "__dict__"):
        return
    for name in _ONE:
        if own := getattr(converter, name, None):
            setattr(converter, name, meter.timed(cost, own))
    for name, form in _MANY.items():
        if own := getattr(converter, name, None):
            setattr(converter, name, partial(many, form, own))
