"""When the steps of a worker's start happen: noted where they do, collected by who asks for them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_STEPS: Final = logging.getLogger("kconnect.timeline")
_AT: Final = "timeline_at_s"


def note_step(step: str, at_s: float | None = None) -> None:
    """Note a step of the start, now or at a time since the epoch. Threads: any. Costs 0.2 us where nobody collects."""
    if _STEPS.isEnabledFor(logging.DEBUG):
        _STEPS.debug("%s", step, extra={_AT: at_s})


def process_began_s(pid: int) -> float | None:
    """When a process was started, in s since the epoch, to 10 ms; None where the system does not say."""
    try:
        # The name in brackets may hold anything, brackets too
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Step:
    """What had happened, `s` after the start of the process."""

    s: float
    what: str


class Timeline(logging.Handler):
    """Collects the steps of this process while it is entered. Threads: `steps` from any."""

    def __init__(self, began_s: float | None = None, now_s: Callable[[], float] = time.time) -> None:
        """`began_s`: when the process was started, since the epoch; by default as the system says."""
        super().__init__(logging.DEBUG)
        self._now_s = now_s
        self._began_s = process_began_s(os.getpid()) if began_s is None else began_s
        if self._began_s is None:
            self._began_s = now_s()
        self._found: list[Step] = []

    def __enter__(self) -> Self:
        self._before = _STEPS.level, _STEPS.propagate
        _STEPS.addHandler(self)
        _STEPS.setLevel(logging.DEBUG)
        _STEPS.propagate = False
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _STEPS.removeHandler(self)
        _STEPS.level, _STEPS.propagate = self._before

    def emit(self, record: logging.LogRecord) -> None:
        at_s: float | None = getattr(record, _AT)
        assert self._began_s is not None
        self._found.append(Step((self._now_s() if at_s is None else at_s) - self._began_s, record.getMessage()))

    @property
    def steps(self) -> list[Step]:
        """The steps until now, the earliest first."""
        return sorted(self._found, key=lambda step: step.s)
