"""Statuses of a cluster: what this worker sees goes to the status topic, what all of them saw is read from it.

Source: AbstractHerder#onStartup, #onFailure, #onShutdown, #connectorStatus (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass, replace

from kconnect.errors import ConnectError, NotFoundError
from kconnect.metrics import Startups
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskId, TaskState
from kconnect.storage.snapshot import ClusterSnapshot
from kconnect.storage.status_store import StatusStore
from kconnect.storage.status_topic import StoredStatus, Subject

__all__ = ["ClusterStatus"]

log = logging.getLogger(__name__)

_AT_WORK = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.RESTARTING})


@dataclass(frozen=True, slots=True)
class _Run:
    run: int
    version: str | None
    has_run: bool = False


class ClusterStatus:
    """Threads: any; no write waits.

    What the topic says of this worker is only as new as what could be written: this worker's own last word counts, and
    what it has not had since it started is UNASSIGNED. Differs: Java shows what the topic says.
    Differs: a task that has run and whose slot is gone shows as RESTARTING, as it is started again by itself; Java has
    no slots, and an UNASSIGNED of the same generation would not count.
    """

    def __init__(self, store: StatusStore) -> None:
        self.worker_id = ""
        self.generation = -1
        self._store = store
        self._lock = threading.Lock()
        self._runs: dict[TaskId, _Run] = {}  # guarded by _lock: tasks of this worker
        self._versions: dict[str, str] = {}  # guarded by _lock: connectors of this worker
        self._said: dict[Subject, StoredStatus] = {}  # guarded by _lock: this worker's last word, written or not
        self._withheld: dict[Subject, StoredStatus] | None = None  # guarded by _lock; None while in the group
        self.connector_starts = Startups()
        self.task_starts = Startups()

    # -- what this worker sees ----------------------------------------------------------------------------------------

    def expect_connector(self, name: str) -> None:
        """A connector is started: the first RUNNING or FAILED from now on says how that ended."""
        self.connector_starts.began(name)

    def set_connector(self, name: str, state: RunState, trace: str | None = None, version: str | None = None) -> None:
        """A connector was seen in a state; without `version` the known one stays."""
        with self._lock:
            if version:
                self._versions[name] = version
            known = self._versions.get(name)
        self._put(name, state, trace, known)
        self.connector_starts.reached(name, state)

    def expect_task(
        self, task_id: TaskId, run: int, version: str | None, state: RunState = RunState.UNASSIGNED
    ) -> None:
        """A run of a task begins; nothing is written before it is seen, unless it is RESTARTING."""
        with self._lock:
            self._runs[task_id] = _Run(run, version)
        if state is RunState.RESTARTING:
            self._put(task_id, state, None, version)
        self.task_starts.began((task_id, run))

    def report_task(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> bool:
        """A slot saw a task in a state. False: it is of an earlier run, or not this worker's any more."""
        with self._lock:
            known = self._runs.get(task_id)
            if known is None or known.run != run:
                return False
            if state in (RunState.RUNNING, RunState.PAUSED):
                self._runs[task_id] = replace(known, has_run=True)
            elif state is RunState.STOPPED:
                del self._runs[task_id]
        if state is RunState.STOPPED:
            shown = RunState.UNASSIGNED
            self.task_starts.forget((task_id, run))
        else:
            shown = RunState.RESTARTING if state is RunState.UNASSIGNED and known.has_run else state
            self.task_starts.reached((task_id, run), state)
        self._put(task_id, shown, trace, known.version)
        return True

    def fail_task(self, task_id: TaskId, trace: str) -> None:
        """A task could not be started at all."""
        self._put(task_id, RunState.FAILED, trace, None)

    def set_restarting(self, subject: Subject) -> None:
        with self._lock:
            run = self._runs.get(subject) if isinstance(subject, TaskId) else None
            version = self._versions.get(subject) if isinstance(subject, str) else run.version if run else None
        self._put(subject, RunState.RESTARTING, None, version)

    def end_runs(self, ids: Collection[TaskId]) -> None:
        """These tasks were stopped or left behind: what they report from now on does not count."""
        with self._lock:
            left = {task_id: self._runs.pop(task_id) for task_id in ids if task_id in self._runs}
        for task_id, run in left.items():
            self._put(task_id, RunState.UNASSIGNED, None, run.version)

    def running(self) -> tuple[TaskId, ...]:
        """Tasks that were started here and have not ended."""
        with self._lock:
            return tuple(self._runs)

    def is_run(self, task_id: TaskId, run: int) -> bool:
        """Whether this is the present run of a task that was started here."""
        with self._lock:
            known = self._runs.get(task_id)
            return known is not None and known.run == run

    def runs(self, connector: str) -> bool:
        """Whether a task of the connector was started here and has not ended."""
        with self._lock:
            return any(task_id.connector == connector for task_id in self._runs)

    def withhold(self) -> None:
        """The group is out of reach: what is UNASSIGNED from now on may run elsewhere already, and is not written yet.

        A worker that was frozen would else cover what others have written meanwhile, as it has not read it.
        """
        with self._lock:
            if self._withheld is None:
                self._withheld = {}

    def release(self, timeout_s: float) -> None:
        """In the group again: write what was withheld, unless others have taken it over; with the old generation.

        Differs: Java writes it at once.
        """
        with self._lock:
            has_some = bool(self._withheld)
            if not has_some:
                self._withheld = None
        if not has_some:
            return
        try:
            self._store.refresh(timeout_s)
        except ConnectError as err:
            log.warning("Statuses of what was stopped out of the group are not written: %s", err)
            with self._lock:
                self._withheld = None
            return
        with self._lock:
            withheld, self._withheld = self._withheld or {}, None
        for subject, status in withheld.items():
            known = self._store.status(subject)
            if known is not None and known.worker_id == self.worker_id and known.generation <= status.generation:
                self._store.put_safe(subject, status)

    def _put(self, subject: Subject, state: RunState, trace: str | None, version: str | None) -> None:
        status = StoredStatus(state, self.worker_id, self.generation, trace, version)
        with self._lock:
            self._said[subject] = status
            if self._withheld is not None:
                if state is RunState.UNASSIGNED:
                    self._withheld[subject] = status
                    return
                self._withheld.pop(subject, None)
        if state in (RunState.UNASSIGNED, RunState.FAILED):  # may come late, when another worker runs it already
            self._store.put_safe(subject, status)
        else:
            self._store.put(subject, status)

    # -- what all of them saw -----------------------------------------------------------------------------------------

    def find_connector(self, name: str, kind: ConnectorType) -> ConnectorStatus | None:
        """A connector with its tasks in order; None when there is no such connector."""
        known = self._store.status(name)
        if known is None:
            return None
        known = self._as_had(name, known)
        tasks = tuple(
            _task_state(task_id, self._as_had(task_id, status)) for task_id, status in self._store.tasks(name).items()
        )
        return ConnectorStatus(
            name, ConnectorState(known.state, known.worker_id, known.trace, known.version), tasks, kind
        )

    def task(self, task_id: TaskId) -> TaskState:
        """Errors: NotFoundError."""
        known = self._store.status(task_id)
        if known is None:
            raise NotFoundError(f"No status found for task {task_id}")
        return _task_state(task_id, self._as_had(task_id, known))

    def left_here(self) -> set[str]:
        """Connectors that this worker has given up, with tasks or without, while nobody could be told."""
        with self._lock:
            left = self._withheld or ()
            return {subject.connector if isinstance(subject, TaskId) else subject for subject in left}

    def _as_had(self, subject: Subject, known: StoredStatus) -> StoredStatus:
        """What the topic says, unless it says it of this worker, which knows better."""
        if known.worker_id != self.worker_id:
            return known
        with self._lock:
            own = self._said.get(subject)
        if own is None:
            is_left = known.state in _AT_WORK  # by the process that was this worker before
            return replace(known, state=RunState.UNASSIGNED) if is_left else known
        return own if own.generation >= known.generation else known

    def clean_up(self, snapshot: ClusterSnapshot) -> None:
        """Forget connectors and tasks that are gone, with the topics they used. Only the leader does this.

        Source: updateDeletedConnectorStatus, updateDeletedTaskStatus, resetActiveTopics.
        """
        for name in sorted(self._store.connectors()):
            gone = StoredStatus(RunState.DESTROYED, self.worker_id, self.generation)
            tasks = self._store.tasks(name)
            if snapshot.contains(name):
                count = snapshot.task_count(name)
                for task_id in tasks:
                    if task_id.task >= count:
                        self._store.put(task_id, gone)
                continue
            for task_id in tasks:
                self._store.put(task_id, gone)
            for topic in self._store.topics(name):
                self._store.delete_topic(name, topic)
            self._store.put(name, gone)
        self._forget(snapshot)

    def _forget(self, snapshot: ClusterSnapshot) -> None:
        with self._lock:
            for subject in list(self._said):
                name = subject.connector if isinstance(subject, TaskId) else subject
                if not snapshot.contains(name):
                    del self._said[subject]


def _task_state(task_id: TaskId, status: StoredStatus) -> TaskState:
    return TaskState(task_id.task, status.state, status.worker_id, status.trace, status.version)
