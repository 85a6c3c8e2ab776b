"""Workers of a group that write and read one status topic, in any interleaving: all real code, no threads, no time.

Writes wait in each worker's queue and get into the topic when the simulation says so, also late, also while the worker
is frozen; reads lag behind; the group goes on without whoever is frozen, and may begin to count anew. At the end all
thaw, join, and everything that is on its way arrives. Every write, record and read is judged when it happens
(kit.status_judge), and the statuses of all at the end.
"""

from __future__ import annotations

import random
from concurrent.futures import Future

from kconnect.clock import ManualClock
from kconnect.errors import RetriableError
from kconnect.model import LogPosition, LogRecord, RunState, TaskId
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.status_watch import StatusKeeper
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.status_topic import StoredStatus, Subject
from kit.status_judge import StatusJudge, read_status

SUBJECTS: tuple[Subject, ...] = ("c", "d", TaskId("c", 0), TaskId("c", 1), TaskId("d", 0))
Records = list[tuple[bytes, bytes | None]]
# A worker believes what contradicts its topic after fifteen looks; two more for what it writes then
_QUIET_ROUNDS = 17
# Far more than are needed: workers that never come to an end contradict each other
MOST_RECORDS = 120 * len(SUBJECTS)


class LateLog:
    """A RecordLog of one worker: what it sends waits until `deliver`, what is in the topic until `read`."""

    topic = "statuses"
    partition_count = 1

    def __init__(self, worker: Worker, records: Records, judge: StatusJudge) -> None:
        self.records = records
        self._worker = worker
        self._judge = judge
        self.queue: list[tuple[int, bytes, bytes | None, Future[LogPosition]]] = []
        self.read_to = 0

    def start(self, on_record) -> None:
        self._on_record = on_record
        self.read_to_end(0)

    def send(self, key: bytes, value: bytes | None) -> Future[LogPosition]:
        done: Future[LogPosition] = Future()
        number = self._judge.sent(self._worker, *read_status(key, value))
        self.queue.append((number, key, value, done))
        return done

    def deliver(self, *, fails: bool = False) -> None:
        number, key, value, done = self.queue.pop(0)
        if fails:
            done.set_exception(RetriableError("the leader is not known"))
            return
        self.records.append((key, value))
        self._judge.appended(number, *read_status(key, value))
        done.set_result(LogPosition(self.topic, 0, len(self.records) - 1))

    def read(self, count: int = 1) -> None:
        for offset in range(self.read_to, min(self.read_to + count, len(self.records))):
            self.read_to = offset + 1
            self._on_record(LogRecord(self.topic, 0, offset, *self.records[offset], None))
            self._judge.was_read(self._worker, *read_status(*self.records[offset]))

    def read_to_end(self, timeout_s: float, *, awaits_open_transactions: bool = True) -> None:
        self.read(len(self.records))

    def stop(self) -> None:
        pass


