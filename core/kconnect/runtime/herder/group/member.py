"""A worker's place in the group of `group.id`: joining, heartbeats, leaving, in Kafka's group protocol.

The herder's thread calls `poll`, which runs both callbacks, so they see what the herder has done so far. Two threads do
the slow work: `attempt` joins, `heartbeats` keeps the session alive. Hand-written on sockets. The alternative, a client
library, does not fit: kafka-python's BaseCoordinator needs eight overrides of private parts, waits a heartbeat interval
after an outage, and cannot leave while it joins.
Source: WorkerCoordinator, WorkerGroupMember, AbstractCoordinator (Kafka 4.3).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kconnect.clock import Backoff, Pauses
from kconnect.errors import ConnectError
from kconnect.runtime.herder.assignment.eager import JoinedGroup
from kconnect.runtime.herder.assignment.protocol import PROTOCOL_NAMES, MemberState, decode_assignment, encode_metadata
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.errors import (
    ILLEGAL_GENERATION,
    NO_LONGER_A_MEMBER,
    NONE,
    REBALANCE_IN_PROGRESS,
    GroupRefusal,
    Unanswered,
    error_name,
    final_error,
)
from kconnect.runtime.herder.group.frames import LeaveGroup
from kconnect.runtime.herder.group.member_events import (
    Elected,
    Evicted,
    Failed,
    Inbox,
    InGroup,
    Message,
    Place,
    RebalanceSeen,
)
from kconnect.runtime.herder.group.member_threads import Attempt, Heartbeats, JoinDetails, Rhythm, must_stop_at
from kconnect.runtime.herder.group.security import Access
from kconnect.runtime.herder.membership import Assigned, GroupEvent, Joining, Lost
from kconnect.runtime.kafka.clients import ClientLog
from kconnect.runtime.metrics import GroupMeter

log = logging.getLogger(__name__)

_HIGHEST: Final = {"eager": 0, "compatible": 1, "sessioned": 2}
_VERSIONS: Final = {name: version for version, name in PROTOCOL_NAMES.items()}
_NOWHERE: Final = Place("", -1)
# As Java's retry.backoff.ms and retry.backoff.max.ms.
_BACKOFF: Final = Backoff(first_s=0.1, most_s=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """A worker's settings of the same names."""

    group_id: str
    protocol: str = "sessioned"
    """`connect.protocol`: eager, compatible or sessioned."""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000

    @property
    def rhythm(self) -> Rhythm:
        return Rhythm(
            self.session_timeout_ms / 1000, self.heartbeat_interval_ms / 1000, self.rebalance_timeout_ms / 1000
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCallbacks:
    """The group's callbacks to its member, in `poll`, on the herder's thread."""

    metadata: Callable[[], MemberState]
    """The metadata to join with: URL, config offset, what runs here. The version is irrelevant."""
    assign: Callable[[JoinedGroup], Mapping[str, bytes]]
    """The leader's assignments. While it runs, the group waits."""


class GroupMember:
    """States: out -> joining -> in -> joining ..; out again by `Lost` and `leave`; stopped. Is a `group.Membership`.

    Threads: the herder's; `wakeup` and `runs_until` from any.
    """

    def __init__(self, settings: GroupSettings, access: Access, callbacks: GroupCallbacks) -> None:
        self._settings = settings
        self._callbacks = callbacks
        self._log = ClientLog(log, f"Group {settings.group_id}")
        # Three brokers that do not answer may be tried within a session
        self._answer_s = max(1.0, settings.rhythm.session_s / 3)
        self.meter = GroupMeter(access.client_id)
        self._inbox = Inbox()
        self._who = access.who
        self._coordinator = Coordinator(access, settings.group_id, self._answer_s)
        self._heartbeats = Heartbeats(
            settings.group_id, self._coordinator, settings.rhythm, self._inbox.post, self._log, self.meter
        )
        self._heartbeats_began = False
        self._place = _NOWHERE
        self._version = _HIGHEST[settings.protocol]
        self._is_in = False  # an assignment is in effect
        self._in_since = 0.0
        self._last_generation = -1
        self._attempt: Attempt | None = None
        self._ended: list[Attempt] = []  # aborted, possibly still running
        self._is_announced = False  # Joining was posted for the present rebalance
        self._announced_at = 0.0
        self._rejoin: tuple[str, float] | None = ("the worker starts", 0.0)  # why, and since when
        self._retry_at = 0.0
        self._pauses = Pauses(_BACKOFF)
        self._is_stopped = False

    @property
    def member_id(self) -> str:
        """Empty until the group has assigned one."""
        return self._place.member_id

    @property
    def generation(self) -> int:
        """-1 while it has none."""
        return self._place.generation

    @property
    def protocol_version(self) -> int:
        """The protocol in use: the best one that all members of the last round supported; initially this member's
        best.
        """
        return self._version

    @property
    def runs_until(self) -> float | None:
        """Until when (monotonic) the member certainly owns its work, unless the group answers again; None while it owns
        none.

        For callers that must know while the herder's thread is busy; `poll` then returns `Lost`.
        """
        return must_stop_at(self._heartbeats.last_answered, self._settings.rhythm) if self._is_in else None

    def poll(self, timeout_s: float) -> Sequence[GroupEvent]:
        """Serve the group, joining included, until an event, a wakeup or the timeout.

        Errors: ConnectError where a retry will not help: the group is not one of Connect workers, the broker refuses
        login, permissions or session timeout; also any error of `assign`.
        """
        if self._is_stopped:
            return []
        if not self._heartbeats_began:
            self._heartbeats_began = True
            self._heartbeats.start()
        deadline = time.monotonic() + timeout_s
        self._heartbeats.polled(is_waiting=True)
        try:
            while True:
                if events := self._turn():
                    return events
                if self._inbox.wait(min(deadline, self._next_turn())) or time.monotonic() >= deadline:
                    return []
        finally:
            self._heartbeats.polled(is_waiting=False)

    def request_rejoin(self, why: str) -> None:
        """Request a rebalance. A round whose assignments are not made yet is good enough."""
        log.info("Group %s: requesting a rebalance: %s", self._settings.group_id, why)
        self._rejoin = (why, time.monotonic())

    def wakeup(self) -> None:
        """End the present poll, or the next one, at once. Threads: any."""
        self._inbox.ring()

    def leave(self, why: str) -> None:
        """Ask the group to continue without this worker, if it can be reached; the next poll joins again."""
        self._leave(why, 2 * self._answer_s)

    def stop(self, timeout_s: float) -> None:
        """Leave for good. Idempotent."""
        if self._is_stopped:
            return
        self._is_stopped = True
        deadline = time.monotonic() + timeout_s
        self._leave("the worker stops", min(timeout_s, 2 * self._answer_s))
        over = [self._heartbeats.stop(max(0.0, deadline - time.monotonic()))]
        over += [attempt.join(max(0.0, deadline - time.monotonic())) for attempt in self._ended]
        if not all(over):
            log.warning(
                "Group %s: a thread did not end within %g s: it is waiting for a broker",
                self._settings.group_id,
                timeout_s,
            )

    def _leave(self, why: str, within_s: float) -> None:
        member_id = self._attempt.member_id if self._attempt is not None else self.member_id
        self._abort()
        self._heartbeats.pause()
        self._reset("the worker comes back", forget_member_id=True)
        if not member_id:
            return
        try:
            connection = self._coordinator.connect(within_s)
            try:
                error = connection.ask(LeaveGroup(self._settings.group_id, member_id, why), within_s)
            finally:
                connection.close()
        except (Unanswered, GroupRefusal, ConnectError) as err:
            # The group will notice when the session is over
            log.warning("Group %s: could not tell it that this worker is leaving: %s", self._settings.group_id, err)
        else:
            how = "" if error == NONE else f" (the broker says {error_name(error)})"
            log.info("Group %s: left as %s%s: %s", self._settings.group_id, member_id, how, why)

    def _next_turn(self) -> float:
        """Act on what is due without a message: a join to retry, or too long a silence."""
        until = self.runs_until
        times = [float("inf") if until is None else until]
        if self._attempt is None and self._rejoin is not None:
            times.append(self._retry_at)
        return min(times)

    def _turn(self) -> list[GroupEvent]:
        events: list[GroupEvent] = []
        for message in self._inbox.take():
            events += self._on(message)
        until = self.runs_until
        if until is not None and time.monotonic() >= until:
            silence_s = time.monotonic() - self._heartbeats.last_answered
            events += self._lose(f"the group has not answered for {silence_s:.1f} s")
        if not events and self._attempt is None and self._rejoin is not None and time.monotonic() >= self._retry_at:
            if not self._is_announced:
                self._is_announced = True
                self._announced_at = time.monotonic()
                log.info("Group %s: joining: %s", self._settings.group_id, self._rejoin[0])
                return [Joining()]
            self._begin(self._rejoin[0])
        return events

    def _on(self, message: Message) -> list[GroupEvent]:
        match message:
            case Elected(attempt=attempt) if attempt is self._attempt:
                self._lead(message)
            case InGroup(attempt=attempt) if attempt is self._attempt:
                return self._settle(message)
            case Failed(attempt=attempt) if attempt is self._attempt:
                return self._retry(message.problem)
            case RebalanceSeen(place=place) if self._is_current(place) and message.sent_at > self._in_since:
                self._rejoin = self._rejoin or ("the group rebalances", time.monotonic())
            case Evicted(place=place) if self._is_current(place):
                return self._lose(message.why, forget_member_id=message.is_member_id_worthless)
        return []

    def _is_current(self, place: Place) -> bool:
        """Whether its heartbeats count. While a JoinGroup is in progress, its answer will tell the same."""
        return self._attempt is None and place == self._place

    def _begin(self, why: str) -> None:
        state = self._callbacks.metadata()
        settings = self._settings
        ticket = JoinDetails(
            group_id=settings.group_id,
            member_id=self.member_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            protocols=offered_protocols(settings.protocol, state),
            reason=why,
        )
        self._ended = [attempt for attempt in self._ended if not attempt.join(0)]
        self._attempt = Attempt(ticket, self._coordinator, self._inbox.post, self._heartbeats.follow, self.meter)
        self._attempt.start()

    def _lead(self, elected: Elected) -> None:
        assert self._attempt is not None
        group = JoinedGroup(
            leader=elected.place.member_id,
            protocol=elected.protocol,
            members=elected.members,
            generation=elected.place.generation,
            last_generation=self._last_generation,
        )
        try:
            assignments = self._callbacks.assign(group)
        except BaseException:
            self._abort()
            raise
        self._attempt.answer(assignments)

    def _settle(self, message: InGroup) -> list[GroupEvent]:
        self._forget_attempt()
        self._place = message.place
        assignment = decode_assignment(message.assignment)
        if assignment is None:
            return self._retry(Unanswered("the leader gave this worker no assignment"))
        self._version = _VERSIONS[message.protocol]
        self._is_in, self._in_since = True, message.at
        self._last_generation = message.place.generation
        self._is_announced = False
        self._pauses.reset()
        self.meter.rebalances.note((time.monotonic() - self._announced_at) * 1000)
        if self._rejoin is not None and self._rejoin[1] <= message.answered_at:
            self._rejoin = None
        log.info(
            "Group %s: joined as %s in generation %d, protocol %s, led by %s",
            self._settings.group_id,
            message.place.member_id,
            message.place.generation,
            message.protocol,
            "this worker" if assignment.leader == message.place.member_id else assignment.leader_url,
        )
        return [Assigned(assignment, message.place.generation, message.place.member_id)]

    def _retry(self, problem: Exception) -> list[GroupEvent]:
        """Decide how to continue after a failed attempt. Errors: ConnectError if it cannot."""
        member_id = self._attempt.member_id if self._attempt is not None else self.member_id
        self._forget_attempt()
        self.meter.failures.note(0.0)
        self._place = replace(self._place, member_id=member_id)
        code = problem.code if isinstance(problem, GroupRefusal) else NONE
        if code in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):  # others joined in between: join again at once
            return []
        if code in NO_LONGER_A_MEMBER:
            return self._lose(f"the group no longer knows it ({error_name(code)})", forget_member_id=True)
        self._retry_at = time.monotonic() + self._pauses.next_s()
        if isinstance(problem, ConnectError):
            raise ConnectError(
                f"The worker cannot join the group of group.id={self._settings.group_id}: {problem}",
                hint=problem.hint,
            ) from problem
        if final := final_error(code, self._settings.group_id, self._settings.session_timeout_ms, self._who):
            raise final from problem
        self._log.log(logging.WARNING, "%s: joining will be retried: %s", "join", problem)
        return []

    def _lose(self, why: str, *, forget_member_id: bool = False) -> list[GroupEvent]:
        """Out of the group, or as good as out.

        Differs: Java keeps its work when the group no longer knows it, and relies on the leader to find duplicates.
        """
        was_in = self._is_in
        self._abort()
        self._heartbeats.pause()
        self._reset(f"membership was lost: {why}", forget_member_id=forget_member_id)
        if not was_in:
            return []
        log.warning("Group %s: membership lost: %s", self._settings.group_id, why)
        return [Lost(why)]

    def _reset(self, why: str, *, forget_member_id: bool) -> None:
        self._place = Place("" if forget_member_id else self.member_id, -1)
        self._is_in = self._is_announced = False
        self._rejoin = (why, time.monotonic())

    def _abort(self) -> None:
        if self._attempt is not None:
            self._attempt.abort()
            self._ended.append(self._attempt)
            self._attempt = None

    def _forget_attempt(self) -> None:
        """It has posted its last message."""
        if self._attempt is not None:
            self._ended.append(self._attempt)
            self._attempt = None


def offered_protocols(setting: str, state: MemberState) -> list[tuple[str, bytes]]:
    """Names and metadata for JoinGroup, best first: the broker picks the first one that all members support.

    Source: ConnectProtocolCompatibility, IncrementalCooperativeConnectProtocol.metadataRequest (Kafka 4.3).
    """
    offered = []
    for version in range(_HIGHEST[setting], -1, -1):
        current = replace(state.assignment, version=version) if state.assignment is not None else None
        offered.append((PROTOCOL_NAMES[version], encode_metadata(replace(state, version=version, assignment=current))))
    return offered
