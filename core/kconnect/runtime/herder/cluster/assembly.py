"""Builds a cluster's herder: each part is complete before it is passed to the next one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kconnect.clock import Clock
from kconnect.errors import ConflictError
from kconnect.model import ConnectorOffset, RunState, TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.cluster.change_requests import (
    ChangeRequests,
    PendingRequests,
    ThreadAccess,
    ThreadRequests,
)
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.cluster.fenced_starts import ExactlyOnceSources, FencedStarts, offset_writer_of
from kconnect.runtime.herder.cluster.group_status import GroupStatus
from kconnect.runtime.herder.cluster.herder_inbox import HerderInbox
from kconnect.runtime.herder.cluster.herder_thread import CutOffWatch, HerderThread, ThreadParts, save_trace
from kconnect.runtime.herder.cluster.local_work import LocalWork
from kconnect.runtime.herder.cluster.offset_stores import ClusterOffsets
from kconnect.runtime.herder.cluster.performer import Performer, PerformerParts
from kconnect.runtime.herder.cluster.rebalance_rounds import RebalanceRounds
from kconnect.runtime.herder.cluster.status_watch import FailureWatch, KnownWork, StatusKeeper
from kconnect.runtime.herder.cluster.thread_stage import ThreadStage
from kconnect.runtime.herder.cluster.topic_tracking import ClusterTopics
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.herder.connectors.task_runs import TaskRuns, report_task
from kconnect.runtime.herder.decisions.auto_restarts import Notice
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry, require_stopped
from kconnect.runtime.herder.decisions.events import CutOff, Reconfigure
from kconnect.runtime.herder.decisions.machine import HerderState
from kconnect.runtime.herder.decisions.membership_rules import OwnSettings
from kconnect.runtime.herder.health.change_patience import ChangePatience
from kconnect.runtime.herder.interface import LauncherEvents
from kconnect.runtime.herder.membership import Membership
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.queries.logger_levels import WorkerLoggers
from kconnect.runtime.herder.queries.start_state import StartState
from kconnect.runtime.storage import commit_source_offsets, read_source_offsets

StringMap = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSide:
    """The state machine, and the group it decides for."""

    state: HerderState
    rounds: RebalanceRounds
    membership: Membership
    inbox: HerderInbox
    status: GroupStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSide:
    """The requests to the herder's thread, and the progress of its start."""

    start: StartState
    stages: ThreadStage
    pending: PendingRequests
    thread: ThreadRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the topics and this worker know of connectors."""

    config: ClusterConfig
    status: ClusterStatus
    topics: ClusterTopics
    offsets: ClusterOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSide:
    """What runs connectors and tasks here, and changes their state in the cluster."""

    host: ConnectorHost
    changes: ChangeRequests
    exactly_once: ExactlyOnceSources
    fenced_starts: FencedStarts | None
    """Through which exactly-once tasks start; None without exactly-once support."""
    work: LocalWork
    modify_offsets: Callable[[str, Sequence[ConnectorOffset] | None, Collection[str] | None], str]
    """Alter or (None) reset the offsets of a STOPPED connector, as the leader. Blocks."""
    first_offsets: Callable[[str, Mapping[str, str], Sequence[ConnectorOffset]], str]
    """Set the offsets of a connector that is about to be created, as the leader. Blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderAssembly:
    """All parts of one worker's herder. Nothing of it runs before `HerderLifecycle` starts it."""

    cluster: ClusterParts
    group: GroupSide
    requests: RequestSide
    knowledge: Knowledge
    work: WorkSide
    loggers: WorkerLoggers
    thread: HerderThread
    watch: CutOffWatch
    keeper: StatusKeeper
    failures: FailureWatch
    events: LauncherEvents


