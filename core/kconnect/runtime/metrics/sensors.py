"""A task's counters, and the rates and averages over a window that a worker computes from them.

Counters only grow, and a task changes them once per batch: an increment costs 30 ns, whereas a clock, a lock and a
window for each record would cost more than processing it. The worker keeps some seconds of them and computes the rest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self

from kconnect.clock import Clock, SystemClock
from kconnect.model import BatchShare, RunState, TaskCondition, TaskId
from kconnect.runtime.metrics.plugin_values import PluginValue

WINDOW_S: Final = 60.0
"""The window of rates, averages and maxima: Java's metrics.num.samples=2 times metrics.sample.window.ms=30000."""
RECENT_S: Final = 10.0
"""The window of what is moved now, as every screen shows it; a sample of the history is as long. Counters come once a
second: over ten of them a source that polls now and then is not 0 in between.
"""
# More samples than a window of one a second holds are thinned out.
_MOST_SAMPLES = 64


@dataclass(slots=True)
class Spread:
    """Sums up some values: how many, their sum, and the largest since the last look."""

    count: int = 0
    total: float = 0.0
    most: float = 0.0

    def add(self, count: int, total: float, most: float) -> None:
        """Note several values at once."""
        self.count += count
        self.total += total
        self.most = max(self.most, most)

    def note(self, value: float) -> None:
        self.count += 1
        self.total += value
        if value > self.most:
            self.most = value


