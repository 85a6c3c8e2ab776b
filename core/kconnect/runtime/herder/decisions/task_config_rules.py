"""Rules for the task configs that connectors here give out: compared, written or sent to the leader, retried.

Source: DistributedHerder#reconfigureConnectorTasksWithRetry, #publishConnectorTaskConfigs, AbstractHerder
#taskConfigsChanged (Kafka 4.3). Differs: the first retry after a failure follows at once.
"""

from __future__ import annotations

from kconnect.model import TargetState
from kconnect.runtime.herder.decisions.events import TaskConfigsFailed, TaskConfigsForwarded, TaskConfigsGiven, Written
from kconnect.runtime.herder.decisions.facts import HerderFacts
from kconnect.runtime.herder.decisions.instructions import AskTaskConfigs, ForwardTaskConfigs, Instruction, Write
from kconnect.runtime.herder.decisions.writes import ForTasks, PutTasks


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
