"""Exactly-once sources on a worker of a cluster: fencing, permission to start, and offset writes (KIP-618).

In a round of fencing the producers of a connector's former tasks are cut off before the present ones start.
Source: DistributedHerder#doFenceZombieSourceTasks, DistributedHerder.ZombieFencing, Worker#fenceZombies (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass

from kconnect.errors import BadRequestError, ConflictError, ConnectError, FencedError, NotFoundError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset, ConnectorType, TargetState
from kconnect.runtime.config.exactly_once_settings import (
    exactly_once_producer,
    fencing_producer,
    is_exactly_once,
    task_transactional_id,
)
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.cluster.fenced_starts import FencedStarts
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.storage.config_store import ConfigStore
from kconnect.runtime.storage.record_log import ExclusiveWriter
from kconnect.runtime.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)

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
