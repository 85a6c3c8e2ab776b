"""Exactly-once sources on a worker of a cluster: fencing, permission to start, and offset writes (KIP-618).

Each start of a task waits until the leader has fenced off earlier tasks: it cuts off the producers of a connector's
former tasks before the present ones start.

Source: DistributedHerder#startTask, #fenceZombieSourceTasks, #verifyTaskGenerationAndOwnership,
#doFenceZombieSourceTasks, DistributedHerder.ZombieFencing, Worker#fenceZombies (Kafka 4.3). Differs: Java's task
sends the request on its own thread, and fails during a change of leader or of the session key; here the request is
retried.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass

from kconnect.errors import (
    BadRequestError,
    ConflictError,
    ConnectError,
    FencedError,
    ForbiddenError,
    NotFoundError,
    NotReadyError,
    RetriableError,
    TimedOutError,
    UnreachableError,
    WrongWorkerError,
)
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset, ConnectorType, TargetState, TaskId
from kconnect.runtime.config.exactly_once_settings import (
    exactly_once_producer,
    fencing_producer,
    is_exactly_once,
    task_transactional_id,
)
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.storage.config_store import ConfigStore
from kconnect.runtime.storage.record_log import ExclusiveWriter
from kconnect.runtime.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)

# A round waits for brokers and for the leader rather than for the processor
_THREADS = 8
_PAUSE_S = 0.25
# Forbidden: signed with the session key before, as the leader has just made another; not ready: it has none yet
_PASSING = (ConflictError, WrongWorkerError, RetriableError, UnreachableError, ForbiddenError, NotReadyError)

StartNow = Callable[[Sequence[TaskId]], None]
Failed = Callable[[Sequence[TaskId], ConnectError], None]


class FencedStarts:
    """States: open -> closed. Threads: any; `begin` and `cancel` block only while a start is handed over.

    `ask_leader` has the leader run a round for a connector; it blocks. Errors: ConnectError.
    """

    def __init__(self, configs: ConfigStore, ask_leader: Callable[[str], None], *, timeout_s: float) -> None:
        self._configs = configs
        self._ask_leader = ask_leader
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="fenced-start")
        self._is_closed = threading.Event()
        self._lock = threading.Lock()  # held while tasks are handed over, so that a stop comes before it or after
        self._starts = 0  # guarded by _lock, as what follows
        self._wanted: dict[TaskId, int] = {}  # the start that counts
        self._generations: dict[TaskId, int | None] = {}  # of the task configs each was started with

    def begin(
        self, connector: str, ids: Sequence[TaskId], generation: int | None, start: StartNow, failed: Failed
    ) -> None:
        """Fence, then start, unless the task is stopped or started again first.

        `generation`: of the task configs they start with, which may not be the latest.
        """
        with self._lock:
            self._starts += 1
            number = self._starts
            for task_id in ids:
                self._wanted[task_id] = number
                self._generations[task_id] = generation
        if not self._configs.snapshot().is_pending_fencing(connector):
            self._hand_over(ids, number, start)
        else:
            self._pool.submit(self._fence_and_start, connector, ids, number, start, failed)

    def cancel(self, ids: Collection[TaskId]) -> None:
        """These tasks must stop: those that have not started yet will not start."""
        with self._lock:
            for task_id in ids:
                self._wanted.pop(task_id, None)
                self._generations.pop(task_id, None)

    def verify(self, task_id: TaskId) -> None:
        """A task could write now: may it? Reads the config topic to its end.

        Errors: ConflictError when its configs were replaced, or it is not this worker's any more; ConnectError.
        """
        self._configs.refresh(self._timeout_s)
        now = self._configs.snapshot().task_config_generation(task_id.connector)
        with self._lock:
            is_ours, then = task_id in self._generations, self._generations.get(task_id)
        if not is_ours:
            raise ConflictError(f"Source task {task_id} does not start: it is no longer assigned to this worker")
        if now != then:
            raise ConflictError(
                f"Source task {task_id} does not start: new task configurations (generation {now}) were generated for "
                f"its connector since it was assigned (generation {then}), so its former tasks may have been fenced off"
            )

    def close(self) -> None:
        """Nothing starts any more. Idempotent."""
        self._is_closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fence_and_start(
        self, connector: str, ids: Sequence[TaskId], number: int, start: StartNow, failed: Failed
    ) -> None:
        try:
            if self._fence(connector, ids, number):
                self._hand_over(ids, number, start)
        except ConnectError as error:
            failure = ConnectError(f"Failed to perform round of zombie fencing: {error}", hint=error.hint)
            log.error("Tasks of connector %s do not start: %s", connector, failure)
            self._report_failed(ids, number, failure, failed)
        except Exception as error:  # the top of a thread
            log.exception("Tasks of connector %s could not be started", connector)
            failure = ConnectError(f"Failed to perform round of zombie fencing: {type(error).__name__}: {error}")
            self._report_failed(ids, number, failure, failed)

    def _report_failed(self, ids: Sequence[TaskId], number: int, error: ConnectError, failed: Failed) -> None:
        if present := self._still_wanted(ids, number):
            failed(present, error)

    def _fence(self, connector: str, ids: Sequence[TaskId], number: int) -> bool:
        """False if no task waits for it any more. Leaders and session keys change: retried until the deadline."""
        deadline = time.monotonic() + self._timeout_s
        while self._still_wanted(ids, number) and not self._is_closed.is_set():
            try:
                self._ask_leader(connector)
            except _PASSING as error:
                if time.monotonic() + _PAUSE_S > deadline:
                    raise
                log.info("Former tasks of connector %s are not fenced off yet, asking again: %s", connector, error)
                self._is_closed.wait(_PAUSE_S)
            else:
                return True
        return False

    def _still_wanted(self, ids: Sequence[TaskId], number: int) -> list[TaskId]:
        with self._lock:
            return [task_id for task_id in ids if self._wanted.get(task_id) == number]

    def _hand_over(self, ids: Sequence[TaskId], number: int, start: StartNow) -> None:
        with self._lock:
            present = [task_id for task_id in ids if self._wanted.get(task_id) == number]
            if present and not self._is_closed.is_set():
                start(present)


StringMap = Mapping[str, str]
MakeOffsetWriter = Callable[[str, str, StringMap], ExclusiveWriter]


class ExactlyOnceSources:
    """The parts of a cluster's herder that exactly-once sources need. Every worker runs rounds on request; starts wait
    for them only if the worker has exactly-once support enabled.

    `ask` has this worker's herder run a round, as its leader; `record` has it write the round's end, see `fencing`.
    Threads: any but the herder's; all but `starts` block.
    """

    def __init__(
        self,
        worker: StringMap,
        cluster: ClusterParts,
        config: ClusterConfig,
        host: ConnectorHost,
        ask: Callable[[str], None],
        record: Record,
    ) -> None:
        self._worker = worker
        self._cluster = cluster
        self._config = config
        self._host = host
        self._ask = ask
        self.is_on = is_exactly_once(worker)
        self._rounds = FencingRounds(
            cluster.configs,
            self._fence,
            record,
            sync_timeout_s=cluster.times.sync_timeout_ms / 1000,
            round_timeout_s=cluster.request_timeout_s,
        )

    def starts(self, is_leader: Callable[[], bool], leader_url: Callable[[], str | None]) -> FencedStarts | None:
        """Through which source tasks start; None if they need not wait."""
        if not self.is_on:
            return None

        def ask_leader(connector: str) -> None:
            if is_leader():
                return self._ask(connector)
            url = leader_url()
            if url is None:
                raise ConflictError("No leader of the group is known: former tasks cannot be fenced off")
            return self._cluster.leader.fence_zombies(url, connector, self._cluster.configs.snapshot().session_key)

        return FencedStarts(self._cluster.configs, ask_leader, timeout_s=self._cluster.request_timeout_s)

    def run_round(self, connector: str) -> None:
        """The leader's: fence off former tasks, then record how many there are now. Errors: ConnectError."""
        entry = self._config.get(connector)
        if self._host.kind(entry.config) is not ConnectorType.SOURCE:
            raise BadRequestError(f"Connector {connector} is not a source connector")
        self._rounds.run(connector)

    def before_change(self, connector: str, offsets: Sequence[ConnectorOffset] | None) -> None:
        """Fence off the tasks of a stopped source before its offsets are changed. Errors: ConnectError."""
        entry = self._config.get(connector)
        if not self.is_on or self._host.kind(entry.config) is not ConnectorType.SOURCE:
            return
        try:
            self._ask(connector)
        except ConnectError as error:
            raise ConnectError(
                f"Failed to perform zombie fencing for source connector prior to modifying offsets: {error}",
                hint=error.hint,
            ) from error
        snapshot = self._cluster.configs.snapshot()
        if snapshot.target_state(connector) is not TargetState.STOPPED or snapshot.task_count(connector):
            verb = "reset" if offsets is None else "altered"
            raise ConflictError(f"Connector {connector} was resumed before its offsets could be {verb}")

    def _fence(self, connector: str, tasks: int) -> None:
        config = self._host.resolved(self._config.get(connector)).values
        fence_zombies(connector, tasks, self._worker, config, self._cluster.request_timeout_s)


