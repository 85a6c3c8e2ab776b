"""What one put() of a sink takes: each form of it knows how it is given to the task, and what became of it.

Here are the forms of Python's tasks; where Java converts as well, it is `java_chain.TakenByJava`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from kconnect.api import RecordBatch, SinkRecord
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.sink_calls import SinkCalls

Places = Mapping[TopicPartition, Collection[int]]
"""Offsets of records, by the partition they were read from."""


class Put(Protocol):
    """Records for one put(). Threads: the task's.

    Lifecycle: made -> joined with others of its fetch -> settle and put, again while put() raises RetriableError.
    """

    @property
    def is_under_way(self) -> bool:
        """The task has it already, and what became of it is not known yet."""
        ...

    @property
    def size(self) -> int:
        """Bytes that the task has of it before its put()."""
        ...

    @property
    def put_ms(self) -> float | None:
        """How long put() took; None where that is how long `put` took here."""
        ...

    @property
    def fetched(self) -> Sequence[FetchedBatch]:
        """The raw records it was made from; only kept while failures are reported."""
        ...

    def __len__(self) -> int: ...

    def settle(self) -> bool:
        """Wait for what is under way; returns whether the task took it. Errors: what its put() raised."""
        ...

    def put(self, calls: SinkCalls) -> None:
        """Hand the records to the task now. Errors: what the task raises; StageError."""
        ...

    def join(self, other: Put) -> bool:
        """Whether this takes `other` in, which comes behind it in the same fetch."""
        ...

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the records of these partitions."""
        ...

    def take_out(self, places: Places) -> Sequence[SinkRecord]:
        """Remove and return the records of these places."""
        ...


class RecordsPut:
    """Records as objects: put(). Implements Put."""

    is_under_way: Final = False
    size: Final = 0
    put_ms: Final = None

    def __init__(self, records: list[SinkRecord], fetched: Sequence[FetchedBatch] = ()) -> None:
        self.records = records
        self.fetched: Sequence[FetchedBatch] = fetched

    def __len__(self) -> int:
        return len(self.records)

    def settle(self) -> bool:
        return False

    def put(self, calls: SinkCalls) -> None:
        calls.put(list(self.records), self.fetched)

    def join(self, other: Put) -> bool:
        """Records of one fetch go into one put, as in Java."""
        if not isinstance(other, RecordsPut):
            return False
        self.records = self.records + other.records
        self.fetched = [*self.fetched, *other.fetched]
        return True

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        self.records = [record for record in self.records if _place(record) not in partitions]

    def take_out(self, places: Places) -> Sequence[SinkRecord]:
        found = [record for record in self.records if record.original_kafka_offset in places.get(_place(record), ())]
        if found:
            gone = set(map(id, found))
            self.records = [record for record in self.records if id(record) not in gone]
        return found


class ColumnsPut:
    """A batch of columns, of one partition: put_batch(). Implements Put."""

    is_under_way: Final = False
    size: Final = 0
    put_ms: Final = None

    def __init__(self, batch: RecordBatch, fetched: Sequence[FetchedBatch] = ()) -> None:
        self.batch = batch
        self.fetched: Sequence[FetchedBatch] = fetched

    def __len__(self) -> int:
        return len(self.batch)

    def settle(self) -> bool:
        return False

    def put(self, calls: SinkCalls) -> None:
        if len(self.batch):
            calls.put_batch(self.batch, self.fetched)
        else:
            calls.put([])

    def join(self, other: Put) -> bool:
        """Never: the batches of a fetch stay apart."""
        return False

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Nothing remains, as it has one partition: the queue drops it whole."""

    def take_out(self, places: Places) -> Sequence[SinkRecord]:
        import pyarrow as pa
        import pyarrow.compute as pc

        batch = self.batch
        wanted = places.get(TopicPartition(batch.original_topic, batch.original_kafka_partition or 0), ())
        if not wanted or batch.kafka_offsets is None:
            return ()
        is_wanted = pc.is_in(batch.kafka_offsets, pa.array(sorted(wanted), pa.int64()))
        self.batch = batch.filter(pc.invert(is_wanted))
        return batch.filter(is_wanted).to_records()  # type: ignore[return-value]  # a sink's batch


def put_of(made: RecordBatch | list[SinkRecord], fetched: Sequence[FetchedBatch] = ()) -> RecordsPut | ColumnsPut:
    """The form of what converters and transformations made."""
    return ColumnsPut(made, fetched) if isinstance(made, RecordBatch) else RecordsPut(made, fetched)


def _place(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic, record.original_kafka_partition)
