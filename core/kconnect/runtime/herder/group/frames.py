"""Bytes of the requests a group member sends, in Kafka's own wire protocol. Those of `admin_frames` are built alike.

Pure: no sockets here.

Each request lists the versions in use, best first; every broker since 2.3 supports one of each. The newest ones have
one purpose: they carry the reason of a join or a leave, which the broker logs (KIP-800). Hand-written because the
protocol of these few requests never changes, while client libraries' internals do.
Source: clients/src/main/resources/common/message/*.json (Kafka 4.3).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, TypeVar

from kconnect.runtime.herder.group.wire import Reader, Writer

A = TypeVar("A")
# Java cuts reasons there. Source: JoinGroupRequest.maybeTruncateReason
_MAX_REASON: Final = 255


class KafkaRequest(Generic[A]):
    """One kind of request; `A` is its answer."""

    key: ClassVar[int]
    versions: ClassVar[tuple[int, ...]]
    flexible_from: ClassVar[int] = 1000

    def write(self, out: Writer, version: int) -> None:
        raise NotImplementedError

    def read(self, data: Reader, version: int) -> A:
        raise NotImplementedError


def frame_of(request: KafkaRequest[A], version: int, correlation_id: int, client_id: str) -> bytes:
    """The request with its header and its length before it."""
    is_flexible = version >= request.flexible_from
    header = Writer(is_flexible=False)
    header.number(">hhi", request.key, version, correlation_id)
    header.string(client_id)
    body = Writer(is_flexible=is_flexible)
    body.end()  # tags of the header
    request.write(body, version)
    body.end()
    data = header.data + body.data
    return struct.pack(">i", len(data)) + data


def opened(request: KafkaRequest[A], version: int, data: bytes) -> tuple[int, A]:
    """Correlation id and answer. Errors: struct.error, UnicodeDecodeError for malformed bytes."""
    reader = Reader(data, is_flexible=version >= request.flexible_from)
    correlation_id = reader.number(">i")
    reader.end()
    return correlation_id, request.read(reader, version)


@dataclass(frozen=True, slots=True)
class ApiVersions(KafkaRequest[Mapping[int, tuple[int, int]]]):
    """The lowest and highest version of each request, by its key."""

    key = 18
    versions = (0,)

    def write(self, out: Writer, version: int) -> None:
        return

    def read(self, data: Reader, version: int) -> Mapping[int, tuple[int, int]]:
        data.number(">h")
        ranges = [(data.number(">h"), data.number(">h"), data.number(">h")) for _ in range(data.count())]
        return {key: (low, high) for key, low, high in ranges}


@dataclass(frozen=True, slots=True)
class Handshaken:
    error: int
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Handshake(KafkaRequest[Handshaken]):
    """Announces the SASL mechanism of a login."""

    key = 17
    versions = (1,)
    mechanism: str

    def write(self, out: Writer, version: int) -> None:
        out.string(self.mechanism)

    def read(self, data: Reader, version: int) -> Handshaken:
        return Handshaken(data.number(">h"), tuple(data.text() for _ in range(data.count())))


@dataclass(frozen=True, slots=True)
class Authenticated:
    error: int
    message: str
    token: bytes = field(repr=False)
    lifetime_ms: int
    """The broker closes the connection when it is used after this time; 0 for no limit."""


@dataclass(frozen=True, slots=True)
class Authenticate(KafkaRequest[Authenticated]):
    """One step of a SASL login."""

    key = 36
    versions = (1,)
    token: bytes = field(repr=False)

    def write(self, out: Writer, version: int) -> None:
        out.block(self.token)

    def read(self, data: Reader, version: int) -> Authenticated:
        return Authenticated(data.number(">h"), data.text(), data.block(), data.number(">q"))


@dataclass(frozen=True, slots=True)
class KnownBrokers(KafkaRequest[Sequence[tuple[str, int]]]):
    """The addresses of all brokers."""

    key = 3
    versions = (1,)

    def write(self, out: Writer, version: int) -> None:
        out.count(0)  # no topics

    def read(self, data: Reader, version: int) -> Sequence[tuple[str, int]]:
        found = []
        for _ in range(data.count()):
            data.number(">i")
            found.append((data.text(), data.number(">i")))
            data.text()
        return found


@dataclass(frozen=True, slots=True)
class CoordinatorAddress:
    error: int
    host: str = ""
    port: int = -1


@dataclass(frozen=True, slots=True)
class FindCoordinator(KafkaRequest[CoordinatorAddress]):
    """The broker that coordinates the group."""

    key = 10
    versions = (1,)
    group_id: str

    def write(self, out: Writer, version: int) -> None:
        out.string(self.group_id)
        out.number(">b", 0)  # of a group, not of a transaction

    def read(self, data: Reader, version: int) -> CoordinatorAddress:
        data.number(">i")
        error = data.number(">h")
        data.text()
        data.number(">i")
        return CoordinatorAddress(error, data.text(), data.number(">i"))


@dataclass(frozen=True, slots=True)
class Joined:
    """`members` is only filled for the leader: metadata by member id."""

    error: int
    generation: int
    protocol: str
    leader: str
    member_id: str
    members: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class JoinGroup(KafkaRequest[Joined]):
    """Answered once all members have joined or the rebalance timeout is over."""

    key = 11
    versions = (8, 5)
    flexible_from = 6
    group_id: str
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]] = field(repr=False)
    reason: str

    def write(self, out: Writer, version: int) -> None:
        out.string(self.group_id)
        out.number(">ii", self.session_timeout_ms, self.rebalance_timeout_ms)
        out.string(self.member_id)
        out.string(None)
        out.string(self.protocol_type)
        out.count(len(self.protocols))
        for name, metadata in self.protocols:
            out.string(name)
            out.block(metadata)
            out.end()
        if version >= 8:
            out.string(self.reason[:_MAX_REASON])

    def read(self, data: Reader, version: int) -> Joined:
        data.number(">i")
        error, generation = data.number(">h"), data.number(">i")
        if version >= 7:
            data.text()  # protocol type
        protocol, leader, member_id = data.text(), data.text(), data.text()
        members = {}
        for _ in range(data.count()):
            name = data.text()
            data.text()
            members[name] = data.block()
            data.end()
        return Joined(error, generation, protocol, leader, member_id, members)


@dataclass(frozen=True, slots=True)
class Synced:
    error: int
    assignment: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SyncGroup(KafkaRequest[Synced]):
    """Answered when the leader has sent the assignments, which it does with this request."""

    key = 14
    versions = (3,)
    group_id: str
    generation: int
    member_id: str
    assignments: Mapping[str, bytes] = field(repr=False)

    def write(self, out: Writer, version: int) -> None:
        out.string(self.group_id)
        out.number(">i", self.generation)
        out.string(self.member_id)
        out.string(None)
        out.count(len(self.assignments))
        for member, assignment in self.assignments.items():
            out.string(member)
            out.block(assignment)

    def read(self, data: Reader, version: int) -> Synced:
        data.number(">i")
        return Synced(data.number(">h"), data.block())


@dataclass(frozen=True, slots=True)
class Heartbeat(KafkaRequest[int]):
    """The answer is an error code."""

    key = 12
    versions = (3,)
    group_id: str
    generation: int
    member_id: str

    def write(self, out: Writer, version: int) -> None:
        out.string(self.group_id)
        out.number(">i", self.generation)
        out.string(self.member_id)
        out.string(None)

    def read(self, data: Reader, version: int) -> int:
        data.number(">i")
        return data.number(">h")


@dataclass(frozen=True, slots=True)
class LeaveGroup(KafkaRequest[int]):
    """The answer is an error code: the group's, or else the member's."""

    key = 13
    versions = (5, 1)
    flexible_from = 4
    group_id: str
    member_id: str
    reason: str

    def write(self, out: Writer, version: int) -> None:
        out.string(self.group_id)
        if version == 1:
            out.string(self.member_id)
            return
        out.count(1)
        out.string(self.member_id)
        out.string(None)
        out.string(self.reason[:_MAX_REASON])
        out.end()

    def read(self, data: Reader, version: int) -> int:
        data.number(">i")
        error = data.number(">h")
        if version == 1 or error or not data.count():
            return error
        data.text()
        data.text()
        return data.number(">h")
