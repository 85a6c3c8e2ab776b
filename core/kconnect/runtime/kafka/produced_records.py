"""Records as a producer takes them: one, or the columns of many for one topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KafkaHeaders = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class KafkaRecord:
    """One record. No `partition`: the partitioner chooses. No `timestamp`: the producer says when."""

    topic: str
    partition: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    timestamp: int | None = None
    headers: KafkaHeaders | None = None


@dataclass(slots=True)
class KafkaBatch:
    """Records of one topic; lists run in parallel.

    `rows` is None when every row of the RecordBatch is here; else the indexes of those that are (a tolerated failure
    drops rows).
    `timestamps` is one number for all, or a list; None leaves it to the producer.
    """

    topic: str
    partition: int | None
    keys: Sequence[bytes | None] | None
    values: Sequence[bytes | None]
    timestamps: list[int | None] | int | None
    headers: list[KafkaHeaders | None] | None
    rows: list[int] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def records(self) -> Iterator[KafkaRecord]:
        """One by one."""
        keys: Sequence[bytes | None] = [None] * len(self) if self.keys is None else self.keys
        times = self.timestamps if isinstance(self.timestamps, list) else [self.timestamps] * len(self)
        headers = [None] * len(self) if self.headers is None else self.headers
        for key, value, time, header in zip(keys, self.values, times, headers, strict=True):
            yield KafkaRecord(self.topic, self.partition, key, value, time, header)
