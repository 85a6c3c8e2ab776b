"""Bytes of requests about groups that this worker is no member of, and about replicas.

librdkafka (2.16) has some of them not at all. Those that it has for a group's coordinator can end the process: when the
connection to the coordinator breaks at the wrong moment, it uses memory that it has freed (librdkafka #5397).
Source: clients/src/main/resources/common/message/*.json (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kconnect.model import TopicPartition
from kconnect.runtime.herder.group.frames import KafkaRequest
from kconnect.runtime.herder.group.wire import Reader, Writer

# Bits of what a principal may do. Source: org.apache.kafka.common.acl.AclOperation
_OPERATIONS: Final = {3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE"}
_NOT_REPORTED: Final = -(2**31)
# Of who commits without being a member
_NO_GENERATION: Final = -1
_AS_THE_BROKER_SAYS: Final = -1


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member: its join metadata and its assignment, as bytes of the group's protocol."""

    id: str
    client_id: str
    host: str
    metadata: bytes = field(repr=False)
    assignment: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `state` is Kafka's word: Stable, PreparingRebalance, CompletingRebalance, Empty, Dead."""

    name: str
    state: str
    protocol_type: str
    """`connect` for workers, `consumer` for consumers, empty for a group that does not exist."""
    protocol: str
    members: tuple[MemberDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """A group as a principal sees it; `operations` is None if the broker does not say what it may do."""

    error: int
    group: GroupDescription
    operations: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class DescribeGroup(KafkaRequest[GroupAnswer]):
    """Ask its coordinator. A group of the newer protocol (KIP-848) is Dead here, as one that does not exist."""

    key = 15
    versions = (3,)
    name: str

    def write(self, out: Writer, version: int) -> None:
        out.count(1)
        out.string(self.name)
        out.number(">b", 1)  # with the operations

    def read(self, data: Reader, version: int) -> GroupAnswer:
        data.number(">i")
        data.count()
        error = data.number(">h")
        name, state, protocol_type, protocol = data.text(), data.text(), data.text(), data.text()
        members = tuple(
            MemberDescription(data.text(), data.text(), data.text(), data.block(), data.block())
            for _ in range(data.count())
        )
        bits = data.number(">i")
        operations = frozenset(word for bit, word in _OPERATIONS.items() if bits >> bit & 1)
        group = GroupDescription(name, state, protocol_type, protocol, members)
        return GroupAnswer(error, group, None if bits == _NOT_REPORTED else operations)


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroup(KafkaRequest[GroupAnswer]):
    """A group of the newer protocol. Ask its coordinator, which has the bytes of no member. Brokers since 3.7."""

    key = 69
    versions = (0,)
    flexible_from = 0
    name: str

    def write(self, out: Writer, version: int) -> None:
        out.count(1)
        out.string(self.name)
        out.number(">b", 0)  # without the operations

    def read(self, data: Reader, version: int) -> GroupAnswer:
        data.number(">i")
        data.count()
        error = data.number(">h")
        data.text()  # the error's sentence
        name, state = data.text(), data.text()
        data.number(">i")
        data.number(">i")
        assignor = data.text()
        members = tuple(self._read_member(data) for _ in range(data.count()))
        return GroupAnswer(error, GroupDescription(name, state, "consumer", assignor, members))

    def _read_member(self, data: Reader) -> MemberDescription:
        member = data.text()
        data.text()  # instance id
        data.text()  # rack
        data.number(">i")
        client_id, host = data.text(), data.text()
        for _ in range(data.count()):
            data.text()  # topics
        data.text()  # their pattern
        for _ in range(2):  # assignment: now, and aimed at
            for _ in range(data.count()):
                data.number(">q")
                data.number(">q")
                data.text()
                for _ in range(data.count()):
                    data.number(">i")
                data.end()
            data.end()
        data.end()
        return MemberDescription(member, client_id, host, b"", b"")


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """The type of each group that the broker coordinates, by its name."""

    error: int
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListGroups(KafkaRequest[ListedGroups]):
    """Ask every broker."""

    key = 16
    versions = (2,)

    def write(self, out: Writer, version: int) -> None:
        return

    def read(self, data: Reader, version: int) -> ListedGroups:
        data.number(">i")
        error = data.number(">h")
        return ListedGroups(error, {data.text(): data.text() for _ in range(data.count())})


@dataclass(frozen=True, slots=True)
class DeleteGroup(KafkaRequest[int]):
    """Deletes a group without members, with all its offsets. The answer is an error code."""

    key = 42
    versions = (1,)
    name: str

    def write(self, out: Writer, version: int) -> None:
        out.count(1)
        out.string(self.name)

    def read(self, data: Reader, version: int) -> int:
        data.number(">i")
        data.count()
        data.text()
        return data.number(">h")


def _by_topic(partitions: Collection[TopicPartition]) -> Mapping[str, Sequence[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for at in partitions:
        found.setdefault(at.topic, []).append(at)
    return found


def _errors_in(data: Reader) -> Mapping[TopicPartition, int]:
    errors = {}
    for _ in range(data.count()):
        topic = data.text()
        for _ in range(data.count()):
            at = TopicPartition(topic, data.number(">i"))
            errors[at] = data.number(">h")
    return errors


@dataclass(frozen=True, slots=True)
class OffsetCommit(KafkaRequest[Mapping[TopicPartition, int]]):
    """Sets offsets of a group without members. The answer has an error code of each partition, 0 for none."""

    key = 8
    versions = (2,)
    group_id: str
    offsets: Mapping[TopicPartition, int]

    def write(self, out: Writer, version: int) -> None:
        out.string(self.group_id)
        out.number(">i", _NO_GENERATION)
        out.string("")
        out.number(">q", _AS_THE_BROKER_SAYS)
        topics = _by_topic(self.offsets)
        out.count(len(topics))
        for topic, places in topics.items():
            out.string(topic)
            out.count(len(places))
            for at in places:
                out.number(">iq", at.partition, self.offsets[at])
                out.string("")

    def read(self, data: Reader, version: int) -> Mapping[TopicPartition, int]:
        return _errors_in(data)


@dataclass(frozen=True, slots=True)
class OffsetsDeleted:
    """`error` is of the whole request; `errors` has one of each partition, 0 where its offset is gone."""

    error: int
    errors: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetDelete(KafkaRequest[OffsetsDeleted]):
    """Forgets committed offsets of partitions, of a group that does not read their topics now (KIP-496)."""

    key = 47
    versions = (0,)
    group_id: str
    partitions: Collection[TopicPartition]

    def write(self, out: Writer, version: int) -> None:
        out.string(self.group_id)
        topics = _by_topic(self.partitions)
        out.count(len(topics))
        for topic, places in topics.items():
            out.string(topic)
            out.count(len(places))
            for at in places:
                out.number(">i", at.partition)

    def read(self, data: Reader, version: int) -> OffsetsDeleted:
        error = data.number(">h")
        data.number(">i")
        return OffsetsDeleted(error, _errors_in(data))


@dataclass(frozen=True, slots=True)
class OffsetsFetched:
    """`error` is that of the whole request. A negative offset means none."""

    error: int
    offsets: Mapping[TopicPartition, int]
    errors: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetFetch(KafkaRequest[OffsetsFetched]):
    """All committed offsets of a group, for all topics."""

    key = 9
    versions = (2,)
    group_id: str

    def write(self, out: Writer, version: int) -> None:
        out.string(self.group_id)
        out.count(-1)

    def read(self, data: Reader, version: int) -> OffsetsFetched:
        offsets, errors = {}, {}
        for _ in range(data.count()):
            topic = data.text()
            for _ in range(data.count()):
                at = TopicPartition(topic, data.number(">i"))
                offsets[at] = data.number(">q")
                data.text()
                errors[at] = data.number(">h")
        return OffsetsFetched(data.number(">h"), offsets, errors)


@dataclass(frozen=True, slots=True)
class ReplicasPlaced:
    """`error` is of the whole request; `errors` has partition, code and the broker's words for each that it refuses."""

    error: int
    message: str
    errors: Sequence[tuple[int, int, str]]


@dataclass(frozen=True, slots=True)
class PlaceReplicas(KafkaRequest[ReplicasPlaced]):
    """Has the controller copy partitions of a topic to these brokers (AlterPartitionReassignments, KIP-455)."""

    key = 45
    versions = (0,)
    flexible_from = 0
    topic: str
    brokers: Mapping[int, Sequence[int]]
    """By partition, the one that is to lead it first."""
    timeout_ms: int

    def write(self, out: Writer, version: int) -> None:
        out.number(">i", self.timeout_ms)
        out.count(1)
        out.string(self.topic)
        out.count(len(self.brokers))
        for partition, brokers in self.brokers.items():
            out.number(">i", partition)
            out.count(len(brokers))
            for broker in brokers:
                out.number(">i", broker)
            out.end()
        out.end()

    def read(self, data: Reader, version: int) -> ReplicasPlaced:
        data.number(">i")
        error, message = data.number(">h"), data.text()
        errors = []
        for _ in range(data.count()):
            data.text()
            for _ in range(data.count()):
                partition, code, why = data.number(">i"), data.number(">h"), data.text()
                data.end()
                if code:
                    errors.append((partition, code, why))
            data.end()
        return ReplicasPlaced(error, message, errors)
