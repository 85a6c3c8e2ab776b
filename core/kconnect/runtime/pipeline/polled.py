"""What a source's poll() returned: each form of it knows how it becomes units that are ready to be sent.

Here are the forms of Python's tasks; Java's are in `java_chain`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from kconnect.api import ConnectRecord, RecordBatch, SourceRecord, SourceTask
from kconnect.errors import DataError
from kconnect.runtime.kafka import KafkaBatch, KafkaRecord
from kconnect.runtime.pipeline.batch_forms import BatchForms
from kconnect.runtime.pipeline.batch_records import rows_of
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.health import CONVERSION, TaskHealth
from kconnect.runtime.pipeline.inflight import SourcePosition
from kconnect.runtime.pipeline.polled_lists import PolledLists, index_of, no_records_error, positions_of
from kconnect.runtime.pipeline.stages import StageError
from kconnect.runtime.pipeline.task_hooks import wants_each_record
from kconnect.runtime.pipeline.transform_chain import TransformChain


@dataclass(slots=True)
class ReadyUnit:
    """Records that are sent together, as bytes, and how far the source is behind them."""

    positions: Sequence[SourcePosition]
    """The last offset of each source partition."""
    polled: int
    """How many records of the task it was made from."""
    kept: int
    """How many of them are here."""
    topics: Collection[str]
    """Where they go: known before they are sent, so that no record is kept for it."""
    batches: Sequence[KafkaBatch] = ()
    records: Sequence[KafkaRecord | None] = ()
    """Where there are no batches; None for one that was dropped on the way."""
    tokens: Sequence[Any] | None = None
    """What the task knows each of `records` by, where the task hears what became of each; None for one it does not."""


class PolledPart(Protocol):
    """Consecutive records of a poll in one form."""

    @property
    def makes_records(self) -> bool:
        """The task has never seen the objects that `records` gives: they are made there."""
        ...

    @property
    def size(self) -> int:
        """How many records the task gave; may be 0 for the rest of a poll that was counted before."""
        ...

    def records(self) -> Sequence[SourceRecord]:
        """The records, after each of which a transaction may end; none where that is not ours to say."""
        ...

    def units(self, conversion: SourceConversion) -> Iterable[ReadyUnit]:
        """Transformed and converted, to be sent in order; ask for the next once the producer has the one before.

        Errors: StageError for a record that fails the task, after what came before it where that must be sent.
        """
        ...


class Polled(Protocol):
    """All that one poll gave, which is something."""

    @property
    def size(self) -> int: ...

    @property
    def parts(self) -> Sequence[PolledPart]: ...


class SourceConversion:
    """A source's transformations and converters. Threads: the task's."""

    def __init__(
        self,
        task: SourceTask,
        transforms: TransformChain,
        converters: Converters,
        health: TaskHealth,
        *,
        sends_before_failure: bool,
        forms: BatchForms | None = None,
    ) -> None:
        """`sends_before_failure`: what came before a record that fails the task, so that a restart begins at it."""
        self.task = task
        self.wants_each = wants_each_record(task)
        """The task overrides commit_record(): each record is a unit, as in Java."""
        self.sends_before_failure = sends_before_failure
        self._transforms = transforms
        self._converters = converters
        self._health = health
        self._lists = PolledLists(transforms)
        self._forms = forms or BatchForms()

    def unit_of_one(self, record: SourceRecord) -> ReadyUnit:
        """One record, to be reported."""
        self._health.call = (CONVERSION, time.monotonic())
        try:
            if self._transforms.expands:
                return self._several_of_one(record)
            after = self._transforms.apply_record(record)
            made = None if after is None else self._converters.to_kafka_record(after)
        finally:
            self._health.call = None
        kept, topics = (0, ()) if made is None else (1, (made.topic,))
        return ReadyUnit(positions_of([record]), 1, kept, topics, (), (made,), (record,))

    def _several_of_one(self, record: SourceRecord) -> ReadyUnit:
        """The task hears of the last of them: they are acknowledged, or committed, together."""
        converted = map(self._converters.to_kafka_record, self._transforms.apply_each(record))
        made = [one for one in converted if one is not None]
        tokens = [None] * (len(made) - 1) + [record]
        topics = {one.topic for one in made}
        return ReadyUnit(positions_of([record]), 1, len(made), topics, (), made or (None,), tokens)

    def units_of_all(self, polled: Sequence[SourceRecord] | RecordBatch) -> Iterable[ReadyUnit]:
        """All records together; where one fails the task, what came before it, then the StageError."""
        try:
            made = self._convert(polled)
        except StageError as failure:
            if not self.sends_before_failure:
                raise
            records = rows_of(polled)[0] if isinstance(polled, RecordBatch) else polled
            return self._up_to(cast("Sequence[SourceRecord]", records), failure)
        return (_ready(positions_of(polled), len(polled), made),)

    def _convert(self, polled: Sequence[SourceRecord] | RecordBatch) -> KafkaBatch | Sequence[KafkaRecord | None]:
        """The records that remain, as bytes. Errors: StageError when a record fails the task."""
        self._health.call = (CONVERSION, time.monotonic())
        try:
            given = polled if isinstance(polled, RecordBatch) else self._lists.columns_of(polled)
            self._forms.begin(len(given) if isinstance(given, RecordBatch) else 0)
            if isinstance(given, RecordBatch):
                kept = self._transforms.apply_batch(given)
            else:
                kept = self._transforms.apply_records(given)
            if isinstance(kept, RecordBatch):
                return self._converters.to_kafka_batch(kept)
            return self._converters.to_kafka_list(kept) if kept is not None else ()
        finally:
            self._health.call = None

    def _up_to(self, records: Sequence[SourceRecord], failure: StageError) -> Iterator[ReadyUnit]:
        before = records[: index_of(records, failure.record)]
        if before:
            done: KafkaBatch | Sequence[KafkaRecord | None] = failure.done
            if self._transforms.expands:  # without those that were made of the failing record, whose offset stays
                done = self._convert(before)
            elif failure.done and isinstance(failure.done[0], ConnectRecord):
                done = self._converters.to_kafka_records(failure.done)
            elif failure.done and isinstance(failure.done[0], KafkaBatch):
                done = failure.done[0]
            yield _ready(positions_of(before), len(before), done)
        raise failure


class PolledRecords:
    """A list of records. Implements Polled and PolledPart."""

    makes_records: Final = False

    def __init__(self, records: Sequence[SourceRecord]) -> None:
        self.size = len(records)
        self._records = records

    @property
    def parts(self) -> Sequence[PolledPart]:
        return (self,)

    def records(self) -> Sequence[SourceRecord]:
        return self._records

    def units(self, conversion: SourceConversion) -> Iterable[ReadyUnit]:
        if conversion.wants_each:
            return self._each(conversion)
        try:
            return conversion.units_of_all(self._records)
        except (AttributeError, TypeError) as error:
            raise self._explained(error, conversion.task) from error.__cause__

    def _each(self, conversion: SourceConversion) -> Iterator[ReadyUnit]:
        for record in self._records:
            try:
                unit = conversion.unit_of_one(record)
            except (AttributeError, TypeError) as error:
                raise self._explained(error, conversion.task) from error.__cause__
            yield unit

    def check(self, task: SourceTask) -> None:
        """Errors: DataError for what is no record. Else they are not looked at before they fail: it would cost all."""
        odd = [item for item in self._records if not isinstance(item, SourceRecord)]
        if odd:
            raise no_records_error(task, odd[:1])

    def _explained(self, error: Exception, task: SourceTask) -> Exception:
        """Whether something else than records is the reason."""
        try:
            self.check(task)
        except DataError as explanation:
            return explanation
        return error


class PolledBatch:
    """Records as columns. Implements Polled and PolledPart."""

    makes_records: Final = True

    def __init__(self, batch: RecordBatch) -> None:
        self.size = len(batch)
        self._batch = batch

    @property
    def parts(self) -> Sequence[PolledPart]:
        return (self,)

    def records(self) -> Sequence[SourceRecord]:
        return self._batch.to_records()  # type: ignore[return-value]  # a source's batch gives source records

    def units(self, conversion: SourceConversion) -> Iterable[ReadyUnit]:
        if conversion.wants_each:
            return map(conversion.unit_of_one, self.records())
        return conversion.units_of_all(self._batch)


class EmptyPolls:
    """The waits after polls that come back empty: 1 ms growing to 10 ms.

    So a source that never blocks is asked 100 times a second, and does not take a whole core.
    """

    def __init__(self) -> None:
        self.count = 0
        """In a row, until now."""

    def next_s(self) -> float:
        self.count += 1
        return min(0.001 * self.count, 0.010)


def polled_by(task: SourceTask, given: Any) -> Polled | None:
    """The form of what a task's poll() returned; None for nothing. Errors: DataError when it is neither."""
    if isinstance(given, RecordBatch):
        batch = PolledBatch(given)
        return batch if batch.size else None
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise no_records_error(task, given)
    return PolledRecords(given) if given else None


def checked_poll(task: SourceTask, given: Any) -> Polled | None:
    """Works as polled_by, with each record looked at: for who takes the records as they are. Errors: DataError."""
    polled = polled_by(task, given)
    if isinstance(polled, PolledRecords):
        polled.check(task)
    return polled


def _ready(
    positions: Sequence[SourcePosition], polled: int, made: KafkaBatch | Sequence[KafkaRecord | None]
) -> ReadyUnit:
    if isinstance(made, KafkaBatch):
        return ReadyUnit(positions, polled, len(made), (made.topic,), (made,))
    topics = {record.topic for record in made if record is not None}  # 10 ns for a record
    return ReadyUnit(positions, polled, len(made) - made.count(None), topics, (), made)
