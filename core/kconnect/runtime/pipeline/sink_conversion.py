"""What a sink's consumer fetched becomes what put() takes: by our converters and transformations, or by Java's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from kconnect.api import DataError, RecordBatch, SinkRecord
from kconnect.model import TopicPartition
from kconnect.runtime.kafka import ConsumedRun
from kconnect.runtime.kafka.consumed_records import TIMESTAMP_TYPES
from kconnect.runtime.pipeline.batch_forms import BatchForms
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.put_queue import PutBatch
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_consumer import FetchedRun
from kconnect.runtime.pipeline.sink_puts import Put, put_of
from kconnect.runtime.pipeline.transform_chain import TransformChain

if TYPE_CHECKING:
    import pyarrow as pa

UsedTopics = Callable[[Iterable[str]], None]
"""Reported of topics whose records were converted."""

# From so many on, records are made faster by way of columns, where the converter makes no lists. Measured, 500 of 80 B:
# text 0.7 us each, one by one 1.8; JSON with schema 2.6 and more than 9. JSON without schema is lists: 3 us, where
# records by way of columns took 9 (sensors) to 27 (clicks, of which a member is left out at times).
_FEWEST_BY_COLUMNS = 50


RunT_contra = TypeVar("RunT_contra", bound=FetchedRun, contravariant=True)


class SinkForms(Protocol[RunT_contra]):
    """Makes puts of what is fetched. Threads: the task's."""

    def batch_of(self, run: RunT_contra) -> PutBatch:
        """The fetched records as put() takes them. Errors: StageError for a failing record that is not tolerated."""
        ...

    def ended(self, *, puts: bool) -> None:
        """All of one fetch has been through batch_of(). `puts`: the task may have it now."""
        ...


class SinkConversion:
    """Fetched bytes through converters and transforms. Implements SinkForms."""

    def __init__(
        self,
        converters: Converters,
        transforms: TransformChain,
        raw_records: RawRecords,
        used_topics: UsedTopics,
        *,
        takes_batches: bool,
        fewest_in_batch: int = 0,
        forms: BatchForms | None = None,
    ) -> None:
        self._takes_batches = takes_batches
        self._fewest_in_batch = fewest_in_batch
        self._forms = forms or BatchForms()
        self._converters = converters
        self._transforms = transforms
        self._raw_records = raw_records
        self._used_topics = used_topics

    def batch_of(self, run: ConsumedRun) -> PutBatch:
        fetched = fetched_of_run(run)
        made = self.convert_fetched(fetched)
        return put_batch(run, put_of(made, (fetched,) if self._raw_records.is_wanted else ()))

    def ended(self, *, puts: bool) -> None:
        """Nothing is under way."""

    def convert(self, run: ConsumedRun) -> RecordBatch | list[SinkRecord]:
        """The records that remain. Errors: as batch_of."""
        return self.convert_fetched(fetched_of_run(run))

    def convert_fetched(self, fetched: FetchedBatch) -> RecordBatch | list[SinkRecord]:
        """The same, of records that came from elsewhere."""
        if self._raw_records.is_wanted:
            self._raw_records.at_hand = (fetched,)
        takes_batches = self._takes_batches and len(fetched) >= self._fewest_in_batch
        self._forms.begin(len(fetched) if takes_batches else 0)
        batch = self._converters.to_connect_columns(fetched) if takes_batches else None
        if batch is None:
            records = self._as_records(fetched, takes_batches=takes_batches)
            self._used_topics((fetched.topic,))
            return records
        self._used_topics((fetched.topic,))
        if not len(self._transforms):
            return batch
        kept = self._transforms.apply_batch(batch)
        return [] if kept is None else kept  # type: ignore[return-value]  # sink records in, sink records out

    def _as_records(self, fetched: FetchedBatch, *, takes_batches: bool) -> list[SinkRecord]:
        """Each record through all stages before the next one, so that failures are reported in the records' order.

        Where a transformation takes many at once, each step before the next one, as columns go.
        """
        converted = self._converters.to_connect_list(fetched)
        if converted is None and not takes_batches and len(fetched) >= _FEWEST_BY_COLUMNS:
            converted = _records_of(self._converters.to_connect_columns(fetched))
        if not len(self._transforms):
            return self._converters.to_connect_records(fetched) if converted is None else converted
        if converted is not None and self._transforms.takes_lists:
            return self._transforms.apply_records(converted)  # type: ignore[return-value]  # sink records, as below
        convert, transform = self._converters.to_connect_record, self._transforms.apply_each
        kept: list[SinkRecord] = []
        for index in range(len(fetched)):
            record = convert(fetched.row(index)) if converted is None else converted[index]
            if record is not None:
                kept += transform(record)  # type: ignore[arg-type]  # sink records in, sink records out
        return kept


def put_batch(run: FetchedRun, put: Put) -> PutBatch:
    """Makes the batch to put from a fetched run, and what it has become."""
    place = TopicPartition(run.topic, run.partition)
    return PutBatch(put, {place: run.first_offset}, {place: run.next_offset})


def _records_of(batch: RecordBatch | None) -> list[SinkRecord] | None:
    """The batch's records; None when one of them cannot be made: converted alone, it is named."""
    if batch is None:
        return None
    try:
        return batch.to_records()  # type: ignore[return-value]  # a sink's batch gives sink records
    except (DataError, ValueError, OverflowError):
        return None


def fetched_of_run(run: ConsumedRun) -> FetchedBatch:
    """Its records as converters take them."""
    kind = run.timestamp_kind
    return FetchedBatch(
        run.topic,
        run.partition,
        run.offsets,
        run.keys,
        run.values,
        cast("list[int | None]", _LazyTimes(run)) if kind else None,  # a list in all that Converters do with it
        TIMESTAMP_TYPES[kind],
        run.headers,
    )


class _LazyTimes:
    """Timestamps that are taken out of the messages when a task or transform first asks for one.

    Measured on topic -> file, 99 B lines, medians of 3: 1.70 M records/s with this, 1.38 with a list made at once.
    """

    __slots__ = ("_run",)

    def __init__(self, run: ConsumedRun) -> None:
        self._run = run

    def __len__(self) -> int:
        return len(self._run)

    def __getitem__(self, index: int) -> int | None:
        return self._run.timestamps[index]

    def __iter__(self) -> Iterator[int | None]:
        return iter(self._run.timestamps)

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        """Called by pa.array()."""
        import pyarrow as pa

        return pa.array(self._run.timestamps, type)
