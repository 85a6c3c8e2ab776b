"""Performs the instructions of a cluster's state machine, one by one, on the herder's thread.

Slow work that nothing waits for runs in a pool, and its result returns as an event.

`carry_out` performs a leader's writes to the config topic.

Source: DistributedHerder#putConnectorConfig, #stopConnector, #writeTaskConfigs, #checkForKeyRotation (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kconnect.errors import ConflictError, ConnectError, TimedOutError, WrongWorkerError
from kconnect.logs.repeats import RepeatedMessages
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset, ConnectorType, TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.cluster.change_requests import PendingRequests
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.config_entries import entry_of
from kconnect.runtime.herder.cluster.local_work import LocalWork
from kconnect.runtime.herder.cluster.rebalance_rounds import RebalanceRounds
from kconnect.runtime.herder.cluster.status_watch import FailureWatch
from kconnect.runtime.herder.cluster.thread_stage import ThreadStage
from kconnect.runtime.herder.decisions.auto_restarts import Notice
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.decisions.events import (
    CaughtUp,
    Claimed,
    Event,
    FirstOffsetsWritten,
    TaskConfigsForwarded,
    Written,
)
from kconnect.runtime.herder.decisions.instructions import (
    Announce,
    ApplyLogLevel,
    AskTaskConfigs,
    CatchUp,
    Claim,
    CleanUp,
    Complete,
    FenceZombies,
    ForwardTaskConfigs,
    Instruction,
    LeaveGroup,
    ModifyOffsets,
    Redirect,
    Refuse,
    RequestRejoin,
    Restart,
    RestartByPlan,
    RestartHere,
    SetTarget,
    StartWork,
    StopWork,
    TakeGeneration,
    Tell,
    WithholdStops,
    Write,
    WriteFirstOffsets,
)
from kconnect.runtime.herder.decisions.mismatches import ClusterNames, ConfigTopicEnds, sentence
from kconnect.runtime.herder.decisions.notice_texts import level_of, notice_text
from kconnect.runtime.herder.decisions.request_signatures import KeyForm, new_key
from kconnect.runtime.herder.decisions.restart_plan import restart_plan
from kconnect.runtime.herder.decisions.writes import (
    ConfigWrite,
    ForRequest,
    NewSessionKey,
    PutConfig,
    PutRestart,
    PutStopped,
    PutTaskCount,
    PutTasks,
    RemoveConfig,
)
from kconnect.runtime.herder.membership import Membership
from kconnect.runtime.storage.config_store import ConfigStore

log = logging.getLogger(__name__)

# Statuses of stopped work must be written before the group continues; allow as long as one write of configs may take
_FLUSH_S = 30.0
# Requests to the leader: they wait for another process, so more than Java's single thread
_FORWARDERS = 4
# A few reads of another worker's pending commit; a read to the end takes about 5 ms
_READ_AGAIN_S = 0.1
# Rounds of fencing wait for brokers; a worker that joins may bring many connectors at once
_FENCERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformerParts:
    """What a performer acts on."""

    cluster: ClusterParts
    membership: Membership
    rounds: RebalanceRounds
    work: LocalWork
    status: ClusterStatus
    failures: FailureWatch
    modify_offsets: Callable[[str, Sequence[ConnectorOffset] | None, Collection[str] | None], str]
    first_offsets: Callable[[str, Mapping[str, str], Sequence[ConnectorOffset]], str]
    pending: PendingRequests
    stages: ThreadStage
    fence: Callable[[str], None]
    """Run a round of fencing for a connector. Blocks. Errors: ConnectError."""
    set_log_level: Callable[[str, str], None]
    names: ClusterNames
    leader_url: Callable[[], str]
    """Gives the URL of the present leader; empty while it is not known."""
    announce: Callable[[Notice], None]
    """Pass a notice on to who wants it. Does not block."""
    post: Callable[[Event], None]


class Performer:
    """Threads: one, the herder's. States: open -> closed."""

    def __init__(self, parts: PerformerParts) -> None:
        self._parts = parts
        self._pool = ThreadPoolExecutor(_FORWARDERS, thread_name_prefix="herder-forward")
        self._fencers = ThreadPoolExecutor(_FENCERS, thread_name_prefix="fencing-round")
        self._closed = threading.Event()
        self._refused_claims = RepeatedMessages(log)

    def perform(self, instruction: Instruction) -> Event | None:
        """Perform it; returns the resulting event if there is one right away."""
        match instruction:
            case CatchUp(timeout_ms, offset):
                return self._catch_up(timeout_ms / 1000, offset)
            case Claim():
                return self._claim()
            case Write():
                return self._write(instruction)
            case (
                StartWork() | StopWork() | SetTarget() | RestartByPlan() | RestartHere() | Restart() | AskTaskConfigs()
            ):
                self._work(instruction)
            case Complete() | Refuse() | Redirect() | ModifyOffsets() | WriteFirstOffsets() | FenceZombies():
                self._answer(instruction)
            case _:
                self._tell(instruction)
        return None

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._fencers.shutdown(wait=False, cancel_futures=True)

    def _tell(
        self,
        instruction: TakeGeneration
        | WithholdStops
        | RequestRejoin
        | Tell
        | Announce
        | LeaveGroup
        | CleanUp
        | ApplyLogLevel
        | ForwardTaskConfigs,
    ) -> None:
        parts = self._parts
        match instruction:
            case TakeGeneration(generation, is_leader):
                parts.status.take_generation(generation)
                parts.failures.look_at_all()
                self._pool.submit(parts.status.release, parts.cluster.times.sync_timeout_ms / 1000)
                log.info("Joined the group in generation %d%s", generation, ", as its leader" if is_leader else "")
            case WithholdStops():
                parts.status.withhold()
            case RequestRejoin(why):
                parts.membership.request_rejoin(why)
            case Tell(finding):
                level = logging.ERROR if isinstance(finding, ConfigTopicEnds) else logging.WARNING
                log.log(level, "%s", sentence(finding, parts.names, parts.leader_url()))
            case Announce(notice):
                log.log(level_of(notice), "%s", notice_text(notice))
                parts.announce(notice)
            case LeaveGroup(why):
                parts.membership.leave(why)
            case CleanUp(snapshot):
                parts.status.clean_up(snapshot)
            case ApplyLogLevel(logger, level):
                parts.set_log_level(logger, level)
            case ForwardTaskConfigs():
                self._pool.submit(self._forward, instruction)

    # -- the config topic ---------------------------------------------------------------------------------------------

    def _catch_up(self, timeout_s: float, offset: int) -> CaughtUp:
        """Read to the end, more than once where that is before `offset`: a transaction may be open there."""
        configs, problem, clock = self._parts.cluster.configs, None, self._parts.cluster.clock
        deadline = clock.monotonic() + timeout_s
        with self._parts.stages.stage("reading to the end of the config topic"):
            try:
                configs.refresh(timeout_s)
                while configs.snapshot().offset < offset and clock.monotonic() < deadline:
                    clock.wait(self._closed, _READ_AGAIN_S)
                    configs.refresh(max(_READ_AGAIN_S, deadline - clock.monotonic()))
            except ConnectError as err:
                log.warning("The config topic was not read to its end: %s", err)
                problem = str(err)
        return CaughtUp(configs.snapshot(), problem)

    def _claim(self) -> Claimed:
        with self._parts.stages.stage("claiming write privileges for the config topic"):
            try:
                self._parts.cluster.configs.claim_write_privileges()
            except ConnectError as err:
                self._refused_claims.log(
                    logging.WARNING, "Unable to claim write privileges: %s", f"{err} {err.hint or ''}".rstrip()
                )
                return Claimed(str(err), err.hint)
        return Claimed()

    def _write(self, instruction: Write) -> Written:
        cluster, error = self._parts.cluster, None
        with self._parts.stages.stage(f"writing to the config topic: {described(instruction.write)}"):
            try:
                carry_out(instruction.write, cluster.configs, cluster.key_form, cluster.times.sync_timeout_ms / 1000)
            except ConnectError as err:
                log.warning("A write to the config topic failed: %s", err)
                error = err
        return Written(instruction.target, cluster.configs.snapshot(), error)

    # -- work ---------------------------------------------------------------------------------------------------------

    def _work(
        self, instruction: StartWork | StopWork | SetTarget | RestartByPlan | RestartHere | Restart | AskTaskConfigs
    ) -> None:
        parts = self._parts
        match instruction:
            case StartWork(work, snapshot):
                with parts.stages.stage(f"starting {_size(work)}"):
                    parts.work.start(work, snapshot)
            case StopWork():
                self._stop(instruction)
            case SetTarget(connector, state, here):
                parts.work.set_target(connector, state, here)
            case RestartByPlan():
                self._restart_by_plan(instruction)
            case RestartHere():
                self._restart_here(instruction)
            case Restart():
                self._restart(instruction)
            case AskTaskConfigs(connector, config):
                parts.work.ask_task_configs(ConnectorEntry(connector, config))

    def _stop(self, order: StopWork) -> None:
        size = _size(order.work)
        log.info("Stopping %s: %s", size, order.why)
        with self._parts.stages.stage(f"stopping {size}"):
            self._parts.work.stop(order.work, is_cut_off=order.is_cut_off)
        with self._parts.stages.stage("writing the statuses of stopped connectors and tasks"):
            try:
                self._parts.cluster.statuses.flush(_FLUSH_S)
            except TimedOutError as err:
                log.warning("Statuses of stopped connectors and tasks may be late: %s", err)

    def _restart_by_plan(self, instruction: RestartByPlan) -> None:
        """Source: doRestartConnectorAndTasks."""
        parts, request = self._parts, instruction.request
        status = parts.status.find_connector(request.connector, ConnectorType.UNKNOWN)
        entry = entry_of(instruction.snapshot, request.connector)
        if status is None or entry is None:
            log.info("Connector %s has no status yet: nothing to restart", request.connector)
            return
        parts_due = None if request.automatic is None else request.automatic.parts
        plan = restart_plan(
            status, include_tasks=request.include_tasks, only_failed=request.only_failed, parts=parts_due
        )
        connector = plan.restart_connector and request.connector in instruction.here.connectors
        tasks = [task_id for task_id in plan.tasks if task_id in instruction.here.tasks]
        if not connector and not tasks:
            return
        log.info(
            "Restarting %s%s of connector %s", "it and " if connector else "", pluralize(len(tasks), "task"), entry.name
        )
        with parts.stages.stage(f"restarting connector {entry.name} and its tasks"):
            parts.work.restart_parts(entry, connector=connector, tasks=tasks)

    def _restart_here(self, instruction: RestartHere) -> None:
        entry, here = entry_of(instruction.snapshot, instruction.connector), instruction.here
        if entry is None:
            return
        what = [*(["it"] if here.connectors else []), *map(str, here.tasks)]
        log.info("Connector %s: restarting %s: %s", entry.name, ", ".join(what), instruction.why)
        with self._parts.stages.stage(f"restarting connector {entry.name} and its tasks"):
            self._parts.work.restart_parts(entry, connector=bool(here.connectors), tasks=here.tasks)

    def _restart(self, instruction: Restart) -> None:
        parts, subject = self._parts, instruction.subject
        name = subject.connector if isinstance(subject, TaskId) else subject
        entry = entry_of(instruction.snapshot, name)
        if entry is None:
            parts.pending.fail(instruction.id, ConflictError(f"Connector {name} was deleted in the meantime"))
        elif isinstance(subject, TaskId):
            with parts.stages.stage(f"restarting task {subject}"):
                parts.work.restart_task(entry, subject)
            parts.pending.give(instruction.id, None)
        else:
            parts.pending.tell(instruction.id, parts.stages.elsewhere("starting the connector"))
            parts.work.restart_connector(
                entry,
                lambda error: (
                    parts.pending.give(instruction.id, None)
                    if error is None
                    else parts.pending.fail(instruction.id, error)
                ),
            )

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(
        self, instruction: Complete | Refuse | Redirect | ModifyOffsets | WriteFirstOffsets | FenceZombies
    ) -> None:
        parts = self._parts
        match instruction:
            case Complete(number, value):
                parts.pending.give(number, value)
            case Refuse(number, error):
                parts.pending.fail(number, error)
            case Redirect(number, subject):
                parts.pending.fail(number, self._redirected(subject))
            case ModifyOffsets():
                self._pool.submit(self._modify_offsets, instruction)
            case WriteFirstOffsets():
                self._pool.submit(self._write_first_offsets, instruction)
            case FenceZombies():
                self._fencers.submit(self._fence, instruction)

    def _redirected(self, subject: str | TaskId) -> ConnectError:
        what = "task" if isinstance(subject, TaskId) else "connector"
        url = self._parts.rounds.owner_url(subject)
        message = f"Cannot restart {what} since it is not assigned to this member"
        if url is None:
            return ConflictError(message, hint="It is not running anywhere now; try again once it has been assigned.")
        return WrongWorkerError(message, url)

    def _modify_offsets(self, instruction: ModifyOffsets) -> None:
        parts = self._parts
        try:
            message = parts.modify_offsets(instruction.connector, instruction.offsets, instruction.expected)
        except ConnectError as err:
            parts.pending.fail(instruction.id, err)
        except Exception as err:  # a plugin call
            log.exception("Offsets of connector %s cannot be changed", instruction.connector)
            parts.pending.fail(
                instruction.id, ConnectError(f"Offsets of connector {instruction.connector} cannot be changed: {err}")
            )
        else:
            parts.pending.give(instruction.id, message)

    def _write_first_offsets(self, instruction: WriteFirstOffsets) -> None:
        parts, name = self._parts, instruction.connector
        try:
            done = FirstOffsetsWritten(
                instruction.id, parts.first_offsets(name, instruction.config, instruction.offsets)
            )
        except ConnectError as err:
            done = FirstOffsetsWritten(instruction.id, error=err)
        except Exception as err:  # a plugin call
            log.exception("Offsets of connector %s cannot be set", name)
            done = FirstOffsetsWritten(
                instruction.id, error=ConnectError(f"Offsets of connector {name} cannot be set: {err}")
            )
        parts.post(done)

    def _fence(self, instruction: FenceZombies) -> None:
        parts, problem = self._parts, None
        try:
            parts.fence(instruction.connector)
        except ConnectError as err:
            problem = err
        except Exception as err:  # top of a thread
            log.exception("Former tasks of connector %s cannot be fenced off", instruction.connector)
            problem = ConnectError(f"Former tasks of connector {instruction.connector} cannot be fenced off: {err}")
        parts.post(Written(ForRequest(instruction.id), parts.cluster.configs.snapshot(), problem))

    def _forward(self, instruction: ForwardTaskConfigs) -> None:
        parts, problem = self._parts, None
        try:
            key = parts.cluster.configs.snapshot().session_key
            parts.cluster.leader.put_task_configs(
                instruction.leader_url, instruction.connector, instruction.configs, key
            )
        except Exception as err:  # top of a thread; whatever the error, it is retried
            log.error("The leader did not accept the task configs of connector %s: %s", instruction.connector, err)
            problem = str(err)
        parts.post(TaskConfigsForwarded(instruction.connector, problem))


