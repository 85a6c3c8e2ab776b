"""The herder of one worker of a cluster: answers REST requests, and runs the work that its group assigns to it.

Queries are answered here at once, from the topics as this worker has read them. Changes go to the herder's thread
through `change_requests`. `assembly` lists the parts, `HerderLifecycle` starts and stops it.
Source: DistributedHerder, AbstractHerder (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kconnect.errors import ConflictError
from kconnect.logs.log_context import level_name
from kconnect.logs.redaction import redact
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorStatus, ConnectorType, TargetState, TaskId
from kconnect.runtime.herder.cluster.assembly import HerderAssembly, assemble
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.cluster.topic_tracking import ClusterTopics
from kconnect.runtime.herder.decisions.machine import HerderState
from kconnect.runtime.herder.decisions.rebalances import Rebalance
from kconnect.runtime.herder.decisions.request_signatures import RequestSignature
from kconnect.runtime.herder.interface import LauncherEvents
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.queries.herder_queries import HerderQueries
from kconnect.runtime.herder.queries.kafka_reads import KafkaReads
from kconnect.runtime.herder.queries.restart_views import RestartViews
from kconnect.runtime.herder.queries.worker_metrics import worker_readings
from kconnect.runtime.metrics import Reading
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.status_topic import Subject


class DistributedHerder(HerderQueries):
    """Implements `Herder`; its `events` implement `LauncherEvents`. States: new -> started -> stopped.

    The stores of `cluster` are started before it, and stopped after it, by their owner. Threads: every method from any.
    """

    _config: ClusterConfig
    _status: ClusterStatus
    _topics: ClusterTopics

    def __init__(self, parts: HerderParts, cluster: ClusterParts) -> None:
        made = self.assembly = assemble(parts, cluster, self._validate)
        self._parts = parts
        self._cluster = cluster
        self._config, self._status = made.knowledge.config, made.knowledge.status
        self._topics = made.knowledge.topics
        self._host = made.work.host
        self._loggers = made.loggers
        self._start = made.requests.start
        self._group = made.group.status
        self._changes = made.work.changes
        self._kafka_reads = KafkaReads(parts.kafka, parts.answer_s)
        self._restarts = RestartViews(
            cluster.restarts,
            lambda name: cluster.configs.snapshot().automatic_restarts.get(name, ()),
            made.group.state.failed_ms,
            lambda: made.group.state.facts.javas_place,
            cluster.clock,
            made.group.state.last_said,
            made.group.state.held_until_ms,
        )
        self._lifecycle = HerderLifecycle(made)
        parts.health.add_source(made.group.status.out_of_group)
        parts.health.add_notice(made.group.status.held_back)

    # -- life ---------------------------------------------------------------------------------------------------------

    @property
    def events(self) -> LauncherEvents:
        """The launcher's callbacks; pass this to `Launcher.start`."""
        return self.assembly.events

    def open(self, kafka_cluster_id: str | None) -> None:
        """The stores are read: queries can be answered from now on. Changes wait for the start."""
        self._start.open(kafka_cluster_id)

    def start(self, worker_id: str, url: str, kafka_cluster_id: str | None) -> None:
        """Join the group. `worker_id` is the advertised host:port, `url` where other workers reach this one's REST."""
        self._lifecycle.start(worker_id, url, kafka_cluster_id)

    def ready(self) -> None:
        """Start-up is complete."""
        self._start.is_ready = True

    def await_group(self, timeout_s: float) -> bool:
        """Wait for the first assignment; returns whether there is one. Errors: as raise_if_failed."""
        return self._lifecycle.await_group(timeout_s)

    def raise_if_failed(self) -> None:
        """Errors: ConnectError when the group refuses this worker for good, or its thread broke."""
        self.assembly.requests.thread.raise_if_failed()

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks and connectors gracefully, then leave the group. Accepts no more requests. Idempotent."""
        self._lifecycle.stop(timeout_s)

    # -- the group ----------------------------------------------------------------------------------------------------

    def heard_at_s(self) -> float | None:
        """When (monotonic) the group last answered a heartbeat; None before the first answer."""
        return self._group.heard_at_s()

    def what_happens(self) -> str:
        cluster = self._cluster
        return (
            f"Without an answer within session.timeout.ms={cluster.times.session_timeout_ms} this worker stops its "
            f"connectors and tasks; they start again once it is back in group {cluster.group_id}."
        )

    @property
    def is_leader(self) -> bool:
        return self._group.is_leader

    @property
    def leader_url(self) -> str | None:
        """The leader's REST URL; None while it is unknown."""
        return self._group.leader_url

    @property
    def session_key(self) -> SessionKey | None:
        """The key with which workers sign their requests to each other; None while there is none."""
        return self._group.session_key

    @property
    def state(self) -> HerderState:
        """What the state machine decided, for inspection."""
        return self.assembly.group.state

    def rebalances(self) -> list[Rebalance]:
        """The last rebalances of this worker, in order."""
        return self._group.rebalances()

    def trace(self, since: int | None = None) -> Mapping[str, Any]:
        return self.state.trace(since, redact)

    def check_peer(self, signature: RequestSignature | None, *, always: bool = False) -> None:
        self._group.check_peer(signature, always=always)

    def peer_signature(self, message: bytes) -> bytes | None:
        return self._group.peer_signature(message)

    # -- queries ------------------------------------------------------------------------------------------------------

    def connectors(self) -> list[str]:
        """Differs: Java's are in the order of its hash map."""
        return sorted(self._config.names())

    def metrics(self) -> Sequence[Reading]:
        """Metrics of the connectors and tasks that run here, or did when the group was lost, and of the group.

        Differs: Java removes the metrics of work that a worker has given up, so that no alert fires.
        """
        hosted, running = {*self._host.names(), *self._status.left_here()}, set(self._status.running())
        here = hosted | {task_id.connector for task_id in running}
        entries = [entry for entry in self._config.all() if entry.name in here]
        kinds = {entry.name: self._host.kind(entry.config) for entry in entries}
        parts = self._parts
        of_work = worker_readings(
            kinds,
            entries,
            self._status,
            parts.launcher,
            parts.plugins,
            parts.worker_config,
            hosted=hosted,
            running=running,
            connector_plugins=self._host.plugin_values(),
            conditions=self.task_conditions(),
            connector_conditions=self.connector_conditions(),
        )
        of_group = self._group.readings(self.assembly.thread.settling) if self._start.has_begun else ()
        of_restarts = self._restart_readings() if self.is_leader else []
        of_lag = parts.sink_lags.readings(hosted)
        return [*of_work, *of_group, *of_lag, *of_restarts, *parts.webhooks.readings(), *parts.kafka.readings()]

    def _restart_readings(self) -> list[Reading]:
        found = []
        for entry in self._config.all():
            status = self._status.find_connector(entry.name, ConnectorType.UNKNOWN)
            if status is not None:
                found.append(self._restarts.shown(entry, status))
        return self._restarts.readings(self.state.automatic_restarts, found)

    def watched_sinks(self, is_bounded: Callable[[Mapping[str, str]], bool]) -> Mapping[str, Mapping[str, str]]:
        """What the lag watch looks at: sinks whose connectors are assigned to this worker, stopped ones too.

        The leader's looks at all sinks whose configs `is_bounded` says may fall behind so far only.
        """
        hosted, leads = set(self._host.names()), self.is_leader
        return self._readable_sinks(
            entry for entry in self._config.all() if entry.name in hosted or (leads and is_bounded(entry.config))
        )

    def connector_offsets(self, name: str) -> list[ConnectorOffset]:
        self._config.get(name)
        known, times = self.assembly.knowledge.offsets, self._parts.times
        return self._read_of_kafka("offsets", name, lambda: known.read(name, self._host, times.call_s))

    # -- changes ------------------------------------------------------------------------------------------------------

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        initial_state: TargetState | None = None,
        replace: bool,
        expected: Collection[str] | None = None,
    ) -> tuple[bool, ConnectorInfo]:
        return self._changes.put_connector(name, config, initial_state, replace=replace, expected=expected)

    def create_with_offsets(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Sequence[ConnectorOffset],
        *,
        initial_state: TargetState | None = None,
    ) -> tuple[ConnectorInfo, str]:
        return self._changes.create_with_offsets(name, config, offsets, initial_state)

    def patch_connector(
        self, name: str, changes: Mapping[str, str | None], *, expected: Collection[str] | None = None
    ) -> ConnectorInfo:
        return self._changes.patch_connector(name, changes, expected)

    def delete_connector(self, name: str, *, expected: Collection[str] | None = None) -> None:
        self._changes.delete_connector(name, expected)

    def set_target_state(self, name: str, state: TargetState) -> None:
        self._changes.set_target_state(name, state)

    def restart_connector(self, name: str) -> None:
        self._changes.restart(name)

    def restart_task(self, task_id: TaskId) -> None:
        self._changes.restart(task_id)

    def restart_by_plan(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        return self._changes.restart_by_plan(name, include_tasks=include_tasks, only_failed=only_failed)

    def request_task_reconfiguration(self, name: str) -> None:
        """Request task configs from the connector again, in the background, if it runs here."""
        self._config.get(name, f"Unknown connector {name}")
        self.events.reconfiguration_requested(name)

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        self._changes.put_task_configs(name, configs)

    def fence_zombies(self, name: str) -> None:
        self._changes.fence_zombies(name)

    def alter_connector_offsets(
        self, name: str, offsets: Sequence[ConnectorOffset], *, expected: Collection[str] | None = None
    ) -> str:
        return self._changes.alter_offsets(name, offsets, expected)

    def reset_connector_offsets(self, name: str, *, expected: Collection[str] | None = None) -> str:
        return self._changes.reset_offsets(name, expected)

    def set_logger(self, name: str, level: int, *, whole_cluster: bool) -> list[str]:
        """Levels of the whole cluster are written to the config topic; this worker also reads them from there."""
        if whole_cluster:
            self._changes.set_log_level(name, level_name(level))
            return []
        return self._loggers.set(name, level)

    def _validate(self, name: str, config: Mapping[str, str]) -> None:
        """Connect's checks and the connector's own, with a deadline. Errors: BadRequestError, TimedOutError."""
        self._checked(name, lambda: self._parts.validate(config))


log = logging.getLogger(__name__)

# Time to leave the group, close plugins' threads and log what could not be stopped, after the tasks had their time
_LEAVE_S = 5.0


class HerderLifecycle:
    """States: new -> started -> stopped. Threads: the worker's."""

    def __init__(self, assembly: HerderAssembly) -> None:
        self._all = assembly
        self._has_started = self._has_stopped = False

    def start(self, worker_id: str, url: str, kafka_cluster_id: str | None) -> None:
        """Join the group. `worker_id` is the advertised host:port, `url` where other workers reach this one's REST."""
        parts, cluster, status = self._all, self._all.cluster, self._all.knowledge.status
        parts.requests.start.open(kafka_cluster_id)
        status.worker_id = worker_id
        parts.group.rounds.url = url
        cluster.configs.set_listener(parts.group.inbox.note_change)
        status.is_in_touch = parts.group.status.is_in_touch
        status.look_again = parts.keeper.note

        def note(subject: Subject) -> None:
            parts.keeper.note(subject)
            parts.failures.note(subject)

        cluster.statuses.set_listener(note)
        self._has_started = True
        parts.thread.start()
        parts.watch.start()
        parts.keeper.start()
        parts.requests.start.begin()
        log.info("Herder started as worker %s of group %s", worker_id, cluster.group_id)

    def await_group(self, timeout_s: float) -> bool:
        """Wait for the first assignment; returns whether there is one. Errors: as ThreadRequests.raise_if_failed."""
        self._all.requests.thread.raise_if_failed()
        return self._has_started and self._all.thread.has_joined.wait(timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks and connectors gracefully, then leave the group. Accepts no more requests. Idempotent."""
        parts = self._all
        parts.requests.start.is_ready = False
        parts.requests.start.refuse_waiting()
        if not self._has_started or self._has_stopped:
            return
        self._has_stopped = True
        parts.watch.stop(_LEAVE_S)
        parts.keeper.stop(_LEAVE_S)
        if not parts.thread.stop(timeout_s + _LEAVE_S):
            log.warning("The herder's thread did not end in time: %s", parts.requests.stages.summary())
        parts.group.membership.stop(_LEAVE_S)
        parts.work.work.close(_LEAVE_S)
        parts.knowledge.offsets.close()
        parts.requests.pending.close(ConflictError("Worker is shutting down"))
        log.info("Herder stopped")
