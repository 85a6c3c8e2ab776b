"""Incremental cooperative assignment: work moves in small steps while all that does not move keeps running.

Work revoked from one member in a round is assigned to another in the next, after the first has stopped it. The work of
a member that left is delayed for a while, in case it returns. Pure: the previous state, the current members and the
time are arguments.
Source: IncrementalCooperativeAssignor (Kafka 4.3), KIP-415; the same result down to each member's share, as
tests/integration/runtime/herder/test_assignor_java.py shows.
Differs: a worker that is back at its URL, with another member id, gets its work at once. In Java that waits for the end
of the delay, also where the only worker of a group waits for itself.

A round with 1,000 connectors of 4 tasks each, from bytes to assignments: 8 ms of processor time for a new group of 3
or 30 members, 12 ms for a settled one or when a member joins 3, 15 ms when one joins 30.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from itertools import cycle
from typing import Generic, TypeVar

from kconnect.java.compat.hash_map import grown_map_order, sort_key
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.assignment.work_set import WorkSet
from kconnect.runtime.storage.snapshot import ClusterSnapshot

NOTHING = WorkSet()
# Waits of 40 ms, 1.6 s, 64 s, .. between rounds that revoke to balance, as in Java
_BACK_OFF_BASE = 40


@dataclass(frozen=True, slots=True)
class Hold:
    """A delay in progress: for members to return, or between rounds that revoke."""

    until_ms: int = 0
    """0: nothing is waited for."""
    delay_ms: int = 0
    """Measured from the last round; members receive it, and rejoin when it ends."""
    candidates: tuple[str, ...] = ()
    """Members that were empty meanwhile: they get the lost work, for they may be the lost workers, restarted."""
    has_revoked: bool = False
    """The last round took work from members to balance it."""
    revoking_rounds: int = 0
    """How many consecutive rounds wanted to revoke, after one that did."""

    def ended(self) -> Hold:
        return replace(self, until_ms=0, delay_ms=0, candidates=())


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """State that a leader keeps between rounds; a new leader starts without it."""

    generation: int = -1
    members: frozenset[str] = frozenset()
    assigned: WorkSet = field(default=NOTHING, repr=False)
    """What the group runs after the last round, and what is lost or delayed."""
    revoked: WorkSet = field(default=NOTHING, repr=False)
    hold: Hold = Hold()
    held_at: Mapping[str, WorkSet] = field(default_factory=dict, repr=False)
    """By URL what its worker runs after the last round, or ran before it was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The facts of one round."""

    snapshot: ClusterSnapshot = field(repr=False)
    members: Mapping[str, Work] = field(repr=False)
    """What each member reports running, in the group's order; at least one member."""
    generation: int
    last_generation: int
    """The last generation for which the leader received its own assignment; -1 if there is none."""
    now_ms: int
    urls: Mapping[str, str] = field(default_factory=dict)
    """Where the worker of each member is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Each member's additions and revocations, and what it runs after applying them."""

    assigned: Mapping[str, Work]
    revoked: Mapping[str, Work]
    running: Mapping[str, Work]
    delay_ms: int
    held: Work
    """What nobody runs while the delay lasts."""
    memory: LeaderMemory


