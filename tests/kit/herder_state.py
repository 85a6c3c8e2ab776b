"""A member's state machine with a config topic in memory: what a test writes there comes as its events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from kconnect.errors import ConnectError
from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Assignment, Work
from kconnect.runtime.herder.decisions.events import (
    Asked,
    CaughtUp,
    Claimed,
    ConfigsChanged,
    Event,
    Placed,
    Started,
    TaskConfigsGiven,
    Tick,
    Written,
)
from kconnect.runtime.herder.decisions.facts import HerderTimes
from kconnect.runtime.herder.decisions.instructions import Instruction, Write
from kconnect.runtime.herder.decisions.machine import HerderState
from kconnect.runtime.herder.decisions.membership_rules import OwnSettings
from kconnect.runtime.herder.decisions.requests import Request
from kconnect.runtime.herder.membership import Joining
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.config_topic import encode_connector
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.snapshot import Change, ClusterSnapshot

LEADER_URL = "http://leader:8083/"
KEY = SessionKey(b"k" * 32, "HmacSHA256", 1_000)


class Member:
    """A state machine, as its shell would drive it, step by step. It leads unless reported otherwise."""

    def __init__(
        self,
        *,
        leads: bool = True,
        version: int = 2,
        times: HerderTimes | None = None,
        exactly_once: str = "disabled",
    ) -> None:
        self.topic = MemoryTopic("configs")
        self.store = TopicConfigStore(MemoryRecordLog(self.topic))
        self._changes: list[tuple[Change, int]] = []
        self.store.set_listener(lambda change: self._changes.append((change, self.store.snapshot().offset)))
        self.store.start()
        self.store.put_session_key(KEY)
        times = times or HerderTimes(quiet_ms=100, longest_quiet_ms=1_000)
        self.state = HerderState(times, own=OwnSettings(exactly_once))
        self.now_ms = 1_000
        self._leader = "me" if leads else "other"
        self._version = version
        self._generation = 0
        self._numbers = count(1)
        self.step(Tick(self.now_ms))

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.store.snapshot()

    def step(self, event: Event) -> list[Instruction]:
        return self.state.step(event)

    def wait(self, ms: int) -> list[Instruction]:
        """Time goes by."""
        self.now_ms += ms
        return self.step(Tick(self.now_ms))

    def connector(self, name: str, tasks: int = 0, **config: str) -> None:
        """Write a connector, and that many tasks, to the topic."""
        self.store.put_connector_config(name, {"name": name, "connector.class": "source", **config})
        if tasks:
            self.store.put_task_configs(name, [{"n": str(number), **config} for number in range(tasks)])

    def another_writes(self, name: str) -> None:
        """A connector comes into the topic that another process wrote there."""
        self.topic.append(*encode_connector(name, {"name": name, "connector.class": "source"}))

    def read(self) -> list[Instruction]:
        """What was written to the topic meanwhile is read."""
        changes, self._changes = self._changes, []
        return self.step(ConfigsChanged(tuple(changes), self.snapshot, self.store.foreign))

    def place(
        self,
        connectors: Sequence[str] = (),
        tasks: Sequence[TaskId] = (),
        *,
        revoked: Work | None = None,
        offset: int | None = None,
        delay_ms: int = 0,
        error: int = 0,
        reported: ClusterSnapshot | None = None,
        javas: tuple[str, ...] | None = (),
        held: Work | None = None,
    ) -> list[Instruction]:
        """A rebalance ends with this on top of what the member has."""
        self._generation += 1
        assignment = Assignment(
            self._version,
            self._leader,
            LEADER_URL,
            self.snapshot.offset if offset is None else offset,
            Work(tuple(connectors), tuple(tasks)),
            revoked or Work(),
            delay_ms,
            error,
            javas,
            held or Work(),
        )
        return self.step(Placed(assignment, self._generation, "me", reported or self.snapshot))

    def lead(self) -> None:
        """It is the leader from the next rebalance on."""
        self._leader = "me"

    def settled(
        self, connectors: Sequence[str] = (), tasks: Sequence[TaskId] = (), javas: tuple[str, ...] | None = ()
    ) -> Member:
        """In the group with this work, ready for what comes. `javas`: as its leader says."""
        self.step(Started(self.snapshot))
        self.step(Joining())
        self.place(connectors, tasks, javas=javas)
        self._changes.clear()
        if self._leader == "me":
            self.step(Claimed())
        return self

    def ask(self, request: Request) -> list[Instruction]:
        return self.step(Asked(next(self._numbers), request))

    def written(self, write: Write, error: ConnectError | None = None) -> list[Instruction]:
        return self.step(Written(write.target, self.snapshot, error))

    def gave(self, connector: str, *configs: dict[str, str]) -> list[Instruction]:
        """A connector answered when it was asked for task configs."""
        config = self.snapshot.raw_config(connector)
        assert config is not None
        return self.step(TaskConfigsGiven(connector, configs, config))

    def caught_up(self, problem: str | None = None) -> list[Instruction]:
        return self.step(CaughtUp(self.snapshot, problem))

    def target(self, name: str, state: TargetState) -> None:
        self.store.put_target_state(name, state)


def kinds(reported: Sequence[Instruction]) -> list[str]:
    """Names of instructions, in order."""
    return [type(instruction).__name__ for instruction in reported]


def of(kind: type, reported: Sequence[Instruction]):
    """The only instruction of a kind."""
    (found,) = [instruction for instruction in reported if isinstance(instruction, kind)]
    return found