@dataclass(slots=True)
class TaskCounters:
    """What a task has moved so far. Written by its own threads alone; reading from others may be a moment behind."""

    records_polled: int = 0
    """Source: records that poll() gave."""
    records_written: int = 0
    """Source: records acknowledged by the broker."""
    records_dropped: int = 0
    """Filtered by a transformation, or skipped under errors.tolerance=all."""
    records_read: int = 0
    """Sink: records fetched."""
    records_put: int = 0
    """Sink: records that put() took."""
    records_active: int = 0
    """Source: polled and not acknowledged yet. Sink: read and not committed yet. Goes up and down."""
    records_active_most: int = 0
    """The largest of these since the last look."""
    commits: int = 0
    commit_failures: int = 0
    commits_skipped: int = 0
    """Sink: answers to a commit that arrived after the next one had begun."""
    partitions: int = 0
    """Sink: partitions assigned to the task now."""
    offset_seq: int = 0
    """Sink: the number of the commit of offsets begun last."""
    lag_most: int = 0
    """Sink: records between what it has read and the end of the partition where they are the most. Goes up and down."""
    bytes_sent: int = 0
    """By the task's producer or consumer to brokers, as they went over the wire."""
    bytes_received: int = 0
    request_ms: Spread = field(default_factory=Spread)
    """From a request of that client to its answer."""
    throttle_ms: Spread = field(default_factory=Spread)
    """How long brokers asked that client to wait."""
    batch_size: Spread = field(default_factory=Spread)
    """Records in one poll of a source, in one put of a sink."""
    poll_ms: Spread = field(default_factory=Spread)
    put_ms: Spread = field(default_factory=Spread)
    commit_ms: Spread = field(default_factory=Spread)
    transaction_size: Spread = field(default_factory=Spread)
    """Exactly-once source: records of a committed transaction."""
    transaction_least: int = 0
    """The smallest of these since the last look."""
    failures: int = 0
    """Attempts of a stage that failed."""
    errors: int = 0
    """Records that failed for good."""
    skipped: int = 0
    """How many failed records were dropped under errors.tolerance=all."""
    retries: int = 0
    errors_logged: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0
    last_error_ms: int = 0
    """When a record failed last (epoch ms); 0 for never."""
    records_discarded: int = 0
    """Query of a sink: records that schema.contract=discard-row left out."""
    values_discarded: int = 0
    """Query of a sink: values that schema.contract=discard-value made null."""
    batches: int = 0
    """Batches for which columns were tried."""
    batches_by_records: int = 0
    """How many of them a stage took record by record."""
    by_records_because: str = ""
    """Why, of the last such batch."""
    plugins: tuple[PluginValue, ...] = ()
    """The metrics that the task and its plugins keep of themselves, as of now."""

    def note_active(self, records: int) -> None:
        self.records_active = records
        if records > self.records_active_most:
            self.records_active_most = records

    def note_transaction(self, records: int) -> None:
        self.transaction_size.note(records)
        self.transaction_least = min(records, self.transaction_least or records)

    @property
    def records_out(self) -> int:
        """Records that it has brought to where they go: to Kafka, or into what a sink writes to."""
        return self.records_written + self.records_put

    @property
    def has_new_maxima(self) -> bool:
        """Whether a copy would reset any of the maxima."""
        return self.records_active_most != self.records_active or bool(self.transaction_least)

    def snapshot(self) -> TaskCounters:
        """A copy; it resets the maxima, so each value is in the maximum of exactly one copy."""
        copy = replace(self, **{name: replace(getattr(self, name)) for name in _SPREADS})
        self.records_active_most = self.records_active
        self.transaction_least = 0
        for name in _SPREADS:
            getattr(self, name).most = 0.0
        return copy

    def to_json(self) -> dict[str, Any]:
        """Only nonzero counters, so that idle tasks need few bytes."""
        body: dict[str, Any] = {}
        for name in _NUMBERS:
            if value := getattr(self, name):
                body[name] = value
        for name in _SPREADS:
            spread: Spread = getattr(self, name)
            if spread.count:
                body[name] = [spread.count, spread.total, spread.most]
        if self.by_records_because:
            body["by_records_because"] = self.by_records_because
        if self.plugins:
            body["plugins"] = [value.to_json() for value in self.plugins]
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Errors: TypeError, ValueError for anything not written by `to_json`."""
        counters = cls()
        for name, value in body.items():
            if name in _SPREADS:
                count, total, most = value
                setattr(counters, name, Spread(int(count), float(total), float(most)))
            elif name in _NUMBERS:
                setattr(counters, name, int(value))
            elif name == "by_records_because":
                counters.by_records_because = str(value)
            elif name == "plugins":
                counters.plugins = tuple(map(PluginValue.from_json, value))
            else:
                raise ValueError(f"no counter is called {name}")
        return counters


_SPREADS: Final = ("request_ms", "throttle_ms", "batch_size", "poll_ms", "put_ms", "commit_ms", "transaction_size")
_NUMBERS: Final = tuple(
    field.name for field in fields(TaskCounters) if field.name not in {*_SPREADS, "by_records_because", "plugins"}
)

# Of a task that has counted nothing yet. One for all: a reading of a worker's metrics asks some 16 times for each task
_NOTHING: Final = TaskCounters()


@dataclass(frozen=True, slots=True)
class Moves:
    """What a task moves."""

    per_s: float
    """Records that have arrived where they go, over the last `RECENT_S`."""
    records: int
    """The same since the task started."""
    errors: int
    """Records that failed for good, since the task started."""
    forms: BatchShare | None = None
    """How its batches went, since the task started; None where it had none for columns."""


_ENDED: Final = frozenset({RunState.FAILED, RunState.STOPPED})


@dataclass(slots=True)
class TaskMeter:
    """The counters of one run of a task over the last minute, and the time it spent in each state."""

    run: int
    born_s: float
    samples: deque[tuple[float, TaskCounters]] = field(default_factory=deque)
    state: RunState = RunState.UNASSIGNED
    state_since_s: float = 0.0
    spent_s: dict[RunState, float] = field(default_factory=dict)
    condition: TaskCondition | None = None
    """It is None until something is known of it, and once it has ended."""

    @property
    def latest(self) -> TaskCounters:
        """The counters as they came last; not to be changed."""
        return self.samples[-1][1] if self.samples else _NOTHING

    def add(self, now_s: float, counters: TaskCounters) -> None:
        self.samples.append((now_s, counters))
        # The sample at the window's beginning is kept: the rest is compared with it.
        while len(self.samples) > 1 and self.samples[1][0] <= now_s - WINDOW_S:
            self.samples.popleft()
        if len(self.samples) > _MOST_SAMPLES:
            self._thin()

    def enter(self, now_s: float, state: RunState) -> None:
        if state in _ENDED:
            self.condition = None
        if state is not self.state:
            self.spent_s[self.state] = self.spent_s.get(self.state, 0.0) + now_s - (self.state_since_s or self.born_s)
            self.state, self.state_since_s = state, now_s

    def share(self, now_s: float, state: RunState) -> float:
        """The fraction of its life that the task was in a state, 0 to 1."""
        spent_s = self.spent_s.get(state, 0.0)
        if state is self.state:
            spent_s += now_s - (self.state_since_s or self.born_s)
        lived_s = now_s - self.born_s
        return min(spent_s / lived_s, 1.0) if lived_s > 0 else 0.0

    def rate(self, now_s: float, counter: str) -> float:
        """Growth of a counter per second, over the last minute or since the task began."""
        then_s, before = self._base(now_s)
        passed_s = now_s - then_s
        grown: int = getattr(self.latest, counter) - getattr(before, counter)
        return grown / passed_s if passed_s > 0 else 0.0

    def moves(self, now_s: float) -> Moves:
        """What it moves now: the rate is over `RECENT_S`, or since the task began."""
        last = self.latest
        then_s, before = self._base(now_s, RECENT_S)
        grown = last.records_out - before.records_out
        # Counters come once a second: the first of them says nothing of a shorter time
        forms = BatchShare(last.batches, last.batches_by_records, last.by_records_because) if last.batches else None
        return Moves(grown / max(now_s - then_s, 1.0), last.records_out, last.errors, forms)

    def average(self, now_s: float, spread: str) -> float | None:
        """The mean over the last minute; None if there was no value."""
        _, before = self._base(now_s)
        last: Spread = getattr(self.latest, spread)
        first: Spread = getattr(before, spread)
        count = last.count - first.count
        return (last.total - first.total) / count if count else None

    def most(self, now_s: float, spread: str) -> float | None:
        """The largest of the last minute; None if there was no value."""
        if self.average(now_s, spread) is None:
            return None
        recent: list[Spread] = [getattr(sample, spread) for at_s, sample in self.samples if at_s > now_s - WINDOW_S]
        return max(each.most for each in recent)

    def smallest_transaction(self, now_s: float) -> float | None:
        """The smallest of the last minute; None if there was none."""
        recent = [sample.transaction_least for at_s, sample in self.samples if at_s > now_s - WINDOW_S]
        return min((least for least in recent if least), default=None)

    def most_lag(self, now_s: float) -> int:
        """The largest of the last minute, as it was looked at."""
        recent = [sample.lag_most for at_s, sample in self.samples if at_s > now_s - WINDOW_S]
        return max([self.latest.lag_most, *recent])

    def most_active(self, now_s: float) -> int:
        recent = [sample.records_active_most for at_s, sample in self.samples if at_s > now_s - WINDOW_S]
        return max([self.latest.records_active, *recent])

    def mean_active(self, now_s: float) -> float:
        recent = [sample.records_active for at_s, sample in self.samples if at_s > now_s - WINDOW_S]
        return sum(recent) / len(recent) if recent else float(self.latest.records_active)

    def _base(self, now_s: float, window_s: float = WINDOW_S) -> tuple[float, TaskCounters]:
        """The counters at the window's beginning: of then, or all zero when the task is younger."""
        begin_s = now_s - window_s
        base = (self.born_s, _NOTHING)
        for at_s, counters in self.samples:
            if at_s > begin_s:
                break
            base = (begin_s, counters)
        return base

    def _thin(self) -> None:
        """Join the second sample with the third: the later one has the sums, the larger one the maximum."""
        _, earlier = self.samples[1]
        at_s, later = self.samples[2]
        joined = replace(later, records_active_most=max(earlier.records_active_most, later.records_active_most))
        for name in _SPREADS:
            most = max(getattr(earlier, name).most, getattr(later, name).most)
            setattr(joined, name, replace(getattr(later, name), most=most))
        del self.samples[1]
        self.samples[1] = (at_s, joined)


