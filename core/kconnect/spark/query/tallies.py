"""Errors and dead letters of a query, counted in Spark's processes and added up in the worker's.

A process that reads or sends records says what has failed in it over the worker's control link, in a connection of its
own: Spark has no way back from the readers of a Python data source. Where nothing fails no connection is made.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from typing import Final

from kconnect.errors import LinkError
from kconnect.model import TaskId
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.spark.link import connect
from kconnect.spark.messages import TaskMetrics
from kconnect.spark.slot_spec import TallyAddress

log = logging.getLogger(__name__)

# A batch waits this long at most for a worker that does not answer, and goes on uncounted then
_CONNECT_S: Final = 5.0
_SUMMED: Final = ("failures", "errors", "skipped", "retries", "errors_logged", "dead_letters", "dead_letter_failures")
_LATEST: Final = "last_error_ms"


class Tallies:
    """What the processes of each query's run have counted, in the worker. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the one below
        self._sums: dict[tuple[TaskId, int], TaskCounters] = {}

    def add(self, message: TaskMetrics) -> None:
        """A process has counted so much more."""
        with self._lock:
            for task_id, run, more in message.tasks:
                total = self._sums.setdefault((task_id, run), TaskCounters())
                for name in _SUMMED:
                    setattr(total, name, getattr(total, name) + getattr(more, name))
                total.last_error_ms = max(total.last_error_ms, more.last_error_ms)

    def copy_to(self, task_id: TaskId, run: int, counters: TaskCounters) -> None:
        """Complete the counters of a query's task with what its processes have counted."""
        with self._lock:
            total = self._sums.get((task_id, run))
        if total is not None:
            for name in (*_SUMMED, _LATEST):
                setattr(counters, name, getattr(total, name))

    def forget(self, ids: Collection[TaskId]) -> None:
        """These tasks have ended."""
        with self._lock:
            self._sums = {key: total for key, total in self._sums.items() if key[0] not in ids}


class TallySender:
    """In a process of Spark: says what has been counted since the last time. Threads: one."""

    def __init__(self, control: TaskControl, to: TallyAddress | None) -> None:
        """`to`: None where nobody counts."""
        self._control = control
        self._to = to
        self._said = TaskCounters()

    def send(self) -> None:
        """Say what is new, if anything. A worker that cannot be reached is logged: the records are not at fault."""
        counted, spec = self._control.counted(), self._control.spec
        more = since(self._said, counted)
        if self._to is None or more == TaskCounters():
            return
        try:
            link = connect(self._to.host, self._to.port, self._to.token, _CONNECT_S)
        except LinkError as error:
            log.warning("Errors in records of %s are not in its metrics: %s", spec.id, error)
            return
        try:
            link.send(TaskMetrics(((spec.id, spec.run, more),)))
            link.await_end(_CONNECT_S)
        except (LinkError, OSError) as error:
            log.warning("Errors in records of %s may not be in its metrics: %s", spec.id, error)
        finally:
            link.close()
        self._said = counted


def since(before: TaskCounters, now: TaskCounters) -> TaskCounters:
    """What was counted in between; the time of the last error only if there was one."""
    more = TaskCounters(**{name: getattr(now, name) - getattr(before, name) for name in _SUMMED})
    if now.last_error_ms != before.last_error_ms:
        more.last_error_ms = now.last_error_ms
    return more
