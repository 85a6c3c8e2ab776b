"""Which of the machine's cores this process may use. Linux only: elsewhere there is no bound."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


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
