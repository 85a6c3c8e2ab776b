"""What this worker does when the status topic was read: FailureWatch tells the state machine what is FAILED in the
cluster.

StatusKeeper makes the worker that runs a connector or task rewrite its status when the topic contradicts it.

A record written late, by a worker that was frozen or whose broker was unreachable, overwrites the correct one. Our
readers know which is newer; Java's take the last one, as does anyone who reads the topic directly. It also tries again
to write what a worker stopped while it was out of its group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kconnect.clock import Clock
from kconnect.model import RunState, TaskId
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.decisions.events import StatusesRead
from kconnect.runtime.herder.decisions.facts import HerderFacts, Phase
from kconnect.runtime.herder.decisions.failures import Failure, failure_of
from kconnect.runtime.storage.status_store import StatusReader
from kconnect.runtime.storage.status_topic import StoredStatus, Subject

log = logging.getLogger(__name__)


class FailureWatch:
    """Threads: any; nothing blocks. `post` queues an event of the herder's.

    Statuses of what has never failed, which are most, are not passed on.
    """

    def __init__(self, statuses: StatusReader, post: Callable[[StatusesRead], None]) -> None:
        self._statuses = statuses
        self._post = post
        self._lock = threading.Lock()
        self._failed: set[Subject] = set()  # guarded by _lock: FAILED last, or not RUNNING since

    def note(self, subject: Subject) -> None:
        """The status of a connector or task was read, or deleted."""
        with self._lock:
            status = self._statuses.status(subject)
            if status is not None and status.state is RunState.FAILED:
                self._failed.add(subject)
                self._post(StatusesRead(((subject, _failure(status)),)))
            elif subject in self._failed:
                state = None if status is None else status.state
                if state is None or state is RunState.RUNNING:
                    self._failed.discard(subject)
                self._post(StatusesRead((), ((subject, state),)))

    def look_at_all(self) -> None:
        """After a rebalance, which may change whose statuses are in force."""
        with self._lock:
            found: dict[Subject, Failure] = {}
            for name in sorted(self._statuses.connectors()):
                own = self._statuses.status(name)
                statuses: dict[Subject, StoredStatus] = dict(self._statuses.tasks(name).items())
                if own is not None:
                    statuses[name] = own
                for subject, status in statuses.items():
                    if status.state is RunState.FAILED:
                        found[subject] = _failure(status)
            self._failed |= found.keys()
            self._post(StatusesRead(tuple(found.items()), is_all=True))


def _failure(status: StoredStatus) -> Failure:
    return failure_of(status.worker_id, status.trace, status.at_ms)


# Late records arrive in a burst, when a broker is back; correcting a status within a second is soon enough
_PAUSE_S = 1.0


class StatusKeeper:
    """States: new -> start() -> stop(). Threads: `note` from any, it does not block; checks run on its own.

    `is_ours`: whether the group has assigned a connector or task to this worker, and it still exists. `is_orphan`:
    whether it does not exist and this worker, as the leader, must delete its statuses.
    """

    def __init__(
        self,
        status: ClusterStatus,
        clock: Clock,
        *,
        is_ours: Callable[[Subject], bool],
        is_orphan: Callable[[Subject], bool] = lambda _: False,
    ) -> None:
        self._status = status
        self._is_ours = is_ours
        self._is_orphan = is_orphan
        self._clock = clock
        self._lock = threading.Lock()
        self._noted: set[Subject] = set()  # guarded by _lock
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Idempotent."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def note(self, subject: Subject) -> None:
        """A status was read, or something else makes it worth a check."""
        with self._lock:
            self._noted.add(subject)
        self._wake.set()

    def look(self) -> None:
        """Write what waits since the worker was out of its group, and check the noted statuses; what cannot be decided
        yet is looked at again.
        """
        if not self._status.release_again():
            self._wake.set()
        with self._lock:
            noted, self._noted = self._noted, set()
        for subject in noted:
            if (
                self._status.is_behind(subject)
                or (self._is_ours(subject) and not self._status.repeat(subject))
                or (self._is_orphan(subject) and not self._status.forget(subject))
            ):
                self.note(subject)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._clock.wait(self._stop, _PAUSE_S):
                return
            try:
                self.look()
            except Exception:  # top of the thread
                log.exception("Statuses could not be compared with the topic")


class KnownWork:
    """What a herder knows of the distribution of work. Threads: any; read-only."""

    def __init__(self, facts: HerderFacts, configs: ClusterConfig, status: ClusterStatus) -> None:
        self._facts = facts
        self._configs = configs
        self._status = status

    def is_assigned(self, subject: Subject) -> bool:
        """Whether the group has assigned this worker an existing connector or task."""
        facts = self._facts
        return self._exists(subject) and subject in (facts.tasks if isinstance(subject, TaskId) else facts.connectors)

    def is_orphan(self, subject: Subject) -> bool:
        """Whether a connector or task does not exist; only a leader knows."""
        facts = self._facts
        knows = facts.phase is Phase.STABLE and facts.is_leader and self._status.is_in_touch()
        return knows and not self._exists(subject)

    def _exists(self, subject: Subject) -> bool:
        entry = self._configs.find(subject.connector if isinstance(subject, TaskId) else subject)
        return entry is not None and (isinstance(subject, str) or subject in entry.task_ids)
