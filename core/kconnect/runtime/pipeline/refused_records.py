"""RefusedRecords: what a sink task has named as records that it cannot write, left out of what it is passed again."""

from __future__ import annotations

from collections.abc import Collection

from kconnect.api import ErrantRecordsError, SinkRecord
from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_context import ErrantRecords
from kconnect.runtime.pipeline.sink_offsets import SinkOffsets
from kconnect.runtime.pipeline.sink_puts import Put


class RefusedRecords:
    """Known until offsets behind them are committed: until then they may come again, and again. Threads: the task's."""

    def __init__(self, errant: ErrantRecords, raw_records: RawRecords, offsets: SinkOffsets) -> None:
        self._errant = errant
        self._raw_records = raw_records
        self._offsets = offsets
        self._known: dict[TopicPartition, dict[int, BaseException]] = {}
        self._given_up: set[tuple[TopicPartition, int]] = set()
        """The known records that were reported."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def named(self, error: ErrantRecordsError) -> None:
        """The task named records. They are given up as soon as they are at hand.

        Errors: StageError for one that is not tolerated; ConnectError for one that the task was not passed.
        """
        self._forget_committed()
        committed = self._offsets.last_committed()
        for (place, offset), cause in error.errors.items():
            self._errant.require_tolerance(_at(place, offset), cause)
            if place not in committed or offset < committed[place] or offset in self._known.get(place, ()):
                raise ConnectError(
                    f"{error}. But since the last commit the task was not passed the record at {place}, offset "
                    f"{offset}",
                    hint="Drop what was gathered when an ErrantRecordsError is raised, and name a record where it was "
                    "read from: by its original topic, partition and offset.",
                ) from error
            self._known.setdefault(place, {})[offset] = cause

    def leave_out(self, put: Put) -> None:
        """Take the named records out of what is put next, and report those that have not been.

        Errors: StageError, ConnectError for what cannot be reported.
        """
        self._forget_committed()
        self._raw_records.at_hand = put.fetched
        for record in put.take_out(self._known):
            place = TopicPartition(record.original_topic, record.original_kafka_partition)
            offset = record.original_kafka_offset
            if (place, offset) not in self._given_up:
                self._given_up.add((place, offset))
                self._errant.report(record, self._known[place][offset])

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are no longer ours."""
        for place in partitions:
            self._known.pop(place, None)
        self._given_up = {(place, offset) for place, offset in self._given_up if place in self._known}

    def _forget_committed(self) -> None:
        committed = self._offsets.last_committed()
        for place, known in list(self._known.items()):
            left = {offset: cause for offset, cause in known.items() if offset >= committed.get(place, 0)}
            self._known[place] = left
            if not left:
                del self._known[place]
        self._given_up = {(place, offset) for place, offset in self._given_up if offset in self._known.get(place, ())}


def _at(place: TopicPartition, offset: int) -> SinkRecord:
    return SinkRecord(place.topic, place.partition, None, None, None, None, offset)
