"""Rules for changes of the config topic: what restarts, pauses or stops here, and when the group has to rebalance.

Rebalances are coalesced: changes in quick succession lead to one rebalance.
Source: DistributedHerder.ConfigUpdateListener, #processConnectorConfigUpdates, #processTargetStateChanges (Kafka 4.3).
Differs: Java requests a rebalance for each change, and answers 409 to requests meanwhile.

TaskRules are for the task configs that connectors here give out: compared, written or sent to the leader, retried.

Source: DistributedHerder#reconfigureConnectorTasksWithRetry, #publishConnectorTaskConfigs, AbstractHerder
#taskConfigsChanged (Kafka 4.3). Differs: the first retry after a failure follows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kconnect.model import TargetState
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.decisions.events import (
    ConfigsChanged,
    TaskConfigsFailed,
    TaskConfigsForwarded,
    TaskConfigsGiven,
    Written,
)
from kconnect.runtime.herder.decisions.facts import HerderFacts
from kconnect.runtime.herder.decisions.instructions import (
    ApplyLogLevel,
    AskTaskConfigs,
    ForwardTaskConfigs,
    Instruction,
    SetTarget,
    StartWork,
    StopWork,
    Write,
)
from kconnect.runtime.herder.decisions.restart_rules import RestartRules
from kconnect.runtime.herder.decisions.writes import ForTasks, PutTasks
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


class TaskRules:
    """Part of a HerderState. A connector is wanted (to be asked), asked, given (to be written) or on its way."""

    def __init__(self, facts: HerderFacts) -> None:
        self._facts = facts
        self._wanted: dict[str, int] = {}  # connector -> the earliest time for its next call
        self._asked: set[str] = set()
        self._given: dict[str, TaskConfigsGiven] = {}
        self._on_the_way: set[str] = set()
        self._failures: dict[str, int] = {}

    def want(self, connector: str) -> None:
        """Request task configs from the connector soon; once for all requests that arrive before the call."""
        self._wanted[connector] = self._facts.now_ms

    def take(self, event: TaskConfigsGiven) -> None:
        self._asked.discard(event.connector)
        self._given[event.connector] = event

    def refused(self, event: TaskConfigsFailed) -> None:
        """The connector returned none: retry, unless that will not help."""
        self._asked.discard(event.connector)
        if event.is_final:
            self._failures.pop(event.connector, None)
        else:
            self._again(event.connector)

    def forwarded(self, event: TaskConfigsForwarded) -> None:
        self._ended(event.connector, event.problem is None)

    def written(self, event: Written, connector: str) -> None:
        self._ended(connector, event.error is None)

    def due(self) -> list[Instruction]:
        facts = self._facts
        instructions: list[Instruction] = []
        for name in [name for name, when in self._wanted.items() if when <= facts.now_ms]:
            if name in self._asked or name in self._on_the_way:
                continue  # in its turn, when that has ended
            del self._wanted[name]
            config = facts.snapshot.raw_config(name)
            is_started = facts.snapshot.target_state(name) is TargetState.STARTED
            if config is not None and name in facts.running_connectors and is_started:
                self._asked.add(name)
                instructions.append(AskTaskConfigs(name, config))
        for name in list(self._given):
            instructions += self._hand_on(name)
        return instructions

    def next_due_ms(self) -> int | None:
        busy = self._asked | self._on_the_way
        return min((when for name, when in self._wanted.items() if name not in busy), default=None)

    def _hand_on(self, name: str) -> list[Instruction]:
        facts, given = self._facts, self._given[name]
        if not self._is_news(given):
            del self._given[name]
            self._failures.pop(name, None)
            return []
        if facts.may_write:
            facts.is_writing = True
            return [self._send(name, Write(ForTasks(name), PutTasks(name, given.configs)))]
        if facts.is_leader or not facts.leader_url:
            return []  # it is kept until this worker may write, or knows its leader
        return [self._send(name, ForwardTaskConfigs(name, given.configs, facts.leader_url))]

    def _send(self, name: str, instruction: Instruction) -> Instruction:
        del self._given[name]
        self._on_the_way.add(name)
        return instruction

    def _is_news(self, given: TaskConfigsGiven) -> bool:
        """Whether other tasks are to run: another number, other configs, or made of another connector config."""
        facts, name = self._facts, given.connector
        if name not in facts.running_connectors or not facts.snapshot.contains(name):
            return False
        if facts.snapshot.target_state(name) is TargetState.STOPPED:
            return False
        if name in facts.snapshot.inconsistent or len(given.configs) != facts.snapshot.task_count(name):
            return True
        if [dict(config) for config in given.configs] != [dict(config) for config in facts.task_configs(name)]:
            return True
        applied = facts.snapshot.applied_configs.get(name)
        return bool(given.configs) and (applied is None or dict(applied.raw) != dict(given.made_from))

    def _ended(self, name: str, is_done: bool) -> None:
        self._on_the_way.discard(name)
        if is_done:
            self._failures.pop(name, None)
        else:
            self._again(name)

    def _again(self, name: str) -> None:
        """At once after the first failure, then with a pause that doubles up to a minute."""
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        times = self._facts.times
        pause_ms = 0 if failures == 1 else min(times.first_retry_ms << min(failures - 2, 20), times.longest_retry_ms)
        self._wanted[name] = self._facts.now_ms + pause_ms
