"""A group of workers without broker or threads: all join with what they run, and take what the leader assigns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.eager import GroupAssignor, GroupPlan, JoinedGroup, LeaderBehind
from kconnect.runtime.herder.assignment.protocol import (
    PROTOCOL_NAMES,
    Assignment,
    MemberState,
    Work,
    decode_assignment,
    encode_metadata,
    owned_work,
)
from kconnect.runtime.storage.snapshot import ClusterSnapshot

__all__ = ["INCONSISTENT", "SimulatedGroup"]

INCONSISTENT = -1
"""As the number of tasks of a connector that has lost some of its task configs."""


class SimulatedGroup:
    """The member that joined first leads; when it is gone, the next one does, with a memory of its own."""

    def __init__(
        self, members: Collection[str], connectors: Mapping[str, int], *, max_delay_ms: int, version: int = 2
    ) -> None:
        self.members: dict[str, Assignment | None] = dict.fromkeys(members)
        """What each member will say it runs."""
        self.urls: dict[str, str] = {}
        """Where the worker of a member is reached; by default a URL made of its name."""
        self.connectors = dict(connectors)
        """Task counts by name."""
        self.offset = 10
        self.now_ms = 1_000_000
        self.generation = 0
        self.last_generation = -1
        self.max_delay_ms = max_delay_ms
        self.version = version
        self._leader = ""
        self._assignor = GroupAssignor(max_delay_ms)

    @property
    def leader(self) -> str:
        return next(iter(self.members))

    def running(self) -> dict[str, Work]:
        return {name: state.work if state else Work() for name, state in self.members.items()}

    def configured(self) -> Work:
        return Work(
            tuple(self.connectors),
            tuple(TaskId(name, number) for name, count in self.connectors.items() for number in range(count)),
        )

    def leave(self, member: str) -> Assignment | None:
        """What it ran, for a return."""
        return self.members.pop(member)

    def joined(self) -> JoinedGroup:
        """The group as the broker shows it to the leader of the next generation."""
        if self.leader != self._leader:
            self._leader, self._assignor, self.last_generation = self.leader, GroupAssignor(self.max_delay_ms), -1
        self.generation += 1
        return JoinedGroup(
            leader=self.leader,
            protocol=PROTOCOL_NAMES[self.version],
            members={name: encode_metadata(self.state(name)) for name in self.members},
            generation=self.generation,
            last_generation=self.last_generation,
        )

    def state(self, member: str) -> MemberState:
        return MemberState(self.version, self.urls.get(member, f"http://{member}/"), self.offset, self.members[member])

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(
            offset=self.offset,
            configs={name: {} for name in self.connectors},
            task_counts={name: abs(count) for name, count in self.connectors.items()},
            inconsistent=frozenset(name for name, count in self.connectors.items() if count < 0),
        )

    def plan(self, group: JoinedGroup, snapshot: ClusterSnapshot) -> GroupPlan | LeaderBehind:
        return self._assignor.plan(group, snapshot, self.now_ms)

    def round(self, *, missed_by: Collection[str] = ()) -> GroupPlan:
        """All join and, but for those who miss it, take what they are assigned."""
        plan = self.plan(self.joined(), self.snapshot())
        assert isinstance(plan, GroupPlan)
        self.take(plan, missed_by)
        return plan

    def take(self, plan: GroupPlan, missed_by: Collection[str] = ()) -> None:
        for member, data in plan.to_bytes().items():
            if member in missed_by or member not in self.members:
                continue
            given = decode_assignment(data)
            assert given is not None
            self.members[member] = replace(given, work=owned_work(self.state(member), given))
            if member == self.leader:
                self.last_generation = self.generation

    def settle(self, most_rounds: int) -> int:
        """Rounds as members ask for them: after a revocation at once, after each delay, and when one runs what is
        configured no more (a leader that came later than the deletion does not know). How many it took.
        """
        for count in range(1, most_rounds + 1):
            plan = self.round()
            has_revoked = any(assignment.revoked for assignment in plan.assignments.values())
            delay_ms = plan.assignments[self.leader].delay_ms
            if not has_revoked and not delay_ms and not self._runs_deleted():
                return count
            if not has_revoked:
                self.now_ms += delay_ms
        raise AssertionError(f"not settled after {most_rounds} rounds: {self.running()}")

    def _runs_deleted(self) -> bool:
        configured = self.configured()
        running = self.running().values()
        return any(
            not {*work.connectors, *work.tasks} <= {*configured.connectors, *configured.tasks} for work in running
        )
