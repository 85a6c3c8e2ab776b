"""The leader's part once all members have joined: their metadata in, each member's assignment out. Pure.

Source: EagerAssignor, IncrementalCooperativeAssignor.performAssignment, WorkerCoordinator.LeaderState (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import cycle

from kconnect.errors import ConnectError, DataError
from kconnect.java.compat.hash_map import sort_key
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.incremental import IncrementalAssignor, LeaderMemory, Round
from kconnect.runtime.herder.assignment.protocol import (
    CONFIG_MISMATCH,
    PROTOCOL_NAMES,
    Assignment,
    MemberState,
    Work,
    decode_metadata,
    encode_assignment,
    worker_id_of,
)
from kconnect.runtime.herder.assignment.work_set import WorkSet
from kconnect.runtime.storage.snapshot import ClusterSnapshot

_VERSIONS = {name: version for version, name in PROTOCOL_NAMES.items()}
_EAGER = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedGroup:
    """The broker's message to the leader: the protocol that all members support, and each member's metadata."""

    leader: str
    protocol: str
    """`sessioned`, `compatible` or `default`."""
    members: Mapping[str, bytes] = field(repr=False)
    """Metadata by member id, in the broker's order."""
    generation: int
    last_generation: int
    """The last generation for which the leader received its own assignment; -1 if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Assignments for all members, and what the leader knows until the next round."""

    assignments: Mapping[str, Assignment] = field(repr=False)
    members: Mapping[str, MemberState]
    owners: Mapping[str | TaskId, str] = field(repr=False)
    """The member that runs a connector or task once all members have applied the round; None for delayed work."""

    def to_bytes(self) -> dict[str, bytes]:
        return _to_bytes(self.assignments)

    def owner_url(self, part: str | TaskId) -> str | None:
        """The URL for requests about a connector or a task; None while it runs nowhere."""
        owner = self.owners.get(part)
        return None if owner is None else self.members[owner].url


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderBehind:
    """A member knows configs that the leader's snapshot lacks.

    Take a fresh snapshot and plan again; if that is also behind, send `to_bytes()`: every member catches up and
    rejoins.
    """

    offset: int
    """How far the leader has to have read."""
    assignments: Mapping[str, Assignment] = field(repr=False)

    def to_bytes(self) -> dict[str, bytes]:
        return _to_bytes(self.assignments)


class GroupAssignor:
    """Plans rounds with the protocol the broker chose, and keeps the state that the next round needs. Threads: one."""

    def __init__(self, max_delay_ms: int) -> None:
        """`max_delay_ms`: `scheduled.rebalance.max.delay.ms`."""
        self._incremental = IncrementalAssignor(max_delay_ms)
        self._memory = LeaderMemory()

    def plan(self, group: JoinedGroup, snapshot: ClusterSnapshot, now_ms: int) -> GroupPlan | LeaderBehind:
        """The new assignments. `snapshot` is the leader's: the one whose offset it reported when it joined.

        `now_ms` is from a monotonic clock that starts above 0. After `LeaderBehind` no state is kept.
        Errors: DataError for a member whose metadata cannot be read; ConnectError for a protocol nobody offered.
        """
        version = _version(group.protocol)
        members = {member: _decoded(member, metadata) for member, metadata in group.members.items()}
        offset = max(state.offset for state in members.values())

        def to_all(
            work_of: Callable[[str], _Parts], offset: int, error: int = 0, held: Work | None = None
        ) -> dict[str, Assignment]:
            url = members[group.leader].url
            javas = tuple(sorted(worker_id_of(state.url) for state in members.values() if not state.is_kconnect))
            return {
                member: Assignment(version, group.leader, url, offset, *work_of(member), error, javas, held or Work())
                for member in members
            }

        if snapshot.offset < offset:
            return LeaderBehind(offset=offset, assignments=to_all(lambda _: _NO_PARTS, offset, CONFIG_MISMATCH))
        if version == _EAGER:
            running = assign_eagerly(snapshot, members)
            assignments = to_all(lambda member: (running[member], Work(), 0), snapshot.offset)
            return GroupPlan(assignments=assignments, members=members, owners=_owners(running))
        decision = self._incremental.assign(
            Round(
                snapshot=snapshot,
                members={
                    member: state.assignment.work if state.assignment else Work() for member, state in members.items()
                },
                generation=group.generation,
                last_generation=group.last_generation,
                now_ms=now_ms,
                urls={member: state.url for member, state in members.items()},
            ),
            self._memory,
        )
        self._memory = decision.memory
        assignments = to_all(
            lambda member: (decision.assigned[member], decision.revoked[member], decision.delay_ms),
            snapshot.offset,
            held=decision.held,
        )
        return GroupPlan(assignments=assignments, members=members, owners=_owners(decision.running))


def assign_eagerly(snapshot: ClusterSnapshot, members: Iterable[str]) -> dict[str, Work]:
    """All work assigned from scratch, round-robin: first connectors, then, from the next member on, tasks.

    Source: EagerAssignor.
    """
    names = sorted(members, key=sort_key)
    turns = cycle(names)
    connectors: dict[str, list[str]] = {name: [] for name in names}
    tasks: dict[str, list[TaskId]] = {name: [] for name in names}
    configured = WorkSet.configured(snapshot).sorted()
    for connector in configured.connectors:
        connectors[next(turns)].append(connector)
    for task in configured.tasks:
        tasks[next(turns)].append(task)
    return {name: Work(tuple(connectors[name]), tuple(tasks[name])) for name in names}


_Parts = tuple[Work, Work, int]  # new, revoked, delay
_NO_PARTS: _Parts = (Work(), Work(), 0)


def _version(protocol: str) -> int:
    if protocol not in _VERSIONS:
        raise ConnectError(
            f"The group's protocol is {protocol!r}, which is none of Connect's ({', '.join(_VERSIONS)})",
            hint="Is group.id the name of another kind of group? Choose another one.",
        )
    return _VERSIONS[protocol]


def _decoded(member: str, metadata: bytes) -> MemberState:
    try:
        return decode_metadata(metadata)
    except DataError as err:
        raise DataError(
            f"What member {member} of the group says cannot be read: {err}",
            hint="Find the process that uses the group.id of this cluster, and stop it or change its group.",
        ) from err


def _owners(running: Mapping[str, Work]) -> dict[str | TaskId, str]:
    owners: dict[str | TaskId, str] = {}
    for member, work in running.items():
        owners.update(dict.fromkeys(work.connectors, member))
        owners.update(dict.fromkeys(work.tasks, member))
    return owners


def _to_bytes(assignments: Mapping[str, Assignment]) -> dict[str, bytes]:
    return {member: encode_assignment(assignment) for member, assignment in assignments.items()}
