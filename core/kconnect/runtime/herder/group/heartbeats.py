"""Sends heartbeats to the group on a separate thread and connection, whatever the herder is busy with."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kconnect.clock import Backoff, Pauses
from kconnect.errors import ConnectError
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.errors import (
    COORDINATOR_ELSEWHERE,
    ILLEGAL_GENERATION,
    NO_LONGER_A_MEMBER,
    NONE,
    REBALANCE_IN_PROGRESS,
    GroupRefusal,
    Unanswered,
    error_name,
)
from kconnect.runtime.herder.group.frames import Heartbeat, LeaveGroup
from kconnect.runtime.herder.group.member_events import Evicted, Message, Place, RebalanceSeen
from kconnect.runtime.kafka.clients import ClientLog
from kconnect.runtime.metrics import GroupMeter

log = logging.getLogger(__name__)

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
