"""The seam between a herder and its worker group: the events of a member, and the herder's calls to its membership.

`kconnect.runtime.herder.group.member` implements it for a real group; tests use groups in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kconnect.runtime.herder.assignment.protocol import Assignment
from kconnect.runtime.metrics import GroupMeter


@dataclass(frozen=True, slots=True)
class Joining:
    """A rebalance begins: the member joins at the next poll, until then it may give up work."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The rebalance is over; from version 1 on, the assignment contains changes only, see `protocol.owned_work`."""

    assignment: Assignment
    generation: int
    member_id: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The member is out of the group, or cannot be sure that it is in it: its work may soon run elsewhere."""

    why: str


GroupEvent = Joining | Assigned | Lost


class Membership(Protocol):
    """A place in a worker group. Threads: poll, request_rejoin, leave and stop from the herder's; wakeup from any.

    Created with two callbacks, called on any thread, which must not block: the metadata to join with, and the
    assignments of a round that this member leads.
    """

    @property
    def runs_until(self) -> float | None:
        """Until when (monotonic) the member certainly owns its work, unless the group answers again; None while it owns
        none.

        Threads: any.
        """
        ...

    @property
    def meter(self) -> GroupMeter:
        """Its requests to its coordinator so far. Threads: any."""
        ...

    def poll(self, timeout_s: float) -> Sequence[GroupEvent]:
        """Serve the group, joining included, until an event, a wakeup or the timeout."""
        ...

    def request_rejoin(self, why: str) -> None:
        """Request a rebalance; the next polls report it."""
        ...

    def wakeup(self) -> None:
        """End the present poll, or the next one, at once."""
        ...

    def leave(self, why: str) -> None:
        """Leave the group; the next poll joins again."""
        ...

    def stop(self, timeout_s: float) -> None:
        """Leave for good. Idempotent."""
        ...
