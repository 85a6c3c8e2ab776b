"""Rules for requests: permissions, refusals and their messages, and what waits for a rebalance.

Source: DistributedHerder#putConnectorConfig, #deleteConnectorConfig, #stopConnector, #restartConnector, #restartTask,
#putTaskConfigs, #modifyConnectorOffsetsChecks, #checkRebalanceNeeded (Kafka 4.3).
Differs: a request that meets a rebalance, or an imminent one that affects it, waits for its end, up to its own
deadline; Java answers 409. A new connector starts also where a deleted one of its name left a target state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ConnectError,
    FencedError,
    NotFoundError,
    WrongWorkerError,
)
from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.decisions.config_rules import ConfigRules
from kconnect.runtime.herder.decisions.connector_entry import not_stopped
from kconnect.runtime.herder.decisions.etags import require_config, tags_of_offsets
from kconnect.runtime.herder.decisions.events import Asked, FirstOffsetsWritten, GivenUp, Written
from kconnect.runtime.herder.decisions.facts import HerderFacts
from kconnect.runtime.herder.decisions.instructions import (
    Complete,
    FenceZombies,
    Instruction,
    ModifyOffsets,
    Redirect,
    Refuse,
    Restart,
    Write,
    WriteFirstOffsets,
)
from kconnect.runtime.herder.decisions.requests import (
    AskFence,
    AskOffsets,
    AskPut,
    AskRemove,
    AskRestart,
    AskRestartByPlan,
    AskStop,
    AskTaskCount,
    AskTasks,
    Request,
)
from kconnect.runtime.herder.decisions.writes import (
    ConfigWrite,
    ForRequest,
    PutConfig,
    PutRestart,
    PutStopped,
    PutTaskCount,
    PutTasks,
    RemoveConfig,
)

_NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."


class RequestRules:
    """Part of a HerderState: requests are answered in order of arrival; those that wait let others pass."""

    def __init__(self, facts: HerderFacts, configs: ConfigRules) -> None:
        self._facts = facts
        self._configs = configs
        self._waiting: dict[int, Request] = {}
        self._creating: dict[int, AskPut] = {}  # whose offsets are being written: their names are taken meanwhile
        self._given_up: set[int] = set()  # of _creating

    def take(self, event: Asked) -> None:
        self._waiting[event.id] = event.request

    def give_up(self, event: GivenUp) -> None:
        """The caller no longer waits: a request that has not begun is dropped."""
        self._waiting.pop(event.id, None)
        if event.id in self._creating:
            self._given_up.add(event.id)

    def first_offsets_written(self, event: FirstOffsetsWritten) -> list[Instruction]:
        """The config is written next, by the rules of every other: this worker may lead the group no more."""
        request = self._creating.pop(event.id, None)
        if request is None:
            return []
        if event.id in self._given_up:
            self._given_up.remove(event.id)
            return []
        if event.error is not None:
            return [Refuse(event.id, event.error)]
        self._waiting[event.id] = replace(request, offsets=None, offsets_status=event.status)
        return []

    def due(self) -> list[Instruction]:
        """Decide requests that need not wait; one write at a time, so that the next sees its result."""
        instructions: list[Instruction] = []
        for number, request in list(self._waiting.items()):
            if self._must_wait(request):
                continue
            del self._waiting[number]
            try:
                instructions.append(self._decide(number, request))
            except ConnectError as error:
                instructions.append(Refuse(number, error))
        return instructions

    def written(self, event: Written, target: ForRequest) -> list[Instruction]:
        error = event.error
        if isinstance(error, FencedError):
            error = ConflictError(
                "Another worker has taken over the right to write to the config topic",
                hint="Try again: the worker claims it again if it still leads the group.",
            )
        return [Complete(target.id, target.answer) if error is None else Refuse(target.id, error)]

    def refuse_all(self) -> list[Instruction]:
        """The worker stops."""
        waiting, self._waiting = {**self._waiting, **self._creating}, {}
        self._creating, self._given_up = {}, set()
        return [Refuse(number, ConflictError("Worker is shutting down")) for number in waiting]

    def _must_wait(self, request: Request) -> bool:
        facts = self._facts
        if isinstance(request, AskPut | AskRemove) and self._is_being_created(request.connector):
            return True
        if isinstance(request, AskRestart):
            name = request.subject.connector if isinstance(request.subject, TaskId) else request.subject
            is_here = request.subject in facts.running_connectors or request.subject in facts.running_tasks
            return self._configs.expects_rebalance and not is_here and facts.snapshot.contains(name)
        if self._changes_offsets(request) and facts.is_leader and self._runs_on(request.connector):
            return True
        return facts.is_leader and not facts.may_write

    @staticmethod
    def _changes_offsets(request: Request) -> TypeGuard[AskOffsets | AskPut]:
        return isinstance(request, AskOffsets) or (isinstance(request, AskPut) and request.offsets is not None)

    def _is_being_created(self, connector: str) -> bool:
        return any(request.connector == connector for request in self._creating.values())

    def _runs_on(self, connector: str) -> bool:
        """Its tasks are gone from the configs, but the rebalance that stops them is not over: they still commit."""
        facts = self._facts
        return facts.snapshot.task_count(connector) == 0 < facts.placed.task_count(connector)

    def _decide(self, number: int, request: Request) -> Instruction:
        """Errors: ConnectError, which the asker gets."""
        match request:
            case AskRestart(subject):
                return self._restart(number, subject)
            case AskTasks(connector, configs):
                self._require_leader("Only the leader may write task configurations.")
                self._require(connector)
                self._require_not_stopped(connector, configs)
                return self._write(number, PutTasks(connector, configs))
            case AskFence(connector):
                self._require_leader("Only the leader may perform zombie fencing.")
                self._require(connector)
                return FenceZombies(number, connector)
            case AskTaskCount(connector, count, generation):
                self._require_leader("Only the leader may perform zombie fencing.")
                self._require(connector)
                return self._write(number, PutTaskCount(connector, count, generation))
            case AskOffsets(connector, offsets, expected):
                self._require_leader("Only the leader can process external offsets modification requests")
                self._require(connector)
                self._require_stopped(connector)
                config = self._facts.snapshot.configs[connector]
                return ModifyOffsets(number, connector, offsets, tags_of_offsets(expected, connector, config))
            case AskRestartByPlan(plan):
                self._require(plan.connector, f"Unknown connector: {plan.connector}")
                self._require_leader("Only the leader can process restart requests.")
                return self._write(number, PutRestart(plan))
            case AskPut():
                return self._put(number, request)
            case AskRemove(connector, expected):
                self._require_leader("Only the leader can delete connector configs.")
                self._require(connector)
                require_config(expected, connector, self._facts.snapshot.configs[connector])
                return self._write(number, RemoveConfig(connector))
            case AskStop(connector):
                self._require_leader("Only the leader can transition connectors to the STOPPED state.")
                self._require(connector, f"Unknown connector {connector}")
                return self._write(number, PutStopped(connector))

    def _put(self, number: int, request: AskPut) -> Instruction:
        self._require_leader()
        name, snapshot = request.connector, self._facts.snapshot
        exists = snapshot.contains(name)
        require_config(request.expected, name, snapshot.configs[name] if exists else None)
        if request.patch_of is not None:
            self._require(name)
            if dict(snapshot.configs[name]) != dict(request.patch_of):
                raise ConflictError(f"The config of connector {name} was changed in the meantime")
        if exists and not request.replace:
            raise AlreadyExistsError(f"Connector {name} already exists")
        if request.offsets is not None:
            self._creating[number] = request
            return WriteFirstOffsets(number, name, request.config, request.offsets)
        answer = request.offsets_status if request.offsets_status is not None else not exists
        state = request.target_state
        if state is None and not exists and name in snapshot.target_states:
            state = TargetState.STARTED  # a pause that raced with the deletion of a former connector left another
        return self._write(number, PutConfig(name, request.config, state), answer)

    def _restart(self, number: int, subject: str | TaskId) -> Instruction:
        facts = self._facts
        name = subject.connector if isinstance(subject, TaskId) else subject
        self._require(name, f"Unknown connector: {name}")
        if isinstance(subject, TaskId) and facts.snapshot.raw_task_config(subject) is None:
            raise NotFoundError(f"Unknown task: {subject}")
        if subject in facts.running_connectors or subject in facts.running_tasks:
            here = Work((), (subject,)) if isinstance(subject, TaskId) else Work((subject,))
            facts.started(here, facts.snapshot)
            return Restart(number, subject, facts.snapshot)
        self._require_leader(
            "Cannot restart task since it is not assigned to this member"
            if isinstance(subject, TaskId)
            else "Only the leader can process restart requests."
        )
        return Redirect(number, subject)

    def _write(self, number: int, write: ConfigWrite, answer: bool | str = False) -> Instruction:
        self._facts.is_writing = True
        return Write(ForRequest(number, answer), write)

    def _require_leader(self, message: str = "Only the leader can set connector configs.") -> None:
        if self._facts.is_leader:
            return
        if not self._facts.leader_url:
            raise ConflictError(_NO_LEADER)
        raise WrongWorkerError(message, self._facts.leader_url)

    def _require(self, connector: str, message: str | None = None) -> None:
        if not self._facts.snapshot.contains(connector):
            raise NotFoundError(message or f"Connector {connector} not found")

    def _require_not_stopped(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Task configs from before the connector was stopped, which arrive late from its worker, are ignored."""
        if configs and self._facts.snapshot.target_state(connector) is TargetState.STOPPED:
            raise BadRequestError(f"Cannot submit non-empty set of task configs for stopped connector {connector}")

    def _require_stopped(self, connector: str) -> None:
        snapshot = self._facts.snapshot
        if snapshot.target_state(connector) is not TargetState.STOPPED or snapshot.task_count(connector):
            raise BadRequestError(not_stopped(connector))
