"""Commits the offsets of one source task: on a timer on the housekeeping thread, and once at the end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kconnect.errors import ConnectError
from kconnect.logs import log_context
from kconnect.model import ConnectorOffset
from kconnect.pipeline.commit_troubles import CommitTroubles
from kconnect.pipeline.inflight import InFlight, PartitionKey, partition_key
from kconnect.pipeline.ports import TaskControl, TaskPorts, Ticket

log = logging.getLogger(__name__)


class SourceOffsetCommitter:
    """Commits what is committable to the offset store, each offset once; a failed commit is repeated with the next.

    Threads: `tick` on the housekeeping thread, the rest on the task's; the lock keeps them apart, so the task's thread
    waits for a running commit only at its end.
    Source: o.a.k.connect.runtime.SourceTaskOffsetCommitter, WorkerSourceTask.commitOffsets (Kafka 4.3).
    """

    def __init__(self, control: TaskControl, ports: TaskPorts, inflight: InFlight, serve: Callable[[], None]) -> None:
        self._control = control
        self._ports = ports
        self._inflight = inflight
        self._serve = serve
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
        with log_context(*self._log_place):
            self._commit(0, is_last=False)

    def take_committed(self) -> bool:
        """Whether something was committed since the last call; then the task's commit() hook is due."""
        if self._committed.is_set():
            self._committed.clear()
            return True
        return False

    def abandon(self) -> None:
        """No timed commit starts after this, and none uses the producer again."""
        self._is_over = True
        if self._ticket is not None:
            self._ticket.cancel()

    def finish(self, wait_s: float) -> None:
        """The last commit, after waiting up to `wait_s` for a running one. Nothing is committed once cancelled."""
        self.abandon()
        with log_context(*self._log_place):
            if not self._commit(max(wait_s, 0), is_last=True):
                log.warning("The last offsets of %s could not be committed in time", self._control.spec.id)

    def _commit(self, wait_s: float, *, is_last: bool) -> bool:
        if not self._lock.acquire(timeout=wait_s):
            return False
        try:
            if self._is_over and not is_last:
                return True
            self._serve()  # a task that sits in a long poll() does not take its acknowledgements in
            for offset in self._inflight.committable():
                self._uncommitted[partition_key(offset.partition)] = offset
            if not self._uncommitted or self._control.is_cancelled:
                return True
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
