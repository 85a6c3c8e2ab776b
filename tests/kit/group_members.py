"""Members of a worker group for tests: each on a thread of its own, as a herder would drive it, with what it was
reported.

`python -m kit.group_members BOOTSTRAP GROUP NAME` is one in a process of its own, to be frozen and killed; it writes
what happens to it to stdout, one event a line.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from kconnect.model import TopicPartition
from kconnect.runtime.herder.assignment.eager import JoinedGroup
from kconnect.runtime.herder.assignment.protocol import (
    PROTOCOL_NAMES,
    Assignment,
    MemberState,
    Work,
    decode_metadata,
    encode_assignment,
    owned_work,
)
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.description import describe_group
from kconnect.runtime.herder.group.frames import LeaveGroup
from kconnect.runtime.herder.group.member import GroupCallbacks, GroupMember, GroupSettings
from kconnect.runtime.herder.group.sasl import SaslLogin
from kconnect.runtime.herder.group.security import Access, access
from kconnect.runtime.herder.membership import Assigned, GroupEvent, Joining, Lost
from kit.pace import ample_s
from kit.waiting import eventually

__all__ = ["SESSION_MS", "ListensToNothing", "Member", "group_state", "is_settled", "member_ids", "remove"]

# The least that brokers take by default (group.min.session.timeout.ms).
SESSION_MS = 6_000


class Member:
    """Joins as soon as it is entered, and keeps what `poll` reported; the leader gives `shared` work out in turn.

    `busy` stops its herder's thread between two polls.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        name: str = "w",
        *,
        protocol: str = "sessioned",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = 20_000,
        security: Mapping[str, str] | None = None,
        shared: tuple[str, ...] = ("c0", "c1"),
    ) -> None:
        self.url = f"http://{name}/"
        self.events: list[tuple[float, GroupEvent]] = []
        self.reported: list[MemberState] = []
        """What it reported the group each time it joined."""
        self.error: BaseException | None = None
        self.offset = -1
        self.owned: Assignment | None = None
        self.shared = shared
        self.busy = threading.Event()
        self.logins = 0
        self.on_event: Callable[[GroupEvent], None] = lambda event: None
        self.member = GroupMember(
            GroupSettings(
                group_id=group,
                protocol=protocol,
                session_timeout_ms=session_ms,
                heartbeat_interval_ms=500,
                rebalance_timeout_ms=rebalance_ms,
            ),
            self._counted(access({"bootstrap.servers": bootstrap, **(security or {})}, name)),
            GroupCallbacks(metadata=self._metadata, assign=self._assign),
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"herder-{name}")

    def __enter__(self) -> Member:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self.busy.clear()
        self._over.set()
        self.member.wakeup()
        self._thread.join(20)

    @property
    def unanswered(self) -> int:
        """Heartbeats that were sent and not answered; one may be on its way."""
        answered = self.member.meter.heartbeats.count
        return self.member.meter.beats.count - answered

    def all(self, kind: type) -> list[GroupEvent]:
        return [event for _, event in self.events if isinstance(event, kind)]

    def last_assigned(self) -> Assigned:
        assigned = self.all(Assigned)
        assert assigned, f"not assigned yet: {self.events}, {self.error!r}"
        return assigned[-1]  # type: ignore[return-value]

    def await_assigned(self, times: int = 1, within_s: float = 15.0) -> Assigned:
        """The event after it was assigned that many times in all."""

        def enough() -> bool:
            assert self.error is None, repr(self.error)
            assert len(self.all(Assigned)) >= times, str(self.events)
            return True

        eventually(enough, within_s, f"{self.url} assigned {times} times")
        return self.last_assigned()

    def await_event(self, kind: type, within_s: float = 15.0) -> float:
        """When (monotonic) the first event of that kind came."""
        eventually(lambda: self.all(kind), within_s, f"{self.url} {kind.__name__}")
        return next(at for at, event in self.events if isinstance(event, kind))

    @property
    def leads(self) -> bool:
        last = self.last_assigned()
        return last.assignment.leader == last.member_id

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                while self.busy.is_set() and not self._over.is_set():
                    self._over.wait(0.02)
                for event in self.member.poll(0.5):
                    self._take(event)
        except BaseException as err:  # shown by the test that waits
            self.error = err
        finally:
            self.member.stop(5)

    def _take(self, event: GroupEvent) -> None:
        at = time.monotonic()
        match event:
            case Assigned(assignment=assignment):
                before = MemberState(0, "", 0, self.owned)
                work = owned_work(before, assignment)
                self.owned = Assignment(
                    assignment.version, assignment.leader, assignment.leader_url, assignment.offset, work
                )
                self.offset = max(self.offset, assignment.offset)
            case Lost():
                self.owned = None
            case Joining() if self.member.protocol_version == 0:
                self.owned = None
        self.events.append((at, event))  # last: who waits for an event finds what it has changed
        self.on_event(event)

    def _counted(self, found: Access) -> Access:
        """With `logins` counting the connections that log in."""
        made = found.login
        if made is None:
            return found

        def login() -> SaslLogin:
            self.logins += 1
            return made()

        return replace(found, login=login)

    def _metadata(self) -> MemberState:
        state = MemberState(2, self.url, self.offset, self.owned)
        self.reported.append(state)
        return state

    def _assign(self, group: JoinedGroup) -> Mapping[str, bytes]:
        """All keep what they have; what nobody has goes round."""
        version = next(number for number, name in PROTOCOL_NAMES.items() if name == group.protocol)
        states = {member: decode_metadata(data) for member, data in group.members.items()}
        owned = {member: owned_work(state, None).connectors for member, state in states.items()}
        free = [name for name in self.shared if not any(name in names for names in owned.values())]
        given: dict[str, list[str]] = {member: [] for member in states}
        for name in free:
            least = min(states, key=lambda member: (len(owned[member]) + len(given[member]), states[member].url))
            given[least].append(name)
        offset = max(state.offset for state in states.values())
        return {
            member: encode_assignment(Assignment(version, group.leader, self.url, offset, Work(tuple(names))))
            for member, names in given.items()
        }


