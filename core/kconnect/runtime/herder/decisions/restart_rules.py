"""Rules for restarts: those requested of the whole cluster by a record, where each worker does its part (KIP-745), and
those of a worker whose connectors and tasks run with outdated values.

Source: DistributedHerder#onRestartRequest, #processRestartRequests, RestartRequest#compareTo (Kafka 4.3).

AutoRestartRules: a cluster's leader decides on automatic restarts, and writes them to the config topic like
restarts that were requested, so that each worker carries out its part.

Every worker follows the statuses, so that any of them can lead at once. Differs: Java leaves what is FAILED as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kconnect.model import TargetState, TaskId
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.decisions.auto_restarts import AutoRestarts, RestartParts, budget_of, name_of
from kconnect.runtime.herder.decisions.events import StatusesRead, ValuesChanged, Written
from kconnect.runtime.herder.decisions.facts import HerderFacts
from kconnect.runtime.herder.decisions.failures import NoHelp
from kconnect.runtime.herder.decisions.instructions import Announce, Instruction, RestartByPlan, RestartHere, Write
from kconnect.runtime.herder.decisions.writes import ForAutoRestart, PutRestart
from kconnect.runtime.storage.config_topic import AutomaticRestart, PartRestarts, RestartRequested
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_topic import Subject


class RestartRules:
    """Part of a HerderState: requests wait until the group has settled; of two, the one with the larger effect is
    kept.
    """

    def __init__(self, facts: HerderFacts) -> None:
        self._facts = facts
        self._wanted: dict[str, RestartRequested] = {}
        self._changed: dict[str, str] = {}

    def want(self, request: RestartRequested) -> None:
        known = self._wanted.get(request.connector)
        if known is not None and known.automatic is not None and request.automatic is not None:
            parts = tuple(sorted({*known.automatic.parts, *request.automatic.parts}))
            request = replace(request, automatic=replace(request.automatic, parts=parts))
            self._wanted[request.connector] = request
        elif known is None or impact(request) > impact(known):
            self._wanted[request.connector] = request

    def values_changed(self, event: ValuesChanged) -> None:
        """Each worker sees this for itself, so that each restarts its own."""
        self._changed[event.connector] = event.why

    def due(self) -> list[Instruction]:
        """Restart the parts that run here; a deleted connector, or one without parts here, needs nothing."""
        facts = self._facts
        wanted, self._wanted = self._wanted, {}
        instructions: list[Instruction] = []
        for name, request in wanted.items():
            here = facts.running_of(name)
            if here and facts.snapshot.contains(name):
                instructions.append(RestartByPlan(request, here, facts.snapshot))
        changed, self._changed = self._changed, {}
        for name, why in changed.items():
            here = facts.running_of(name)
            if here and facts.snapshot.contains(name):
                instructions.append(RestartHere(name, why, here, facts.snapshot))
        return instructions


def impact(request: RestartRequested) -> tuple[bool, bool, bool]:
    """How much a request touches: all before only failed, with tasks before without, all parts before some."""
    return (not request.only_failed, request.include_tasks, request.automatic is None)


class AutoRestartRules:
    """Part of a HerderState."""

    def __init__(self, facts: HerderFacts, defaults: RestartSettings, restarts: AutoRestarts) -> None:
        self._facts = facts
        self._budgets = ClusterBudgets(facts, defaults)
        self._restarts = restarts
        self._weighed_by: tuple[ClusterSnapshot, Sequence[str], NoHelp | None] | None = None

    def read(self, event: StatusesRead) -> list[Instruction]:
        """Statuses were read, in their order."""
        now_ms = self._facts.now_ms
        if event.is_all:
            self._restarts.only(subject for subject, _ in event.failed)
        for subject, failure in event.failed:
            if not (event.is_all and subject in self._restarts.failing()):
                self._restarts.fails(subject, failure, now_ms)
        for subject, state in event.others:
            self._restarts.stands(subject, state, now_ms, self._budgets)
        return []

    def written(self, event: Written, connector: str) -> None:
        if event.error is not None:
            self._restarts.refused(connector, self._facts.now_ms)

    def due(self) -> list[Instruction]:
        """What time allows now, for a member that leads."""
        facts = self._facts
        if not facts.is_leader:
            self._restarts.follow()
            self._weighed_by = None
            return []
        self._restarts.lead(facts.now_ms - facts.times.session_timeout_ms)
        self._note_changes()
        instructions: list[Instruction] = [
            Announce(notice) for notice in self._restarts.notices(facts.now_ms, self._budgets)
        ]
        if facts.may_write and (found := self._restarts.restart(facts.now_ms, self._budgets)) is not None:
            facts.is_writing = True
            instructions.append(Write(ForAutoRestart(found.connector), PutRestart(_request(found))))
        return instructions

    def _note_changes(self) -> None:
        """Have weighed again what other facts than before decide about."""
        facts, known = self._facts, self._weighed_by
        now = self._weighed_by = (facts.snapshot, facts.workers, facts.javas_place)
        if known is None or known[1:] != now[1:]:
            self._restarts.weigh_again()
        elif known[0] is not now[0]:
            self._restarts.weigh_again(lambda name: _decisive(known[0], name) != _decisive(now[0], name))

    def next_due_ms(self) -> int | None:
        facts = self._facts
        if not facts.is_leader:
            return None
        return self._restarts.next_due_ms(facts.now_ms, self._budgets, may_restart=facts.may_write)


def _decisive(snapshot: ClusterSnapshot, connector: str) -> tuple[object, ...]:
    """What `ClusterBudgets` read of a connector."""
    return (
        snapshot.raw_config(connector),
        snapshot.target_state(connector),
        snapshot.task_count(connector),
        connector in snapshot.inconsistent,
        snapshot.automatic_restarts.get(connector),
    )


class ClusterBudgets:
    """Implements `Budgets` on the config topic as read last, and on what the group shows of its members."""

    def __init__(self, facts: HerderFacts, defaults: RestartSettings) -> None:
        self._facts = facts
        self._defaults = defaults
        self._read: dict[str, tuple[Mapping[str, str] | None, RestartSettings]] = {}  # by connector, and from what

    def settings(self, connector: str) -> RestartSettings:
        config = self._facts.snapshot.raw_config(connector) or {}
        read_from, found = self._read.get(connector, (None, self._defaults))
        if read_from is not config:  # a hundred failing tasks ask for it with each event
            found = self._defaults.of_connector(config)
            self._read[connector] = (config, found)
        return found

    def most(self, connector: str) -> int:
        return budget_of(self.settings(connector), self._facts.javas_place).most

    def why_none(self, connector: str) -> NoHelp | None:
        return budget_of(self.settings(connector), self._facts.javas_place).why_none

    def restarts(self, connector: str) -> Sequence[PartRestarts]:
        return self._facts.snapshot.automatic_restarts.get(connector, ())

    def may_run(self, subject: Subject) -> bool:
        snapshot, name = self._facts.snapshot, name_of(subject)
        exists = subject in snapshot.tasks(name) if isinstance(subject, TaskId) else snapshot.contains(name)
        return exists and snapshot.contains(name) and snapshot.target_state(name) is TargetState.STARTED

    def is_here(self, worker_id: str) -> bool:
        return not self._facts.workers or worker_id in self._facts.workers


def _request(found: RestartParts) -> RestartRequested:
    return RestartRequested(found.connector, True, True, AutomaticRestart(found.parts, found.restarts))
