"""Statuses of a cluster: this worker's are written to the status topic, and those of all workers are read from it.

Source: AbstractHerder#onStartup, #onFailure, #onShutdown, #connectorStatus (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from kconnect.errors import ConnectError, NotFoundError
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskId, TaskState
from kconnect.runtime.metrics import Startups
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_store import StatusStore
from kconnect.runtime.storage.status_topic import StoredStatus, Subject

log = logging.getLogger(__name__)

_AT_WORK = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.RESTARTING})


@dataclass(frozen=True, slots=True)
class _Run:
    run: int
    version: str | None
    has_run: bool = False


# A worker that repeats a status this many times in one generation competes with another that keeps contradicting it:
# both say so, before one of them is the first to give up
_REPORTED_AT = 3
_MOST_REPEATS = 5
# A second each, while in touch with the group: longer than a session, within which a rebalance is reported
_LOOKS_UNTIL_BELIEVED = 15


class ClusterStatus:
    """Threads: any; no write waits.

    Each decision is written before the next is made, so that when two threads report on one connector or task, the
    later report is also the last in the topic. Nothing is written while the group is unreachable: the work may already
    run elsewhere. Where the topic contradicts what this worker runs, its status is written again, see `repeat`. The
    topic's view of this worker is only as new as the last successful write: this worker's own latest status counts, and
    work it has not run since it started is UNASSIGNED, and so is that of workers that left, while the group waits for
    them. Differs: Java shows the topic's status.
    Differs: a task whose slot was lost shows as RESTARTING, as it restarts automatically; Java has no slots, and would
    ignore an UNASSIGNED of the same generation.
    """

    def __init__(self, store: StatusStore) -> None:
        self.worker_id = ""
        self.generation = -1
        self.is_in_touch: Callable[[], bool] = lambda: True
        """Whether the group has answered lately, so that work of this worker is its own for sure."""
        self.look_again: Callable[[Subject], None] = lambda _: None
        """Called with what `repeat`, or `release_again`, should check soon; must not block."""
        self.is_held: Callable[[Subject], bool] = lambda _: False
        """Whether nobody runs it because the group waits for its worker to come back."""
        self._store = store
        self._lock = threading.RLock()  # covers both decision and put; a put only queues and does not wait
        self._runs: dict[TaskId, _Run] = {}  # guarded by _lock, as all below: tasks of this worker
        self._versions: dict[str, str] = {}  # connectors of this worker
        self._said: dict[Subject, StoredStatus] = {}  # the correct status of everything this worker runs
        self._words: dict[Subject, StoredStatus] = {}  # this worker's last word of anything, written or not
        self._is_out = False  # the group is out of reach, or was lost
        self._withheld: dict[Subject, StoredStatus] = {}  # stopped in the meantime
        self._release_s: float | None = None  # how long a release may read, while the last one could not
        self._unwritten: set[Subject] = set()  # runs here, and reported a state in the meantime
        self._repeats: Counter[Subject] = Counter()  # in this generation
        self._behind: Counter[Subject] = Counter()  # looks at which a newer generation was in the topic
        self.connector_starts = Startups()
        self.task_starts = Startups()

    # -- what this worker sees ----------------------------------------------------------------------------------------

    def expect_connector(self, name: str) -> None:
        """A connector is starting: the next RUNNING or FAILED is the result."""
        self.connector_starts.began(name)

    def set_connector(self, name: str, state: RunState, trace: str | None = None, version: str | None = None) -> None:
        """A connector reached a state; without `version` the known version is kept."""
        with self._lock:
            if version:
                self._versions[name] = version
            self._put(name, state, trace, self._versions.get(name), ends=state is RunState.UNASSIGNED)
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
        has_ended = state is RunState.STOPPED
        with self._lock:
            known = self._runs.get(task_id)
            if known is None or known.run != run:
                return False
            if state in (RunState.RUNNING, RunState.PAUSED):
                self._runs[task_id] = replace(known, has_run=True)
            elif has_ended:
                del self._runs[task_id]
            is_lost = state is RunState.UNASSIGNED and known.has_run
            shown = RunState.UNASSIGNED if has_ended else RunState.RESTARTING if is_lost else state
            self._put(task_id, shown, trace, known.version, ends=has_ended)
        if has_ended:
            self.task_starts.forget((task_id, run))
        else:
            self.task_starts.reached((task_id, run), state)
        return True

    def fail_task(self, task_id: TaskId, trace: str) -> None:
        """A task could not be started at all."""
        self._put(task_id, RunState.FAILED, trace, None)

    def set_restarting(self, subject: Subject) -> None:
        with self._lock:
            run = self._runs.get(subject) if isinstance(subject, TaskId) else None
            version = self._versions.get(subject) if isinstance(subject, str) else run.version if run else None
            self._put(subject, RunState.RESTARTING, None, version)

    def end_runs(self, runs: Mapping[TaskId, int | None]) -> None:
        """These runs, as of `runs_of`, were stopped or abandoned: what they report from now on is ignored.

        A task that has begun another run since keeps it.
        """
        with self._lock:
            for task_id, ended in runs.items():
                run = self._runs.get(task_id)
                if (None if run is None else run.run) != ended:
                    continue
                if run is not None:
                    del self._runs[task_id]
                    self._put(task_id, RunState.UNASSIGNED, None, run.version, ends=True)
                self._said.pop(task_id, None)

    def running(self) -> tuple[TaskId, ...]:
        """Tasks that were started here and have not ended."""
        with self._lock:
            return tuple(self._runs)

    def runs_of(self, ids: Collection[TaskId]) -> dict[TaskId, int | None]:
        """The present run of each of these tasks; None where it has none here."""
        with self._lock:
            known = {task_id: self._runs.get(task_id) for task_id in ids}
        return {task_id: None if run is None else run.run for task_id, run in known.items()}

    def is_run(self, task_id: TaskId, run: int) -> bool:
        """Whether this is the present run of a task that was started here."""
        with self._lock:
            known = self._runs.get(task_id)
            return known is not None and known.run == run

    def runs(self, connector: str) -> bool:
        """Whether a task of the connector was started here and has not ended."""
        with self._lock:
            return any(task_id.connector == connector for task_id in self._runs)

    # -- in the group and out of it -----------------------------------------------------------------------------------

    def withhold(self) -> None:
        """The group is unreachable: work reported from now on may already run elsewhere, so nothing is written yet.

        Otherwise a worker that was frozen would overwrite newer statuses of others, which it has not read.
        """
        with self._lock:
            self._is_out, self._release_s = True, None

    def take_generation(self, generation: int) -> None:
        """The worker is in the group, in this generation. Statuses of work stopped while it was out wait for
        `release`.
        """
        with self._lock:
            self.generation, self._is_out = generation, False
            self._store.take_generation(generation)
            self._repeats.clear()
            self._behind.clear()
            for subject in self._said:
                self.look_again(subject)

    def release(self, timeout_s: float) -> None:
        """Back in the group: write the withheld statuses, unless others have taken over the work; with the old
        generation. If the group is lost again meanwhile, they wait for the next generation; if the topic cannot be
        read, for `release_again`.

        Differs: Java writes it at once.
        """
        with self._lock:
            if not self._withheld:
                self._release_s = None
            if not self._withheld or not self._may_write():
                return
        try:
            self._store.refresh(timeout_s)
        except ConnectError as err:
            self._put_off(timeout_s, err)
            return
        with self._lock:
            if not self._may_write():
                return
            withheld, self._withheld, self._release_s = self._withheld, {}, None
            for subject, status in withheld.items():
                # Generations of two lives of the group do not compare: of a former one, the last record counts
                is_former = status.generation > self.generation
                known = self._store.last(subject) if is_former else self._store.status(subject)
                if subject not in self._said and known is not None and known.worker_id == self.worker_id:
                    self._store.put_safe(subject, status)

    def release_again(self) -> bool:
        """Repeat a `release` that could not read who runs what by now. Returns False to be called again later."""
        with self._lock:
            timeout_s = self._release_s
        if timeout_s is not None:
            self.release(timeout_s)
        with self._lock:
            return self._release_s is None

    def _put_off(self, timeout_s: float, error: ConnectError) -> None:
        with self._lock:
            is_first, self._release_s = self._release_s is None, timeout_s
            subjects = list(self._withheld)
        if is_first:
            log.warning("Statuses of what was stopped out of the group are not written yet: %s", error)
        for subject in subjects:
            self.look_again(subject)

    def is_behind(self, subject: Subject) -> bool:
        """Whether another worker has written in a newer generation of the group than this worker knows; call it often.

        It will learn of it soon. If it does not although the group keeps answering, the group is in the generation that
        this worker knows, and the record is from an earlier incarnation of the group.
        """
        with self._lock:
            if not self._store.is_beyond(subject, self.generation):
                return False
            if not self._may_write():
                self._behind.clear()
                return True
            self._behind[subject] += 1
            if self._behind[subject] <= _LOOKS_UNTIL_BELIEVED:
                return True
            self._behind.clear()
            self._store.take_generation(self.generation)
            return False

    def repeat(self, subject: Subject) -> bool:
        """Rewrite the status of this worker's work if the topic contradicts it: a late record may have overwritten it.

        Only if the worker is in touch with its group and not `is_behind`. Returns False to be called again later: a
        write is in progress, or the group is unreachable.
        """
        with self._lock:
            said = self._said.get(subject)
            last, in_force = self._store.last(subject), self._store.status(subject)
            if said is None or (_says_same(last, said) and _says_same(in_force, said)):
                self._unwritten.discard(subject)
                return True
            if self._store.is_writing(subject) or not self._may_write():
                return False
            now = replace(said, generation=self.generation)
            if subject in self._unwritten:
                self._unwritten.discard(subject)
            elif not self._may_repeat(subject, said, in_force if _says_same(last, said) else last):
                return True
            self._said[subject] = self._words[subject] = now
            self._store.put(subject, now)
        return False

    def _may_write(self) -> bool:
        """Whether the work is this worker's own for sure; out of its group it may already run elsewhere."""
        return not self._is_out and self.is_in_touch()

    def _may_repeat(self, subject: Subject, said: StoredStatus, last: StoredStatus | None) -> bool:
        """Call with the lock held: logs why, and counts."""
        self._repeats[subject] += 1
        count = self._repeats[subject]
        if count == _REPORTED_AT:
            log.error("%s", _contradicted(subject, said, last))
        elif count <= _MOST_REPEATS:
            log.warning("%s; this worker runs it and writes its status again", _covered(subject, said, last))
        elif count == _MOST_REPEATS + 1:
            log.warning("%s; this worker leaves it so until the next rebalance", _covered(subject, said, last))
        return count <= _MOST_REPEATS

    def forget(self, subject: Subject) -> bool:
        """Delete the status of a connector, with those of its tasks, or of a task, that does not exist: it was written
        late. Only the leader does. Returns False to be called again later: a write is in progress.
        """
        with self._lock:
            if self._store.last(subject) is None:
                return True
            # Whoever has read that a connector's status is deleted knows its tasks' no more
            subjects: list[Subject] = (
                [subject] if isinstance(subject, TaskId) else [*self._store.tasks(subject), subject]
            )
            if any(self._store.is_writing(each) for each in subjects):
                return False
            for each in subjects:
                log.info("Deleting the status of %s again: it does not exist", each)
                self._store.put(each, StoredStatus(RunState.DESTROYED, self.worker_id, self.generation))
        return True

    def _put(
        self, subject: Subject, state: RunState, trace: str | None, version: str | None, *, ends: bool = False
    ) -> None:
        """`ends`: it is not this worker's any more."""
        with self._lock:
            status = self._words[subject] = StoredStatus(state, self.worker_id, self.generation, trace, version)
            self._withheld.pop(subject, None)
            if ends:
                self._said.pop(subject, None)
            else:
                self._said[subject] = status
            if not self._may_write():
                if ends:
                    self._withheld[subject] = status
                else:
                    self._unwritten.add(subject)
                    self.look_again(subject)
            elif state in (RunState.UNASSIGNED, RunState.FAILED):  # may be late: it runs elsewhere by now
                self._store.put_safe(subject, status)
            else:
                self._store.put(subject, status)

    # -- what all workers saw -----------------------------------------------------------------------------------------

    def find_connector(self, name: str, kind: ConnectorType) -> ConnectorStatus | None:
        """A connector with its tasks in order; None if the connector does not exist."""
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
        """Connectors that this worker gave up, with or without tasks, while it could not write that."""
        with self._lock:
            return {subject.connector if isinstance(subject, TaskId) else subject for subject in self._withheld}

    def _as_had(self, subject: Subject, known: StoredStatus) -> StoredStatus:
        """The topic's status, unless it is about this worker, which knows better, or one that left the group."""
        if known.worker_id != self.worker_id:
            return (
                replace(known, state=RunState.UNASSIGNED)
                if known.state in _AT_WORK and self.is_held(subject)
                else known
            )
        with self._lock:
            own = self._words.get(subject)
        if own is None:
            is_left = known.state in _AT_WORK  # by the process that was this worker before
            return replace(known, state=RunState.UNASSIGNED) if is_left else known
        return own if own.generation >= known.generation else known

    def clean_up(self, snapshot: ClusterSnapshot) -> None:
        """Forget connectors and tasks that are gone, with the topics they used. Only the leader does this.

        Source: updateDeletedConnectorStatus, updateDeletedTaskStatus, resetActiveTopics.
        """
        for name in sorted(self._store.named()):
            gone = StoredStatus(RunState.DESTROYED, self.worker_id, self.generation)
            tasks = sorted({*self._store.tasks(name), *self._store.left(name)}, key=lambda task_id: task_id.task)
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
            for subject in list(self._words):
                name = subject.connector if isinstance(subject, TaskId) else subject
                if not snapshot.contains(name):
                    del self._words[subject]


def _task_state(task_id: TaskId, status: StoredStatus) -> TaskState:
    return TaskState(task_id.task, status.state, status.worker_id, status.trace, status.version)


def _says_same(one: StoredStatus | None, other: StoredStatus) -> bool:
    """Ignores the generation: a status from an earlier one is still true."""
    return one is not None and (one.state, one.worker_id, one.trace) == (other.state, other.worker_id, other.trace)


def _covered(subject: Subject, said: StoredStatus, last: StoredStatus | None) -> str:
    what = "Task" if isinstance(subject, TaskId) else "Connector"
    if last is None:
        return f"The status {said.state} of {what.lower()} {subject} was deleted"
    return (
        f"{what} {subject} is {said.state} here, but the status topic says {last.state} of worker "
        f"{last.worker_id} in generation {last.generation}"
    )


def _contradicted(subject: Subject, said: StoredStatus, last: StoredStatus | None) -> str:
    message = f"{_covered(subject, said, last)}, though this worker has written its own {_REPORTED_AT} times"
    if last is not None and last.worker_id == said.worker_id:
        return f"{message}: give each worker its own rest.advertised.host.name and rest.advertised.port"
    return f"{message}: workers of another group.id may use the same status.storage.topic, or it is edited by hand"