def offset_writer_of(worker: StringMap) -> MakeOffsetWriter | None:
    """Creates writers that change a stopped source's offsets in place of its first task; None without exactly-once
    support.
    """
    if not is_exactly_once(worker):
        return None

    def make(connector: str, topic: str, config: StringMap) -> ExclusiveWriter:
        from kconnect.runtime.kafka import KafkaExclusiveWriter

        settings, warnings = exactly_once_producer(worker, config, name=connector, task=0)
        for warning in warnings:
            log.warning("%s", warning)
        return KafkaExclusiveWriter(topic, settings, task_transactional_id(worker, connector, 0))

    return make


Fence = Callable[[str, int], None]
"""Fence off the producers of that many former tasks of a connector. Blocks. Errors: ConnectError."""
Record = Callable[[str, int, int | None], None]
"""Record a connector's number of tasks, unless its task configs are not of this generation any more. Blocks.

Errors: ConflictError, ConnectError.
"""


@dataclass(frozen=True, slots=True)
class FencingPlan:
    """What must be done before a connector's tasks may start or its offsets be changed."""

    tasks_to_fence: int = 0
    count_to_record: int | None = None
    """It is None where the former tasks are already fenced off."""
    generation: int | None = None
    """Holds the generation of the task configs to which this applies."""