def assemble(parts: HerderParts, cluster: ClusterParts, validate: Callable[[str, StringMap], None]) -> HerderAssembly:
    """`validate`: as in ChangeRequests. No effects: starts no thread, opens no connection, reads nothing."""
    group, knowledge, loggers = _group_side(cluster), _knowledge(parts, cluster), WorkerLoggers(parts.launcher)
    requests = _request_side(parts, cluster, group)
    work = _work_side(parts, cluster, group, requests, knowledge, validate)
    status = knowledge.status

    def cut_off() -> None:  # from outside of the herder's thread
        status.withhold()
        work.work.stop(Work(tuple(work.host.names()), status.running()))
        group.inbox.post(CutOff())

    failures = FailureWatch(cluster.statuses, group.inbox.post)
    known = KnownWork(group.state.facts, knowledge.config, status)
    return HerderAssembly(
        cluster=cluster,
        group=group,
        requests=requests,
        knowledge=knowledge,
        work=work,
        loggers=loggers,
        thread=_thread(cluster, group, requests, status, failures, parts.webhooks.announce, work, loggers),
        watch=CutOffWatch(lambda: group.membership.runs_until, cut_off),
        failures=failures,
        keeper=StatusKeeper(status, cluster.clock, is_ours=known.is_assigned, is_orphan=known.is_orphan),
        events=ClusterEvents(
            status,
            knowledge.topics,
            knowledge.offsets,
            lambda connector: group.inbox.post(Reconfigure(connector)),
            cluster.clock,
            _accept_any if work.fenced_starts is None else work.fenced_starts.verify,
        ),
    )


def _group_side(cluster: ClusterParts) -> GroupSide:
    own = OwnSettings(cluster.exactly_once, cluster.protocol_version)
    state = HerderState(cluster.times, cluster.key_form, own, cluster.restarts)
    rounds = RebalanceRounds(
        cluster.configs.snapshot, cluster.protocol_version, cluster.times.max_delay_ms, cluster.clock
    )
    membership = cluster.membership(rounds)
    return GroupSide(
        state=state,
        rounds=rounds,
        membership=membership,
        inbox=HerderInbox(cluster.configs, membership.wakeup),
        status=GroupStatus(state, cluster, membership, rounds),
    )


def _request_side(parts: HerderParts, cluster: ClusterParts, group: GroupSide) -> RequestSide:
    start, stages, pending = StartState(), ThreadStage(cluster.clock.time_ms), PendingRequests()
    access = ThreadAccess(
        inbox=group.inbox,
        pending=pending,
        start=start,
        stages=stages,
        health=parts.health,
        patience=ChangePatience(parts.kafka, parts.answer_s, group.status.unclaimed),
        clock=cluster.clock,
        timeout_s=cluster.request_timeout_s,
    )
    return RequestSide(start=start, stages=stages, pending=pending, thread=ThreadRequests(access))


def _settings(parts: HerderParts) -> StringMap:
    """The worker's properties for clients of its own: no client logs in with the text of a reference."""
    return parts.worker_config if parts.settings is None else parts.settings


def _knowledge(parts: HerderParts, cluster: ClusterParts) -> Knowledge:
    config = ClusterConfig(cluster.configs.snapshot)
    writer = offset_writer_of(_settings(parts))
    return Knowledge(
        config=config,
        status=ClusterStatus(cluster.statuses),
        topics=ClusterTopics(cluster.statuses, is_tracking=parts.tracks_topics, allows_reset=parts.allows_topics_reset),
        offsets=ClusterOffsets(cluster.offsets, config, parts.groups, cluster.own_offsets, writer),
    )


def _work_side(
    parts: HerderParts,
    cluster: ClusterParts,
    group: GroupSide,
    requests: RequestSide,
    knowledge: Knowledge,
    validate: Callable[[str, StringMap], None],
) -> WorkSide:
    config, status, offsets = knowledge.config, knowledge.status, knowledge.offsets
    post, own = group.inbox.post, group.status

    def look_again(connector: str) -> None:  # called for running connectors, which `work` below manages
        entry = config.find(connector)
        if entry is not None and not requests.start.is_stopping:
            work.look_again(entry)

    def modify_offsets(
        name: str, changed: Sequence[ConnectorOffset] | None, expected: Collection[str] | None = None
    ) -> str:
        # Somebody may have resumed the connector on another worker since it was looked at
        cluster.configs.refresh(cluster.times.sync_timeout_ms / 1000)
        require_stopped(config.get(name))
        exactly_once.before_change(name, changed)
        again = partial(require_still_stopped, name, "altered" if changed is not None else "reset")
        message = offsets.modify(name, changed, host, parts.times.call_s, again, expected)
        again()  # a resume that came with the write
        return message

    def require_still_stopped(name: str, done: str) -> None:
        # Any worker may write that it is resumed, also while its plugin is asked: its tasks read the former offsets
        cluster.configs.refresh(cluster.times.sync_timeout_ms / 1000)
        entry = config.get(name)
        if entry.target_state is not TargetState.STOPPED or entry.task_configs:
            raise ConflictError(
                f"Connector {name} was resumed before its offsets could be {done}", hint="Stop it, and try again."
            )

    def first_offsets(name: str, new: Mapping[str, str], first: Sequence[ConnectorOffset]) -> str:
        return offsets.begin_with(ConnectorEntry(name, new), first, host, parts.times.call_s)

    status.is_held = lambda subject: group.state.held_until_ms(subject) is not None
    host = ConnectorHost(
        parts,
        status,
        request_tasks=lambda connector: post(Reconfigure(connector)),
        look_again=look_again,
        offsets_of=offsets.store_of,
    )
    changes = ChangeRequests(requests.thread, cluster.configs, config, status, host, validate)
    exactly_once = ExactlyOnceSources(
        _settings(parts), cluster, config, host, changes.fence_zombies, changes.record_task_count
    )
    fenced_starts = exactly_once.starts(lambda: own.is_leader, lambda: own.leader_url)
    tasks = TaskRuns(parts.launcher, status, parts.worker_config, parts.times.stop_s)
    work = LocalWork(host, tasks, status, post, parts.times, fenced_starts)
    return WorkSide(
        host=host,
        changes=changes,
        exactly_once=exactly_once,
        fenced_starts=fenced_starts,
        work=work,
        modify_offsets=modify_offsets,
        first_offsets=first_offsets,
    )


