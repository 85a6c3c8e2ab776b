"""Collections of garbage in Spark's JVM, made in the time of queries alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from kconnect.clock import Clock, SystemClock

log = logging.getLogger(__name__)

# As Spark's cleaner does by default: it deletes what jobs leave once the JVM has found that nobody refers to it
_EVERY_S: Final = 1800.0
# One under way may take a second
_END_S: Final = 5.0


class JvmCollections:
    """Calls `collect` every half hour. Lifecycle: constructed -> start -> stop.

    Spark's own timer runs without queries, too, and each collection widens the JVM's young generation, which a worker
    without queries fills and keeps: 16 MB.
    """

    def __init__(self, collect: Callable[[], object], clock: Clock | None = None) -> None:
        """`collect`: what it raises is logged for debugging alone, as others report a JVM that has ended."""
        self._collect = collect
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="query-collections", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._clock.wait(self._stopping, _EVERY_S):
            try:
                self._collect()
            except Exception:  # py4j's, a socket's: whatever breaks with the JVM
                log.debug("Spark's JVM could not be asked to collect its garbage", exc_info=True)