class IncrementalAssignor:
    """Contains only `scheduled.rebalance.max.delay.ms`. Threads: any."""

    def __init__(self, max_delay_ms: int) -> None:
        self._max_delay_ms = max_delay_ms

    def assign(self, facts: Round, memory: LeaderMemory) -> Decision:
        """What each member gains and loses in this round, and the state for the next one."""
        configured = WorkSet.configured(facts.snapshot)
        active = WorkSet.of_all(facts.members.values())
        previous = _previous(facts, memory, active)

        deleted = previous - configured
        lost = previous - active - deleted
        created = configured - previous - active
        duplicated = WorkSet.in_several(facts.members.values())

        table = _Table(facts.members)
        table.revoke_everywhere(deleted | duplicated)
        for member, work in _come_back(lost, facts, memory).items():
            table.give_in_turn(work, [member])
            lost -= work
        hold, due = self._hold_back(lost, facts, memory, table)
        hold = self._balance(configured, hold, facts.now_ms, table)
        table.spread(created, due)

        running = table.running()
        after = LeaderMemory(
            generation=facts.generation,
            members=frozenset(facts.members),
            assigned=WorkSet.of_all(running.values()) | lost,
            revoked=WorkSet.of_all(table.revoked().values()),
            hold=hold,
            held_at={url: work & lost for url, work in memory.held_at.items() if work & lost}
            | {facts.urls[member]: WorkSet.of_all([work]) for member, work in running.items() if member in facts.urls},
        )
        held = lost - WorkSet.of_all(running.values()) if hold.delay_ms else NOTHING
        return Decision(
            assigned=table.given(),
            revoked=table.revoked(),
            running=running,
            delay_ms=hold.delay_ms,
            held=held.sorted(),
            memory=after,
        )

    def _hold_back(self, lost: WorkSet, facts: Round, memory: LeaderMemory, table: _Table) -> tuple[Hold, WorkSet]:
        """Lost work waits for its worker to return. Returns the new delay, and the work that any member may get now.

        Source: handleLostAssignments.
        """
        hold = memory.hold
        if not lost and not hold.has_revoked:
            return hold.ended(), NOTHING
        if not hold.until_ms and memory.members <= facts.members.keys():
            return hold, lost  # no member received it: its assignment was never delivered
        if self._max_delay_ms == 0:
            return hold, lost
        if hold.until_ms and facts.now_ms >= hold.until_ms:
            candidates = [member for member in hold.candidates if member in facts.members]
            table.give_in_turn(lost, candidates)
            return replace(hold.ended(), has_revoked=False), NOTHING if candidates else lost
        newcomers = grown_map_order(dict.fromkeys(table.empty_members()))
        left_ms = hold.until_ms - facts.now_ms if hold.until_ms else self._max_delay_ms
        delay_ms = min(left_ms, self._max_delay_ms)
        return replace(
            hold,
            until_ms=facts.now_ms + delay_ms,
            delay_ms=delay_ms,
            candidates=tuple(dict.fromkeys([*hold.candidates, *newcomers])),
        ), NOTHING

    def _balance(self, configured: WorkSet, hold: Hold, now_ms: int, table: _Table) -> Hold:
        """Revoke what members have above an even share, but not during a delay, nor in every one of many rounds.

        Source: performLoadBalancingRevocations, and KAFKA-12495 for the growing waits between such rounds.
        """
        if hold.delay_ms:
            return replace(hold, has_revoked=False)
        surplus = table.surplus(configured)
        if surplus is None:
            return replace(hold, has_revoked=False, revoking_rounds=0) if hold.has_revoked else hold
        if hold.has_revoked:
            hold = replace(hold, revoking_rounds=hold.revoking_rounds + 1)
            delay_ms = _back_off_ms(hold.revoking_rounds, self._max_delay_ms)
            if delay_ms:
                return replace(hold, delay_ms=delay_ms, until_ms=now_ms + delay_ms)
        table.revoke(*surplus)
        return replace(hold, has_revoked=True)


class _Table:
    """The shares of connectors and of tasks, with members in the iteration order of Java's map."""

    def __init__(self, members: Mapping[str, Work]) -> None:
        in_order = grown_map_order(members)
        self._connectors = Shares[str]({member: work.connectors for member, work in in_order.items()})
        self._tasks = Shares[TaskId]({member: work.tasks for member, work in in_order.items()})
        self._members = tuple(in_order)

    def empty_members(self) -> list[str]:
        return [name for name in self._members if self._connectors.is_empty(name) and self._tasks.is_empty(name)]

    def revoke_everywhere(self, gone: WorkSet) -> None:
        self._connectors.revoke_everywhere(gone.connectors)
        self._tasks.revoke_everywhere(gone.tasks)

    def surplus(self, configured: WorkSet) -> tuple[dict[str, list[str]], dict[str, list[TaskId]]] | None:
        """Returns None if nothing must be revoked."""
        if not configured or len(self.empty_members()) == len(self._members):
            return None
        connectors = self._connectors.surplus(len(configured.connectors))
        tasks = self._tasks.surplus(len(configured.tasks))
        return (connectors, tasks) if connectors or tasks else None

    def revoke(self, connectors: dict[str, list[str]], tasks: dict[str, list[TaskId]]) -> None:
        self._connectors.revoke(connectors)
        self._tasks.revoke(tasks)

    def give_in_turn(self, work: WorkSet, members: list[str]) -> None:
        """Assigns nothing if there are no such members."""
        in_order = work.sorted()
        self._connectors.give_in_turn(in_order.connectors, members)
        self._tasks.give_in_turn(in_order.tasks, members)

    def spread(self, created: WorkSet, due: WorkSet) -> None:
        """New work comes first."""
        first, then = created.sorted(), due.sorted()
        self._connectors.spread([*first.connectors, *then.connectors])
        self._tasks.spread([*first.tasks, *then.tasks])

    def given(self) -> dict[str, Work]:
        return self._by_member(self._connectors.given, self._tasks.given)

    def revoked(self) -> dict[str, Work]:
        return self._by_member(self._connectors.revoked, self._tasks.revoked)

    def running(self) -> dict[str, Work]:
        return self._by_member(self._connectors.held, self._tasks.held)

    def _by_member(
        self, connectors: Mapping[str, Iterable[str]], tasks: Mapping[str, Iterable[TaskId]]
    ) -> dict[str, Work]:
        return {member: Work(tuple(connectors[member]), tuple(tasks[member])) for member in self._members}


