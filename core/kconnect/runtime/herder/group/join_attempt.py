"""One attempt to join the group: JoinGroup, then SyncGroup, on its own thread and connection.

It needs its own connection because the broker answers in order: behind a JoinGroup that waits for other members,
neither heartbeats nor a LeaveGroup would get through.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kconnect.errors import ConnectError
from kconnect.runtime.herder.assignment.protocol import PROTOCOL_TYPE
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.errors import (
    COORDINATOR_ELSEWHERE,
    MEMBER_ID_REQUIRED,
    GroupRefusal,
    Unanswered,
)
from kconnect.runtime.herder.group.frames import Joined, JoinGroup, SyncGroup
from kconnect.runtime.herder.group.member_events import Elected, Failed, InGroup, Message, Place
from kconnect.runtime.metrics import GroupMeter

log = logging.getLogger(__name__)

# The broker answers when the rebalance timeout is over at the latest.
# Source: AbstractCoordinator, JOIN_GROUP_TIMEOUT_LAPSE
_LAPSE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinDetails:
    """What a member sends with JoinGroup."""

    group_id: str
    member_id: str
    """Empty for a newcomer."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]] = field(repr=False)
    """Names, best first, each with the metadata."""
    reason: str


class Attempt:
    """States: made -> start() -> running -> one InGroup or Failed posted, or aborted. Used once.

    Threads: its own; start, answer, abort and join from the herder's.
    """

    def __init__(
        self,
        ticket: JoinDetails,
        coordinator: Coordinator,
        post: Callable[[Message], None],
        follow: Callable[[Place], None],
        meter: GroupMeter,
    ) -> None:
        """`follow` gets the membership as soon as the group has granted it: heartbeats begin before the assignment."""
        self.member_id = ticket.member_id
        """Assigned by the broker during a newcomer's attempt; needed to leave."""
        self._ticket = ticket
        self._coordinator = coordinator
        self._post = post
        self._follow = follow
        self._meter = meter
        self._timeout_s = ticket.rebalance_timeout_ms / 1000 + _LAPSE_S
        self._assignments: queue.SimpleQueue[Mapping[str, bytes] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards the two below
        self._connection: BrokerConnection | None = None
        self._is_aborted = False
        self._thread = threading.Thread(target=self._run, name=f"group-join-{ticket.group_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def answer(self, assignments: Mapping[str, bytes]) -> None:
        """The assignments, after `Elected`."""
        self._assignments.put(assignments)

    def abort(self) -> None:
        """Give up silently; ignore what it posts later."""
        with self._lock:
            self._is_aborted = True
            if self._connection is not None:
                self._connection.abort()
        self._assignments.put(None)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; returns whether it ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._post(self._done())
        except (Unanswered, GroupRefusal, ConnectError) as err:
            self._post(Failed(self, err))
        except Exception as err:  # top of the thread: the herder must learn of it, and nothing says that it is final
            log.exception("Joining the group failed unexpectedly")
            self._post(Failed(self, Unanswered(repr(err))))
        finally:
            self._use(None)

    def _done(self) -> InGroup:
        connection = self._use(self._coordinator.connect())
        joined = self._joined(connection)
        answered_at = time.monotonic()
        place = Place(joined.member_id, joined.generation)
        with self._lock:
            if self._is_aborted:
                raise Unanswered("aborted")
            self._follow(place)
        assignments: Mapping[str, bytes] = {}
        if joined.leader == joined.member_id:
            self._post(Elected(self, place, joined.protocol, joined.members))
            answered_at, assignments = self._given()
        if connection.is_worn:
            connection = self._use(self._coordinator.connect())
        synced = self._sync(connection, place, assignments)
        return InGroup(self, place, joined.protocol, synced, answered_at, time.monotonic())

    def _joined(self, connection: BrokerConnection) -> Joined:
        ticket = self._ticket
        while True:
            request = JoinGroup(
                ticket.group_id,
                self.member_id,
                ticket.session_timeout_ms,
                ticket.rebalance_timeout_ms,
                PROTOCOL_TYPE,
                ticket.protocols,
                ticket.reason,
            )
            asked_at = time.monotonic()
            try:
                joined = connection.ask(request, self._timeout_s)
            except Unanswered:
                self._coordinator.forget(connection.address)
                raise
            if joined.error == MEMBER_ID_REQUIRED and not self.member_id:
                self.member_id = joined.member_id
                continue
            self._check(joined.error, connection, "joining the group")
            self._meter.joins.note((time.monotonic() - asked_at) * 1000)
            self.member_id = joined.member_id
            return joined

    def _given(self) -> tuple[float, Mapping[str, bytes]]:
        """The leader's decision, and when it was made."""
        try:
            given = self._assignments.get(timeout=self._timeout_s)
        except queue.Empty as err:
            raise Unanswered("the herder was busy for longer than rebalance.timeout.ms") from err
        if given is None:
            raise Unanswered("aborted")
        return time.monotonic(), given

    def _sync(self, connection: BrokerConnection, place: Place, assignments: Mapping[str, bytes]) -> bytes:
        request = SyncGroup(self._ticket.group_id, place.generation, place.member_id, assignments)
        asked_at = time.monotonic()
        try:
            synced = connection.ask(request, self._timeout_s)
        except Unanswered:
            self._coordinator.forget(connection.address)
            raise
        self._check(synced.error, connection, "taking the assignment")
        self._meter.syncs.note((time.monotonic() - asked_at) * 1000)
        return synced.assignment

    def _check(self, error: int, connection: BrokerConnection, doing: str) -> None:
        if error in COORDINATOR_ELSEWHERE:
            self._coordinator.forget(connection.address)
        if error:
            raise GroupRefusal(error, doing)

    def _use(self, connection: BrokerConnection | None) -> BrokerConnection:
        """Have this connection broken by `abort()`; the one before is closed."""
        with self._lock:
            before, self._connection = self._connection, connection
            is_aborted = self._is_aborted
        if before is not None:
            before.close()
        if connection is not None and is_aborted:
            connection.close()
            raise Unanswered("aborted")
        return connection  # type: ignore[return-value] # callers that give one get one
