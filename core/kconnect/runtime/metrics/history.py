"""What a worker's tasks and slots did over the last hour, a sample every ten seconds, in arrays of fixed size.

A value takes two bytes: the logarithm of it, which keeps three digits of anything from 0 to 10^19. A series that was
never more than nothing takes none, so that a thousand idle connectors cost 0.4 MB and a thousand busy ones 9 MB.
Differs: Java keeps no history; its users run a Prometheus beside it.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from kconnect.model import RunState, TaskId
from kconnect.runtime.metrics.catalogue import MBEANS
from kconnect.runtime.metrics.plugin_values import PluginValue
from kconnect.runtime.metrics.sensors import RECENT_S, TaskCounters, TaskMeter

EVERY_S: Final = int(RECENT_S)
KEPT: Final = 360
"""Samples: an hour of them."""
MOST_TASKS: Final = 5_000
MOST_MBEANS: Final = 128
"""Series of one task; 0.7 KB each that was ever more than nothing."""
"""More tasks than that on one worker are not kept; 30 MB if all are busy."""
POINTS: Final = 60
"""Limits a sparkline: one point a minute."""

# log2 of the largest value is 64: 1,000 steps to a doubling, so that neighbours differ by 0.07 %
_STEPS: Final = 1_000
_NOTHING: Final = 0xFFFF
_LARGEST: Final = _NOTHING - 1

COUNTS: Final = ("records_in_per_s", "records_out_per_s", "bytes_per_s", "errors", "retries", "restarts", "failed")
LEVELS: Final = ("lag", "active")
TIMES: Final = ("poll_ms", "poll_max_ms", "put_ms", "put_max_ms", "commit_ms")
TASK_SERIES: Final = (*COUNTS, *LEVELS, *TIMES)
"""errors, retries, restarts: within the ten seconds. failed: 1 while the task is FAILED. TIMES: absent without any."""
SLOT_SERIES: Final = ("cpu_percent", "memory_bytes", "tasks")


@dataclass(frozen=True, slots=True)
class SlotLoad:
    """What a slot costs at one moment; None: not known yet."""

    slot: int
    cpu_percent: float | None
    memory_bytes: int | None
    tasks: int


class History:
    """The last hour. Threads: `sample` from one, the rest from any.

    Samples of all workers are taken at the same multiples of ten seconds since the epoch, so that they can be added.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all below
        self._bucket: int | None = None
        self._tasks: dict[TaskId, _Track] = {}
        self._slots: dict[int, _Track] = {}
        self._before: dict[TaskId, _Seen] = {}
        self._here: frozenset[TaskId] = frozenset()
        """The tasks of the last sample."""
        self._left_out = 0
        self._lags: Mapping[str, int] = {}
        self._lags_at_ms: int | None = None
        self._overview: tuple[int, dict[str, Any]] | None = None

    def sample(
        self,
        now_s: float,
        now_ms: int,
        meters: Mapping[TaskId, TaskMeter],
        slots: Sequence[SlotLoad],
        lags: Mapping[str, int] | None = None,
        lags_at_ms: int | None = None,
    ) -> None:
        """Take a sample: `now_s` is the meters' clock, `now_ms` since the epoch; `lags` of sinks, as they are known.

        `lags_at_ms`: when the brokers were asked for them.

        One that is not later than the last is ignored: the clock was put back.
        """
        bucket = now_ms // 1000 // EVERY_S
        with self._lock:
            if self._bucket is not None and bucket <= self._bucket:
                return
            self._advance(bucket)
            at = bucket % KEPT
            self._left_out = 0
            self._lags, self._lags_at_ms = lags or {}, lags_at_ms
            for task_id, meter in meters.items():
                values = self._values(task_id, meter, now_s)
                if (track := self._track(self._tasks, task_id, MOST_TASKS)) is not None:
                    track.write(at, values)
                    track.write_named(at, ((_series_name(value), value.value) for value in _mbeans(meter.latest)))
            self._here = frozenset(meters)
            for load in slots:
                if (track := self._track(self._slots, load.slot, MOST_TASKS)) is not None:
                    track.write(at, (load.cpu_percent, load.memory_bytes, load.tasks))
            self._before = {task_id: seen for task_id, seen in self._before.items() if task_id in self._tasks}

    def of(self, connector: str | None = None) -> dict[str, Any]:
        """Every series of the tasks of a connector, and of all slots; without a connector of the slots alone.

        Shape: every_ms, times (epoch ms), tasks: [{connector, task, series: {name: [..]}, mbeans}], slots: [{slot,
        series}]. A value is null where the task, or the worker, was not there. `mbeans`, of a Java task that has some:
        [{name, labels, value, series}], whose value is exact, and null when the task is not here any more.
        """
        with self._lock:
            order = self._order()
            tasks = sorted(task_id for task_id in self._tasks if task_id.connector == connector)
            return {
                "every_ms": EVERY_S * 1000,
                "times": self._times(),
                "tasks": [
                    {
                        **task_id.to_json(),
                        "series": self._tasks[task_id].to_json(TASK_SERIES, order),
                        **self._mbeans_of(task_id, order),
                    }
                    for task_id in tasks
                ],
                "slots": [
                    {"slot": slot, "series": self._slots[slot].to_json(SLOT_SERIES, order)}
                    for slot in sorted(self._slots)
                ],
                "left_out": self._left_out,
            }

    def overview(self) -> dict[str, Any]:
        """One line for each connector: the records it moved, a value a minute, and what is wrong with it.

        Shape: every_ms, times, connectors: {name: {records_per_s: [..], lag, lag_at_ms, errors, restarts}}. `errors`
        and `restarts` are those of the hour, `lag` is by committed offsets, as in `/metrics`, and null where it is not
        known; `lag_at_ms` says when the brokers reported it. Not to be changed: it is made once for each sample.
        """
        with self._lock:
            bucket = self._bucket or 0
            if self._overview is None or self._overview[0] != bucket:
                self._overview = bucket, self._make_overview()
            return self._overview[1]

    def bytes_held(self) -> int:
        """What the series take."""
        with self._lock:
            return sum(track.size() for track in (*self._tasks.values(), *self._slots.values()))

    # Inside; the lock is held.

    def _mbeans_of(self, task_id: TaskId, order: Sequence[int]) -> dict[str, Any]:
        seen, track = self._before.get(task_id), self._tasks[task_id]
        found = [
            {
                "name": value.name,
                "labels": {tag: text for tag, text in value.tags if tag not in ("connector", "task")},
                "value": _finite(value.value) if task_id in self._here else None,
                "series": list(track.named(_series_name(value), order)),
            }
            for value in (() if seen is None else _mbeans(seen.counters))
        ]
        return {"mbeans": found} if found else {}

    def _advance(self, bucket: int) -> None:
        first = bucket - KEPT + 1 if self._bucket is None else max(self._bucket + 1, bucket - KEPT + 1)
        gone = [number % KEPT for number in range(first, bucket + 1)]
        self._bucket = bucket
        tracks: list[dict[Any, _Track]] = [self._tasks, self._slots]  # keys of two types
        for kept in tracks:
            for key in [key for key, track in kept.items() if not track.clear(gone)]:
                del kept[key]

    def _track(self, tracks: dict[Any, _Track], key: TaskId | int, most: int) -> _Track | None:
        track = tracks.get(key)
        if track is None:
            if len(tracks) >= most:
                self._left_out += 1
                return None
            track = tracks[key] = _Track()
        return track

    def _values(self, task_id: TaskId, meter: TaskMeter, now_s: float) -> tuple[float | None, ...]:
        before, counters = self._before.get(task_id), meter.latest
        seen = self._before[task_id] = _Seen(meter.born_s, now_s, counters)
        is_same = before is None or before.born_s == meter.born_s
        if before is None or (is_same and before.counters is counters):
            # New here: what it counted before cannot be distinguished from what it counted just now. Or nothing was
            # counted
            return _idle_values(meter, counters)
        return _values_between(before if is_same else None, before.at_s, seen, meter, restarts=int(not is_same))

    def _order(self) -> list[int]:
        """Places of the samples in the arrays, the oldest first."""
        return [] if self._bucket is None else [(self._bucket + 1 + step) % KEPT for step in range(KEPT)]

    def _times(self) -> list[int]:
        if self._bucket is None:
            return []
        return [number * EVERY_S * 1000 for number in range(self._bucket - KEPT + 1, self._bucket + 1)]

    def _make_overview(self) -> dict[str, Any]:
        step = KEPT // POINTS
        if self._bucket is None:
            return {"every_ms": step * EVERY_S * 1000, "times": [], "connectors": {}}
        last = self._bucket // step  # the minute that is under way is left out of the line
        groups = [[number % KEPT for number in range(minute * step, minute * step + step)]
                  for minute in range(last - POINTS + 1, last)]  # fmt: skip
        found: dict[str, dict[str, Any]] = {}
        for task_id, track in self._tasks.items():
            line = found.setdefault(task_id.connector, empty_line(len(groups)))
            _add_track(line, track, groups)
        for name, lag in self._lags.items():  # of a sink that is FAILED, paused or stopped, too
            line = found.setdefault(name, empty_line(len(groups)))
            line["lag"], line["lag_at_ms"] = float(lag), self._lags_at_ms
        times = [minute * step * EVERY_S * 1000 for minute in range(last - POINTS + 1, last)]
        return {"every_ms": step * EVERY_S * 1000, "times": times, "connectors": found}


