"""Compaction: joins small files of tables into larger ones now and then, beside the task's own work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from kconnect.api import ConnectError
from kconnect.builtin.connectors.tables.table_format import TableFormat

log = logging.getLogger(__name__)

# Of the five seconds that a stop may take (task.shutdown.graceful.timeout.ms): the consumer is closed behind it
_STOP_WAIT_S = 2.0


class Compaction:
    """On a thread of its own, with tables of its own. A failure is logged, and costs nothing but the small files.

    `open_table` opens those to compact, by topic. Times are seconds of a monotonic clock. Threads: the task's.
    One that outlives its task harms nobody: its commit is refused where somebody has changed the same files, as beside
    a running task, and offsets stay as they are. One that is cut off leaves files that no table has.
    """

    def __init__(
        self, name: str, every_s: float, aim_bytes: int, open_table: Callable[[str], TableFormat], now_s: float
    ) -> None:
        self._name = name
        self._every_s, self._aim_bytes = every_s, aim_bytes
        self._open_table = open_table
        self._due_at_s = now_s + every_s
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def tend(self, topics: Sequence[str], now_s: float) -> None:
        """Begin when it is time, and the one before has ended."""
        if not self._every_s or now_s < self._due_at_s or (self._thread is not None and self._thread.is_alive()):
            return
        self._due_at_s = now_s + self._every_s
        self._thread = threading.Thread(target=self._run, args=(tuple(topics),), name=f"compaction-{self._name}")
        self._thread.start()

    def stop(self) -> None:
        """Begin no further table, and wait for the one that runs, for a while."""
        self._is_stopping = True
        if self._thread is not None:
            self._thread.join(_STOP_WAIT_S)
            if self._thread.is_alive():
                log.warning("The compaction of %s still runs; it ends by itself", self._name)

    def _run(self, topics: Sequence[str]) -> None:
        for topic in topics:
            if self._is_stopping:
                return
            try:
                table = self._open_table(topic)
                try:
                    done = table.compact(self._aim_bytes)
                finally:
                    table.close()
            except ConnectError as error:
                log.warning("The table of topic %s is not compacted: %s", topic, error)
            except Exception:  # the top of a thread
                log.warning("The table of topic %s is not compacted", topic, exc_info=True)
            else:
                if done is not None:
                    log.info("Compacted table %s: %s", table.where, done)
