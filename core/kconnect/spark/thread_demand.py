"""How much of a core the threads of this process want: what they use, and what they wait for. Linux only."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from kconnect.model import TaskId

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
