"""Tells the state machine what is FAILED in the cluster, and what no longer is, as the status topic is read."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kconnect.model import RunState
from kconnect.runtime.herder.decisions.events import StatusesRead
from kconnect.runtime.herder.decisions.failures import Failure, failure_of
from kconnect.runtime.storage.status_store import StatusReader
from kconnect.runtime.storage.status_topic import StoredStatus, Subject


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
