"""Records as the columns of a table's rows: batches as they come; records, with or without schema, as batches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import DataError, RecordBatch, SinkRecord, Struct, TopicPartition
from kconnect.api.columns import values_of
from kconnect.builtin.types.meaning import meant_column, meant_values
from kconnect.builtin.types.seen import telling_apart
from kconnect.builtin.types.seen_columns import MixedError, see_mixed, seen_column

if TYPE_CHECKING:
    import pyarrow as pa

ONLY_COLUMN = "value"
"""The column of values that are no structs."""


@dataclass(slots=True)
class Rows:
    """Records of one partition in order, as columns: the values that are not null, and the keys of the others."""

    at: TopicPartition
    topic: str
    """After the transformations."""
    start: int
    stop: int
    columns: pa.RecordBatch
    keys: pa.Array | None
    """The key of each row; None when all are null."""
    times: pa.Array | int | None
    deleted_keys: pa.Array | None
    """Keys of the records without value; None when there are none."""
    offsets: pa.Array
    """Holds the offsets of each row, and then of each deleted key."""
    is_seen: bool
    """Whether the columns' types were seen in values without schema."""
    came: Sequence[SinkRecord]
    """The records that the columns were made of, one by one; none where they came as columns."""
    column: pa.Array
    """The columns as they came, in one."""

    def values(self) -> list[Any] | None:
        """The value that each row was seen in, by column; None where that is not known."""
        if not self.is_seen:
            return None
        if not self.came:
            return _by_column(values_of(None, self.column, len(self.column)))
        return _by_column([record.value for record in self.came if record.value is not None])


def _by_column(values: Sequence[Any]) -> list[Any]:
    return [value if isinstance(value, dict | Struct) else {ONLY_COLUMN: value} for value in values]


def rows_of_batch(batch: RecordBatch, came: Sequence[SinkRecord] = ()) -> Rows:
    """A batch of columns as rows. `came`: as of Rows.

    Errors: DataError when it says not where it was read, and as of `meant_column`.
    """
    import pyarrow as pa

    offsets = batch.kafka_offsets
    if offsets is None or batch.original_kafka_partition is None or not len(offsets):
        raise DataError(f"A batch of topic {batch.topic} has no offsets of Kafka")
    at = TopicPartition(batch.original_topic, batch.original_kafka_partition)
    times = batch.timestamp
    value, keys = meant_column(batch.value_schema, batch.value), meant_column(batch.key_schema, batch.key)
    times = times if times is None or isinstance(times, int) else _whole(times)
    deleted: pa.Array | None = None
    start, stop = offsets[0].as_py(), offsets[len(offsets) - 1].as_py() + 1
    if value is None:
        deleted, keys, value = keys, None, pa.nulls(0, pa.struct([]))
        ordered = offsets
    elif value.null_count:
        kept, gone = value.is_valid(), value.is_null()
        deleted = None if keys is None else keys.filter(gone)
        keys = None if keys is None else keys.filter(kept)
        times = times.filter(kept) if isinstance(times, pa.Array) else times
        ordered = pa.concat_arrays([offsets.filter(kept), offsets.filter(gone)])
        value = value.filter(kept)
    else:
        ordered = offsets
    is_seen = batch.value_schema is None
    value = _whole(value)
    return Rows(at, batch.topic, start, stop, _columns_of(value), keys, times, deleted, ordered, is_seen, came, value)


Made = tuple[RecordBatch, Sequence[SinkRecord]]
"""A batch, and the records that it was made of, one by one; none for one that came as columns."""


def batches_of_records(records: Sequence[SinkRecord]) -> Iterable[tuple[Sequence[Made], list[SinkRecord]]]:
    """Records as batches, with all that these were made of: no batches where each must be looked at alone.

    Several where values have nothing in common, as a price that is number here and text there: of each kind one, by
    the first of its records. Measured, rows of 57 B with such a price: 5 us a row, each alone 500.
    """
    for run in _runs(records):
        try:
            yield [(batch_of(run), run)], run
        except MixedError:
            yield _batches_of_kinds(run), run
        except DataError:
            yield (), run


