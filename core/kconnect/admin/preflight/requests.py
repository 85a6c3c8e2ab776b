"""Requests that no client library has in this form: a group of any type, a transactional id, the controllers' clock.

Source: clients/src/main/resources/common/message/*.json (Kafka 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kconnect.runtime.herder.group.frames import KafkaRequest
from kconnect.runtime.herder.group.wire import Reader, Writer

_METADATA: Final = "__cluster_metadata"
# Bits of what a principal may do. Source: org.apache.kafka.common.acl.AclOperation
_OPERATIONS: Final = {3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE"}
_NOT_TOLD: Final = -(2**31)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group as a principal sees it. `protocol_type`: `connect`, `consumer`; empty for none."""

    error: int
    state: str
    protocol_type: str
    members: tuple[bytes, ...] = field(repr=False)
    """What each said when it joined."""
    operations: frozenset[str] | None
    """None if the broker does not say."""


@dataclass(frozen=True, slots=True)
class DescribeGroup(KafkaRequest[GroupFacts]):
    """Ask its coordinator."""

    key = 15
    versions = (3,)
    group_id: str

    def write(self, out: Writer, version: int) -> None:
        out.count(1)
        out.string(self.group_id)
        out.number(">b", 1)

    def read(self, data: Reader, version: int) -> GroupFacts:
        data.number(">i")
        data.count()
        error = data.number(">h")
        data.text()
        state, protocol_type = data.text(), data.text()
        data.text()
        members = []
        for _ in range(data.count()):
            for _ in range(3):
                data.text()
            members.append(data.block())
            data.block()
        bits = data.number(">i")
        told = {name for bit, name in _OPERATIONS.items() if bits >> bit & 1}
        return GroupFacts(error, state, protocol_type, tuple(members), None if bits == _NOT_TOLD else frozenset(told))


@dataclass(frozen=True, slots=True)
class FindTransactionCoordinator(KafkaRequest[int]):
    """The answer is an error code; 53 means that the principal has no right on the transactional id."""

    key = 10
    versions = (1,)
    transactional_id: str

    def write(self, out: Writer, version: int) -> None:
        out.string(self.transactional_id)
        out.number(">b", 1)

    def read(self, data: Reader, version: int) -> int:
        data.number(">i")
        return data.number(">h")


@dataclass(frozen=True, slots=True)
class QuorumTime:
    """An error code, and the time (epoch ms) at which the active controller answered; None if it does not say."""

    error: int
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DescribeQuorum(KafkaRequest[QuorumTime]):
    """The leader of the metadata quorum gives its own clock as the time of its own last fetch (KIP-836)."""

    key = 55
    versions = (1,)
    flexible_from = 0

    def write(self, out: Writer, version: int) -> None:
        out.count(1)
        out.string(_METADATA)
        out.count(1)
        out.number(">i", 0)
        out.end()
        out.end()

    def read(self, data: Reader, version: int) -> QuorumTime:
        error = data.number(">h")
        if error or not data.count():
            return QuorumTime(error)
        data.text()
        data.count()
        data.number(">i")
        error, leader = data.number(">h"), data.number(">i")
        data.number(">i")
        data.number(">q")
        for _ in range(data.count()):
            replica = data.number(">i")
            data.number(">q")
            data.number(">q")
            caught_up_ms = data.number(">q")
            data.end()
            if replica == leader and caught_up_ms > 0:
                return QuorumTime(error, caught_up_ms)
        return QuorumTime(error)
