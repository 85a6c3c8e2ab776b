"""RecordBatch: many records of one topic and one schema, as Arrow columns; the fast way through the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from kconnect.api.headers import Headers
from kconnect.api.record import ConnectRecord, SinkRecord, SourceRecord, TimestampType, sink_records
from kconnect.api.schema import Schema
from kconnect.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    Column: TypeAlias = pa.Array | Callable[[], pa.Array]

_NAMES = (
    "topic",
    "kafka_partition",
    "key_schema",
    "value_schema",
    "key",
    "value",
    "timestamp",
    "headers",
    "source_partition",
    "source_offsets",
    "kafka_offsets",
    "timestamp_type",
    "original_topic",
    "original_kafka_partition",
)


class PresentTime:
    """The timestamp of a batch whose records have no time of their own: the present.

    It is settled when it is first read, for all copies of the batch. While nobody has read it, the producer sets it as
    it takes the records, which lets them go to Kafka without a step of Python for each.
    """

    __slots__ = ("_ms",)

    def __init__(self) -> None:
        self._ms: int | None = None

    @property
    def is_settled(self) -> bool:
        return self._ms is not None

    def __call__(self) -> int:
        if self._ms is None:
            self._ms = time.time_ns() // 1_000_000
        return self._ms


class RecordBatch:
    """Records that share topic, partition and schemas, as Arrow columns. Treat as immutable.

    Shape: `key` and `value` have the Arrow type of their schema (see `kconnect.api.columns.arrow_type`): STRING
        string, BYTES binary, INT8..64, FLOAT32/64, BOOLEAN, STRUCT struct, ARRAY list, MAP map; Date date32, Time
        time32(ms), Timestamp timestamp(ms, UTC), Decimal decimal128(38, scale). A Struct field without value is a
        null; defaults are not filled in. None means all rows are null. With schema None (schemaless) a column is read
        as plain Python values: struct as dict. There, metadata of a field may say that a null is a member that is not
        there, or that floats without fraction are ints (`kconnect.api.plain_columns`).
        `timestamp` is an int64 column in ms, or one int for all rows, or a PresentTime, or None. `headers` is one
        Headers a row, or None when no row has any.
    A column may be given as a function without arguments: it is called when the column is first read, and once.

    Source side: `source_partition` is shared, `source_offsets` has one column a field of the offset, and the last row
    is the offset to commit for the batch. Sink side: `kafka_offsets` (int64), `timestamp_type`, and `original_topic`,
    `original_kafka_partition`, which keep what was read when a transform changes topic or partition.

    Threads: one. Nothing like it is in Java.
    """

    __slots__ = (
        "_columns",
        "_length",
        "_origin",  # as that of SinkRecord, whose records get it
        "_source_offsets",
        "headers",
        "kafka_partition",
        "key_schema",
        "original_kafka_partition",
        "original_topic",
        "source_partition",
        "timestamp_type",
        "topic",
        "value_schema",
    )

    def __init__(
        self,
        topic: str,
        *,
        value: Column | None = None,
        value_schema: Schema | None = None,
        key: Column | None = None,
        key_schema: Schema | None = None,
        kafka_partition: int | None = None,
        timestamp: Column | int | PresentTime | None = None,
        headers: Sequence[Headers] | None = None,
        source_partition: Mapping[str, Any] | None = None,
        source_offsets: Mapping[str, Column] | None = None,
        kafka_offsets: Column | None = None,
        timestamp_type: TimestampType = TimestampType.NO_TIMESTAMP_TYPE,
        original_topic: str | None = None,
        original_kafka_partition: int | None = None,
        length: int | None = None,
    ) -> None:
        self.topic = topic
        self.kafka_partition = kafka_partition
        self.key_schema = key_schema
        self.value_schema = value_schema
        self.headers = headers
        self.source_partition = source_partition
        self.timestamp_type = timestamp_type
        self.original_topic = topic if original_topic is None else original_topic
        self.original_kafka_partition = (
            kafka_partition if original_kafka_partition is None else original_kafka_partition
        )
        self._columns: dict[str, Any] = {
            "key": key,
            "value": value,
            "timestamp": timestamp,
            "kafka_offsets": kafka_offsets,
        }
        self._origin: Any = None
        self._source_offsets = None if source_offsets is None else dict(source_offsets)
        self._length = self._find_length() if length is None else length

    @property
    def key(self) -> pa.Array | None:
        """The keys; None when all are null."""
        return _read(self._columns, "key")

    @property
    def value(self) -> pa.Array | None:
        """The values; None when all are null."""
        return _read(self._columns, "value")

    @property
    def timestamp(self) -> pa.Array | int | None:
        """Times in ms: a column, one for all rows, or None."""
        return _read(self._columns, "timestamp")

    @property
    def leaves_time_to_producer(self) -> bool:
        """Whether there is no timestamp, or one that nobody has read yet."""
        stamp = self._columns["timestamp"]
        return stamp is None or (isinstance(stamp, PresentTime) and not stamp.is_settled)

    @property
    def kafka_offsets(self) -> pa.Array | None:
        """Offsets in Kafka of a sink batch; None on the source side."""
        return _read(self._columns, "kafka_offsets")

    @property
    def source_offsets(self) -> Mapping[str, pa.Array] | None:
        """Columns of the source offset by field; None on the sink side."""
        if self._source_offsets is None:
            return None
        for name in self._source_offsets:
            _read(self._source_offsets, name)
        return self._source_offsets

    def __len__(self) -> int:
        return self._length

    def with_(self, **changes: Any) -> Self:
        """A batch with the named attributes replaced; columns not named are shared, still lazy if they were.

        Errors: TypeError for an unknown name. Rows may not be added or dropped this way: see `slice`, `filter`, `take`.
        """
        unknown = [name for name in changes if name not in _NAMES]
        if unknown:
            raise TypeError(f"with_() got an unexpected attribute {unknown[0]!r} of RecordBatch")
        return self._with_origin(type(self)(**{**self._parts(), **changes}, length=self._length))

    def slice(self, start: int, length: int | None = None) -> Self:
        """Rows from `start`, at most `length` of them (all if None), without copying columns."""
        start = min(start, self._length)
        rows = self._length - start if length is None else max(0, min(length, self._length - start))
        return self._map_columns(
            lambda column: column.slice(start, rows),
            lambda headers: headers[start : start + rows],
            rows,
        )

    def filter(self, mask: pa.BooleanArray) -> Self:
        """The rows where the mask is true, in order. Offsets of dropped rows are dropped too."""
        kept = [index for index, keep in enumerate(mask.to_pylist()) if keep] if self.headers is not None else []
        return self._map_columns(
            lambda column: column.filter(mask),
            lambda headers: [headers[index] for index in kept],
            mask.true_count,
        )

    def take(self, rows: pa.Array) -> Self:
        """The rows with these numbers, in this order, each as often as it is named."""
        numbers = rows.to_pylist() if self.headers is not None else []
        return self._map_columns(
            lambda column: column.take(rows),
            lambda headers: [headers[number] for number in numbers],
            len(rows),
        )

    def last_source_offset(self) -> dict[str, Any]:
        """The source offset of the last row: what to commit when all rows are done.

        Errors: DataError for an empty batch, or one without source offsets.
        """
        if not self._length or self._source_offsets is None:
            raise DataError("A batch that is empty or has no source_offsets has no last source offset")
        offsets = self.source_offsets or {}
        return {name: column[self._length - 1].as_py() for name, column in offsets.items()}

    def to_records(self) -> list[SourceRecord] | list[SinkRecord]:
        """The same rows as records: SinkRecord when there are Kafka offsets, else SourceRecord.

        Errors: DataError if a column does not fit its schema.
        """
        from kconnect.api.columns import values_of

        keys = values_of(self.key_schema, self.key, self._length)
        values = values_of(self.value_schema, self.value, self._length)
        stamp = self.timestamp
        times = [stamp] * self._length if stamp is None or isinstance(stamp, int) else stamp.to_pylist()
        headers: Sequence[Headers | None] = self.headers if self.headers is not None else [None] * self._length
        if self.kafka_offsets is None:
            return self._source_records(keys, values, times, headers)
        return self._sink_records(keys, values, times, headers)

    @classmethod
    def from_records(cls, records: Sequence[ConnectRecord]) -> RecordBatch | None:
        """The records as one batch; None if they cannot form one: topic, partition or schemas differ, or values are
        schemaless or do not fit their schema exactly.

        `to_records` gives equal records back. Shape: order is kept; no records give None.
        """
        from kconnect.api.batch_parts import batch_parts

        parts = batch_parts(records)
        return None if parts is None else cls(**parts)

    def _source_records(
        self, keys: list[Any], values: list[Any], times: list[int | None], headers: Sequence[Headers | None]
    ) -> list[SourceRecord]:
        columns = self.source_offsets
        offsets: list[dict[str, Any] | None]
        if columns is None:
            offsets = [None] * self._length
        elif not columns:
            offsets = [{} for _ in range(self._length)]
        else:
            names = tuple(columns)
            rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
            offsets = [dict(zip(names, row, strict=True)) for row in rows]
        partition, topic, kafka_partition = self.source_partition, self.topic, self.kafka_partition
        key_schema, value_schema = self.key_schema, self.value_schema
        return [
            SourceRecord(
                partition,
                offset,
                topic,
                value,
                kafka_partition=kafka_partition,
                key=key,
                key_schema=key_schema,
                value_schema=value_schema,
                timestamp=time,
                headers=header,
            )
            for key, value, time, header, offset in zip(keys, values, times, headers, offsets, strict=True)
        ]

    def _sink_records(
        self, keys: list[Any], values: list[Any], times: list[int | None], headers: Sequence[Headers | None]
    ) -> list[SinkRecord]:
        columns = self.kafka_offsets
        if self.kafka_partition is None or columns is None:
            raise DataError(f"A sink batch of topic {self.topic} has no kafka_partition")
        records = sink_records(
            self.topic,
            self.kafka_partition,
            self.key_schema,
            keys,
            self.value_schema,
            values,
            columns.to_pylist(),
            times,
            self.timestamp_type,
            headers,
            original_topic=self.original_topic,
            original_kafka_partition=self.original_kafka_partition,
        )
        if self._origin is not None:
            for record in records:
                record._origin = self._origin
        return records

    def _parts(self) -> dict[str, Any]:
        """The arguments that recreate this batch, with lazy columns still lazy."""
        return {
            "topic": self.topic,
            "kafka_partition": self.kafka_partition,
            "key_schema": self.key_schema,
            "value_schema": self.value_schema,
            "headers": self.headers,
            "source_partition": self.source_partition,
            "timestamp_type": self.timestamp_type,
            "original_topic": self.original_topic,
            "original_kafka_partition": self.original_kafka_partition,
            "source_offsets": None
            if self._source_offsets is None
            else {name: _share(self._source_offsets, name) for name in self._source_offsets},
            **{name: _share(self._columns, name) for name in self._columns},
        }

    def _map_columns(
        self,
        change: Callable[[Any], Any],
        change_headers: Callable[[Sequence[Headers]], Sequence[Headers]],
        length: int,
    ) -> Self:
        """The batch with each column changed, lazily if it is lazy."""
        parts = self._parts()
        for name in self._columns:
            parts[name] = _changed(parts[name], change)
        if parts["source_offsets"] is not None:
            offsets = parts["source_offsets"]
            parts["source_offsets"] = {name: _changed(column, change) for name, column in offsets.items()}
        if self.headers is not None:
            parts["headers"] = change_headers(self.headers)
        return self._with_origin(type(self)(**parts, length=length))

    def _with_origin(self, copy: Self) -> Self:
        copy._origin = self._origin
        return copy

    def _find_length(self) -> int:
        columns = [*self._columns.values(), *(self._source_offsets or {}).values()]
        for column in columns:
            if column is not None and not callable(column) and not isinstance(column, int):
                return len(column)
        if self.headers is not None:
            return len(self.headers)
        for store in (self._columns, self._source_offsets or {}):
            for name, column in store.items():
                if callable(column) and not isinstance(column, PresentTime):
                    return len(_read(store, name))
        raise DataError(
            f"A batch of topic {self.topic} has no column to tell its length", hint="Give a column, or length=."
        )

    def __repr__(self) -> str:
        return (
            f"RecordBatch(topic={self.topic!r}, kafka_partition={self.kafka_partition}, rows={self._length}, "
            f"key_schema={self.key_schema}, value_schema={self.value_schema})"
        )


def _read(store: dict[str, Any], name: str) -> Any:
    """A column; evaluated and stored if it is lazy."""
    column = store[name]
    if callable(column):
        column = store[name] = column()
    return column


def _share(store: dict[str, Any], name: str) -> Any:
    """A column to share with another batch: if lazy, a function that evaluates it in this store, once."""
    column = store[name]
    return (lambda: _read(store, name)) if callable(column) and not isinstance(column, PresentTime) else column


def _changed(column: Any, change: Callable[[Any], Any]) -> Any:
    if column is None or isinstance(column, int | PresentTime):
        return column
    if not callable(column):
        return change(column)

    def later() -> Any:
        made = column()
        return made if made is None or isinstance(made, int) else change(made)

    return later
