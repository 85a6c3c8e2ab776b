"""Errors and dead letters of a query, counted in Spark's processes and added up in the worker's.

A process that reads or sends records says what has failed in it over the worker's control link, in a connection of its
own: Spark has no way back from the readers of a Python data source. Where nothing fails no connection is made.

Spark may read a range of records twice: another range of the batch has ended it, or the write of a batch has two jobs,
as Delta's MERGE has. Which records of it were reported the worker knows, so that none is reported again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from kconnect.errors import LinkError
from kconnect.model import TaskId
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.spark.link import connect
from kconnect.spark.messages import FailedRecords, TaskMetrics
from kconnect.spark.slot_spec import TallyAddress

log = logging.getLogger(__name__)

# A batch waits this long at most for a worker that does not answer, and goes on uncounted then
_CONNECT_S: Final = 5.0
_SUMMED: Final = (
    "failures",
    "errors",
    "skipped",
    "retries",
    "errors_logged",
    "dead_letters",
    "dead_letter_failures",
    "records_discarded",
    "values_discarded",
)
_LATEST: Final = "last_error_ms"


class Tallies:
    """What the processes of each query's run have counted, in the worker. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the two below
        self._sums: dict[tuple[TaskId, int], TaskCounters] = {}
        # By task, run, topic and partition: the range that was read last, and the records of it that were reported
        self._reported: dict[tuple[TaskId, int, str, int], tuple[tuple[int, int], set[int]]] = {}

    def add(self, message: TaskMetrics) -> None:
        """A process has counted so much more."""
        with self._lock:
            for task_id, run, more in message.tasks:
                total = self._sums.setdefault((task_id, run), TaskCounters())
                for name in _SUMMED:
                    setattr(total, name, getattr(total, name) + getattr(more, name))
                total.last_error_ms = max(total.last_error_ms, more.last_error_ms)

    def reported(self, message: FailedRecords) -> FailedRecords | None:
        """Keep what was reported, or answer which of the records were."""
        at, span = (message.id, message.run, message.topic, message.partition), (message.begin, message.end)
        with self._lock:
            kept, known = self._reported.get(at, (span, set()))
            if kept != span:  # the batch before this one is done
                known = set()
            if message.are_reported:
                self._reported[at] = (span, known.union(message.offsets))
                return None
            return replace(message, offsets=tuple(offset for offset in message.offsets if offset in known))

    def forget_reported(self, task_id: TaskId) -> None:
        """Records come again that were reported, as offsets were altered."""
        with self._lock:
            self._reported = {key: known for key, known in self._reported.items() if key[0] != task_id}

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
            self._reported = {key: known for key, known in self._reported.items() if key[0] not in ids}


class TallySender:
    """In a process of Spark: says what has been counted since the last time, and what is reported. Threads: one.

    A worker that cannot be reached is logged: the records are not at fault.
    """

    def __init__(self, control: TaskControl, to: TallyAddress | None) -> None:
        """`to`: None where nobody counts."""
        self._control = control
        self._to = to
        self._said = TaskCounters()

    def send(self) -> None:
        """Say what is new, if anything."""
        counted, spec = self._control.counter_snapshot(), self._control.spec
        more = since(self._said, counted)
        if more == TaskCounters():
            return
        self._exchange(TaskMetrics(((spec.id, spec.run, more),)), "Errors in records are not in the metrics")
        self._said = counted

    def reported(self, failed: FailedRecords) -> Collection[int]:
        """The offsets of these records that were reported when the range was read before."""
        answer = self._exchange(failed, "Records may be reported twice")
        return () if answer is None else answer.offsets

    def are_reported(self, failed: FailedRecords) -> None:
        """All of these are reported by now."""
        self._exchange(replace(failed, are_reported=True), "Records may be reported twice")

    def _exchange(self, message: TaskMetrics | FailedRecords, otherwise: str) -> FailedRecords | None:
        """The answer, where there is one. `otherwise`: what it means if the worker does not get the message."""
        if self._to is None:
            return None
        name = self._control.spec.id
        try:
            link = connect(self._to.host, self._to.port, self._to.token, _CONNECT_S)
        except LinkError as error:
            log.warning("%s, of %s: %s", otherwise, name, error)
            return None
        try:
            link.send(message)
            if isinstance(message, FailedRecords) and not message.are_reported:
                answer = link.receive(_CONNECT_S)
                return answer if isinstance(answer, FailedRecords) else None
            link.await_end(_CONNECT_S)
        except (LinkError, OSError) as error:
            log.warning("%s, of %s: %s", otherwise, name, error)
        finally:
            link.close()
        return None


def since(before: TaskCounters, now: TaskCounters) -> TaskCounters:
    """What was counted in between; the time of the last error only if there was one."""
    more = TaskCounters(**{name: getattr(now, name) - getattr(before, name) for name in _SUMMED})
    if now.last_error_ms != before.last_error_ms:
        more.last_error_ms = now.last_error_ms
    return more