@dataclass(slots=True)
class _Seen:
    born_s: float
    """Belongs to the meter: another one means that the task was started again."""
    at_s: float
    counters: TaskCounters


@dataclass(slots=True)
class _Track:
    """The series of one task or slot: an array for each that ever had a value, by its place in the list of names."""

    present: bytearray = field(default_factory=lambda: bytearray(KEPT))
    codes: dict[int | str, array[int]] = field(default_factory=dict)
    """Has the codes of MBeans by their names."""

    def write(self, at: int, values: Sequence[float | None]) -> None:
        self.present[at] = 1
        for place, value in enumerate(values):
            codes = self.codes.get(place)
            if codes is None:
                if not value:
                    continue
                codes = self.codes[place] = array("H", bytes(2 * KEPT))
            codes[at] = _code(value)

    def write_named(self, at: int, values: Iterable[tuple[str, Any]]) -> None:
        """Works as `write`, for series that come as they are; a code is one more than the value's, 0 where there was
        none.
        """
        for name, value in values:
            codes = self.codes.get(name)
            if codes is None:
                if not value or len(self.codes) >= MOST_MBEANS + len(TASK_SERIES):
                    continue
                codes = self.codes[name] = array("H", bytes(2 * KEPT))
            codes[at] = min(_LARGEST, _code(value) + 1)

    def named(self, name: str, order: Sequence[int]) -> Iterator[float | None]:
        codes, values = self.codes.get(name), _decoded()
        return (None if codes is None or not codes[at] else values[codes[at] - 1] for at in order)

    def clear(self, places: Collection[int]) -> bool:
        """Whether anything is left."""
        for at in places:
            self.present[at] = 0
            for codes in self.codes.values():
                codes[at] = 0
        return 1 in self.present

    def to_json(self, names: Sequence[str], order: Sequence[int]) -> dict[str, list[float | None]]:
        """A series each; those in which nothing was counted are one list."""
        is_there = [bool(self.present[at]) for at in order]
        nothing: Mapping[float | None, list[float | None]] = {
            None: [None] * len(order),
            0.0: [0.0 if there else None for there in is_there],
        }
        values = _decoded()

        def series(place: int, name: str) -> list[float | None]:
            codes, default = self.codes.get(place), None if name in TIMES else 0.0
            if codes is None:
                return nothing[default]
            return [
                None if not there else values[codes[at]] if codes[at] else default
                for at, there in zip(order, is_there, strict=True)
            ]

        return {name: series(place, name) for place, name in enumerate(names)}

    def size(self) -> int:
        return sum(codes.__sizeof__() for codes in self.codes.values()) + self.present.__sizeof__()


