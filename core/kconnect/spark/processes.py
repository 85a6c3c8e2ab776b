"""Processes as the operating system tells of them, without a library: parents, descendants, sessions, cores, threads.

Which cores this process may use and how much of them its threads want is known on Linux alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from kconnect.model import TaskId

_HAS_PROC = Path("/proc/self/stat").exists()


def parent_pid(pid: int) -> int | None:
    """The parent of a process, None when there is no such process."""
    if _HAS_PROC:
        fields = _proc_stat(pid)
        return int(fields[1]) if fields else None
    try:
        answer = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return int(answer.stdout) if answer.stdout.strip().isdigit() else None


def birth(pid: int) -> str | None:
    """A process's start time, which tells it from a later one with the same pid; None if it is gone."""
    if _HAS_PROC:
        fields = _proc_stat(pid)
        return fields[19] if fields and fields[0] != "Z" else None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    return "unknown"


def session_members(leader: int) -> dict[int, str]:
    """The live processes of the session a process leads or has led, without the leader.

    Shape: pid and birth, as `await_end` takes them.
    """
    found = {}
    for pid in _all_pids():
        with contextlib.suppress(OSError):  # it ended, or is not ours to ask
            if pid != leader and os.getsid(pid) == leader and (born := birth(pid)):
                found[pid] = born
    return found


def await_end(processes: Mapping[int, str], timeout_s: float) -> set[int]:
    """Wait for processes (pid and birth) to end and kill those that do not; gives the killed ones."""
    deadline_s = time.monotonic() + timeout_s
    alive = set(processes)
    while True:
        alive = {pid for pid in alive if birth(pid) == processes[pid]}
        if not alive or time.monotonic() > deadline_s:
            break
        time.sleep(0.02)  # the end of a process that is not our child cannot be waited for
    for pid in alive:
        if _HAS_PROC:  # without a birth mark it could be a stranger's
            os.kill(pid, signal.SIGKILL)
    return alive


def kill_descendant(pid: int) -> bool:
    """Kill a process that this one started, directly or not. False: it is none of ours and was left alone."""
    if not is_descendant(pid):
        return False
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGKILL)
    return True


def is_descendant(pid: int) -> bool:
    """Whether a process was started by this one, directly or not."""
    own = os.getpid()
    parent: int | None = pid
    for _ in range(64):  # a chain longer than that is a loop
        parent = parent_pid(parent) if parent else None
        if parent == own:
            return True
        if parent is None or parent <= 1:
            return False
    return False


def _proc_stat(pid: int) -> list[str] | None:
    try:
        # the name in brackets may hold anything, brackets too
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _all_pids() -> list[int]:
    if _HAS_PROC:
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    try:
        answer = subprocess.run(["ps", "-axo", "pid="], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [int(line) for line in answer.stdout.split()]


class ProcessCores:
    """The cores of a slot that is a connector's own. One owner."""

    def __init__(self, slot: int) -> None:
        self._slot = slot
        self._kept: int | None = None
        self._all = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def keep_to(self, cores: int | None) -> None:
        """Use so many cores from now on, None: all; processes that it starts later do as well.

        Slots begin at the core of their number, so that two of one core each get different ones.
        """
        if cores == self._kept or not self._all:
            return
        self._kept = cores
        count = len(self._all)
        chosen = {self._all[(self._slot + number) % count] for number in range(min(cores or count, count))}
        for thread in Path("/proc/self/task").iterdir():  # a thread that starts meanwhile has its starter's
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(int(thread.name), chosen)


_THREADS = Path("/proc/self/task")
# On a busy machine a thread that wakes up for a moment waits longer than it runs, though it keeps up with its work. One
# that never sleeps gets a fifth of a core at least, unless there are more than five of them on each.
_MOST_WAIT = 4


class ThreadDemand:
    """One owner. Where the system does not say it, as on macOS, it is not known."""

    def __init__(self) -> None:
        self._at_s = time.monotonic()
        self._before = _counts()

    def look(self, tasks: Mapping[TaskId, int]) -> tuple[float, dict[TaskId, float]] | None:
        """Percent of a core since the last look, of all threads and of these, by the system's number of each."""
        at_s, now = time.monotonic(), _counts()
        before, self._before = self._before, now
        passed_s, self._at_s = at_s - self._at_s, at_s
        if not now or passed_s <= 0:
            return None
        shares = {}
        for thread, (ran, waited) in now.items():
            earlier = before.get(thread, (0, 0))
            used = ran - earlier[0]
            shares[thread] = (used + min(waited - earlier[1], _MOST_WAIT * used)) / passed_s / 1e7
        by_task = {task: shares.get(thread, 0.0) for task, thread in tasks.items()}
        return sum(shares.values()), {task: share for task, share in by_task.items() if share >= 1}


def _counts() -> dict[int, tuple[int, int]]:
    """By thread, for how many nanoseconds it has run, and was ready to and did not: it waited for a core."""
    found = {}
    with contextlib.suppress(FileNotFoundError):  # no Linux
        for thread in _THREADS.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):  # it has ended; no such counts
                ran, waited, _ = (thread / "schedstat").read_text().split()
                found[int(thread.name)] = int(ran), int(waited)
    return found
