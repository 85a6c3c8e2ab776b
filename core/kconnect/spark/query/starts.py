"""Which start of a query may send batches: the latest, until it is asked to end."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kconnect.errors import ConnectError, RetriableError
from kconnect.runtime.pipeline.ports import TaskControl

# The batch under way may end within this part of the time that a task has to stop
_STOP_SHARE: Final = 0.5


class Starts:
    """Spark, or a database, may keep a query busy after it was asked to stop. What it does after the next start is not
    wanted any more: it would be of an older position.

    Threads: `begin` and `end` on the task's, `batch` on any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the three below; nothing that blocks is called under it
        self._key = ""
        self._idle = threading.Event()  # no batch is being sent
        self._is_ending = False
        self._idle.set()

    def begin(self) -> str:
        """A new start: its key. Errors: RetriableError while a batch of an earlier one is sent: it has a position."""
        with self._lock:
            if not self._idle.is_set():
                raise RetriableError("The last batch before the query was stopped has not ended yet")
            self._is_ending, self._key = False, uuid.uuid4().hex
            return self._key

    def end(self, control: TaskControl) -> None:
        """No batch begins any more; waits for the one under way, for a part of the time that the task has to stop."""
        with self._lock:
            self._is_ending = True
        timeout_ms = float(control.spec.worker_config.get("task.shutdown.graceful.timeout.ms") or 5000)
        self._idle.wait(timeout_ms / 1000 * _STOP_SHARE)

    @contextmanager
    def batch(self, key: str) -> Iterator[None]:
        """Inside, no other start begins. Errors: ConnectError for a start that is over."""
        with self._lock:
            if self._is_ending or key != self._key:
                raise ConnectError("The query is being stopped")
            self._idle.clear()
        try:
            yield
        finally:
            self._idle.set()

    def is_latest(self, key: str) -> bool:
        return key == self._key
