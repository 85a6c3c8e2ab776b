"""Starts of exactly-once tasks on this worker: each waits until the leader has fenced off earlier tasks (KIP-618).

Source: DistributedHerder#startTask, #fenceZombieSourceTasks, #verifyTaskGenerationAndOwnership (Kafka 4.3).
Differs: Java's task sends the request on its own thread, and fails during a change of leader or of the session key;
here the request is retried.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from kconnect.errors import (
    ConflictError,
    ConnectError,
    ForbiddenError,
    NotReadyError,
    RetriableError,
    UnreachableError,
    WrongWorkerError,
)
from kconnect.model import TaskId
from kconnect.runtime.storage.config_store import ConfigStore

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