class Worker:
    """What a herder does with statuses, step by step."""

    def __init__(self, name: str, records: Records, judge: StatusJudge) -> None:
        self.name, self.judge = name, judge
        self.log = LateLog(self, records, judge)
        self.clock = ManualClock()
        self.store = TopicStatusStore(self.log, self.clock, retries_alone=False)
        self.status = ClusterStatus(self.store)
        self.status.worker_id = name
        self.status.is_in_touch = lambda: not self.is_expelled
        self.keeper = StatusKeeper(self.status, self.clock, is_ours=lambda subject: subject in self.assigned)
        self.status.look_again = self.keeper.note
        self.store.set_listener(self.keeper.note)
        self.store.start()
        self.assigned: set[Subject] = set()
        self.running: dict[Subject, int] = {}
        self.since: dict[Subject, int] = {}  # when it began to run here, as the judge counts
        self.unreported: list[tuple[TaskId, int]] = []
        self.placement: tuple[int, set[Subject]] | None = None
        self.has_to_release = False
        self.is_frozen = self.is_expelled = self.knows_it_is_out = False
        self.is_retrying = self.is_releasing = False
        self.generation = self._runs = 0

    def place(self) -> None:
        """Act on the placement: give up, take the generation, start."""
        if self.placement is None:
            return
        (generation, wanted), self.placement = self.placement, None
        self.stop({subject for subject in self.running if subject not in wanted})
        self.assigned, self.is_expelled, self.knows_it_is_out = set(wanted), False, False
        self.generation = generation
        self.status.take_generation(generation)
        self.has_to_release = True
        for subject in sorted(wanted - self.running.keys(), key=str):
            self._runs += 1
            self.running[subject], self.since[subject] = self._runs, self.judge.sends
            if isinstance(subject, TaskId):
                self.status.expect_task(subject, self._runs, None)
                self.unreported.append((subject, self._runs))
            else:
                self.status.set_connector(subject, RunState.RUNNING)

    def stop(self, subjects: set[Subject]) -> None:
        self.status.end_runs(self.status.runs_of([subject for subject in subjects if isinstance(subject, TaskId)]))
        for subject in sorted(subjects, key=str):
            del self.running[subject]
            if isinstance(subject, str):
                self.status.set_connector(subject, RunState.UNASSIGNED)

    def notice_loss(self) -> None:
        """The herder's thread, or its watch, sees that the group did not answer in time."""
        self.knows_it_is_out = True
        self.status.withhold()
        self.stop(set(self.running))
        self.assigned.clear()

    def report(self, run: tuple[TaskId, int], state: RunState = RunState.RUNNING) -> None:
        self.status.report_task(*run, state, None)

    def release(self) -> None:
        if self.has_to_release:
            self.has_to_release = False
            self.is_releasing = True
            self.status.release(1.0)
            self.is_releasing = False

    def look(self) -> None:
        """Compare what runs here with the topic, and make the retries that are due."""
        self.keeper.look()
        self.is_retrying = True
        while (wait_s := self.store.retry_due()) is not None:
            self.clock.advance(wait_s)
        self.is_retrying = False


