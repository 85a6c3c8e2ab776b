"""Parents, descendants and sessions of processes, from the operating system alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

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
