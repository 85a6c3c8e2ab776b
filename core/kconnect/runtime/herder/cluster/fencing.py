"""Rounds of fencing: the producers of a connector's former tasks are cut off before the present ones start (KIP-618).

Source: DistributedHerder#doFenceZombieSourceTasks, DistributedHerder.ZombieFencing, Worker#fenceZombies (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass

from kconnect.errors import ConflictError, ConnectError, FencedError, NotFoundError, TimedOutError
from kconnect.runtime.config.exactly_once_settings import fencing_producer
from kconnect.runtime.storage.config_store import ConfigStore
from kconnect.runtime.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)

StringMap = Mapping[str, str]
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
    """None: the former tasks are already fenced off."""
    generation: int | None = None
    """Of the task configs to which this applies."""


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
    log.debug("Fencing off %d producers of former tasks of connector %s", task_count, connector)
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
            log.info("Fenced off the producers of %d former tasks of connector %s", plan.tasks_to_fence, connector)
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