def _thread(
    cluster: ClusterParts,
    group: GroupSide,
    requests: RequestSide,
    status: ClusterStatus,
    failures: FailureWatch,
    announce: Callable[[Notice], None],
    work: WorkSide,
    loggers: WorkerLoggers,
) -> HerderThread:
    performer = Performer(
        PerformerParts(
            cluster=cluster,
            membership=group.membership,
            rounds=group.rounds,
            work=work.work,
            status=status,
            failures=failures,
            announce=announce,
            modify_offsets=work.modify_offsets,
            first_offsets=work.first_offsets,
            pending=requests.pending,
            stages=requests.stages,
            fence=work.exactly_once.run_round,
            set_log_level=loggers.set_named,
            names=group.status.names,
            leader_url=lambda: group.status.leader_url or "",
            post=group.inbox.post,
        )
    )
    parts = ThreadParts(
        state=group.state,
        configs=cluster.configs,
        membership=group.membership,
        rounds=group.rounds,
        inbox=group.inbox,
        performer=performer,
        stages=requests.stages,
        pending=requests.pending,
        clock=cluster.clock,
        save_trace=lambda: save_trace(group.state, status.worker_id, cluster.clock.time_ms()),
    )
    return HerderThread(parts, requests.thread.fail)


def _accept_any(task_id: TaskId) -> None:
    """Without exactly-once support no tasks are fenced."""


class ClusterEvents:
    """Implements `LauncherEvents`. Threads: the launcher's. Only reads and commits of offsets may block."""

    def __init__(
        self,
        status: ClusterStatus,
        topics: ClusterTopics,
        offsets: ClusterOffsets,
        reconfigure: Callable[[str], None],
        clock: Clock,
        may_write: Callable[[TaskId], None] = lambda task_id: None,
    ) -> None:
        """`may_write` raises ConnectError when an exactly-once task may have been fenced off before it began."""
        self._status = status
        self._topics = topics
        self._offsets = offsets
        self._reconfigure = reconfigure
        self._clock = clock
        self._may_write = may_write

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        report_task(self._status, task_id, run, state, trace)

    def reconfiguration_requested(self, connector: str) -> None:
        self._reconfigure(connector)

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        """Too late for a connector without tasks here: its topics may have been reset since."""
        if self._status.runs(task_id.connector):
            self._topics.used(task_id, topic, self._clock.time_ms())

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return read_source_offsets(self._offsets.store_of(connector), connector, partitions)

    def check_run(self, task_id: TaskId, run: int) -> None:
        """Errors: ConflictError for a run that was stopped or replaced; as `may_write`."""
        if not self._status.is_run(task_id, run):
            raise ConflictError(f"Run {run} of task {task_id} is no longer wanted on this worker")
        self._may_write(task_id)

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Errors: ConflictError when no task of it runs here: an abandoned one must not undo what others did."""
        if not self._status.runs(connector):
            raise ConflictError(f"Connector {connector} has no tasks on this worker: its offsets are not committed")
        commit_source_offsets(self._offsets.commit_store_of(connector), connector, offsets)
