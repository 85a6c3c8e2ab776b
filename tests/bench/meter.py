"""CPU time and memory of a whole process tree, and progress over time, sampled while a run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import psutil

__all__ = ["ProcessTree", "Sample", "cpu_us_per_record", "longest_gap", "longest_gap_ms", "sample_until", "steady_rate"]

# Finding new processes walks all of /proc: 3 ms. Reading times of known ones is 20 us each.
_DISCOVER_EVERY_S = 0.25
_SAMPLE_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    """How far a run was at one moment."""

    at_s: float  # monotonic
    records: int
    cpu_s: float  # all processes of the worker together, since their starts


class ProcessTree:
    """A process and all below it. Processes that ended count with the CPU time last seen."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._known: dict[psutil.Process, float] = {}
        self._next_discovery = 0.0

    def cpu_s(self) -> float:
        """User and system seconds of all processes so far."""
        now = time.monotonic()
        if now >= self._next_discovery:
            self._next_discovery = now + _DISCOVER_EVERY_S
            for process in self.alive():
                self._known.setdefault(process, 0.0)
        for process in self._known:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            self._known[process] = times.user + times.system
        return sum(self._known.values())

    def alive(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def pss_mb(self) -> float:
        """Memory in use, pages shared between processes counted once."""
        total = 0
        for process in self.alive():
            try:
                total += process.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return total / 1e6


def sample_until(
    target: int,
    progress: Callable[[], int],
    tree: ProcessTree,
    is_alive: Callable[[], bool],
    deadline_s: float,
    every_s: float = _SAMPLE_EVERY_S,
) -> list[Sample]:
    """Samples until `progress()` reaches the target. Errors: TimeoutError; RuntimeError when the worker ends first."""
    samples = []
    end = time.monotonic() + deadline_s
    while True:
        began = time.monotonic()
        sample = Sample(began, progress(), tree.cpu_s())
        samples.append(sample)
        if sample.records >= target:
            return samples
        if not is_alive():
            raise RuntimeError(f"the worker ended at {sample.records} of {target} records")
        if began > end:
            raise TimeoutError(f"{sample.records} of {target} records after {deadline_s:.0f} s")
        time.sleep(max(0.0, every_s - (time.monotonic() - began)))


def steady_rate(samples: Sequence[Sample], low: float = 0.25, high: float = 0.75) -> float:
    """Records per second in the middle of a run: between two shares of all its records, by interpolation."""
    total = samples[-1].records
    begin, end = (_time_at(samples, total * share) for share in (low, high))
    return total * (high - low) / max(end - begin, 1e-9)


def cpu_us_per_record(samples: Sequence[Sample]) -> float:
    """CPU microseconds a record, from the last sample without records to the end."""
    first = max((index for index, sample in enumerate(samples) if sample.records == 0), default=0)
    moved = samples[-1].records - samples[first].records
    return (samples[-1].cpu_s - samples[first].cpu_s) * 1e6 / moved


def longest_gap_ms(times_ms: Sequence[int], begin_ms: int, end_ms: int) -> int:
    """The longest time without a record within a span; `times_ms` in order. Without any it is the whole span."""
    before, after = longest_gap(times_ms, begin_ms, end_ms)
    return after - before


def longest_gap(times_ms: Sequence[int], begin_ms: int, end_ms: int) -> tuple[int, int]:
    """From when to when that was."""
    inside = [time_ms for time_ms in times_ms if begin_ms < time_ms < end_ms]
    return max(pairwise([begin_ms, *inside, end_ms]), key=lambda gap: gap[1] - gap[0])


def _time_at(samples: Sequence[Sample], records: float) -> float:
    for before, after in pairwise(samples):
        if before.records <= records <= after.records and after.records > before.records:
            share = (records - before.records) / (after.records - before.records)
            return before.at_s + share * (after.at_s - before.at_s)
    raise ValueError(f"no sample around {records:.0f} records")
