"""Rules for changes of the config topic: what restarts, pauses or stops here, and when the group has to rebalance.

Rebalances are coalesced: changes in quick succession lead to one rebalance.
Source: DistributedHerder.ConfigUpdateListener, #processConnectorConfigUpdates, #processTargetStateChanges (Kafka 4.3).
Differs: Java requests a rebalance for each change, and answers 409 to requests meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kconnect.model import TargetState
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.decisions.events import ConfigsChanged
from kconnect.runtime.herder.decisions.facts import HerderFacts
from kconnect.runtime.herder.decisions.instructions import ApplyLogLevel, Instruction, SetTarget, StartWork, StopWork
from kconnect.runtime.herder.decisions.restart_rules import RestartRules
from kconnect.runtime.storage.config_topic import LoggerLevelSet, RestartRequested
from kconnect.runtime.storage.snapshot import (
    NO_OFFSET,
    Change,
    ClusterSnapshot,
    ConnectorRemoved,
    ConnectorUpdated,
    TargetStateChanged,
    TasksUpdated,
)


class ConfigRules:
    """Part of a HerderState. Changes wait while the group rebalances: work does not move then."""

    def __init__(self, facts: HerderFacts, restarts: RestartRules) -> None:
        self._facts = facts
        self._restarts = restarts
        self._held: list[tuple[Change, int]] = []
        # Connectors whose tasks keep running with configs from before this offset until the group joins
        self._reconfigured: dict[str, int] = {}
        self._dirty_offset = -1  # up to here changes call for a rebalance
        self._dirty_since_ms: int | None = None
        self._dirty_last_ms = 0

    def take(self, event: ConfigsChanged) -> list[Instruction]:
        """Take in changes that were read; logger levels take effect at once."""
        facts = self._facts
        if event.snapshot.offset >= facts.snapshot.offset:
            facts.snapshot = event.snapshot
        instructions: list[Instruction] = []
        for change, offset in event.changes:
            match change:
                case LoggerLevelSet(logger, level):
                    instructions.append(ApplyLogLevel(logger, level))
                case _:
                    self._held.append((change, offset))
                    self._note_rebalance(change, offset)
        return instructions

    def due(self) -> list[Instruction]:
        """Act on all waiting changes."""
        return self._apply(None, self._facts.snapshot) if self._held else []

    @property
    def has_overtaken(self) -> bool:
        """Whether changes wait whose work was already assigned: the snapshot arrived before them."""
        return bool(self._held) and self._held[0][1] <= self._facts.placed.offset

    def settle(self) -> list[Instruction]:
        """A rebalance has assigned the work of the configs at an offset: waiting changes up to there precede it."""
        offset = self._facts.placed.offset
        instructions = self._apply(offset, self._facts.placed)
        if self._dirty_offset <= offset:
            self._dirty_since_ms = None
        return [*instructions, *self.stop_reconfigured()]

    def stop_reconfigured(self) -> list[Instruction]:
        """Tasks whose configs have changed stop before the group joins: no old task runs next to a new one.

        They start again when the rebalance is over, if they are still this worker's.
        """
        facts, reconfigured = self._facts, self._reconfigured
        stale = [task for task in facts.tasks if facts.runs_older(task, reconfigured.get(task.connector, NO_OFFSET))]
        reconfigured.clear()
        return self._stop(Work((), tuple(stale)), "their configs have changed")

    @property
    def expects_rebalance(self) -> bool:
        """Whether a change that was read will cause a rebalance."""
        return self._dirty_since_ms is not None

    def is_rebalance_due(self) -> bool:
        due_ms = self.rebalance_due_ms()
        return due_ms is not None and due_ms <= self._facts.now_ms

    def rebalance_due_ms(self) -> int | None:
        """When to request a rebalance: after a quiet period, or when the first change has waited long enough."""
        if self._dirty_since_ms is None:
            return None
        times = self._facts.times
        return min(self._dirty_last_ms + times.quiet_ms, self._dirty_since_ms + times.longest_quiet_ms)

    def _note_rebalance(self, change: Change, offset: int) -> None:
        """A connector that comes or goes, or changed tasks, need a rebalance."""
        match change:
            case ConnectorUpdated(connector):
                if self._facts.placed.contains(connector) or offset <= self._facts.placed.offset:
                    return
            case TasksUpdated() | ConnectorRemoved():
                if offset <= self._facts.placed.offset:
                    return
            case _:
                return
        self._dirty_offset = max(self._dirty_offset, offset)
        self._dirty_last_ms = self._facts.now_ms
        if self._dirty_since_ms is None:
            self._dirty_since_ms = self._facts.now_ms

    def _apply(self, up_to: int | None, snapshot: ClusterSnapshot) -> list[Instruction]:
        ripe = [item for item in self._held if up_to is None or item[1] <= up_to]
        self._held = [] if up_to is None else [item for item in self._held if item[1] > up_to]
        updated: dict[str, int] = {}
        targets: dict[str, None] = {}
        instructions: list[Instruction] = []
        for change, offset in ripe:
            match change:
                case ConnectorUpdated(connector):
                    updated[connector] = offset
                case ConnectorRemoved(connector):
                    updated.pop(connector, None)
                    instructions += self._stop(self._older_of(connector, offset), "the connector was deleted")
                case TargetStateChanged(connector):
                    targets[connector] = None
                case TasksUpdated(connector):
                    self._reconfigured[connector] = offset
                case RestartRequested():
                    self._restarts.want(change)
                case _:
                    pass
        return [*instructions, *self._restart_updated(updated, snapshot), *self._set_targets(targets, snapshot)]

    def _restart_updated(self, updated: Mapping[str, int], snapshot: ClusterSnapshot) -> list[Instruction]:
        """Connectors here whose config changed; those without a config were deleted after it."""
        facts = self._facts
        here = [name for name, offset in updated.items() if facts.runs_older(name, offset)]
        work = Work(tuple(name for name in here if snapshot.contains(name)))
        if not work:
            return []
        facts.started(work, snapshot)
        return [StopWork(work, "the connector's config has changed"), StartWork(work, snapshot)]

    def _set_targets(self, names: Iterable[str], snapshot: ClusterSnapshot) -> list[Instruction]:
        instructions: list[Instruction] = []
        for name in names:
            here, state = self._facts.running_of(name), snapshot.target_state(name)
            if here and state is not None and snapshot.contains(name):
                tasks = () if state is TargetState.STOPPED else here.tasks  # a commit of no tasks stops these
                instructions.append(SetTarget(name, state, Work(here.connectors, tasks)))
        return instructions

    def _older_of(self, connector: str, offset: int) -> Work:
        """A connector's parts that run here with configs from before an offset."""
        facts, here = self._facts, self._facts.running_of(connector)
        return Work(
            tuple(name for name in here.connectors if facts.runs_older(name, offset)),
            tuple(task for task in here.tasks if facts.runs_older(task, offset)),
        )

    def _stop(self, work: Work, why: str) -> list[Instruction]:
        if not work:
            return []
        self._facts.stopped(work)
        return [StopWork(work, why)]