def _mbeans(counters: TaskCounters) -> Iterator[PluginValue]:
    return (value for value in counters.plugins if value.group == MBEANS)


def _series_name(value: PluginValue) -> str:
    return f"{value.name}{value.tags}"


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _idle_values(meter: TaskMeter, counters: TaskCounters) -> tuple[float | None, ...]:
    failed = float(meter.state is RunState.FAILED)
    return (0, 0, 0, 0, 0, 0, failed, counters.lag_most, counters.records_active, None, None, None, None, None)


def _values_between(
    before: _Seen | None, since_s: float, now: _Seen, meter: TaskMeter, *, restarts: int
) -> tuple[float | None, ...]:
    """In the order of TASK_SERIES. `before` is None for a new run, which counts from zero."""
    old, new = before.counters if before is not None else TaskCounters(), now.counters
    passed_s = max(now.at_s - since_s, 0.001)

    def grown(*names: str) -> float:
        return float(max(0, sum(getattr(new, name) - getattr(old, name) for name in names)))

    def mean(name: str) -> float | None:
        last, first = getattr(new, name), getattr(old, name)
        count = last.count - first.count
        return (last.total - first.total) / count if count > 0 else None

    def most(name: str) -> float | None:
        return max((getattr(each, name).most for at_s, each in meter.samples if at_s > since_s), default=None)

    polled, put = mean("poll_ms"), mean("put_ms")
    return (
        grown("records_polled", "records_read") / passed_s,
        grown("records_out") / passed_s,
        grown("bytes_sent", "bytes_received") / passed_s,
        grown("errors"),
        grown("retries"),
        max(0, restarts),
        float(meter.state is RunState.FAILED),
        new.lag_most,
        new.records_active,
        polled,
        None if polled is None else most("poll_ms"),
        put,
        None if put is None else most("put_ms"),
        mean("commit_ms"),
    )


