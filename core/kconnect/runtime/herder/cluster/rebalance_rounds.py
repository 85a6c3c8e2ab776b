"""A member's metadata when it joins its group, and the assignments of rounds that it leads: the group's two callbacks.

Source: WorkerCoordinator#metadata, #onLeaderElected, ConnectProtocolCompatibility (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kconnect.clock import Clock
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.eager import GroupAssignor, GroupPlan, JoinedGroup, LeaderBehind
from kconnect.runtime.herder.assignment.protocol import Assignment, MemberState, worker_id_of
from kconnect.runtime.herder.decisions.rebalances import KEPT, RoundMembers
from kconnect.runtime.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)

VERSIONS = {"eager": 0, "compatible": 1, "sessioned": 2}
"""By the value of `connect.protocol`: the highest sub-protocol a worker offers; it offers those below too."""


class RebalanceRounds:
    """Threads: the herder's; `owner_url`, `members_of` from any. Neither question blocks."""

    def __init__(self, snapshot: Callable[[], ClusterSnapshot], version: int, max_delay_ms: int, clock: Clock) -> None:
        """`version`: see `VERSIONS`."""
        self._snapshot = snapshot
        self._version = version
        self._assignor = GroupAssignor(max_delay_ms)
        self._clock = clock
        self._plan: GroupPlan | None = None
        self._led: tuple[int, dict[str, str]] = (-1, {})  # generation and URLs by member id of the round led last
        self._members: dict[int, RoundMembers] = {}  # by generation
        self._workers: tuple[int, tuple[MemberState, ...]] = (-1, ())  # generation and members of the round led last
        self.url = ""
        """Where other workers reach this one; set before the first round, when REST is bound."""
        self.owned: Assignment | None = None
        """The work the member has, set by its herder."""
        self.reported = ClusterSnapshot()
        """The configs whose offset the member last reported, or with which it assigned work."""

    def metadata(self) -> MemberState:
        """The member's metadata when it joins."""
        self.reported = snapshot = self._snapshot()
        self._plan = None
        return MemberState(self._version, self.url, snapshot.offset, self.owned, is_kconnect=True)

    def assign(self, group: JoinedGroup) -> dict[str, bytes]:
        """The assignment of each member of a round that this one leads."""
        now_ms = int(self._clock.monotonic() * 1000) + 1
        plan = self._assignor.plan(group, self.reported, now_ms)
        if isinstance(plan, LeaderBehind):
            self.reported = self._snapshot()
            plan = self._assignor.plan(group, self.reported, now_ms)
        if isinstance(plan, LeaderBehind):
            log.info("A worker has read the config topic up to %d, this leader has not: the group rejoins", plan.offset)
        else:
            self._plan = plan
            self._note_members(group, {member: state.url for member, state in plan.members.items()})
            self._workers = (group.generation, tuple(plan.members.values()))
        return plan.to_bytes()

    def owner_url(self, part: str | TaskId) -> str | None:
        """The worker that runs a connector or task; None if none does, or if this worker does not lead."""
        plan = self._plan
        return None if plan is None else plan.owner_url(part)

    def members_of(self, generation: int) -> RoundMembers | None:
        """The members of a round that this worker led, with joins and departures; None for other and old rounds."""
        return self._members.get(generation)

    def workers_of(self, generation: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The ids of all members of a round, and of those that are not ours; none if this worker did not lead it."""
        led, states = self._workers
        if led != generation:
            return (), ()
        every = tuple(sorted(worker_id_of(state.url) for state in states))
        return every, tuple(sorted(worker_id_of(state.url) for state in states if not state.is_kconnect))

    def _note_members(self, group: JoinedGroup, urls: dict[str, str]) -> None:
        generation, before = self._led
        if generation < 0 or generation != group.last_generation:
            # Another led the round before: all that is known of it is its leader
            led = self.owned.leader_url if self.owned is not None else ""
            joined: list[str] = []
            left = [led] if led and led not in urls.values() else []
        else:
            joined = [url for member, url in urls.items() if member not in before]
            left = [url for member, url in before.items() if member not in urls]
        self._led = (group.generation, urls)
        self._members[group.generation] = RoundMembers(*(tuple(sorted(part)) for part in (urls.values(), joined, left)))
        while len(self._members) > KEPT:
            del self._members[next(iter(self._members))]
