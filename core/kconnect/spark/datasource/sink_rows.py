"""Rows of a DataFrame as records for a sink: columns named as in Spark's Kafka format, or a row as the value. Pure.

A row is a record when it has a column `value` and no other names than key, value, topic, partition, timestamp, headers;
else the whole row is the value, a struct, and its topic is the option's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import RecordBatch, Schema, SchemaBuilder, SinkRecord, TimestampType
from kconnect.api.columns import arrow_type, values_of
from kconnect.api.plain_values import plain
from kconnect.builtin.types.fitting import NotFittingError, fit
from kconnect.builtin.types.foreign_schemas import schema_of_arrow
from kconnect.errors import ConfigError, DataError
from kconnect.model import TopicPartition
from kconnect.runtime.kafka import KafkaHeaders
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch, FetchedRecord
from kconnect.spark.datasource.columns import check_record_columns, is_record_schema

if TYPE_CHECKING:
    import pyarrow as pa

_INTS: Final = {1: SchemaBuilder.int8, 2: SchemaBuilder.int16, 4: SchemaBuilder.int32, 8: SchemaBuilder.int64}


@dataclass(frozen=True)
class SinkLayout:
    """How rows of these columns become records. Errors of `check`: ConfigError, while Spark plans."""

    names: Sequence[str]
    is_record: bool
    topic: str | None
    """The topic of rows that name none."""
    reads_key: bool = False
    """Whether key.converter reads the key's bytes; `reads_value` likewise."""
    reads_value: bool = False

    @classmethod
    def of(cls, schema: pa.Schema, columns: str, topic: str | None, **reads: bool) -> SinkLayout:
        """Errors: ConfigError when rows have no columns or no topic, or a column has not the type of its part."""
        names = schema.names
        if not names:
            raise ConfigError("The DataFrame has no columns, so its rows have no value to write")
        is_record = is_record_schema(names) if columns == "auto" else columns == "record"
        if is_record and "value" not in names:
            raise ConfigError(f"The DataFrame has no column value, its columns are {', '.join(names)}")
        if is_record:
            check_record_columns(schema)
        if topic is None and not (is_record and "topic" in names):
            raise ConfigError(
                "The rows have no topic",
                hint='Sinks know records by topic: .option("topics", "orders"), or a column topic beside value.',
            )
        return cls(names, is_record, topic, **reads)

    def by_topic(self, batch: pa.RecordBatch, first_row: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each topic, in order. `first_row`: of the batch in its partition, for messages."""
        import pyarrow.compute as pc

        if not self.is_record or "topic" not in self.names:
            assert self.topic is not None  # `of` made sure
            yield self.topic, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            if self.topic is None:
                row = first_row + topics.is_null().to_pylist().index(True)
                raise DataError(f"Row {row} has no topic", hint='Fill the column topic, or give .option("topics", ..).')
            topics = topics.fill_null(self.topic)
        names = pc.unique(topics).to_pylist()
        for name in names:
            yield name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name))

    def records(
        self, batch: pa.RecordBatch, topic: str, partition: int, first_offset: int, converters: Converters
    ) -> RecordBatch | list[SinkRecord]:
        """The rows as records of one topic. Errors: DataError for a type Connect does not have; StageError."""
        import pyarrow as pa

        length = batch.num_rows
        offsets = pa.array(range(first_offset, first_offset + length), pa.int64())
        if not self.is_record:
            schema, value = connect_column("row", batch.to_struct_array(), is_optional=False)
            return RecordBatch(
                topic, value=value, value_schema=schema, kafka_partition=partition, kafka_offsets=offsets
            )
        parts = {name: batch.column(name) if name in self.names else None for name in ("key", "value", "headers")}
        typed = {
            name: connect_column(name, parts[name])
            for name, reads in (("key", self.reads_key), ("value", self.reads_value))
            if parts[name] is not None and not reads
        }
        if not (self.reads_key or self.reads_value) and parts["headers"] is None:
            times = _times(batch, self.names)
            return RecordBatch(
                topic,
                kafka_partition=partition,
                kafka_offsets=offsets,
                timestamp=times,
                timestamp_type=self.timestamp_type,
                **_arguments(typed),
            )
        times = _times(batch, self.names)
        fetched = FetchedBatch(
            topic,
            partition,
            offsets.to_pylist(),
            _bytes("key", parts["key"]) if self.reads_key else None,
            _bytes("value", parts["value"]) if self.reads_value else [None] * length,
            None if times is None else times.to_pylist(),
            self.timestamp_type,
            _headers(parts["headers"]),
        )
        return _with_typed(converters.to_connect_batch(fetched), typed, first_offset)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.CREATE_TIME if "timestamp" in self.names else TimestampType.NO_TIMESTAMP_TYPE


class RowsAsRead:
    """Rows of one topic and partition: as records, and as the bytes that dead letters have of them.

    Implements FetchedRun.
    """

    def __init__(self, layout: SinkLayout, batch: pa.RecordBatch, place: TopicPartition, first_offset: int) -> None:
        self._layout, self._batch, self.place = layout, batch, place
        self.topic, self.partition, self.first_offset = place.topic, place.partition, first_offset
        self.next_offset = first_offset + batch.num_rows
        self.size = batch.nbytes

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def since(self, offset: int) -> RowsAsRead:
        """The rows from an offset on."""
        done = max(offset - self.first_offset, 0)
        return RowsAsRead(self._layout, self._batch.slice(done), self.place, self.first_offset + done) if done else self

    @property
    def fetched(self) -> FetchedBatch:
        return _RowsAsBytes(self._layout, self._batch, self.place, self.first_offset)

    def records(self, converters: Converters) -> RecordBatch | list[SinkRecord]:
        """Errors: as SinkLayout.records."""
        return self._layout.records(self._batch, self.topic, self.partition, self.first_offset, converters)


class _RowsAsBytes(FetchedBatch):
    """Bytes of a row, made when a dead letter needs them: text and bytes as they are, anything else as JSON."""

    def __init__(self, layout: SinkLayout, batch: pa.RecordBatch, place: TopicPartition, first_offset: int) -> None:
        offsets = range(first_offset, first_offset + batch.num_rows)  # reads as a list does
        super().__init__(place.topic, place.partition, offsets, None, [], None, layout.timestamp_type, None)  # type: ignore[arg-type]
        self._layout, self._batch = layout, batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def row(self, index: int) -> FetchedRecord:
        one = self._batch.slice(index, 1)
        row: dict[str, Any] = one.to_pylist()[0]
        is_record = self._layout.is_record
        times = _times(one, self._layout.names) if is_record else None
        return FetchedRecord(
            self.topic,
            self.partition,
            self.offsets[index],
            _json_bytes(row.get("key")) if is_record else None,
            _json_bytes(row["value"] if is_record else row),
            None if times is None else times[0].as_py(),
            self.timestamp_type,
            (_headers(one.column("headers")) or [None])[0] if is_record and "headers" in row else None,
        )


def _json_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    text = (
        value
        if isinstance(value, str)
        else json.dumps(plain(value, is_data=True), ensure_ascii=False, separators=(",", ":"))
    )
    return text.encode("utf-8", "replace")


def connect_column(name: str, column: Any, *, is_optional: bool = True) -> tuple[Schema, Any]:
    """A column of Spark's as Connect has it, with its schema; times keep microseconds, as no topic is between.

    Errors: DataError naming column and type.
    """
    schema = schema_of_arrow(column.type, name, is_required=not is_optional, is_fine=True)
    try:
        return schema, fit(column, arrow_type(schema))
    except NotFittingError as error:
        raise DataError(f"Column {name}: {error}") from error


def _bytes(name: str, column: Any) -> Any:
    """What a converter reads. Errors: ConfigError when the column has no bytes."""
    import pyarrow as pa

    if column is None:
        return None
    if not (pa.types.is_binary(column.type) or pa.types.is_string(column.type)):
        raise ConfigError(
            f"{name}.converter reads bytes, and the column {name} is {column.type}",
            hint=f"Leave {name}.converter out: the column's own type is the record's schema then.",
        )
    return column.cast(pa.binary()).to_pylist()


def _times(batch: Any, names: Sequence[str]) -> Any:
    import pyarrow as pa

    if "timestamp" not in names:
        return None
    column = batch.column("timestamp")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", tz="UTC"), safe=False)
    return column.cast(pa.int64())


def _headers(column: Any) -> list[KafkaHeaders | None] | None:
    if column is None:
        return None
    return [
        None if row is None else [(header["key"], _as_bytes(header["value"])) for header in row]
        for row in column.to_pylist()
    ]


def _as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _arguments(typed: dict[str, tuple[Schema, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, (schema, column) in typed.items():
        made[name], made[f"{name}_schema"] = column, schema
    return made


def _with_typed(
    made: RecordBatch | list[SinkRecord], typed: dict[str, tuple[Schema, Any]], first_offset: int
) -> RecordBatch | list[SinkRecord]:
    """Converted records with the columns that keep their type."""
    if not typed:
        return made
    if isinstance(made, RecordBatch):
        return made.with_(**_arguments(typed))
    values = {name: values_of(schema, column, len(column)) for name, (schema, column) in typed.items()}
    return [
        record.new_record(
            **{name: values[name][record.kafka_offset - first_offset] for name in typed},
            **{f"{name}_schema": schema for name, (schema, _) in typed.items()},
        )
        for record in made
    ]
