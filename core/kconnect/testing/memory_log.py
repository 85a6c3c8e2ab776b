"""MemoryLog: topics in memory, as much of Kafka as a connector's test needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kconnect.api import SinkRecord, TimestampType
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.fetched import FetchedRecord


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One record of a topic, as bytes; `connect` is set when it was put in Connect's form and never was bytes."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default=())
    connect: SinkRecord | None = None

    @property
    def place(self) -> TopicPartition:
        """Its topic and partition."""
        return TopicPartition(self.topic, self.partition)

    def fetched(self) -> FetchedRecord:
        """The record as a consumer gives it."""
        return FetchedRecord(
            self.topic,
            self.partition,
            self.offset,
            self.key,
            self.value,
            self.timestamp,
            TimestampType.CREATE_TIME,
            list(self.headers) or None,
        )

    @property
    def json(self) -> Any:
        """The value read as JSON; None for a tombstone. Errors: ValueError when it is no JSON."""
        import json

        return None if self.value is None else json.loads(self.value)

    @property
    def text(self) -> str | None:
        """The value as UTF-8 text."""
        return None if self.value is None else self.value.decode()


class MemoryLog:
    """Append-only topics; each is created by its first record. Threads: one at a time."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, list[MemoryRecord]] = {}

    def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int = 0,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        connect: SinkRecord | None = None,
    ) -> MemoryRecord:
        """Put one record at the end of a partition; gives it with its offset."""
        kept = self._partitions.setdefault(TopicPartition(topic, partition), [])
        record = MemoryRecord(topic, partition, len(kept), key, value, timestamp, tuple(headers), connect)
        kept.append(record)
        return record

    def records(self, topic: str | None = None) -> list[MemoryRecord]:
        """All records of a topic (or of all topics), by partition, in the order of their offsets."""
        return [record for tp in self.partitions(topic) for record in self._partitions[tp]]

    def values(self, topic: str | None = None) -> list[bytes | None]:
        """The values of `records`."""
        return [record.value for record in self.records(topic)]

    def read(self, partition: TopicPartition, offset: int) -> list[MemoryRecord]:
        """The records of a partition from an offset on."""
        return self._partitions.get(partition, [])[max(offset, 0) :]

    def end(self, partition: TopicPartition) -> int:
        """The offset of the next record."""
        return len(self._partitions.get(partition, []))

    def partitions(self, topic: str | None = None) -> list[TopicPartition]:
        """The partitions with records, in order."""
        return sorted(tp for tp in self._partitions if topic is None or tp.topic == topic)

    def __len__(self) -> int:
        return sum(len(records) for records in self._partitions.values())
