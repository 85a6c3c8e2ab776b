"""Statuses of a cluster: what this worker sees goes to the status topic, what all of them saw is read from it.

Source: AbstractHerder#onStartup, #onFailure, #onShutdown, #connectorStatus (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from kconnect.errors import ConnectError, NotFoundError
from kconnect.metrics import Startups
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskId, TaskState
from kconnect.storage.snapshot import ClusterSnapshot
from kconnect.storage.status_store import StatusStore
from kconnect.storage.status_topic import StoredStatus, Subject

log = logging.getLogger(__name__)

_AT_WORK = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.RESTARTING})


@dataclass(frozen=True, slots=True)
class _Run:
    run: int
    version: str | None
    has_run: bool = False


# A worker that repeats a status this many times in one generation competes with another that keeps contradicting it
_MOST_REPEATS = 5
# A second each, and in touch with the group all the while: longer than a session, in which a rebalance is told
_LOOKS_UNTIL_BELIEVED = 15


class ClusterStatus:
    """Threads: any; no write waits.

    What is decided here is written before anything else is decided, so that of two threads that see one connector or
    task the later one is last in the topic as well. Nothing is written while the group is out of reach: work that was
    here may run elsewhere by then. What this worker runs it says again where the topic says otherwise, see `repeat`.
    What the topic says of this worker is only as new as what could be written: this worker's own last word counts, and
    what it has not had since it started is UNASSIGNED. Differs: Java shows what the topic says.
    Differs: a task that has run and whose slot is gone shows as RESTARTING, as it is started again by itself; Java has
    no slots, and an UNASSIGNED of the same generation would not count there.
    """

    def __init__(self, store: StatusStore) -> None:
        self.worker_id = ""
        self.generation = -1
        self.is_in_touch: Callable[[], bool] = lambda: True
        """Whether the group has answered lately, so that work of this worker is its own for sure."""
        self.look_again: Callable[[Subject], None] = lambda _: None
        """Told what `repeat` should look at soon; must not block."""
        self._store = store
        self._lock = threading.RLock()  # held over what is decided and put; a put hands over and does not wait
        self._runs: dict[TaskId, _Run] = {}  # guarded by _lock, as all below: tasks of this worker
        self._versions: dict[str, str] = {}  # connectors of this worker
        self._said: dict[Subject, StoredStatus] = {}  # of what this worker runs, the status as it should stand
        self._words: dict[Subject, StoredStatus] = {}  # this worker's last word of anything, written or not
        self._is_out = False  # the group is out of reach, or was lost
        self._withheld: dict[Subject, StoredStatus] = {}  # of what was stopped meanwhile
        self._unwritten: set[Subject] = set()  # of what runs here, and was seen in a state meanwhile
        self._repeats: Counter[Subject] = Counter()  # in this generation
        self._behind: Counter[Subject] = Counter()  # looks at which a newer generation was in the topic
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

    def end_runs(self, ids: Collection[TaskId]) -> None:
        """These tasks were stopped or abandoned: what they report from now on is ignored."""
        with self._lock:
            for task_id in ids:
                run = self._runs.pop(task_id, None)
                if run is not None:
                    self._put(task_id, RunState.UNASSIGNED, None, run.version, ends=True)
                self._said.pop(task_id, None)

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

    # -- in the group and out of it -----------------------------------------------------------------------------------

    def withhold(self) -> None:
        """The group is out of reach: what is seen from now on may run elsewhere already, and is not written yet.

        A worker that was frozen would else cover what others have written meanwhile, as it has not read it.
        """
        with self._lock:
            self._is_out = True

    def take_generation(self, generation: int) -> None:
        """The worker is in the group, in this generation. What was stopped out of it waits for `release`."""
        with self._lock:
            self.generation, self._is_out = generation, False
            self._store.take_generation(generation)
            self._repeats.clear()
            self._behind.clear()
            for subject in self._said:
                self.look_again(subject)

    def release(self, timeout_s: float) -> None:
        """In the group again: write what was withheld, unless others have taken it over; with the old generation.

        Differs: Java writes it at once.
        """
        with self._lock:
            if not self._withheld:
                return
        try:
            self._store.refresh(timeout_s)
        except ConnectError as err:
            log.warning("Statuses of what was stopped out of the group are not written: %s", err)
            with self._lock:
                self._withheld.clear()
            return
        with self._lock:
            withheld, self._withheld = self._withheld, {}
            for subject, status in withheld.items():
                known = self._store.status(subject)
                if subject not in self._said and known is not None and known.worker_id == self.worker_id:
                    self._store.put_safe(subject, status)

    def is_behind(self, subject: Subject) -> bool:
        """Whether somebody has written in a newer generation of the group than this worker has heard of; ask often.

        It will hear of it soon. If it does not, though the group answers all the while, then the group is in the
        generation that this worker knows, and the record is of a former life of the group.
        """
        with self._lock:
            if not self._store.is_beyond(subject, self.generation):
                return False
            if self._is_out or not self.is_in_touch():
                self._behind.clear()
                return True
            self._behind[subject] += 1
            if self._behind[subject] <= _LOOKS_UNTIL_BELIEVED:
                return True
            self._behind.clear()
            self._store.take_generation(self.generation)
            return False

    def repeat(self, subject: Subject) -> bool:
        """Write the status of what this worker runs again, if the topic says otherwise: a late record covers it, say.

        Only a worker that is in touch with its group does, and that `is_behind` nobody. False: look again in a while, a
        write is on its way or the group out of reach.
        """
        with self._lock:
            said = self._said.get(subject)
            last, in_force = self._store.last(subject), self._store.status(subject)
            if said is None or (_says_same(last, said) and _says_same(in_force, said)):
                self._unwritten.discard(subject)
                return True
            if self._store.is_writing(subject) or self._is_out or not self.is_in_touch():
                return False
            now = replace(said, generation=self.generation)
            if subject in self._unwritten:
                self._unwritten.discard(subject)
            elif not self._may_repeat(subject, said, in_force if _says_same(last, said) else last):
                return True
            self._said[subject] = self._words[subject] = now
            self._store.put(subject, now)
        return False

    def _may_repeat(self, subject: Subject, said: StoredStatus, last: StoredStatus | None) -> bool:
        """Call with the lock held: tells why, and counts."""
        self._repeats[subject] += 1
        if self._repeats[subject] <= _MOST_REPEATS:
            log.warning("%s; this worker runs it and writes its status again", _covered(subject, said, last))
            return True
        if self._repeats[subject] == _MOST_REPEATS + 1:
            log.error("%s", _contradicted(subject, said, last))
        return False

    def forget(self, subject: Subject) -> None:
        """Delete the status of a connector or task that does not exist: it was written late. Only the leader does."""
        with self._lock:
            if self._store.last(subject) is not None and not self._store.is_writing(subject):
                log.info("Deleting the status of %s again: it does not exist", subject)
                self._store.put(subject, StoredStatus(RunState.DESTROYED, self.worker_id, self.generation))

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
            if self._is_out or not self.is_in_touch():
                if ends:
                    self._withheld[subject] = status
                else:
                    self._unwritten.add(subject)
                    self.look_again(subject)
            elif state in (RunState.UNASSIGNED, RunState.FAILED):  # may come late, when another worker runs it already
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
            return {subject.connector if isinstance(subject, TaskId) else subject for subject in self._withheld}

    def _as_had(self, subject: Subject, known: StoredStatus) -> StoredStatus:
        """What the topic says, unless it says it of this worker, which knows better."""
        if known.worker_id != self.worker_id:
            return known
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
            for subject in list(self._words):
                name = subject.connector if isinstance(subject, TaskId) else subject
                if not snapshot.contains(name):
                    del self._words[subject]


def _task_state(task_id: TaskId, status: StoredStatus) -> TaskState:
    return TaskState(task_id.task, status.state, status.worker_id, status.trace, status.version)


def _says_same(one: StoredStatus | None, other: StoredStatus) -> bool:
    """Apart from the generation: what was said in an earlier one is still true."""
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
    told = f"{_covered(subject, said, last)}, though this worker has written its own {_MOST_REPEATS} times"
    if last is not None and last.worker_id == said.worker_id:
        return f"{told}: give each worker its own rest.advertised.host.name and rest.advertised.port"
    return f"{told}: workers of another group.id may use the same status.storage.topic, or it is edited by hand"
