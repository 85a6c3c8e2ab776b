"""A worker group in memory: what a Kafka coordinator does for members that join, lead, leave, or are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Protocol

from kconnect.runtime.herder.assignment.eager import JoinedGroup
from kconnect.runtime.herder.assignment.protocol import PROTOCOL_NAMES, MemberState, decode_assignment, encode_metadata
from kconnect.runtime.herder.membership import Assigned, GroupEvent, Joining, Lost
from kconnect.runtime.metrics import GroupMeter


class Questions(Protocol):
    def metadata(self) -> MemberState: ...
    def assign(self, group: JoinedGroup) -> Mapping[str, bytes]: ...


class MemoryGroup:
    """One lock for all; the leader is the member that has been in the group for longest."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())  # guards what stands below, in members too
        self.members: dict[str, MemoryMember] = {}
        self.generation = 0
        self.is_joining = False
        self.joined: dict[str, MemberState] = {}
        self.to_lead: JoinedGroup | None = None
        self.rebalances: list[str] = []
        """Why each began."""
        self._names = count(1)

    def member(self, questions: Questions) -> MemoryMember:
        """A member that joins with its first poll: what a herder's parts have as `membership`."""
        with self.changed:
            return MemoryMember(self, f"member-{next(self._names)}", questions)

    def rebalance(self, why: str) -> None:
        with self.changed:
            if not self.is_joining:
                self.rebalances.append(why)
            self.is_joining, self.joined, self.to_lead = True, {}, None
            for member in self.members.values():
                member.assigned = None
            self.changed.notify_all()

    def expel(self, member: MemoryMember, why: str) -> None:
        """The coordinator takes a member for dead."""
        with self.changed:
            if self.members.pop(member.id, None) is not None:
                member.lost = why
                self.rebalance(why)

    def complete(self) -> None:
        """With the lock held: when all have joined, let the first one lead."""
        if not self.is_joining or self.joined.keys() != self.members.keys():
            return
        self.is_joining = False
        self.generation += 1
        leader = self.members[next(iter(self.members))]
        version = min(state.version for state in self.joined.values())
        metadata = {
            name: encode_metadata(replace(state, version=version, assignment=state.assignment if version else None))
            for name, state in self.joined.items()
        }
        self.to_lead = JoinedGroup(
            leader=leader.id,
            protocol=PROTOCOL_NAMES[version],
            members=metadata,
            generation=self.generation,
            last_generation=leader.last_generation,
        )
        self.changed.notify_all()


class MemoryMember:
    """A `Membership`."""

    def __init__(self, group: MemoryGroup, name: str, questions: Questions) -> None:
        self._group = group
        self.id = name
        self.meter = GroupMeter(name)
        self._questions = questions
        self.assigned: bytes | None = None
        self.lost: str | None = None
        self.last_generation = -1
        self.is_cut_off = False
        """Neither joins nor hears anything, as behind a broken network."""
        self.runs_until: float | None = None
        """Set by tests: a time that is over says that the group cannot be reached."""
        self._is_reported = False
        self._is_awake = False
        self._is_stopped = False

    def poll(self, timeout_s: float) -> Sequence[GroupEvent]:
        deadline = time.monotonic() + timeout_s
        group = self._group
        with group.changed:
            while True:
                event = None if self._is_stopped or self.is_cut_off else self._turn()
                if event is not None:
                    return [event]
                if self._is_awake or time.monotonic() >= deadline:
                    self._is_awake = False
                    return []
                group.changed.wait(deadline - time.monotonic())

    def request_rejoin(self, why: str) -> None:
        self._group.rebalance(why)

    def wakeup(self) -> None:
        with self._group.changed:
            self._is_awake = True
            self._group.changed.notify_all()

    def leave(self, why: str) -> None:
        self._group.expel(self, why)
        self.lost = None

    def stop(self, timeout_s: float) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self.leave("the worker stops")

    def _turn(self) -> GroupEvent | None:
        """One step, with the lock held."""
        group = self._group
        if self.lost is not None:
            why, self.lost = self.lost, None
            return Lost(why)
        if self.id not in group.members:
            group.members[self.id] = self
            group.rebalance(f"{self.id} joins")
        if group.is_joining and self.id not in group.joined:
            if not self._is_reported:
                self._is_reported = True
                return Joining()
            self._is_reported = False
            group.joined[self.id] = self._questions.metadata()
            group.complete()
        if group.to_lead is not None and group.to_lead.leader == self.id:
            plan, group.to_lead = self._questions.assign(group.to_lead), None
            for name, data in plan.items():
                group.members[name].assigned = data
            group.changed.notify_all()
        if self.assigned is not None:
            data, self.assigned = self.assigned, None
            assignment = decode_assignment(data)
            assert assignment is not None
            self.last_generation = group.generation
            return Assigned(assignment, group.generation, self.id)
        return None
