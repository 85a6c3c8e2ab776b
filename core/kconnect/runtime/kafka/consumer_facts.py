"""ConsumerFacts: what a consumer knows of its group and its partitions, for plugins of Java that ask theirs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.errors import ConnectError
from kconnect.runtime.kafka.clients import connect_error, kafka_errors

# How librdkafka writes a member for another client: this, generation, group, member, whether it has no instance, that
_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("=i")
_FROM_THE_FIRST: Final = ("earliest", "smallest", "beginning")


class ConsumerFacts:
    """Answers of one consumer, as JSON has them. A partition is [topic, number], or [topic, number, time].

    Threads: any. Errors: ConnectError; TimedOutError when the broker does not answer within the time given.
    """

    def __init__(self, client: Consumer, topics: Callable[[], Sequence[str]], reset: str) -> None:
        """`topics`: those that it has subscribed to. `reset`: its auto.offset.reset."""
        self._client = client
        self._topics = topics
        self._reset = reset

    def answer(self, asked: Mapping[str, Any]) -> Any:
        """The answer to a question of Java's HostConsumer: `what`, `partitions`, `timeout_ms`."""
        rows, timeout_s = asked["partitions"], int(asked["timeout_ms"]) / 1000
        match asked["what"]:
            case "group":
                return member_of(self._client.consumer_group_metadata())
            case "subscription":
                return list(self._topics())
            case "position":
                return self._positions(rows, timeout_s)
            case "committed":
                return self._committed(rows, timeout_s)
            case "ends":
                return [[topic, number, *self._ends(topic, number, timeout_s)] for topic, number in rows]
            case "times":
                return self._at_times(rows, timeout_s)
        raise ConnectError(f"A consumer does not answer {asked['what']}")

    def _committed(self, rows: Sequence[Sequence[Any]], timeout_s: float) -> list[list[Any]]:
        wanted = [ClientPartition(topic, number) for topic, number in rows]
        with kafka_errors("The committed offsets cannot be asked for"):
            found = self._client.committed(wanted, timeout=timeout_s)
        return [[one.topic, one.partition, _offset(one), one.metadata or ""] for one in found]

    def _positions(self, rows: Sequence[Sequence[Any]], timeout_s: float) -> list[list[Any]]:
        """Where it fetches next: behind what it fetched, else at what is committed, else where it would begin."""
        wanted = [ClientPartition(topic, number) for topic, number in rows]
        with kafka_errors("The position cannot be asked for"):
            found = {(one.topic, one.partition): one.offset for one in self._client.position(wanted)}
        made = []
        for topic, number in rows:
            offset = found.get((topic, number), -1)
            if offset < 0:
                offset = self._committed([(topic, number)], timeout_s)[0][2]
            if offset is None:
                first, end = self._ends(topic, number, timeout_s)
                offset = first if self._reset in _FROM_THE_FIRST else end
            made.append([topic, number, offset])
        return made

    def _ends(self, topic: str, number: int, timeout_s: float) -> tuple[int, int]:
        with kafka_errors(f"The ends of {topic}-{number} cannot be asked for"):
            found = self._client.get_watermark_offsets(ClientPartition(topic, number), timeout=timeout_s)
        first, end = found
        return first, end

    def _at_times(self, rows: Sequence[Sequence[Any]], timeout_s: float) -> list[list[Any]]:
        wanted = [ClientPartition(topic, number, int(time_ms)) for topic, number, time_ms in rows]
        with kafka_errors("The offsets of times cannot be asked for"):
            found = self._client.offsets_for_times(wanted, timeout=timeout_s)
        return [[one.topic, one.partition, _offset(one)] for one in found]


def member_of(written: bytes) -> dict[str, Any]:
    """A member of a group as librdkafka writes it: group, generation (-1 before it has joined), member, instance."""
    if not written.startswith(_MAGIC):
        raise ConnectError("The installed librdkafka writes members of groups in an unknown form")
    (generation,) = _GENERATION.unpack_from(written, len(_MAGIC))
    group, _, rest = written[len(_MAGIC) + _GENERATION.size :].partition(b"\0")
    member, _, rest = rest.partition(b"\0")
    return {
        "group": group.decode(),
        "generation": generation,
        "member": member.decode(),
        "instance": None if rest[:1] == b"\1" else rest[1:].rstrip(b"\0").decode(),
    }


def _offset(partition: ClientPartition) -> int | None:
    if partition.error is not None:
        raise connect_error(f"An offset of {partition.topic}-{partition.partition} cannot be given", partition.error)
    return partition.offset if partition.offset >= 0 else None
