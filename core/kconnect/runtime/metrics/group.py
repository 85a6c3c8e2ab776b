"""A worker's metrics of its group membership: total durations, and those of the last minute.

Source: DistributedHerder.HerderMetrics, AbstractCoordinator.GroupCoordinatorMetrics, WorkerCoordinatorMetrics
(Kafka 4.3).
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from kconnect.clock import Clock, SystemClock
from kconnect.runtime.metrics.catalogue import BY_NAME
from kconnect.runtime.metrics.readings import Reading
from kconnect.runtime.metrics.sensors import WINDOW_S

# Heartbeats of ten a second over the window; beyond that the oldest are dropped
_MOST_VALUES = 600


class Timings:
    """Durations of a repeated action. Threads: any. `None` and NaN: there were none in the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._born_s = clock.monotonic()
        self._lock = threading.Lock()
        self._count = 0  # guarded by _lock, as what follows
        self._total_ms = 0.0
        self._recent: deque[tuple[float, float]] = deque(maxlen=_MOST_VALUES)  # when, how long
        self._last_s: float | None = None

    def note(self, ms: float) -> None:
        """It happened, and ended now."""
        now_s = self._clock.monotonic()
        with self._lock:
            self._count += 1
            self._total_ms += ms
            self._last_s = now_s
            self._recent.append((now_s, ms))

    @property
    def count(self) -> int:
        with self._lock:
            return self._count

    @property
    def total_ms(self) -> float:
        with self._lock:
            return self._total_ms

    def average_ms(self) -> float:
        recent = self._of_last_minute()
        return sum(recent) / len(recent) if recent else math.nan

    def most_ms(self) -> float:
        return max(self._of_last_minute(), default=math.nan)

    def per_second(self) -> float:
        """Over the last minute, or since the beginning."""
        passed_s = min(WINDOW_S, self._clock.monotonic() - self._born_s)
        return len(self._of_last_minute()) / passed_s if passed_s > 0 else 0.0

    @property
    def last_s(self) -> float | None:
        """When it happened last, monotonic; None if it never did."""
        with self._lock:
            return self._last_s

    def since_last_s(self) -> float | None:
        """Returns None if it never happened."""
        last_s = self.last_s
        return None if last_s is None else self._clock.monotonic() - last_s

    def _of_last_minute(self) -> list[float]:
        begin_s = self._clock.monotonic() - WINDOW_S
        with self._lock:
            return [ms for at_s, ms in self._recent if at_s > begin_s]


class GroupMeter:
    """A membership's requests to its coordinator. Threads: any."""

    def __init__(self, client_id: str = "", clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self.client_id = client_id
        self.heartbeats = Timings(clock)
        """Answers to heartbeats, whatever their content."""
        self.beats = Timings(clock)
        """Heartbeats that were sent; they have no duration."""
        self.joins = Timings(clock)
        self.syncs = Timings(clock)
        self.rebalances = Timings(clock)
        """From the first attempt to join to the assignment."""
        self.failures = Timings(clock)
        """Failed attempts; they have no duration."""


class SettleMeter:
    """The time from a worker's assignment until its work is started. Threads: `begin`, `end` from one."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._began_s: float | None = None
        self.timings = Timings(self._clock)

    @property
    def is_open(self) -> bool:
        return self._began_s is not None

    def begin(self) -> None:
        self._began_s = self._clock.monotonic()

    def end(self) -> None:
        if self._began_s is not None:
            self.timings.note(max(0.0, (self._clock.monotonic() - self._began_s) * 1000))
            self._began_s = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A worker's group membership at one moment."""

    protocol_version: int
    leader_url: str
    """Empty while it is not known."""
    generation: int
    connectors: int
    """Assigned to this worker."""
    tasks: int
    meter: GroupMeter
    settling: SettleMeter


_PROTOCOLS = {0: "EAGER", 1: "COMPATIBLE", 2: "SESSIONED"}


def group_readings(view: GroupView) -> Iterator[Reading]:
    """All readings of a worker of a cluster about its group."""
    group, settled = "connect-worker-rebalance-metrics", view.settling.timings
    since_s = settled.since_last_s()
    values: list[tuple[str, float | int | str]] = [
        ("connect-protocol", _PROTOCOLS[view.protocol_version]),
        ("leader-name", view.leader_url),
        ("epoch", view.generation),
        ("completed-rebalances-total", settled.count),
        ("rebalancing", int(view.settling.is_open)),
        ("rebalance-avg-time-ms", settled.average_ms()),
        ("rebalance-max-time-ms", settled.most_ms()),
        ("time-since-last-rebalance-ms", math.inf if since_s is None else since_s * 1000),
    ]
    yield from (Reading(BY_NAME[group, name], (), value) for name, value in values)
    yield from _coordinator(view)


def _coordinator(view: GroupView) -> Iterator[Reading]:
    group, meter = "connect-coordinator-metrics", view.meter
    values: list[tuple[str, float | int]] = [
        ("assigned-connectors", view.connectors),
        ("assigned-tasks", view.tasks),
        ("heartbeat-response-time-max", meter.heartbeats.most_ms()),
        *_rate("heartbeat", meter.heartbeats),
        ("last-heartbeat-seconds-ago", _seconds_ago(meter.beats)),
        *_spread("join-time", meter.joins),
        *_rate("join", meter.joins),
        *_spread("sync-time", meter.syncs),
        *_rate("sync", meter.syncs),
        *_spread("rebalance-latency", meter.rebalances),
        ("rebalance-latency-total", meter.rebalances.total_ms),
        ("rebalance-total", meter.rebalances.count),
        ("rebalance-rate-per-hour", meter.rebalances.per_second() * 3600),
        ("failed-rebalance-total", meter.failures.count),
        ("failed-rebalance-rate-per-hour", meter.failures.per_second() * 3600),
        ("last-rebalance-seconds-ago", _seconds_ago(meter.rebalances)),
    ]
    yield from (Reading(BY_NAME[group, name], (meter.client_id,), value) for name, value in values)


def _rate(stem: str, timings: Timings) -> list[tuple[str, float | int]]:
    return [(f"{stem}-rate", timings.per_second()), (f"{stem}-total", timings.count)]


def _spread(stem: str, timings: Timings) -> list[tuple[str, float | int]]:
    return [(f"{stem}-avg", timings.average_ms()), (f"{stem}-max", timings.most_ms())]


def _seconds_ago(timings: Timings) -> int:
    """Whole seconds, -1 for never, as in Java."""
    since_s = timings.since_last_s()
    return -1 if since_s is None else int(since_s)