class Simulation:
    """One interleaving, drawn by its seed. `run` ends when nothing happens any more."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.records: Records = []
        self.generation = 0
        self.owners: dict[Subject, Worker] = {}
        self.judge = StatusJudge(self.owners)
        self.workers = [Worker(f"w{number}:8083", self.records, self.judge) for number in range(3)]
        self.story: list[str] = []

    def run(self, steps: int = 120) -> None:
        self._rebalance()
        for _ in range(steps):
            self._random.choice(
                [
                    *[self._deliver] * 5,
                    *[self._read] * 5,
                    *[self._act] * 6,
                    *[self._look] * 2,
                    self._freeze,
                    *[self._thaw] * 2,
                    self._rebalance,
                    self._slot_is_lost,
                    *([self._begin_anew] if self._random.random() < 0.1 else []),
                ]
            )()
        self._quiesce()

    # -- what may happen ----------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Of frozen workers as well: what they had sent is on its way."""
        waiting = [worker for worker in self.workers if worker.log.queue]
        if waiting:
            worker = self._random.choice(waiting)
            worker.log.deliver(fails=self._random.random() < 0.15 and not worker.is_frozen)

    def _read(self) -> None:
        if awake := self._awake():
            self._random.choice(awake).log.read(self._random.randint(1, 4))

    def _act(self) -> None:
        """One worker does one of the things that wait for it."""
        if not (awake := self._awake()):
            return
        worker = self._random.choice(awake)
        if worker.is_expelled and not worker.knows_it_is_out:
            late = [*worker.unreported, *self._runs_of(worker)]
            if late and self._random.random() < 0.4:  # a slot's report comes before the worker notices
                worker.report(self._random.choice(late))
            else:
                self._tell(f"{worker.name} notices that it is out")
                worker.notice_loss()
        elif worker.unreported:
            worker.report(worker.unreported.pop(0))
        elif worker.has_to_release:
            worker.release()
        else:
            worker.place()

    def _slot_is_lost(self) -> None:
        if awake := self._awake():
            worker = self._random.choice(awake)
            if runs := self._runs_of(worker):
                run = self._random.choice(runs)
                worker.report(run, RunState.UNASSIGNED)
                worker.unreported.append(run)

    def _look(self) -> None:
        if awake := self._awake():
            self._random.choice(awake).look()

    def _freeze(self) -> None:
        if len(awake := self._awake()) > 1:
            worker = self._random.choice(awake)
            self._tell(f"{worker.name} is frozen")
            worker.is_frozen = True

    def _thaw(self) -> None:
        if frozen := [worker for worker in self.workers if worker.is_frozen]:
            worker = self._random.choice(frozen)
            self._tell(f"{worker.name} wakes")
            worker.is_frozen = False

    def _rebalance(self) -> None:
        """All that are awake join: they act on what they were reported before, and have noticed when they were out."""
        live = self._awake()
        for worker in live:
            if worker.is_expelled and not worker.knows_it_is_out:
                worker.notice_loss()
            worker.place()
        for worker in self.workers:
            if worker not in live:
                worker.is_expelled, worker.placement = True, None
        self.generation += 1
        placed: dict[Worker, set[Subject]] = {worker: set() for worker in live}
        for subject in SUBJECTS:
            owner, target = self.owners.get(subject), self._random.choice(live)
            if owner in placed and subject in owner.running:
                if self._random.random() < 0.7:
                    placed[owner].add(subject)
                else:  # it is revoked, and is free for another one in the next round
                    self.owners.pop(subject)
            else:
                placed[target].add(subject)
                self.owners[subject] = target
        for worker, wanted in placed.items():
            worker.placement = (self.generation, wanted)
        self._tell(f"generation {self.generation}: {', '.join(worker.name for worker in live)}")

    def _begin_anew(self) -> None:
        """All leave, and the broker forgets the group; who is frozen knows nothing of it."""
        for worker in self._awake():
            worker.place()
            worker.stop(set(worker.running))
            worker.notice_loss()
            worker.is_expelled = True
        self.owners.clear()
        self.generation = 0
        self.judge.group_begins_again()
        self._tell("the group begins to count anew")
        self._rebalance()

    # -- the end ------------------------------------------------------------------------------------------------------

    def _quiesce(self) -> None:
        for worker in self.workers:
            worker.is_frozen = False
        self._rebalance()
        self._rebalance()  # what was revoked in the first one is placed
        for worker in self.workers:
            worker.place()
        while len(self.owners) < len(SUBJECTS) or any(worker.placement for worker in self.workers):
            self._rebalance()
            for worker in self.workers:
                worker.place()
        quiet, before = 0, -1
        while quiet < _QUIET_ROUNDS and len(self.records) < MOST_RECORDS:
            quiet, before = quiet + 1 if len(self.records) == before else 0, len(self.records)
            for worker in self._random.sample(self.workers, len(self.workers)):
                worker.release()
                while worker.unreported:
                    worker.report(worker.unreported.pop(0))
                while worker.log.queue:
                    worker.log.deliver()
                worker.log.read_to_end(0)
                worker.look()

    def _awake(self) -> list[Worker]:
        return [worker for worker in self.workers if not worker.is_frozen]

    def _runs_of(self, worker: Worker) -> list[tuple[TaskId, int]]:
        return [(subject, run) for subject, run in worker.running.items() if isinstance(subject, TaskId)]

    def _tell(self, what: str) -> None:
        self.story.append(f"@{len(self.records)} {what}")

    # -- what must hold then ------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """What was wrong on the way, and at the end each status that is not of the worker that runs it."""
        found = [*self.judge.problems]
        direct = self.judge.reader
        direct.set_owners({subject: owner.name for subject, owner in self.owners.items()})
        for subject, owner in self.owners.items():
            readers: dict[str, StoredStatus | None] = {
                f"as {worker.name} knows it": worker.store.status(subject) for worker in self.workers
            }
            readers |= {"as the last record says": direct.last(subject), "read directly": direct.status(subject)}
            for reader, status in readers.items():
                if status is None or (status.state, status.worker_id) != (RunState.RUNNING, owner.name):
                    found.append(f"{subject} runs on {owner.name}; {reader}: {status}")
        return found
