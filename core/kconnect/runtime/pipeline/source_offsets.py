"""Commits the offsets of one source task: on a timer on the housekeeping thread, and once at the end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from kconnect.errors import ConnectError
from kconnect.logs.log_context import log_context
from kconnect.model import ConnectorOffset
from kconnect.runtime.pipeline.commit_troubles import CommitTroubles
from kconnect.runtime.pipeline.inflight import InFlight, PartitionKey, partition_key
from kconnect.runtime.pipeline.offset_updates import OffsetUpdates
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts, Ticket
from kconnect.runtime.storage.offset_topic import check_format

log = logging.getLogger(__name__)


class SourceOffsetCommitter:
    """Commits what is committable to the offset store, each offset once; a failed commit is repeated with the next.

    With `updates` the task is asked first: a tick makes the asking due and wakes poll(), the task's thread asks, and
    the housekeeping thread commits at once. When a whole interval passes without that, as poll() blocks or the task is
    paused, the next tick commits without asking.
    Threads: `tick` on the housekeeping thread, the rest on the task's; the lock keeps them apart, so the task's thread
    waits for a running commit only at its end.
    Source: o.a.k.connect.runtime.SourceTaskOffsetCommitter, WorkerSourceTask.commitOffsets (Kafka 4.3); KIP-910.
    """

    def __init__(
        self,
        control: TaskControl,
        ports: TaskPorts,
        inflight: InFlight,
        serve: Callable[[], None],
        updates: OffsetUpdates | None = None,
    ) -> None:
        self._control = control
        self._ports = ports
        self._inflight = inflight
        self._serve = serve
        self._updates = updates
        self._is_asking_due = False
        self._soon: Ticket | None = None
        self._lock = threading.Lock()  # guards _uncommitted, and that one commit runs at a time
        self._uncommitted: dict[PartitionKey, ConnectorOffset] = {}
        self._committed = threading.Event()
        self._ticket: Ticket | None = None
        self._is_over = False
        self._troubles = CommitTroubles(control, log)
        self._log_place = (control.spec.id.connector, control.spec.id.task, "offsets")

    def begin(self, interval_s: float) -> None:
        """Commit every `interval_s` from now on."""
        self._ticket = self._ports.housekeeping.every(interval_s, self.tick, f"commit of {self._control.spec.id}")

    def tick(self) -> None:
        """One commit, if there is something to commit. Never raises: a failure is logged and retried next time."""
        if self._updates is not None and not self._is_asking_due:
            self._is_asking_due = True
            self._control.wake()
            return
        self._is_asking_due = False
        with log_context(*self._log_place):
            self._commit(0, is_last=False)

    def ask_if_due(self) -> None:
        """Ask the task what to commit if a tick wants that, and have it committed on the housekeeping thread.

        Call it only while the producer has everything that was polled.
        """
        if self._is_asking_due and self._take_updated(0):
            self._is_asking_due = False
            self._soon = self._ports.housekeeping.every(0, self._commit_taken, f"commit of {self._control.spec.id}")

    def ask_at_end(self, wait_s: float) -> None:
        """Ask the task a last time, for the commit of `finish`; on the same condition as `ask_if_due`."""
        if not self._control.is_cancelled:
            self._take_updated(wait_s)

    def take_committed(self) -> bool:
        """Whether a commit was done since the last call; then the task's commit() hook is due.

        That there was nothing to commit does not matter, as in Java: some sources acknowledge in it what they dropped.
        """
        if self._committed.is_set():
            self._committed.clear()
            return True
        return False

    def abandon(self) -> None:
        """No timed commit starts after this, and none uses the producer again."""
        self._is_over = True
        for ticket in (self._ticket, self._soon):
            if ticket is not None:
                ticket.cancel()

    def finish(self, wait_s: float) -> None:
        """The last commit, after waiting up to `wait_s` for a running one. Nothing is committed once cancelled."""
        self.abandon()
        with log_context(*self._log_place):
            if not self._commit(max(wait_s, 0), is_last=True):
                log.warning("The last offsets of %s could not be committed in time", self._control.spec.id)

    def _take_updated(self, wait_s: float) -> bool:
        """Have the task's answer await its commit. False when a commit was still running after `wait_s`."""
        if self._updates is None or not self._lock.acquire(timeout=max(wait_s, 0)):
            return False
        try:
            given, busy = self._inflight.progress()
            self._await_commit(given)
            self._await_commit(self._updates.of(list(self._uncommitted.values()), busy))
            return True
        finally:
            self._lock.release()

    def _commit_taken(self) -> None:
        """What the task was asked about, and nothing that was acknowledged since."""
        if self._soon is not None:
            self._soon.cancel()
        with log_context(*self._log_place):
            self._commit(0, is_last=False, takes=False)

    def _await_commit(self, offsets: Iterable[ConnectorOffset]) -> None:
        for offset in offsets:
            self._uncommitted[partition_key(offset.partition)] = offset

    def _commit(self, wait_s: float, *, is_last: bool, takes: bool = True) -> bool:
        if not self._lock.acquire(timeout=wait_s):
            return False
        try:
            if self._is_over and not is_last:
                return True
            if takes:
                self._serve()  # a task that sits in a long poll() does not take its acknowledgements in
                self._await_commit(self._inflight.committable())
            if self._control.is_cancelled:
                return True
            if not self._uncommitted:
                self._committed.set()
                return True
            # Here, as what Java cannot store is a plain text once it has crossed the link
            for offset in self._uncommitted.values():
                check_format(offset.partition)
                check_format(offset.offset)
            began_s = time.monotonic()
            self._control.health.commit_began(began_s)
            self._ports.offsets.commit(self._control.spec.id.connector, list(self._uncommitted.values()))
            self._uncommitted.clear()
            self._troubles.over()
            self._control.counters.commits += 1
            self._control.counters.commit_ms.note((time.monotonic() - began_s) * 1000)
            self._committed.set()
            return True
        except ConnectError as error:
            message = "Offsets of %s could not be committed; the next commit includes them: %s"
            self._troubles.failed(logging.ERROR, message, str(self._control.spec.id), error)
            return True
        finally:
            self._lock.release()
