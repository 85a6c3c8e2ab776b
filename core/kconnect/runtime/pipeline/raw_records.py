"""RawRecords: finds the bytes that a sink's records were read as."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from kconnect.api import RecordBatch, SinkRecord
from kconnect.runtime.pipeline.fetched import FetchedBatch, FetchedRecord


class RawRecords:
    """Finds the bytes of a record that failed, for the dead letter queue and the error log.

    Once the task has asked for the reporter, records and batches that it is given keep a reference to what they came
    from, so that one can be reported long after its put. All others are found while they are converted or put. Nothing
    is kept when nobody reports (`is_wanted`).
    Threads: `of` any, the rest the task's. Source: ProcessingContext and InternalSinkRecord.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        self.is_for_task = False
        """Whether the task itself may report records."""
        self.at_hand: Sequence[FetchedBatch] = ()
        """What is being converted or put right now."""
        self._in_put: Sequence[SinkRecord] = ()
        self._batch_in_put: RecordBatch | None = None
        self._put_from: Sequence[FetchedBatch] = ()

    def put(self, records: Sequence[SinkRecord], fetched: Sequence[FetchedBatch]) -> None:
        """These records are put next; they were made from these batches."""
        self._in_put, self._batch_in_put = records, None
        self._put_from = self.at_hand = fetched
        if self.is_for_task:
            self._attach()

    def put_batch(self, batch: RecordBatch, fetched: Sequence[FetchedBatch]) -> None:
        """A batch is put next; its records were read as these, of one partition."""
        self.put((), fetched)
        self._batch_in_put = batch
        if self.is_for_task:
            self._attach()

    def expect_reports(self) -> None:
        """The task asked for the reporter: from now on records must know where they came from."""
        if not self.is_for_task:
            self.is_for_task = True
            self._attach()

    def _attach(self) -> None:
        if self._batch_in_put is not None and self.at_hand:
            (self._batch_in_put._origin,) = self.at_hand
        for fetched in self.at_hand:
            first, last = fetched.offsets[0], fetched.offsets[-1]
            for record in self._in_put:
                if (
                    first <= record.original_kafka_offset <= last
                    and record.original_topic == fetched.topic
                    and record.original_kafka_partition == fetched.partition
                ):
                    record._origin = fetched
        if self._in_put:
            self.at_hand = ()  # a record that holds on to nothing is the task's own

    def of(self, record: Any) -> FetchedRecord | None:
        """The record as it was read; None for one that the task created or copied."""
        if isinstance(record, FetchedRecord):
            return record
        if not isinstance(record, SinkRecord):
            return None
        origin = getattr(record, "_origin", None)
        offset = record.original_kafka_offset
        if origin is not None:
            return _row(origin, offset)
        return _at(self.at_hand, record.original_topic, record.original_kafka_partition, offset)

    def at(self, topic: str, partition: int, offset: int) -> FetchedRecord | None:
        """The record of this place, of those that are being put right now."""
        return _at(self._put_from, topic, partition, offset)


def _at(batches: Sequence[FetchedBatch], topic: str, partition: int, offset: int) -> FetchedRecord | None:
    for fetched in batches:
        if fetched.topic == topic and fetched.partition == partition:
            found = _row(fetched, offset)
            if found is not None:
                return found
    return None


def _row(fetched: FetchedBatch, offset: int) -> FetchedRecord | None:
    index = bisect_left(fetched.offsets, offset)
    if index < len(fetched) and fetched.offsets[index] == offset:
        return fetched.row(index)
    return None
