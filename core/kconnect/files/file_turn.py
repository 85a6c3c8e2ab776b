"""One process at a time: a lock that the system drops when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_LOOK_AGAIN_S = 0.2  # the release of another process's lock cannot be waited for


@contextlib.contextmanager
def turn(
    path: Path,
    timeout_s: float,
    *,
    stopping: threading.Event | None = None,
    when_taken: Callable[[], None] = lambda: None,
) -> Iterator[bool]:
    """Inside, this process holds the lock on the file, which is made. False: it does not, in time or before `stopping`.

    `when_taken` is called once, if another process holds it. Errors: OSError.
    """
    over = stopping or threading.Event()
    deadline_s = time.monotonic() + timeout_s
    is_first = True
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if is_first:
                    when_taken()
                is_first = False
                if time.monotonic() >= deadline_s or over.wait(_LOOK_AGAIN_S):
                    yield False
                    return
        yield True
