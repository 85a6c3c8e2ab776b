"""The herder of one worker of a cluster: answers what REST asks, and runs the share of the work its group gives it.

What is only read is answered at once, from the topics as this worker has read them. What changes something goes to the
herder's thread (`herder_thread`), where the state machine (`kconnect.herder.decisions`) decides: carry it out, refuse
it, or send the asker to another worker (WrongWorkerError). Source: DistributedHerder, AbstractHerder (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from kconnect.errors import (
    BadRequestError,
    ConflictError,
    ConnectError,
    ForbiddenError,
    NotFoundError,
    TimedOutError,
)
from kconnect.herder.assignment.protocol import Work
from kconnect.herder.cluster.cluster_parts import ClusterParts
from kconnect.herder.cluster.cluster_status import ClusterStatus
from kconnect.herder.cluster.config_entries import ClusterConfig
from kconnect.herder.cluster.cut_off_watch import CutOffWatch
from kconnect.herder.cluster.exactly_once_sources import ExactlyOnce, offset_writer_of
from kconnect.herder.cluster.herder_thread import HerderThread
from kconnect.herder.cluster.launcher_events import ClusterEvents
from kconnect.herder.cluster.local_work import LocalWork
from kconnect.herder.cluster.offset_stores import ClusterOffsets
from kconnect.herder.cluster.pending_requests import PendingRequests
from kconnect.herder.cluster.performer import Performer, PerformerParts
from kconnect.herder.cluster.rebalance_rounds import RebalanceRounds
from kconnect.herder.cluster.status_keeper import KnownWork, StatusKeeper
from kconnect.herder.cluster.thread_stage import ThreadStage
from kconnect.herder.cluster.topic_tracking import ClusterTopics
from kconnect.herder.connectors.host import ConnectorHost
from kconnect.herder.connectors.task_runs import TaskRuns
from kconnect.herder.decisions.connector_entry import patched, require_stopped
from kconnect.herder.decisions.events import CutOff, Reconfigure
from kconnect.herder.decisions.finding_messages import ClusterNames, sentence, utc_time
from kconnect.herder.decisions.machine import HerderState
from kconnect.herder.decisions.mismatch_rules import OwnSettings
from kconnect.herder.decisions.rebalances import Rebalance
from kconnect.herder.decisions.request_signatures import RequestSignature, check_signature
from kconnect.herder.decisions.requests import (
    AskFence,
    AskOffsets,
    AskPut,
    AskRemove,
    AskRestart,
    AskRestartByPlan,
    AskStop,
    AskTasks,
    Request,
)
from kconnect.herder.decisions.restart_plan import restart_plan
from kconnect.herder.health.reasons import Reason, reasons_text
from kconnect.herder.interface import LauncherEvents
from kconnect.herder.membership import Membership
from kconnect.herder.parts import HerderParts
from kconnect.herder.queries.herder_queries import HerderQueries
from kconnect.herder.queries.worker_metrics import worker_readings
from kconnect.logs import LogLevels, level_name, level_number
from kconnect.metrics import GroupView, Reading, group_readings
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    ConnectorType,
    TargetState,
    TaskId,
)
from kconnect.storage.config_topic import RestartRequested
from kconnect.storage.session_key import SessionKey

log = logging.getLogger(__name__)

# To leave the group, close plugins' threads and the log of what could not be stopped, after tasks had their time
_LEAVE_S = 5.0


class DistributedHerder(HerderQueries):
    """Implements `Herder`; its `events` implement `LauncherEvents`. States: new -> started -> stopped.

    The stores of `cluster` are started before it, and stopped after it, by their owner. Threads: every method from any.
    """

    _config: ClusterConfig
    _status: ClusterStatus
    _topics: ClusterTopics

    def __init__(self, parts: HerderParts, cluster: ClusterParts) -> None:
        self._parts = parts
        self._cluster = cluster
        self._state = HerderState(
            cluster.times, cluster.key_form, OwnSettings(cluster.exactly_once, cluster.protocol_version)
        )
        self._names = ClusterNames(cluster.group_id, cluster.config_topic, cluster.exactly_once)
        self._stages = ThreadStage(cluster.clock.time_ms)
        self._answers = PendingRequests()
        self._config = ClusterConfig(cluster.configs.snapshot)
        self._status = ClusterStatus(cluster.statuses)
        work = KnownWork(self._state.facts, self._config, self._status)
        self._keeper = StatusKeeper(self._status, cluster.clock, is_ours=work.is_assigned, is_orphan=work.is_orphan)
        self._topics = ClusterTopics(
            cluster.statuses, is_tracking=parts.tracks_topics, allows_reset=parts.allows_topics_reset
        )
        self._offsets = ClusterOffsets(
            cluster.offsets,
            self._config,
            parts.groups,
            cluster.own_offsets,
            offset_writer_of(parts.worker_config),
        )
        self._host = ConnectorHost(
            parts,
            self._status,
            request_tasks=self._reconfigure,
            look_again=self._look_again,
            offsets_of=self._offsets.store_of,
        )
        self._exactly_once = ExactlyOnce(parts.worker_config, cluster, self._config, self._host, self.fence_zombies)
        self._starts = self._exactly_once.starts(lambda: self.is_leader, lambda: self.leader_url)
        self._log_levels = LogLevels()
        self._cluster_id: str | None = None
        self._is_open = self._is_ready = self._is_stopping = False
        self._failure: ConnectError | None = None
        self._refused_with: SessionKey | None = None  # told once for each key
        self._rounds: RebalanceRounds | None = None
        self._thread: HerderThread | None = None
        self._has_begun = threading.Event()  # set by start() and stop(): until then requests wait
        self._membership: Membership | None = None
        self._work: LocalWork | None = None
        self.events: LauncherEvents = ClusterEvents(
            self._status,
            self._topics,
            self._offsets.store_of,
            self._offsets.commit_store_of,
            self._reconfigure,
            cluster.clock,
            _nobody if self._starts is None else self._starts.verify,
        )
        """What the launcher calls back; hand it to `Launcher.start`."""
        parts.health.add_source(self._out_of_group)

    # -- life ---------------------------------------------------------------------------------------------------------

    def open(self, kafka_cluster_id: str | None) -> None:
        """The stores are read: questions can be answered from now on. What changes something waits for the start."""
        self._cluster_id = kafka_cluster_id
        self._is_open = True

    def refuse_waiting(self) -> None:
        super().refuse_waiting()
        self._has_begun.set()

    def start(self, worker_id: str, url: str, kafka_cluster_id: str | None) -> None:
        """Join the group. `worker_id` is the advertised host:port, `url` where other workers reach this one's REST."""
        self.open(kafka_cluster_id)
        cluster, parts = self._cluster, self._parts
        self._status.worker_id = worker_id
        rounds = self._rounds = RebalanceRounds(
            cluster.configs.snapshot, url, cluster.protocol_version, cluster.times.max_delay_ms, cluster.clock
        )
        thread = self._thread = HerderThread(
            self._state, cluster.configs, rounds, self._stages, cluster.clock, self._crashed
        )
        tasks = TaskRuns(parts.launcher, self._status, parts.worker_config, parts.times.stop_s)
        work = self._work = LocalWork(
            self._host,
            tasks,
            self._status,
            parts.launcher,
            call_s=parts.times.call_s,
            stop_s=parts.times.stop_s,
            post=thread.post,
            fenced_starts=self._starts,
        )
        membership = self._membership = cluster.membership(rounds)
        hands = PerformerParts(
            cluster=cluster,
            membership=membership,
            rounds=rounds,
            work=work,
            status=self._status,
            modify_offsets=self._modify_offsets,
            answers=self._answers,
            stages=self._stages,
            fence=self._exactly_once.run_round,
            set_log_level=self._take_log_level,
            names=self._names,
            leader_url=lambda: self.leader_url or "",
            post=thread.post,
        )
        cluster.configs.set_listener(thread.note_change)
        self._watch = CutOffWatch(lambda: membership.runs_until, self._cut_off)
        self._status.is_in_touch = lambda: (until := membership.runs_until) is None or time.monotonic() < until
        self._status.look_again = self._keeper.note
        cluster.statuses.set_listener(self._keeper.note)
        thread.start(membership, Performer(hands))
        self._watch.start()
        self._keeper.start()
        self._has_begun.set()
        log.info("Herder started as worker %s of group %s", worker_id, cluster.group_id)

    def ready(self) -> None:
        """Start-up is complete."""
        self._is_ready = True

    def heard_at_s(self) -> float | None:
        """When (monotonic) the group last answered a heartbeat; None while it has not."""
        return None if self._membership is None else self._membership.meter.heartbeats.last_s

    def what_happens(self) -> str:
        cluster = self._cluster
        return (
            f"Without an answer within session.timeout.ms={cluster.times.session_timeout_ms} this worker stops its "
            f"connectors and tasks; they start again once it is back in group {cluster.group_id}."
        )

    def await_group(self, timeout_s: float) -> bool:
        """Wait for the first assignment; says whether there is one. Errors: as raise_if_failed."""
        self.raise_if_failed()
        return self._thread is not None and self._thread.has_joined.wait(timeout_s)

    def raise_if_failed(self) -> None:
        """Errors: ConnectError when the group refuses this worker for good, or its thread broke."""
        if (failure := self._failure) is not None:
            raise ConnectError(str(failure), hint=failure.hint) from failure

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks and connectors gracefully, leave the group. Takes no orders any more. Idempotent."""
        self._is_ready = False
        self.refuse_waiting()
        thread, work, self._work = self._thread, self._work, None
        if thread is None or work is None:
            return
        self._watch.stop(_LEAVE_S)
        self._keeper.stop(_LEAVE_S)
        if not thread.stop(timeout_s + _LEAVE_S):
            log.warning("The herder's thread did not end in time: %s", self._stages.summary())
        if self._membership is not None:
            self._membership.stop(_LEAVE_S)
        work.close(_LEAVE_S)
        self._offsets.close()
        self._answers.close(ConflictError("Worker is shutting down"))
        log.info("Herder stopped")

    # -- the group ----------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self._state.facts.is_leader

    @property
    def leader_url(self) -> str | None:
        """Where the leader's REST answers; None while it is not known."""
        return self._state.facts.leader_url or None

    @property
    def session_key(self) -> SessionKey | None:
        """The key with which workers sign what they ask of each other; None while there is none."""
        return self._cluster.configs.snapshot().session_key

    @property
    def requires_signatures(self) -> bool:
        """Whether requests of other workers must be signed: with the sub-protocol `sessioned` (KIP-507).

        Until the group has chosen one it is the setting's.
        """
        signs = self._state.facts.signs_requests
        return self._cluster.protocol_version >= 2 if signs is None else signs

    def rebalances(self) -> list[Rebalance]:
        """The last ones this worker went through, in order."""
        kept, rounds = self._state.rebalances.kept(), self._rounds
        return kept if rounds is None else [one.with_members(rounds.members_of(one.generation)) for one in kept]

    @property
    def state(self) -> HerderState:
        """What is decided and why, for those who look; its `ring` holds the last events."""
        return self._state

    # -- questions ----------------------------------------------------------------------------------------------------

    def connectors(self) -> list[str]:
        """Differs: Java's are in the order of its hash map."""
        return sorted(self._config.names())

    def metrics(self) -> Sequence[Reading]:
        """Of the connectors and tasks that run here, or did when the group was lost, and of the group.

        Differs: Java's metrics of what a worker has given up are gone, so that no alert fires.
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
        )
        return [*of_work, *self._group_readings(), *parts.kafka.readings()]

    def _group_readings(self) -> Iterable[Reading]:
        facts, thread, membership = self._state.facts, self._thread, self._membership
        if thread is None or membership is None:
            return ()
        assignment = facts.assignment
        return group_readings(
            GroupView(
                protocol_version=self._cluster.protocol_version if assignment is None else assignment.version,
                leader_url=self.leader_url or "",
                generation=facts.generation,
                connectors=len(facts.connectors),
                tasks=len(facts.tasks),
                meter=membership.meter,
                settling=thread.settling,
            )
        )

    # -- orders -------------------------------------------------------------------------------------------------------

    def put_connector(
        self, name: str, config: Mapping[str, str], *, initial_state: TargetState | None = None, replace: bool
    ) -> tuple[bool, ConnectorInfo]:
        config = {**config, "name": name} if "name" not in config else dict(config)
        self._validate(name, config)
        is_new = bool(self._ask(AskPut(name, config, initial_state, replace)))
        tasks = self._config.get(name).task_ids if not is_new else ()
        return is_new, ConnectorInfo(name, config, tasks, self._host.kind(config))

    def patch_connector(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        """Merge changes into the config. As Java does, a changed `name` is kept as a setting and renames nothing."""
        while True:
            base = self._config.get(name).config
            config = patched(base, changes)
            self._validate(name, config)
            try:
                self._ask(AskPut(name, config, None, replace=True, patch_of=base))
            except ConflictError:
                known = self._config.find(name)
                if known is not None and dict(known.config) != dict(base):
                    continue  # another request changed it while this one was checked
                raise
            return ConnectorInfo(name, config, self._config.get(name).task_ids, self._host.kind(config))

    def delete_connector(self, name: str) -> None:
        self._ask(AskRemove(name))

    def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause and resume are written by the worker that is asked, stop by the leader."""
        if state is TargetState.STOPPED:
            self._ask(AskStop(name))
            return
        self._config.get(name, f"Unknown connector {name}")
        self._cluster.configs.put_target_state(name, state)

    def restart_connector(self, name: str) -> None:
        self._ask(AskRestart(name))

    def restart_by_plan(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        entry = self._config.find(name)
        kind = self._host.kind(entry.config) if entry else ConnectorType.UNKNOWN
        status = self._status.find_connector(name, kind)
        self._ask(AskRestartByPlan(RestartRequested(name, only_failed, include_tasks)))
        if status is None:
            raise NotFoundError(f"Status for connector {name} not found")
        return restart_plan(status, include_tasks=include_tasks, only_failed=only_failed).status

    def restart_task(self, task_id: TaskId) -> None:
        self._ask(AskRestart(task_id))

    def request_task_reconfiguration(self, name: str) -> None:
        """Ask the connector for task configs again, in the background, if it runs here."""
        self._config.get(name, f"Unknown connector {name}")
        self._reconfigure(name)

    def check_peer(self, signature: RequestSignature | None) -> None:
        """As Java, requests need a signature only with the sub-protocol `sessioned`."""
        if not self.requires_signatures:
            return
        key = self.session_key
        try:
            check_signature(signature, key, self._cluster.verification_algorithms)
        except ForbiddenError:
            if key is not None and self._refused_with != key:
                self._refused_with = key
                log.warning(
                    "A request was refused: it is not signed with the session key made at %s; here it is %s. Who "
                    "signed it has not read the newest key of config.storage.topic=%s, or is no worker of group.id=%s",
                    utc_time(key.created_ms),
                    utc_time(self._cluster.clock.time_ms()),
                    self._cluster.config_topic,
                    self._cluster.group_id,
                )
            raise

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        self._ask(AskTasks(name, configs))

    def fence_zombies(self, name: str) -> None:
        self._ask(AskFence(name))

    def set_logger(self, name: str, level: int, *, whole_cluster: bool) -> list[str]:
        """Levels of the whole cluster go round by the config topic; this worker takes them from there too."""
        if whole_cluster:
            self._cluster.configs.put_logger_level(name, level_name(level))
            return []
        return self._set_log_level(name, level)

    # -- offsets ------------------------------------------------------------------------------------------------------

    def connector_offsets(self, name: str) -> list[ConnectorOffset]:
        return self._offsets.read(name, self._host, self._parts.times.call_s)

    def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        if not offsets:
            raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")
        return str(self._ask(AskOffsets(name, tuple(offsets))))

    def reset_connector_offsets(self, name: str) -> str:
        return str(self._ask(AskOffsets(name, None)))

    # -- steps --------------------------------------------------------------------------------------------------------

    def _ask(self, request: Request) -> object:
        """Have the thread do it. Errors: what it is refused with; TimedOutError, which says what it waits for."""
        self.raise_if_failed()
        began_s, timeout_s = time.monotonic(), self._cluster.request_timeout_s
        self._has_begun.wait(timeout_s)
        thread = self._thread
        if self._is_stopping or (thread is not None and self._work is None):
            raise ConflictError("Worker is shutting down")
        if thread is None:
            waits_for = reasons_text(self.health(), self._cluster.clock.time_ms())
            raise TimedOutError(f"Request timed out. The worker is still starting up. {waits_for}".rstrip())
        left_s = max(0.0, timeout_s - (time.monotonic() - began_s))
        return self._answers.ask(request, thread.post, left_s, self._stages)

    def _cut_off(self) -> None:
        """Stop all that runs here, from outside of the herder's thread."""
        work, thread = self._work, self._thread
        if work is not None and thread is not None:
            self._status.withhold()
            work.stop(Work(tuple(self._host.names()), self._status.running()))
            thread.post(CutOff())

    def _out_of_group(self) -> Iterable[Reason]:
        """Why this worker takes no part in its group, though it is up. Differs: Java's /health does not answer then."""
        facts = self._state.facts
        if facts.away is not None:
            yield Reason(sentence(facts.away, self._names, self.leader_url or ""), facts.away_since_ms)

    def _modify_offsets(self, name: str, offsets: Sequence[ConnectorOffset] | None) -> str:
        """Somebody may have resumed the connector on another worker since it was looked at."""
        self._cluster.configs.refresh(self._cluster.times.sync_timeout_ms / 1000)
        require_stopped(self._config.get(name))
        self._exactly_once.before_change(name, offsets)
        return self._offsets.modify(name, offsets, self._host, self._parts.times.call_s)

    def _reconfigure(self, connector: str) -> None:
        if self._thread is not None:
            self._thread.post(Reconfigure(connector))

    def _look_again(self, connector: str) -> None:
        entry, work = self._config.find(connector), self._work
        if entry is not None and work is not None:
            work.look_again(entry)

    def _take_log_level(self, logger: str, level: str) -> None:
        number = level_number(level)
        if number is None:
            log.warning("Level %s of logger %s in the config topic is none", level, logger)
        else:
            self._set_log_level(logger, number)

    def _set_log_level(self, logger: str, level: int) -> list[str]:
        changed = self._log_levels.set(logger, level)
        self._parts.launcher.set_log_level(logger, level)
        return changed

    def _crashed(self, error: BaseException) -> None:
        told = error if isinstance(error, ConnectError) else ConnectError(str(error) or type(error).__name__)
        self._failure = told
        self._answers.close(ConnectError(f"The worker has failed: {told}", hint=told.hint))

    def _validate(self, name: str, config: Mapping[str, str]) -> None:
        """Connect's checks and the connector's own, with a deadline. Errors: BadRequestError, TimedOutError."""
        self._checked(name, lambda: self._parts.validate(config))


def _nobody(task_id: TaskId) -> None:
    """Without exactly-once support nobody fences tasks off."""