def _previous(facts: Round, memory: LeaderMemory, active: WorkSet) -> WorkSet:
    """What the group should run after the last round, as far as it took effect."""
    if memory.revoked & active:
        return active  # members do not know yet what to stop
    return memory.assigned if memory.generation == facts.last_generation else NOTHING


def _come_back(lost: WorkSet, facts: Round, memory: LeaderMemory) -> dict[str, WorkSet]:
    """What of the lost work was run where new members are now: by member."""
    found = {}
    for member, url in facts.urls.items():
        work = memory.held_at.get(url, NOTHING) & lost
        if work and member not in memory.members:
            found[member] = work
            lost -= work
    return found


def _back_off_ms(rounds: int, max_delay_ms: int) -> int:
    """Source: ExponentialBackoff, without jitter."""
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(rounds, math.log(max_delay_ms) / math.log(_BACK_OFF_BASE))
    return min(int(math.pow(_BACK_OFF_BASE, exponent)), max_delay_ms)


Item = TypeVar("Item", bound=Hashable)


class Shares(Generic[Item]):
    """Threads: one. Which members may keep one more than others, and what is revoked first, follows the order of
    `held`.

    Source: IncrementalCooperativeAssignor and WorkerCoordinator.WorkerLoad (Kafka 4.3).
    """

    def __init__(self, held: Mapping[str, Iterable[Item]]) -> None:
        self.held = {member: dict.fromkeys(items) for member, items in held.items()}  # dicts: sets with an order
        self.given: dict[str, dict[Item, None]] = {member: {} for member in held}
        self.revoked: dict[str, list[Item]] = {member: [] for member in held}

    def is_empty(self, member: str) -> bool:
        return not self.held[member]

    def revoke_everywhere(self, gone: AbstractSet[Item]) -> None:
        """Remove these from every member that has them."""
        if gone:
            self.revoke({member: [item for item in items if item in gone] for member, items in self.held.items()})

    def revoke(self, taken: Mapping[str, Sequence[Item]]) -> None:
        """Revokes, as Java does, also work assigned in this very round, which is harmless here."""
        for member, items in taken.items():
            self.revoked[member] += items
            for item in items:
                del self.held[member][item]
                self.given[member].pop(item, None)

    def surplus(self, configured: int) -> dict[str, list[Item]]:
        """What members have beyond an even share of all work; nothing if no member has.

        Shares differ by one when it cannot be even: the first members with more than the least may have one more.
        """
        least, extras = divmod(configured, len(self.held))
        sizes = [len(items) for items in self.held.values()]
        if sizes.count(least + 1) == extras and sizes.count(least) + extras == len(sizes):
            return {}
        above: dict[str, list[Item]] = {}
        for member, items in self.held.items():
            if len(items) <= least:
                continue
            allowed = least + 1 if extras else least
            extras = max(0, extras - 1)
            if len(items) > allowed:
                above[member] = list(items)[: len(items) - allowed]
        return above

    def give_in_turn(self, items: Iterable[Item], members: Sequence[str]) -> None:
        """Assign round-robin over these members, whatever they already have."""
        for item, member in zip(items, cycle(members), strict=False):
            self._give(member, item)

    def spread(self, items: Iterable[Item]) -> None:
        """Each item to who has least then; those who had as much when it began take turns in the order of names."""
        by_load = sorted(self.held, key=lambda member: (len(self.held[member]), sort_key(member)))
        loads = [(len(self.held[member]), turn) for turn, member in enumerate(by_load)]
        heapify(loads)
        for item in items:
            load, turn = loads[0]
            self._give(by_load[turn], item)
            heapreplace(loads, (load + 1, turn))

    def _give(self, member: str, item: Item) -> None:
        self.held[member][item] = None
        self.given[member][item] = None