def remove(bootstrap: str, group: str, member_id: str) -> None:
    """Have the broker forget a member, which does not hear of it."""
    within_s = ample_s(10)
    connection = Coordinator(access({"bootstrap.servers": bootstrap}, "test"), group, within_s).connect()
    assert connection.ask(LeaveGroup(group, member_id, "removed by a test"), within_s) == 0
    connection.close()


def is_settled(bootstrap: str, group: str, members: int) -> bool:
    """Whether the group has that many members, and all of them their assignments."""
    shown = describe_group({"bootstrap.servers": bootstrap}, group, ample_s(10.0))
    return shown.state == "Stable" and len(shown.members) == members


def group_state(bootstrap: str, group: str) -> str:
    return describe_group({"bootstrap.servers": bootstrap}, group, ample_s(10.0)).state


def member_ids(bootstrap: str, group: str) -> set[str]:
    return {member.id for member in describe_group({"bootstrap.servers": bootstrap}, group, ample_s(10.0)).members}


if __name__ == "__main__":
    process = Member(*sys.argv[1:4])
    process.on_event = lambda event: print(type(event).__name__, flush=True)  # noqa: T201 - that is how it tells
    with process:
        sys.stdin.read()


class ListensToNothing:
    """Of a sink's consumer: takes every partition from where its group, or the topic, begins."""

    def assigned(self, partitions: Any) -> Mapping[TopicPartition, int]:
        return {}

    def to_pause(self, partitions: Any) -> list[TopicPartition]:
        return []

    def revoked(self, partitions: Any) -> None:
        """Nothing was taken."""

    lost = revoked
