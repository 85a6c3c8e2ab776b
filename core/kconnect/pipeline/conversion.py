"""Between Connect's data and Kafka's bytes, for batches and for single records.

Who calls it: the source and sink loops, from the task thread only. What it calls: Converter and HeaderConverter of the plugin API.
A batch whose converter has no columnar form, or whose columnar form raised, is converted row by row here, so a loop always gets one kind
of answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.api import (
    ConnectHeaders,
    ConnectRecord,
    Converter,
    HeaderConverter,
    RecordBatch,
    SchemaAndValue,
    SinkRecord,
    TimestampType,
)
from kconnect.pipeline.stages import DROPPED, Dropped, FailurePolicy, RaiseAlways, Stage, StageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Converters", "FetchedBatch", "FetchedRecord", "KafkaBatch", "KafkaRecord"]

KafkaHeaders = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class KafkaRecord:
    """One record as the producer takes it."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: KafkaHeaders | None


@dataclass(slots=True)
class KafkaBatch:
    """Records of one topic as the producer takes them; lists run in parallel.

    `rows` is None when every row of the RecordBatch is here; else the indexes of those that are (a tolerated failure drops rows).
    `timestamps` is one number for all, or a list; None leaves it to the producer.
    """

    topic: str
    partition: int | None
    keys: list[bytes | None] | None
    values: list[bytes | None]
    timestamps: list[int | None] | int | None
    headers: list[KafkaHeaders | None] | None
    rows: list[int] | None = None

    def __len__(self) -> int:
        return len(self.values)


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


class Converters:
    """The three converters of one task. Threads: the task thread only."""

    def __init__(
        self, key: Converter, value: Converter, header: HeaderConverter, policy: FailurePolicy | None = None
    ) -> None:
        self._key = key
        self._value = value
        self._header = header
        self._policy: FailurePolicy = policy or RaiseAlways()

    # --- to Kafka (source connectors) ---

    def to_kafka_batch(self, batch: RecordBatch) -> KafkaBatch:
        """Bytes of a whole batch. Errors: StageError; its `done` is the KafkaBatch of the rows before, in a list."""
        raise NotImplementedError

    def to_kafka_records(self, records: Sequence[ConnectRecord]) -> list[KafkaRecord | None]:
        """One answer for each record, None where it was dropped. Errors: StageError with `done`."""
        raise NotImplementedError

    def to_kafka_record(self, record: ConnectRecord) -> KafkaRecord | None:
        """Bytes of one record; None when the policy dropped it."""
        raise NotImplementedError

    # --- from Kafka (sink connectors) ---

    def to_connect_batch(self, fetched: FetchedBatch) -> RecordBatch | list[SinkRecord]:
        """Connect's form of what was fetched: a batch where both converters are columnar, else records.

        Shape: records that the policy dropped are missing; offsets tell which.
        """
        raise NotImplementedError

    def to_connect_record(self, fetched: FetchedRecord) -> SinkRecord | None:
        """Connect's form of one fetched record; None when the policy dropped it."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all three. Source: WorkerTask closes its converters quietly."""
        raise NotImplementedError
