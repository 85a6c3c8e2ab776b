"""How fast this machine is, now: a clock that runs slower while the machine is slow.

A bound in a test is written for a quiet machine with two cores. Measured on `now()` it holds on a slow machine as well:
a second of this clock lasts as long as the machine takes for what a quiet one does in a second. So a slow machine is
slow and not red, and what hangs still ends (`MOST`).

Measured at the session's start and from then on until its end, because load may come later: how long a fixed piece of
work takes, how many processes want a core, and how late a wait ends.

Which to use: `now` for deadlines and for an assertion that something is quick (`began = now()`, `now() - began < 3`);
`ended` for the end of a process; `ample_s` where one number has to be given before the wait begins
(`subprocess.run(timeout=..)`), and nothing but a hang would reach it.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MOST", "Look", "Pace", "ample_s", "ample_text", "ended", "now", "pace", "slowness_of"]

MOST = 12.0
"""The clock never runs slower than by this: a test that hangs on a busy machine ends some day."""
_LOOK_EVERY_S = 0.2
_WORK_EVERY_S = 5.0
# What the work takes on a core of the machine whose bounds are in the tests (the best of two hundred runs: 1.1 ms)
_WORK_ROUNDS = 40_000
_WORK_S = 0.0013
_AMPLE = 4.0


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment. `crowd`: processes that run or want to, for each core."""

    work_s: float
    crowd: float
    late: float
    """How much longer than asked for the last wait took: 1.0 is in time."""


def slowness_of(look: Look) -> float:
    """How many times as long as a quiet machine this one takes: 1.0 to `MOST`."""
    speed = max(1.0, look.work_s / _WORK_S)
    return min(MOST, max(speed * max(1.0, look.crowd), look.late))


@dataclass(frozen=True, slots=True, eq=False)
class Alarm:
    """What is done at a moment of the clock."""

    at: float
    action: Callable[[], None]


class Pace:
    """The clock, and the thread that keeps it. Threads: any may read."""

    def __init__(self, look: Callable[[float], Look] | None = None, every_s: float = _LOOK_EVERY_S) -> None:
        """`look` stands in for the machine: it is given how late the last wait was."""
        self._look = look or self._look_at_the_machine
        self._every_s = every_s
        self._lock = threading.Lock()  # guards the five fields below
        self._thread: threading.Thread | None = None
        self._read_s, self._at = 0.0, time.monotonic()
        self._slowness = 1.0
        self._alarms: list[Alarm] = []
        self._over = threading.Event()
        self._cores = 1.0
        self._work_s = 0.0
        self._worked_at = float("-inf")

    def now(self) -> float:
        """Seconds that only grow, slower than others while the machine is slow."""
        self.start()
        with self._lock:
            return self._advance()

    @property
    def slowness(self) -> float:
        """How many times as long as a quiet machine this one takes, by the last look."""
        self.start()
        return self._slowness

    def alarm(self, within_s: float, action: Callable[[], None]) -> Callable[[], None]:
        """Have the clock's own thread do something after so many seconds of the pace; gives what calls it off."""
        alarm = Alarm(self.now() + within_s, action)
        with self._lock:
            self._alarms.append(alarm)

        def cancel() -> None:
            with self._lock:
                if alarm in self._alarms:
                    self._alarms.remove(alarm)

        return cancel

    def start(self) -> None:
        """Begin to look; further calls do nothing. The thread is the session's and ends with the process."""
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._keep, name="kit-pace", daemon=True)
            self._cores = _cores()
            self._slowness = slowness_of(self._look(1.0))
            self._at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """The clock of a test of its own; the session's goes on until the process ends."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def reported(self) -> str:
        """For the head of a run."""
        slowness = self.slowness
        return (
            f"pace: bounds last {slowness:.1f} times as long as on a quiet machine, for now "
            f"(fixed work {self._work_s * 1000:.1f} ms, {_runnable()} processes want {self._cores:g} cores)"
        )

    def _keep(self) -> None:
        began = time.monotonic()
        while not self._over.wait(self._every_s):
            slowness = slowness_of(self._look((time.monotonic() - began) / self._every_s))
            with self._lock:
                read_s = self._advance()
                # A moment's crowd is chance; ten looks are two seconds
                self._slowness += (slowness - self._slowness) / (2 if slowness > self._slowness else 10)
                due = [alarm for alarm in self._alarms if alarm.at <= read_s]
                self._alarms = [alarm for alarm in self._alarms if alarm.at > read_s]
            for alarm in due:
                alarm.action()
            began = time.monotonic()

    def _advance(self) -> float:
        at = time.monotonic()
        self._read_s += (at - self._at) / self._slowness
        self._at = at
        return self._read_s

    def _look_at_the_machine(self, late: float) -> Look:
        if time.monotonic() - self._worked_at > _WORK_EVERY_S:
            self._work_s = min(_work() for _ in range(3))  # the least: others may have had the core meanwhile
            self._worked_at = time.monotonic()
        return Look(self._work_s, _runnable() / self._cores, late)


pace = Pace()


def now() -> float:
    """Seconds of the machine's pace: for deadlines, `deadline = now() + within_s`."""
    return pace.now()


def ample_s(quiet_s: float) -> float:
    """Far more than this machine may take for what takes a quiet one so long: load may come after the question."""
    return quiet_s * max(_AMPLE, 2 * pace.slowness)


def ample_text(quiet_s: float) -> str:
    """The same as a command takes it: `120s`."""
    return f"{ample_s(quiet_s):.0f}s"


def ended(process: subprocess.Popen[bytes] | subprocess.Popen[str], within_s: float) -> int:
    """The exit code of a process, once it ended. Errors: TimeoutExpired after so many seconds of the pace."""
    deadline = now() + within_s
    while True:
        is_last = now() > deadline
        try:
            return process.wait(0.5)
        except subprocess.TimeoutExpired:
            if is_last:
                raise


def _work() -> float:
    """Seconds that a fixed piece of work takes."""
    began = time.perf_counter()
    total = 0
    for number in range(_WORK_ROUNDS):
        total += number & 7
    return time.perf_counter() - began


def _runnable() -> int:
    """Threads that run or wait for a core at this moment, on the whole machine; this one is among them."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return round(os.getloadavg()[0])  # no Linux: the mean of a minute


def _cores() -> float:
    """Cores that this process may use: a container's share, where it has one."""
    found = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(found, int(quota) / int(period))
    except (OSError, ValueError):  # no cgroup, or "max"
        return found
