"""A worker's last rebalances and their reasons: kept to explain why tasks moved.

Differs: Java counts rebalances in its metrics and keeps no list of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.decisions.events import Event, Placed
from kconnect.runtime.herder.decisions.instructions import Instruction, RequestRejoin
from kconnect.runtime.herder.membership import Joining, Lost

# An hour of a cluster whose workers join and leave every other minute; a Rebalance takes some 500 bytes
KEPT = 50
FIRST = "this worker joined"
UNASKED = "the group rebalanced; its leader knows why"
HANDED_OVER = "a worker asked for it, to pick up changes or hand over work"


@dataclass(frozen=True, slots=True)
class RoundMembers:
    """Members that joined and left between two rounds that a worker led, by URL. Only the leader knows."""

    members: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One round, as one worker saw it. Times are milliseconds since the epoch."""

    generation: int
    began_ms: int
    ended_ms: int
    """When this worker had its assignment."""
    why: str
    is_leader: bool
    leader_url: str
    connectors_added: int
    connectors_revoked: int
    tasks_added: int
    tasks_revoked: int
    delay_ms: int
    """How long the work of lost workers is delayed from then on."""
    round: RoundMembers | None = None
    """Members that joined and left; None if another worker led."""

    def with_members(self, members: RoundMembers | None) -> Rebalance:
        """The round with who joined and left: these events are its reason if this worker had not requested it."""
        if members is None:
            return self
        happened = [
            f"worker {urlsplit(url).netloc or url} {what}"
            for what, urls in (("joined", members.joined), ("left", members.left))
            for url in urls
        ]
        asked = [] if self.why == UNASKED else [self.why]
        return replace(self, round=members, why=", ".join([*asked, *happened]) or HANDED_OVER)

    def to_json(self) -> dict[str, Any]:
        body = asdict(self)
        members = body.pop("round")
        return {**body, **{key: list((members or {}).get(key, ())) for key in ("members", "joined", "left")}}


class Rebalances:
    """Threads: `note` from the herder's; `kept` from any."""

    def __init__(self) -> None:
        self._kept: deque[Rebalance] = deque(maxlen=KEPT)
        self._began_ms: int | None = None
        self._why: str | None = FIRST

    def note(self, event: Event, instructions: Iterable[Instruction], now_ms: int) -> None:
        """Take in an event, and the state machine's instructions."""
        match event:
            case Joining():
                self._began_ms = now_ms
            case Lost(why):
                self._why = f"this worker lost its membership: {why}"
            case Placed():
                self._placed(event, now_ms)
        for instruction in instructions:
            if isinstance(instruction, RequestRejoin):
                self._why = instruction.why

    def kept(self) -> list[Rebalance]:
        """The last fifty, in order."""
        return list(self._kept)

    def _placed(self, event: Placed, now_ms: int) -> None:
        assignment = event.assignment
        added, revoked = assignment.work, assignment.revoked if assignment.version else Work()
        self._kept.append(
            Rebalance(
                generation=event.generation,
                began_ms=now_ms if self._began_ms is None else self._began_ms,
                ended_ms=now_ms,
                why=self._why or UNASKED,
                is_leader=assignment.leader == event.member_id,
                leader_url=assignment.leader_url,
                connectors_added=len(added.connectors),
                connectors_revoked=len(revoked.connectors),
                tasks_added=len(added.tasks),
                tasks_revoked=len(revoked.tasks),
                delay_ms=assignment.delay_ms,
            )
        )
        self._began_ms = self._why = None
