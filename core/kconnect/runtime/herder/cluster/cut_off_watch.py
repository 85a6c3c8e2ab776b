"""Stops the work of a member that is cut off from its group while its herder's thread is busy: others will start it.

A thread that is not busy learns this from its membership and stops the work itself; but it may hang in a write to an
unreachable broker, for longer than a session. Differs: Java's worker keeps its tasks running.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kconnect.runtime.herder.health.watch_thread import WatchThread

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.2
# Runs this much later than the herder's thread, which acts first if it can
_GRACE_S = 0.3


class CutOffWatch:
    """States: new -> start() -> stop(). `runs_until` as of a Membership; `cut_off` is called when it has passed."""

    def __init__(self, runs_until: Callable[[], float | None], cut_off: Callable[[], None]) -> None:
        self._runs_until = runs_until
        self._cut_off = cut_off
        self._thread = WatchThread("herder-watch", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._thread.stop(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        cut_off_at: float | None = None
        while not stop.wait(_LOOK_EVERY_S):
            until = self._runs_until()
            if until is None or until == cut_off_at or time.monotonic() < until + _GRACE_S:
                continue
            cut_off_at = until
            log.warning("This worker has not reached its group in time: it stops its work before others start it")
            try:
                self._cut_off()
            except Exception:  # top of a thread
                log.exception("Work could not be stopped")
