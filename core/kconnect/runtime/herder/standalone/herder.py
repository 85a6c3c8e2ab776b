"""The herder of one process: runs every connector it is given, keeps configs and statuses in memory.

Source: StandaloneHerder, AbstractHerder, Worker (Kafka 4.3). Differences are noted where they occur.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.api.config_key import MayPass
from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ConnectError,
    NotFoundError,
)
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TargetState,
    TaskId,
)
from kconnect.runtime.herder.connectors.orders import Orders
from kconnect.runtime.herder.connectors.task_runs import TaskRuns, report_task
from kconnect.runtime.herder.decisions.connector_entry import (
    ConnectorEntry,
    patched,
    require_offsets,
    require_stopped,
)
from kconnect.runtime.herder.decisions.etags import require_config, require_offsets_match, tags_of_offsets
from kconnect.runtime.herder.decisions.restart_plan import RestartPlan, restart_plan
from kconnect.runtime.herder.interface import LauncherEvents
from kconnect.runtime.herder.offsets.offsets_admin import OffsetsAdmin
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.queries.herder_queries import HerderQueries
from kconnect.runtime.herder.queries.kafka_reads import KafkaReads
from kconnect.runtime.herder.queries.logger_levels import WorkerLoggers
from kconnect.runtime.herder.queries.restart_views import RestartViews
from kconnect.runtime.herder.queries.start_state import StartState
from kconnect.runtime.herder.queries.worker_metrics import worker_readings
from kconnect.runtime.herder.standalone.local_connectors import ActiveTopics, AutoRestarter, HostedConnectors
from kconnect.runtime.herder.standalone.memory_config import MemoryConfig
from kconnect.runtime.herder.standalone.memory_status import MemoryStatus
from kconnect.runtime.herder.validation.connector_checks import InvalidConnectorError
from kconnect.runtime.metrics import Reading
from kconnect.runtime.storage import OffsetStore, commit_source_offsets, read_source_offsets

if TYPE_CHECKING:
    from kconnect.runtime.herder.decisions.rebalances import Rebalance
    from kconnect.runtime.herder.decisions.request_signatures import RequestSignature

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class StandaloneHerder(HerderQueries):
    """Implements `Herder`; its `events` implement `LauncherEvents`. States: new -> started -> stopped.

    Threads: every method from any. Orders of one connector run one after the other, those of different connectors in
    parallel, so that a hanging plugin delays only its own connector (`Orders`); plugin code runs on the connector's own
    thread (`ConnectorRunner`).
    Differs: Java takes one lock for all, so that a connector that hangs in start blocks the whole worker.
    """

    _config: MemoryConfig
    _status: MemoryStatus
    _topics: ActiveTopics

    def __init__(self, parts: HerderParts) -> None:
        self._parts = parts
        self._config = MemoryConfig()
        self._status = MemoryStatus()
        self._orders = Orders(parts.times.call_s)
        self._offsets = OffsetsAdmin(parts.offsets, parts.groups, parts.times.call_s, parts.plugins.java_stack)
        self._tasks = TaskRuns(parts.launcher, self._status, parts.worker_config, parts.times.stop_s)
        self._connectors = HostedConnectors(parts, self._config, self._status, self._orders, self._tasks)
        self._host = self._connectors.host
        self._topics = ActiveTopics(is_tracking=parts.tracks_topics, allows_reset=parts.allows_topics_reset)
        self._loggers = WorkerLoggers(parts.launcher)
        self._start = StartState()
        self._restarter = AutoRestarter(
            self._config, parts.restarts, self._restart_failed, parts.webhooks.announce, parts.clock
        )
        self._status.on_change = self._restarter.note
        self._kafka_reads = KafkaReads(parts.kafka, parts.answer_s)
        self._restarts = RestartViews(
            parts.restarts,
            self._restarter.restarts,
            self._restarter.failed_ms,
            lambda: None,
            parts.clock,
            self._restarter.last_said,
        )
        self.events: LauncherEvents = HerderEvents(
            self._config, self._status, parts.offsets, self._topics, self._connectors.update_tasks_soon
        )
        """The launcher's callbacks; pass this to `Launcher.start`."""

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self, worker_id: str, kafka_cluster_id: str | None) -> None:
        """Begin: `worker_id` is the advertised host:port, shown in every status."""
        self._status.worker_id = worker_id
        self._start.open(kafka_cluster_id)
        self._restarter.start(worker_id)
        log.info("Herder started as worker %s", worker_id)

    def ready(self) -> None:
        """Start-up is complete."""
        self._start.is_ready = True

    def heard_at_s(self) -> float | None:
        """Never: it only learns of Kafka by probes."""
        return None

    def what_happens(self) -> str:
        return "Tasks stay RUNNING and wait: sources keep what they have read, nothing is committed."

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks gracefully, then the connectors. Accepts no more requests. Idempotent."""
        self.refuse_waiting()
        self._restarter.stop(timeout_s)
        if not self._orders.close(timeout_s):
            return
        had_started, self._start.is_ready = self._start.is_ready, False
        self._connectors.stop(timeout_s)
        log.log(logging.INFO if had_started else logging.DEBUG, "Herder stopped")

    # -- questions ----------------------------------------------------------------------------------------------------

    def connectors(self) -> list[str]:
        return sorted(entry.name for entry in self._config.all())

    def metrics(self) -> Sequence[Reading]:
        entries = self._config.all()
        kinds = {entry.name: self._host.kind(entry.config) for entry in entries}
        parts = self._parts
        of_work = worker_readings(
            kinds,
            entries,
            self._status,
            parts.launcher,
            parts.plugins,
            parts.worker_config,
            connector_plugins=self._host.plugin_values(),
            conditions=self.task_conditions(),
            connector_conditions=self.connector_conditions(),
        )
        seen = [self._status.find_connector(entry.name, kinds[entry.name]) for entry in entries]
        shown = [self.with_restarts(status) for status in seen if status is not None]
        of_restarts = self._restarts.readings(self._restarter.restarted, shown)
        of_lag = parts.sink_lags.readings(kinds)
        return [*of_work, *of_lag, *of_restarts, *parts.webhooks.readings(), *parts.kafka.readings()]

    def watched_sinks(self, _is_bounded: Callable[[Mapping[str, str]], bool]) -> Mapping[str, Mapping[str, str]]:
        """What the lag watch looks at: all sinks."""
        return self._readable_sinks(self._config.all())

    def rebalances(self) -> Sequence[Rebalance]:
        return ()

    def trace(self, since: int | None = None) -> Mapping[str, Any]:
        raise NotFoundError("A standalone worker keeps no trace: there is no group whose events it decides about")

    # -- orders -------------------------------------------------------------------------------------------------------

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        initial_state: TargetState | None = None,
        replace: bool,
        expected: Collection[str] | None = None,
        is_start: bool = False,
    ) -> tuple[bool, ConnectorInfo]:
        """Create or change. A connector that fails to start is kept, FAILED, and the error is raised, as in Java.

        Differs: when task_configs raises, Java's request hangs until its deadline; here it answers with the error.
        `is_start`: what may pass by itself is no reason to refuse it.
        """
        config = {"name": name} | dict(config) if "name" not in config else dict(config)
        self._validate(name, config, is_start=is_start)
        with self._orders.of(name):
            known = self._config.find(name)
            require_config(expected, name, None if known is None else known.config)
            if known is not None and not replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            if known is None:
                self._connectors.configure(ConnectorEntry(name, config, initial_state or TargetState.STARTED))
            else:
                self._connectors.configure(known.reconfigured(config, initial_state))
            return known is None, self.connector_info(name)

    def create_with_offsets(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Sequence[ConnectorOffset],
        *,
        initial_state: TargetState | None = None,
    ) -> tuple[ConnectorInfo, str]:
        require_offsets(offsets)
        config = {"name": name} | dict(config) if "name" not in config else dict(config)
        self._validate(name, config)
        with self._orders.of(name):
            if self._config.find(name) is not None:
                raise AlreadyExistsError(f"Connector {name} already exists")
            entry = ConnectorEntry(name, config, initial_state or TargetState.STARTED)
            kind, resolved = self._host.kind(config), self._host.resolved(entry).values
            status = self._offsets.begin_with(name, kind, resolved, offsets, lambda: self._host.new_plugin(resolved))
            self._connectors.configure(entry)
            return self.connector_info(name), status

    def patch_connector(
        self, name: str, changes: Mapping[str, str | None], *, expected: Collection[str] | None = None
    ) -> ConnectorInfo:
        """Merge changes into the config. As Java does, a changed `name` is kept as a setting and renames nothing."""
        while True:
            base = self._config.get(name).config
            config = patched(base, changes)
            self._validate(name, config)
            with self._orders.of(name):
                known = self._config.get(name)
                require_config(expected, name, known.config)
                if known.config is base:  # else another request changed it while this one was checked
                    self._connectors.configure(known.reconfigured(config, None))
                    return self.connector_info(name)

    def delete_connector(self, name: str, *, expected: Collection[str] | None = None) -> None:
        self._config.get(name)
        with self._orders.of(name):
            require_config(expected, name, self._config.get(name).config)
            self._connectors.remove(name)
            self._status.remove_connector(name)
            self._topics.forget(name)

    def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause, resume or stop. A connector that fails meanwhile is FAILED with its trace; the request succeeds.

        Differs: for STOPPED of an unknown connector Java answers 500.
        """
        self._config.get(name, f"Unknown connector {name}")
        with self._orders.of(name):
            entry = self._config.get(name, f"Unknown connector {name}")
            if state is TargetState.STOPPED:
                self._connectors.remove_tasks(name)
                entry = self._config.get(name)
            entry = self._config.put(entry.with_target(state))
            if entry.task_ids:
                self._parts.launcher.set_target_state(entry.task_ids, state)
            try:
                self._host.transition(name, state)
            except ConnectError as err:
                log.error("Connector %s did not reach the state %s: %s", name, state, err.hint or err)
                return
            if state is TargetState.STARTED:
                self._connectors.update_tasks_soon(name)

    def restart_connector(self, name: str) -> None:
        """Stop the connector and start a new instance; its tasks are untouched unless it generates other configs for
        them.

        Differs: for an unknown connector Java answers 500 with the text of a NullPointerException.
        """
        self._config.get(name, f"Unknown connector: {name}")
        with self._orders.of(name):
            entry = self._config.get(name, f"Unknown connector: {name}")
            self._host.shut_down(name)
            self._connectors.start(name)
            if entry.target_state is TargetState.STARTED:
                self._connectors.update_tasks(name)

    def restart_by_plan(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Restart what the flags select. If a connector fails again, its status shows it; the request succeeds.

        Differs: Java does not get task configs from the restarted connector, so one that failed before it returned any
        has no tasks.
        """
        self._config.get(name, f"Unknown connector: {name}")
        with self._orders.of(name):
            self._config.get(name, f"Unknown connector: {name}")
            plan = restart_plan(self.connector_status(name), include_tasks=include_tasks, only_failed=only_failed)
            self._restart(name, plan)
            return plan.status

    def restart_task(self, task_id: TaskId) -> None:
        """Stop the task and start a new run of it. Differs: for an unknown connector Java answers 500."""
        name = task_id.connector
        self._config.get(name, f"Unknown connector: {name}")
        with self._orders.of(name):
            entry = self._config.get(name, f"Unknown connector: {name}")
            if task_id not in entry.task_ids:
                raise NotFoundError(f"Task {task_id} not found")
            version = self._status.task(task_id).version
            self._tasks.stop([task_id])
            self._tasks.start(entry, [task_id], self._host.kind(entry.config), version)

    def request_task_reconfiguration(self, name: str) -> None:
        """Get task configs from the connector again, in the background."""
        self._config.get(name, f"Unknown connector {name}")
        self._connectors.update_tasks_soon(name)

    def check_peer(self, signature: RequestSignature | None, *, always: bool = False) -> None:
        """There are no others."""

    def peer_signature(self, message: bytes) -> bytes | None:
        """There are no others."""
        return None

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        raise BadRequestError(
            "Kafka Connect in standalone mode does not support externally setting task configurations."
        )

    def fence_zombies(self, name: str) -> None:
        raise BadRequestError("Kafka Connect in standalone mode does not support exactly-once source connectors.")

    def set_logger(self, name: str, level: int, *, whole_cluster: bool) -> list[str]:
        """One worker is the whole cluster here."""
        return self._loggers.set(name, level)

    # -- offsets ------------------------------------------------------------------------------------------------------

    def connector_offsets(self, name: str) -> list[ConnectorOffset]:
        entry = self._config.get(name)
        kind = self._host.kind(entry.config)

        def read() -> list[ConnectorOffset]:
            return self._offsets.read(name, kind, self._host.resolved(entry).values)

        return self._read_of_kafka("offsets", name, read) if kind is ConnectorType.SINK else read()

    def alter_connector_offsets(
        self, name: str, offsets: Sequence[ConnectorOffset], *, expected: Collection[str] | None = None
    ) -> str:
        require_offsets(offsets)
        with self._stopped(name, expected) as entry:
            kind = self._host.kind(entry.config)
            config = self._host.resolved(entry).values
            return self._offsets.alter(name, kind, config, offsets, lambda: self._host.new_plugin(config))

    def reset_connector_offsets(self, name: str, *, expected: Collection[str] | None = None) -> str:
        with self._stopped(name, expected) as entry:
            kind = self._host.kind(entry.config)
            config = self._host.resolved(entry).values
            return self._offsets.reset(name, kind, config, lambda: self._host.new_plugin(config))

    # -- steps; the caller holds the connector's order ----------------------------------------------------------------

    def _restart_failed(self, name: str, parts: Sequence[int]) -> None:
        """Restart parts that are still FAILED, in the background, in the connector's turn."""

        def restart() -> bool:
            entry = self._config.find(name)
            if entry is not None and entry.target_state is TargetState.STARTED:
                status = self.connector_status(name)
                self._restart(name, restart_plan(status, include_tasks=True, only_failed=True, parts=parts))
            return True

        self._orders.soon(name, restart, f"restart {parts}")

    def _restart(self, name: str, plan: RestartPlan) -> None:
        entry = self._config.get(name)
        tasks = [task_id for task_id in plan.tasks if task_id in entry.task_ids]
        versions = {task_id: self._status.task(task_id).version for task_id in tasks}
        if plan.restart_connector:
            self._host.shut_down(name)
            self._status.set_connector(name, RunState.RESTARTING)
        self._tasks.stop(tasks)
        if plan.restart_connector:
            self._connectors.try_start(name)
        for task_id in tasks:
            kind = self._host.kind(entry.config)
            self._tasks.start(entry, [task_id], kind, versions[task_id], RunState.RESTARTING)
        if plan.restart_connector and entry.target_state is TargetState.STARTED:
            self._connectors.update_tasks_soon(name)

    @contextmanager
    def _stopped(self, name: str, expected: Collection[str] | None) -> Iterator[ConnectorEntry]:
        """The order of a connector whose offsets may change.

        Errors: NotFoundError, BadRequestError, PreconditionFailedError.
        """
        self._config.get(name)
        with self._orders.of(name):
            entry = self._config.get(name)
            require_stopped(entry)
            tags = tags_of_offsets(expected, name, entry.config)
            require_offsets_match(tags, name, self.connector_offsets(name) if tags is not None else ())
            yield entry

    def _validate(self, name: str, config: Mapping[str, str], *, is_start: bool = False) -> None:
        """Connect's checks and the connector's own, with a deadline. Errors: BadRequestError, TimedOutError."""
        try:
            self._checked(name, lambda: self._parts.validate(config))
        except InvalidConnectorError as error:
            if not is_start or not all(isinstance(problem.message, MayPass) for problem in error.problems):
                raise
            for problem in error.problems:
                log.warning("Connector %s starts all the same: %s: %s", name, problem.key, problem.message)


class HerderEvents:
    """Implements `LauncherEvents`. Threads: the launcher's. Only reads and commits of offsets may block, on the store.

    It is a separate object because Herder and LauncherEvents both have a method `task_status`.
    """

    def __init__(
        self,
        config: MemoryConfig,
        status: MemoryStatus,
        offsets: OffsetStore,
        topics: ActiveTopics,
        reconfigure: Callable[[str], None],
    ) -> None:
        self._config = config
        self._status = status
        self._offsets = offsets
        self._topics = topics
        self._reconfigure = reconfigure

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        report_task(self._status, task_id, run, state, trace)

    def reconfiguration_requested(self, connector: str) -> None:
        if self._config.find(connector) is None:
            log.error("Task that requested reconfiguration does not exist: %s", connector)
            return
        self._reconfigure(connector)

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        if self._config.find(task_id.connector) is not None:
            self._topics.used(task_id.connector, topic)

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return read_source_offsets(self._offsets, connector, partitions)

    def check_run(self, task_id: TaskId, run: int) -> None:
        """No worker but this one runs its tasks."""

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Errors: ConflictError for a connector without tasks: an abandoned task must not undo an alter."""
        entry = self._config.find(connector)
        if entry is None or not entry.task_configs:
            raise ConflictError(f"Connector {connector} has no tasks: its offsets are not committed")
        commit_source_offsets(self._offsets, connector, offsets)
