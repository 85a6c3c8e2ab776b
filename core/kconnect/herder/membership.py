"""The seam between a herder and its worker group: what happens to a member, and what a herder asks of its membership.

`kconnect.herder.group.member` is the one in a real group; tests form groups in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kconnect.herder.assignment.protocol import Assignment
from kconnect.metrics import GroupMeter


@dataclass(frozen=True, slots=True)
class Joining:
    """A rebalance begins: the member joins at the next poll, until then it may give up work."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The rebalance is over; from version 1 on the assignment is what changes, see `protocol.owned_work`."""

    assignment: Assignment
    generation: int
    member_id: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The member is out of the group, or cannot know that it is in it: its work may soon run elsewhere."""

    why: str


GroupEvent = Joining | Assigned | Lost


class Membership(Protocol):
    """A place in a worker group. Threads: poll, request_rejoin, leave and stop from the herder's; wakeup from any.

    Made with two callbacks, called on any thread, which may not block: the metadata to join with, and the assignments
    of a round that this member leads.
    """

    @property
    def runs_until(self) -> float | None:
        """Until when (monotonic) its work is certainly its own, unless it hears from the group; None while it has none.

        Threads: any.
        """
        ...

    @property
    def meter(self) -> GroupMeter:
        """What it has done with its coordinator. Threads: any."""
        ...

    def poll(self, timeout_s: float) -> Sequence[GroupEvent]:
        """Do what the group needs, joining included, until something happens, a wakeup, or the time is over."""
        ...

    def request_rejoin(self, why: str) -> None:
        """Have the group rebalance; the next polls tell."""
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