# With more, batches cost more than records
_MOST_KINDS: Final = 16


def _batches_of_kinds(run: list[SinkRecord]) -> Sequence[Made]:
    seen = see_mixed([record.value for record in run])
    if seen is None:  # it is the keys that are mixed
        return ()
    tell, groups = telling_apart(seen), dict[Hashable, list[SinkRecord]]()
    # Tombstones go with rows: a table that has none yet would be nothing to remove theirs from
    first = next(record.value for record in run if record.value is not None)
    for record in run:
        groups.setdefault(tell(first if record.value is None else record.value), []).append(record)
    if len(groups) > _MOST_KINDS:
        return ()
    try:
        return [(batch_of(group, is_alike=True), group) for group in groups.values()]
    except DataError:
        return ()


def _runs(records: Sequence[SinkRecord]) -> Iterable[list[SinkRecord]]:
    """Neighbouring records of one partition, one topic and one pair of schemas."""
    run: list[SinkRecord] = []
    for record in records:
        if run and not _is_alike(run[0], record):
            yield run
            run = []
        run.append(record)
    if run:
        yield run


def _is_alike(first: SinkRecord, record: SinkRecord) -> bool:
    return (
        first.original_kafka_partition == record.original_kafka_partition
        and first.original_topic == record.original_topic
        and first.topic == record.topic
        and (first.value_schema is record.value_schema or first.value_schema == record.value_schema)
        and (first.key_schema is record.key_schema or first.key_schema == record.key_schema)
    )


def batch_of(run: list[SinkRecord], *, is_alike: bool = False) -> RecordBatch:
    """Records of one partition, topic and pair of schemas as a batch. `is_alike`: their values are of one kind.

    Errors: MixedError; DataError where no type fits all.
    """
    import pyarrow as pa

    first = run[0]
    try:
        # Before they are columns, as there is none for a decimal of 50 digits
        key_schema, keys = meant_values(first.key_schema, [record.key for record in run])
        value_schema, values = meant_values(first.value_schema, [record.value for record in run])
        return RecordBatch(
            first.topic,
            kafka_partition=first.kafka_partition,
            key_schema=key_schema,
            value_schema=value_schema,
            key=_column(keys, key_schema, is_alike=False),
            value=_column(values, value_schema, is_alike=is_alike),
            timestamp=pa.array([record.timestamp for record in run], pa.int64()),
            kafka_offsets=pa.array([record.original_kafka_offset for record in run], pa.int64()),
            original_topic=first.original_topic,
            original_kafka_partition=first.original_kafka_partition,
        )
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise DataError(f"no column can have its value: {error}") from error


def _column(values: Sequence[Any], schema: Any, *, is_alike: bool) -> pa.Array | None:
    """A column of values; None when all are null. Without schema of the type that is seen in all of them.

    Errors: MixedError where that is only text, as of values that have nothing in common; DataError.
    """
    if all(value is None for value in values):
        return None
    if schema is not None:
        from kconnect.api.columns import column_of

        return column_of(schema, values)
    return seen_column(values, mixes=is_alike or len(values) == 1)


def _columns_of(value: pa.Array) -> pa.RecordBatch:
    """The fields of structs as columns, or one column of other values."""
    import pyarrow as pa

    if not pa.types.is_struct(value.type):
        return pa.RecordBatch.from_arrays([value], names=[ONLY_COLUMN])
    names = [field.name for field in value.type]
    if len({*names}) < len(names):
        raise DataError(f"A record has two fields of one name: {', '.join(names)}")
    return pa.RecordBatch.from_struct_array(value)


def _whole(column: Any) -> pa.Array:
    """One array, of what may be in chunks."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column