def _size(work: Work) -> str:
    return f"{pluralize(len(work.connectors), 'connector')} and {pluralize(len(work.tasks), 'task')}"


def carry_out(write: ConfigWrite, configs: ConfigStore, key_form: KeyForm, sync_timeout_s: float) -> None:
    """Write it and read it back. Errors: ConnectError, as of ConfigStore; ConflictError of PutTaskCount."""
    match write:
        case PutConfig(connector, config, target_state):
            configs.put_connector_config(connector, config, target_state)
        case RemoveConfig(connector):
            configs.remove_connector_config(connector)
        case PutTasks(connector, task_configs):
            configs.put_task_configs(connector, task_configs)
        case PutTaskCount(connector, count, generation):
            if configs.snapshot().task_config_generation(connector) != generation:
                raise ConflictError("Fencing failed because new task configurations were generated for the connector")
            configs.put_task_count_record(connector, count)
        case PutStopped(connector):
            _stop(connector, configs, sync_timeout_s)
        case PutRestart(request):
            configs.put_restart_request(request)
        case NewSessionKey(created_ms):
            configs.put_session_key(new_key(key_form, created_ms))


def _stop(connector: str, configs: ConfigStore, sync_timeout_s: float) -> None:
    """Tasks first: a connector without tasks that is not STOPPED yet is fine, a STOPPED one with tasks is not."""
    configs.remove_task_configs(connector)
    configs.put_target_state(connector, TargetState.STOPPED)
    try:
        configs.refresh(sync_timeout_s)
    except TimedOutError as err:  # both are written: readers will get them
        log.warning(
            "The target state STOPPED of connector %s was written but has not been read back yet: %s", connector, err
        )


def described(write: ConfigWrite) -> str:
    """Names what is written, for a message."""
    match write:
        case PutConfig(connector):
            return f"the config of connector {connector}"
        case RemoveConfig(connector):
            return f"the removal of connector {connector}"
        case PutTasks(connector):
            return f"the task configs of connector {connector}"
        case PutTaskCount(connector):
            return f"the number of tasks of connector {connector}"
        case PutStopped(connector):
            return f"the stop of connector {connector}"
        case PutRestart(request):
            return f"a restart request for connector {request.connector}"
        case NewSessionKey():
            return "a new session key"
