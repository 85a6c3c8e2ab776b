"""Nothing may outlive a test: threads, child processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Set

import psutil

__all__ = ["child_processes", "left_threads"]

# Owned by libraries for the life of the process, by the prefix of their names.
_LIBRARY_THREADS = ("pytest_timeout", "ThreadPoolExecutor-pyarrow", "asyncio_")


def child_processes() -> dict[int, str]:
    """Processes below this one, dead ones that nobody waited for included: pid -> command line."""
    found = {}
    for child in psutil.Process().children(recursive=True):
        try:
            found[child.pid] = f"{child.status()} {' '.join(child.cmdline())[:200]}"
        except psutil.NoSuchProcess:
            continue
    return found


def left_threads(before: Set[int], grace_s: float) -> list[str]:
    """Names of threads that were not there before and do not end within the grace time."""
    deadline = time.monotonic() + grace_s
    while True:
        left = [
            thread
            for thread in threading.enumerate()
            if thread.ident not in before and not thread.name.startswith(_LIBRARY_THREADS)
        ]
        if not left or time.monotonic() > deadline:
            return [thread.name for thread in left]
        time.sleep(0.02)
