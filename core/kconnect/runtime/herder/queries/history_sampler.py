"""Takes the samples of a worker's history, on a thread of its own, every ten seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kconnect.runtime.herder.health.watch_thread import WatchThread
from kconnect.runtime.herder.interface import Launcher
from kconnect.runtime.metrics.history import EVERY_S, History, SlotLoad

log = logging.getLogger(__name__)


class HistorySampler:
    """States: new -> start() -> stop(). Threads: start and stop from one."""

    def __init__(self, launcher: Launcher, history: History, wall_s: Callable[[], float] = time.time) -> None:
        self._launcher = launcher
        self._history = history
        self._wall_s = wall_s
        self._thread = WatchThread("history", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Idempotent."""
        self._thread.stop(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        # At the multiples of the interval, as all workers do: their samples can be added up
        while not stop.wait(EVERY_S - self._wall_s() % EVERY_S):
            try:
                self.take()
            except Exception:  # thread top; a worker does not end for want of a plot
                log.exception("A sample of the worker's history was not taken")

    def take(self) -> None:
        """One sample of now."""
        loads = [
            SlotLoad(slot.slot, slot.cpu_percent, slot.memory_bytes, len(slot.tasks))
            for slot in self._launcher.slots()
            if slot.slot is not None
        ]
        meters = self._launcher.task_meters()
        self._history.sample(time.monotonic(), int(self._wall_s() * 1000), meters, loads)
