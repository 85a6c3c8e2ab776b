"""The threads of a membership: one attempt to join (JoinGroup, then SyncGroup), and heartbeats.

Each has its own connection because the broker answers in order: behind a JoinGroup that waits for other members,
neither heartbeats nor a LeaveGroup would get through; and heartbeats go out whatever the herder is busy with.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kconnect.clock import Backoff, Pauses
from kconnect.errors import ConnectError
from kconnect.runtime.herder.assignment.protocol import PROTOCOL_TYPE
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.errors import (
    COORDINATOR_ELSEWHERE,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    NO_LONGER_A_MEMBER,
    NONE,
    REBALANCE_IN_PROGRESS,
    GroupRefusal,
    Unanswered,
    error_name,
)
from kconnect.runtime.herder.group.frames import Heartbeat, Joined, JoinGroup, LeaveGroup, SyncGroup
from kconnect.runtime.herder.group.member_events import Elected, Evicted, Failed, InGroup, Message, Place, RebalanceSeen
from kconnect.runtime.kafka.clients import ClientLog
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


# As Java's retry.backoff.ms and retry.backoff.max.ms.
_BACKOFF: Final = Backoff(first_s=0.1, most_s=1.0)
# A member without an answer gives up when this share of the session is over, counted from the moment it sent the
# last heartbeat that was answered. The broker counts from a later moment, so the rest, 2 s of Java's default of 10 s,
# and that heartbeat's time on the network are the time to stop tasks before another member may start them.
_LOST_SHARE: Final = 0.8
# After a round: work that it revoked is given out in the next one, of which only a heartbeat tells the members that had
# nothing revoked. With Java's default of 3 s alone that work stood still for 3.4 s.
_EARLY_S: Final = (0.25, 0.75, 1.75)
# How long after a session's end the next heartbeat follows; on a busy machine members learn of a round at different
# times
_AFTER_SESSION_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Rhythm:
    session_s: float
    interval_s: float
    rebalance_s: float


def next_beat_at(joined_at: float, now: float, rhythm: Rhythm) -> float:
    """When the heartbeat after the one at `now` is due, for a member that joined at `joined_at`.

    The first ones are early; the rest follow every `heartbeat.interval.ms`, or a little more often, so that one falls
    just after the end of the session of a member that was killed after the same heartbeat: all members count from the
    start of their round. With Java's defaults its work is free 0.2 s after the session, not 2 s.
    """
    until_session_end = rhythm.session_s + _AFTER_SESSION_S
    interval_s = until_session_end / math.ceil(until_session_end / rhythm.interval_s)
    since = now - joined_at + 0.001  # of two that are one but for rounding there is one
    steady = (math.floor(since / interval_s) + 1) * interval_s
    return joined_at + min(steady, next((early for early in _EARLY_S if early > since), steady))


def must_stop_at(last_answered: float, rhythm: Rhythm) -> float:
    """When a member without answers must consider itself lost."""
    return last_answered + rhythm.session_s * _LOST_SHARE


class Heartbeats:
    """States: made -> start() -> paused <-> beating -> stop().

    Threads: `follow`, `pause`, `polled`, `stop` and `last_answered` from any.
    """

    def __init__(
        self,
        group_id: str,
        coordinator: Coordinator,
        rhythm: Rhythm,
        post: Callable[[Message], None],
        log: ClientLog,
        meter: GroupMeter,
    ) -> None:
        self._group_id = group_id
        self._coordinator = coordinator
        self._rhythm = rhythm
        self._post = post
        self._log = log
        self._meter = meter
        self._changed = threading.Condition()  # guards the fields down to the blank line
        self._place: Place | None = None
        self._last_answered = 0.0
        self._joined_at = 0.0
        self._due_at = 0.0
        self._polled_at = time.monotonic()
        self._is_over = False

        self._connection: BrokerConnection | None = None  # the thread's own
        self._pauses = Pauses(_BACKOFF)
        self._thread = threading.Thread(target=self._run, name=f"group-heartbeat-{group_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Returns whether the thread has ended."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def follow(self, place: Place) -> None:
        """Send heartbeats for this generation from now on, at once."""
        with self._changed:
            if self._place is None:
                self._last_answered = time.monotonic()
            self._place = place
            self._joined_at = time.monotonic()
            self._due_at = 0.0
            self._changed.notify_all()

    def pause(self) -> None:
        with self._changed:
            self._place = None

    def polled(self, *, is_waiting: bool) -> None:
        """The herder is alive: from now on it waits for the group, or does other work."""
        with self._changed:
            self._polled_at = float("inf") if is_waiting else time.monotonic()

    @property
    def last_answered(self) -> float:
        """When the last heartbeat that the group answered was sent; at first, when it took the member in."""
        with self._changed:
            return self._last_answered

    def _run(self) -> None:
        try:
            while (place := self._next()) is not None:
                try:
                    self._beat(place)
                except Exception as err:  # the thread's top: it must beat on
                    log.exception("A heartbeat failed unexpectedly")
                    self._failed(err)
        finally:
            self._drop()

    def _next(self) -> Place | None:
        """Wait until a heartbeat is due; None when stopped."""
        with self._changed:
            while not self._is_over:
                now = time.monotonic()
                if self._place is None:
                    self._changed.wait()
                elif now < self._due_at:
                    self._changed.wait(self._due_at - now)
                else:
                    return self._place
            return None

    def _beat(self, place: Place) -> None:
        with self._changed:
            is_herder_stuck = time.monotonic() - self._polled_at > self._rhythm.rebalance_s
        sent_at = time.monotonic()
        try:
            if is_herder_stuck:
                self._leave(place)
                return
            connection = self._connected()
            sent_at = time.monotonic()
            self._meter.beats.note(0.0)
            error = connection.ask(Heartbeat(self._group_id, place.generation, place.member_id), self._answer_s)
        except (Unanswered, GroupRefusal, ConnectError) as err:
            self._failed(err)
        else:
            self._meter.heartbeats.note((time.monotonic() - sent_at) * 1000)
            self._answered(place, sent_at, error)

    @property
    def _answer_s(self) -> float:
        """How long to wait for an answer: three tries and their lookups fit into a session."""
        return max(self._rhythm.interval_s, self._rhythm.session_s / 6)

    def _connected(self) -> BrokerConnection:
        if self._connection is not None and self._connection.is_worn:
            self._drop()
        if self._connection is None:
            self._connection = self._coordinator.connect()
        return self._connection

    def _answered(self, place: Place, sent_at: float, error: int) -> None:
        if error in (NONE, REBALANCE_IN_PROGRESS):
            self._pauses.reset()
            with self._changed:
                self._last_answered = max(self._last_answered, sent_at)
                if self._place == place:
                    self._due_at = next_beat_at(self._joined_at, sent_at, self._rhythm)
            if error == REBALANCE_IN_PROGRESS:
                self._post(RebalanceSeen(place, sent_at))
        elif error == ILLEGAL_GENERATION or error in NO_LONGER_A_MEMBER:
            self._evict(place, f"the group no longer knows it ({error_name(error)})", error in NO_LONGER_A_MEMBER)
        else:
            self._failed(GroupRefusal(error, "heartbeat"), elsewhere=error in COORDINATOR_ELSEWHERE)

    def _failed(self, problem: Exception, *, elsewhere: bool = True) -> None:
        """Look for the coordinator again, soon."""
        self._log.log(logging.WARNING, "%s: no heartbeat could be sent to the group: %s", "heartbeat", problem)
        if self._connection is not None and elsewhere:
            self._coordinator.forget(self._connection.address)
            self._drop()
        with self._changed:
            self._due_at = time.monotonic() + self._pauses.next_s()

    def _leave(self, place: Place) -> None:
        """The herder has been busy for longer than a rebalance may take: leave, so that the group continues without
        it.
        """
        why = f"the worker was busy for longer than rebalance.timeout.ms={self._rhythm.rebalance_s * 1000:.0f}"
        self._evict(place, why, is_member_id_worthless=True)
        self._connected().ask(LeaveGroup(self._group_id, place.member_id, why), self._answer_s)

    def _evict(self, place: Place, why: str, is_member_id_worthless: bool) -> None:
        with self._changed:
            if self._place == place:
                self._place = None
        self._post(Evicted(place, why, is_member_id_worthless))

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
