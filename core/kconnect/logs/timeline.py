"""When the steps of a worker's start happen: noted where they do, collected for the caller."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

_STEPS: Final = logging.getLogger("kconnect.timeline")
_AT: Final = "timeline_at_s"


def note_step(step: str, pid: int | None = None) -> None:
    """Note a step of the start, now or when a process was started. Threads: any. Costs 0.2 us where nobody collects."""
    if _STEPS.isEnabledFor(logging.DEBUG):
        _STEPS.debug("%s", step, extra={_AT: None if pid is None else _began_s(pid)})


def _began_s(pid: int | None = None) -> float | None:
    """When a process, or this one, was started, since the epoch; None for one that is not on this machine."""
    import psutil  # here: only who collects steps needs it

    try:
        return psutil.Process(pid).create_time() + _cut_from_boot_s()
    except psutil.NoSuchProcess:
        return None


@functools.cache
def _cut_from_boot_s() -> float:
    """What a time since the boot lacks: Linux tells when that was in whole seconds."""
    import psutil

    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - psutil.boot_time()


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
        self._began_s = (_began_s() if began_s is None else began_s) or now_s()
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
        self._found.append(Step((self._now_s() if at_s is None else at_s) - self._began_s, record.getMessage()))

    @property
    def steps(self) -> list[Step]:
        """The steps until now, the earliest first."""
        return sorted(self._found, key=lambda step: step.s)
