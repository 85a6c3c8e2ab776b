"""What the consumer gave a sink, before any conversion: a record, and a batch of one topic partition."""

from __future__ import annotations

from dataclasses import dataclass

from kconnect.api import TimestampType
from kconnect.runtime.kafka import KafkaHeaders


@dataclass(slots=True)
class FetchedRecord:
    """One record as the consumer gave it."""

    topic: str
    kafka_partition: int
    kafka_offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    timestamp_type: TimestampType
    headers: KafkaHeaders | None


@dataclass(slots=True)
class FetchedBatch:
    """Records of one topic partition as the consumer gave them; lists run in parallel. keys None: no record has one."""

    topic: str
    partition: int
    offsets: list[int]
    keys: list[bytes | None] | None
    values: list[bytes | None]
    timestamps: list[int | None] | None
    timestamp_type: TimestampType
    headers: list[KafkaHeaders | None] | None

    def __len__(self) -> int:
        return len(self.values)

    def row(self, index: int) -> FetchedRecord:
        return FetchedRecord(
            self.topic,
            self.partition,
            self.offsets[index],
            None if self.keys is None else self.keys[index],
            self.values[index],
            None if self.timestamps is None else self.timestamps[index],
            self.timestamp_type,
            None if self.headers is None else self.headers[index],
        )