class TaskMeters:
    """The meters of all tasks of a worker. Threads: any."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards _meters and its contents
        self._meters: dict[TaskId, TaskMeter] = {}

    def take(self, task_id: TaskId, run: int, counters: TaskCounters) -> None:
        """New counters of a task; those of an earlier run than known are dropped."""
        now_s = self._clock.monotonic()
        with self._lock:
            meter = self._of(task_id, run, now_s)
            if meter is not None:
                meter.add(now_s, counters)

    def entered(self, task_id: TaskId, run: int, state: RunState) -> None:
        now_s = self._clock.monotonic()
        with self._lock:
            meter = self._of(task_id, run, now_s)
            if meter is not None:
                meter.enter(now_s, state)

    def fares(self, task_id: TaskId, run: int, condition: TaskCondition) -> None:
        """Record the condition of a task."""
        now_s = self._clock.monotonic()
        with self._lock:
            meter = self._of(task_id, run, now_s)
            if meter is not None and meter.state not in _ENDED:
                meter.condition = condition

    def conditions(self) -> dict[TaskId, TaskCondition]:
        """The condition of every task for which it is known."""
        with self._lock:
            found = [(task_id, meter.condition) for task_id, meter in self._meters.items()]
        return {task_id: condition for task_id, condition in found if condition is not None}

    def forget(self, ids: Collection[TaskId]) -> None:
        with self._lock:
            for task_id in ids:
                self._meters.pop(task_id, None)

    def counters(self) -> dict[TaskId, TaskCounters]:
        """The latest counters of every task; not to be changed."""
        with self._lock:
            return {task_id: meter.latest for task_id, meter in self._meters.items()}

    def meters(self) -> dict[TaskId, TaskMeter]:
        """A copy of every meter, with its window."""
        with self._lock:
            return {
                task_id: replace(meter, samples=meter.samples.copy(), spent_s=dict(meter.spent_s))
                for task_id, meter in self._meters.items()
            }

    def _of(self, task_id: TaskId, run: int, now_s: float) -> TaskMeter | None:
        meter = self._meters.get(task_id)
        if meter is None or meter.run < run:
            meter = self._meters[task_id] = TaskMeter(run, now_s)
        return meter if meter.run == run else None