def fencing_plan(snapshot: ClusterSnapshot, connector: str) -> FencingPlan:
    """Pure. A single task that follows a single one fences that off itself, when it claims its transactional id."""
    if not snapshot.is_pending_fencing(connector):
        return FencingPlan()
    count, recorded = snapshot.task_count(connector), snapshot.task_count_record(connector)
    is_needless = recorded is None or (recorded == 1 and count == 1)
    return FencingPlan(
        tasks_to_fence=0 if is_needless else recorded or 0,
        count_to_record=count,
        generation=snapshot.task_config_generation(connector),
    )


def fence_zombies(connector: str, task_count: int, worker: StringMap, config: StringMap, timeout_s: float) -> None:
    """Fence off the producers of tasks 0 to `task_count` - 1. Errors: TimedOutError, ConnectError."""
    from kconnect.runtime.kafka import fence_producers

    found = [fencing_producer(worker, config, connector, task) for task in range(task_count)]
    for warning in dict.fromkeys(text for _, warnings in found for text in warnings):
        log.warning("%s", warning)
    log.debug("Fencing off %s of former tasks of connector %s", pluralize(task_count, "producer"), connector)
    fence_producers([settings for settings, _ in found], f"Fencing for {connector}", timeout_s)


class FencingRounds:
    """The leader's rounds, one at a time for each connector: further requests wait for the round in progress.

    Threads: any but the herder's, as a round blocks. A round whose task configs were replaced meanwhile fails:
    the tasks that wait for it are replaced as well. `record` has the herder's thread compare and write, since that
    thread writes the task configs: none can come between.
    """

    def __init__(
        self, configs: ConfigStore, fence: Fence, record: Record, *, sync_timeout_s: float, round_timeout_s: float
    ) -> None:
        self._configs = configs
        self._fence = fence
        self._record = record
        self._sync_timeout_s = sync_timeout_s
        self._round_timeout_s = round_timeout_s
        self._lock = threading.Lock()
        self._active: dict[str, Future[None]] = {}  # guarded by _lock

    def run(self, connector: str) -> None:
        """Errors: NotFoundError; ConflictError when the tasks were reconfigured; FencedError, ConnectError."""
        self._configs.refresh(self._sync_timeout_s)
        with self._lock:
            active = self._active.get(connector)
            if active is None:
                mine = self._active[connector] = Future()
        if active is not None:
            return self._join(connector, active)
        try:
            self._run(connector)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(None)
        finally:
            with self._lock:
                del self._active[connector]

    def _run(self, connector: str) -> None:
        snapshot = self._configs.snapshot()
        if not snapshot.contains(connector):
            raise NotFoundError(f"Connector {connector} not found")
        plan = fencing_plan(snapshot, connector)
        if plan.count_to_record is None:
            return
        if plan.tasks_to_fence:
            self._cut_off(connector, plan.tasks_to_fence)
            log.info(
                "Fenced off %s of former tasks of connector %s", pluralize(plan.tasks_to_fence, "producer"), connector
            )
            self._configs.refresh(self._sync_timeout_s)
            if self._configs.snapshot().task_config_generation(connector) != plan.generation:
                raise ConflictError("Fencing failed because new task configurations were generated for the connector")
        self._record(connector, plan.count_to_record, plan.generation)

    def _cut_off(self, connector: str, tasks: int) -> None:
        try:
            self._fence(connector, tasks)
        except FencedError as error:  # not of this worker's right to write to the config topic
            raise ConflictError(f"A former task of connector {connector} has just come back: {error}") from error

    def _join(self, connector: str, active: Future[None]) -> None:
        try:
            active.result(self._round_timeout_s)
        except LateError as error:
            raise TimedOutError(
                f"The former tasks of connector {connector} were not fenced off within {self._round_timeout_s:g} s "
                "(kconnect.request.timeout.ms)"
            ) from error
        except ConnectError as error:
            raise type(error)(str(error), hint=error.hint) from error