def empty_line(points: int) -> dict[str, Any]:
    """Gives the line of a connector in the overview, of which nothing is known."""
    return {"records_per_s": [0.0] * points, "lag": None, "lag_at_ms": None, "errors": 0.0, "restarts": 0.0}


def _add_track(line: dict[str, Any], track: _Track, groups: Sequence[Sequence[int]]) -> None:
    """Add a task to its connector's line: rates, errors and restarts are sums."""
    values = _decoded()

    def codes(name: str) -> array[int] | None:
        return track.codes.get(TASK_SERIES.index(name))

    if (rates := codes("records_out_per_s")) is not None:
        points = line["records_per_s"]
        for number, places in enumerate(groups):
            if any(found := [rates[place] for place in places]):
                points[number] = _rounded(points[number] + sum(values[code] for code in found) / len(found))
    for name in ("errors", "restarts"):
        if (counts := codes(name)) is not None:
            line[name] += round(sum(values[code] for code in counts if code))


def _code(value: float | None) -> int:
    if value is None or not math.isfinite(value):
        return 0
    return min(_LARGEST, round(math.log2(1 + value) * _STEPS)) if value > 0 else 0


@cache
def _decoded() -> array[float]:
    """The value of each code; made when somebody first asks, in 60 ms."""
    return array("d", [_rounded(2 ** (code / _STEPS) - 1) for code in range(_NOTHING + 1)])


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
