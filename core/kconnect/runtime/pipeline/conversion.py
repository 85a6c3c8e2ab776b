"""Between Connect's data and Kafka's bytes, for batches and for single records.

Who calls it: the source and sink loops, from the task thread only. What it calls: Converter and HeaderConverter of the
plugin API. A batch whose converter has no columnar form, or whose columnar form raised, is converted row by row, so a
loop always gets one kind of answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from kconnect.api import (
    ConnectHeaders,
    ConnectRecord,
    Converter,
    HeaderConverter,
    Headers,
    RecordBatch,
    Schema,
    SchemaAndValue,
    SinkRecord,
)
from kconnect.api.record import sink_records
from kconnect.errors import DataError
from kconnect.java.plugins import Hosted
from kconnect.runtime.kafka import KafkaBatch, KafkaHeaders, KafkaRecord, as_bytes
from kconnect.runtime.pipeline.batch_records import rows_of
from kconnect.runtime.pipeline.fetched import FetchedBatch, FetchedRecord
from kconnect.runtime.pipeline.stages import DROPPED, FailurePolicy, RaiseAlways, Stage, StageError, tell_nobody

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.java.plugins.stages import JavaConverter


class Converters:
    """The three converters of one task. Threads: the task thread only."""

    def __init__(
        self,
        key: Converter,
        value: Converter,
        header: HeaderConverter,
        policy: FailurePolicy | None = None,
        by_records: Callable[[str], None] = tell_nobody,
    ) -> None:
        """`by_records` is reported why a batch does not go in columns."""
        self._key = key
        self._value = value
        self._header = header
        self._policy: FailurePolicy = policy or RaiseAlways()
        self._by_records = by_records

    def unguarded(self) -> Converters:
        """The same converters without a policy: whatever one raises is wrapped in a StageError, with no retry."""
        return Converters(self._key, self._value, self._header)

    def each(self) -> Sequence[tuple[str, Converter | HeaderConverter]]:
        """The three, by the settings that name them."""
        return ("key.converter", self._key), ("value.converter", self._value), ("header.converter", self._header)

    # --- to Kafka (source connectors) ---

    def to_kafka_batch(self, batch: RecordBatch) -> KafkaBatch:
        """Bytes of a whole batch. Errors: StageError; its `done` is the KafkaBatch of the rows before, in a list."""
        both = self._key, self._value
        if batch.headers is None or all(one.ignores_headers or one.takes_kafka_headers for one in both):
            headers = None
            try:
                if batch.headers is not None:
                    headers = self._header_rows(batch.topic, batch.headers)
                rows = [list(row or ()) for row in headers or [None] * len(batch)] if self._takes_kafka_headers else []
                keys = _bytes_of(self._key, batch.topic, batch.key_schema, batch.key, len(batch), rows)
                values = _bytes_of(self._value, batch.topic, batch.value_schema, batch.value, len(batch), rows)
                if self._takes_kafka_headers:
                    headers = [row or None for row in rows] if any(rows) else None
            except Exception as error:
                self._by_records(_sentence(error))
                keys = values = NotImplemented  # again by rows below: the same error comes with the row that caused it
            if keys is not NotImplemented and values is not NotImplemented:
                stamp = None if batch.leaves_time_to_producer else batch.timestamp
                times = stamp if stamp is None or isinstance(stamp, int) else stamp.to_pylist()
                values = [None] * len(batch) if values is None else values
                return KafkaBatch(batch.topic, batch.kafka_partition, keys, values, times, headers)
            self._by_records(self._no_columns("key" if keys is NotImplemented else "value"))
        else:
            self._by_records("records have headers, which a converter looks at")
        return self._to_kafka_by_rows(batch)

    def to_kafka_list(self, records: Sequence[ConnectRecord]) -> KafkaBatch | list[KafkaRecord | None]:
        """Records of any kind: parallel lists where all go to one place without headers, else one answer for each.

        Measured, dicts of four fields to schemaless JSON: 1.0 us a record, by `to_kafka_records` 1.8 us, and the
        producer's batch call saves as much again. Errors: StageError with `done`.
        """
        return self._uniform(records) or self.to_kafka_records(records)

    def to_kafka_records(self, records: Sequence[ConnectRecord]) -> list[KafkaRecord | None]:
        """One answer for each record, None where it was dropped. Errors: StageError with `done`."""
        done: list[KafkaRecord | None] = []
        try:
            for record in records:
                done.append(self.to_kafka_record(record))
        except StageError as failure:
            failure.done = done
            raise
        return done

    def to_kafka_record(self, record: ConnectRecord) -> KafkaRecord | None:
        """Bytes of one record; None when the policy dropped it."""
        if self._takes_kafka_headers:
            return self._to_kafka_with_headers(record)
        topic = record.topic
        headers = record.headers if record.has_headers else None
        key = self._attempt(
            Stage.KEY_CONVERTER,
            self._key,
            record,
            lambda: self._key.from_connect_data(topic, record.key_schema, record.key, headers),
        )
        if key is DROPPED:
            return None
        value = self._attempt(
            Stage.VALUE_CONVERTER,
            self._value,
            record,
            lambda: self._value.from_connect_data(topic, record.value_schema, record.value, headers),
        )
        if value is DROPPED:
            return None
        kafka_headers: Any = None  # KafkaHeaders, DROPPED, or None
        if headers is not None:
            kafka_headers = self._kafka_headers(record)
            if kafka_headers is DROPPED:
                return None
        return KafkaRecord(topic, record.kafka_partition, key, value, record.timestamp, kafka_headers)

    def _to_kafka_with_headers(self, record: ConnectRecord) -> KafkaRecord | None:
        """The same where a converter takes Kafka's headers: it comes after header.converter, another one before."""
        parts = [
            (Stage.KEY_CONVERTER, self._key, record.key_schema, record.key),
            (Stage.VALUE_CONVERTER, self._value, record.value_schema, record.value),
        ]
        made: dict[Stage, Any] = {}
        kafka_headers: Any = None
        for stage, converter, schema, value in sorted(parts, key=lambda part: part[1].takes_kafka_headers):
            if converter.takes_kafka_headers and kafka_headers is None:
                pairs = self._kafka_headers(record) if record.has_headers else []
                if pairs is DROPPED:
                    return None
                kafka_headers = _bytes_headers(pairs)
            own = record.headers if record.has_headers else None
            headers = kafka_headers if converter.takes_kafka_headers else own
            call = partial(converter.from_connect_data, record.topic, schema, value, headers)
            made[stage] = self._attempt(stage, converter, record, call)
            if made[stage] is DROPPED:
                return None
        key, value = made[Stage.KEY_CONVERTER], made[Stage.VALUE_CONVERTER]
        pairs = [(header.key, header.value) for header in kafka_headers] or None
        return KafkaRecord(record.topic, record.kafka_partition, key, value, record.timestamp, pairs)

    def _kafka_headers(self, record: ConnectRecord) -> Any:
        """What header.converter makes of a record's: KafkaHeaders, or DROPPED."""
        topic, convert = record.topic, self._header.from_connect_header
        return self._attempt(
            Stage.HEADER_CONVERTER,
            self._header,
            record,
            lambda: [(one.key, convert(topic, one.key, one.schema, one.value)) for one in record.headers],
        )

    @cached_property
    def _takes_kafka_headers(self) -> bool:
        """Whether a converter does. Asked for once there are records: Java's are made by then if they are used."""
        return self._key.takes_kafka_headers or self._value.takes_kafka_headers

    def _uniform(self, records: Sequence[ConnectRecord]) -> KafkaBatch | None:
        """The records as one batch; None when they do not go to one place, or one of them cannot be converted."""
        if not records or self._takes_kafka_headers:
            return None
        topic, partition = records[0].topic, records[0].kafka_partition
        for record in records:
            if record.topic != topic or record.kafka_partition != partition or record.has_headers:
                return None
        key, value = self._key.from_connect_data, self._value.from_connect_data
        try:
            keys = [key(topic, record.key_schema, record.key) for record in records]
            values = [value(topic, record.value_schema, record.value) for record in records]
        except Exception:
            return None  # again one by one: the same error comes with the record that caused it
        times = [record.timestamp for record in records]
        return KafkaBatch(
            topic,
            partition,
            None if all(made is None for made in keys) else keys,
            values,
            times if any(time is not None for time in times) else None,
            None,
        )

    def _header_rows(self, topic: str, rows: Sequence[Headers]) -> list[KafkaHeaders | None] | None:
        """The headers of each row. A header object that many rows share, as InsertHeader's, is converted once.

        Measured, one header a row: 0.6 us, in a record with key and value 5 us.
        """
        convert, known = self._header.from_connect_header, dict[int, tuple[str, bytes | None]]()
        made: list[KafkaHeaders | None] = []
        for headers in rows:
            row = []
            for header in headers:
                pair = known.get(id(header))  # all of them live as long as the batch, so no id is used twice
                if pair is None:
                    pair = known[id(header)] = (header.key, convert(topic, header.key, header.schema, header.value))
                row.append(pair)
            made.append(row or None)
        return made if any(made) else None

    def _to_kafka_by_rows(self, batch: RecordBatch) -> KafkaBatch:
        records, misfits = rows_of(batch)
        if not misfits:
            try:
                return _joined(batch, self.to_kafka_records(records))
            except StageError as failure:
                failure.done = [_joined(batch, failure.done)]
                raise
        made: list[KafkaRecord | None] = []
        try:
            for row, record in enumerate(records):
                error = misfits.get(row)
                if error is not None:
                    of_row = StageError(Stage.VALUE_CONVERTER, type(self._value), record, error)
                    self._policy.on_failure(of_row, lambda: DROPPED)
                made.append(self.to_kafka_record(record) if error is None else None)
        except StageError as raised:
            raised.done = [_joined(batch, made)]
            raise
        return _joined(batch, made)

    # --- from Kafka (sink connectors) ---

    def to_connect_batch(self, fetched: FetchedBatch) -> RecordBatch | list[SinkRecord]:
        """Connect's form of what was fetched: a batch where both converters are columnar, else records.

        Shape: records that the policy dropped are missing; offsets tell which. Errors: StageError with `done`.
        """
        batch = self.to_connect_columns(fetched)
        return self.to_connect_records(fetched) if batch is None else batch

    def to_connect_columns(self, fetched: FetchedBatch) -> RecordBatch | None:
        """Columns of what was fetched; None when a converter has none, or when a record in it fails."""
        try:
            return self._columns(fetched)
        except Exception as error:
            self._by_records(_sentence(error))
            return None  # again by records: the same error comes with the record that caused it

    def to_connect_records(self, fetched: FetchedBatch) -> list[SinkRecord]:
        """Works as `to_connect_batch`, always as records: for a task and transforms that cannot take batches."""
        made = self.to_connect_list(fetched)
        if made is not None:
            return made
        done: list[SinkRecord] = []
        try:
            for index in range(len(fetched)):
                record = self.to_connect_record(fetched.row(index))
                if record is not None:
                    done.append(record)
        except StageError as failure:
            failure.done = done
            raise
        return done

    def to_connect_list(self, fetched: FetchedBatch) -> list[SinkRecord] | None:
        """All records at once; None when they are few, the value's converter reads no lists, or a record in it fails.

        Measured on a busy machine, JSON of 57 B without schema: 2.3 us a record, one by one 14 us.
        """
        if len(fetched) < _FEWEST_IN_LISTS or self._takes_kafka_headers:
            return None
        try:
            return self._list(fetched)
        except Exception:
            return None  # again by records: the same error comes with the record that caused it

    def to_connect_record(self, fetched: FetchedRecord) -> SinkRecord | None:
        """Connect's form of one fetched record; None when the policy dropped it."""
        topic = fetched.topic
        raw = fetched.headers
        given = _bytes_headers(raw or ()) if self._takes_kafka_headers else None
        parts: list[SchemaAndValue] = []
        for stage, converter, data in (
            (Stage.KEY_CONVERTER, self._key, fetched.key),
            (Stage.VALUE_CONVERTER, self._value, fetched.value),
        ):
            shown = given if converter.takes_kafka_headers else None
            call = partial(converter.to_connect_data, topic, data, shown)
            part = self._attempt(stage, converter, fetched, call)
            if part is DROPPED:
                return None
            parts.append(part)
        key, value = parts
        if given is not None:
            raw = [(header.key, header.value) for header in given]
        headers: Any = None  # Headers, DROPPED, or None
        if raw:
            headers = self._attempt(Stage.HEADER_CONVERTER, self._header, fetched, lambda: self._headers(topic, raw))
            if headers is DROPPED:
                return None
        return SinkRecord(
            topic,
            fetched.kafka_partition,
            key.schema,
            key.value,
            value.schema,
            value.value,
            fetched.kafka_offset,
            timestamp=fetched.timestamp,
            timestamp_type=fetched.timestamp_type,
            headers=headers,
        )

    def close(self) -> None:
        """Close all three, also when one of them raises; the first error is raised at the end."""
        first: Exception | None = None
        for converter in (self._key, self._value, self._header):
            try:
                converter.close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first

    def _columns(self, fetched: FetchedBatch) -> RecordBatch | None:
        """The batch, when both converters can; None when one says NotImplemented."""
        import pyarrow as pa

        topic, raw_headers = fetched.topic, fetched.headers
        if self._takes_kafka_headers:
            raw_headers = [list(raw or ()) for raw in raw_headers or [None] * len(fetched)]
        parts: list[tuple[Any, Any]] = []
        for part, converter, given in (("key", self._key, fetched.keys), ("value", self._value, fetched.values)):
            if given is None and not converter.takes_kafka_headers:
                parts.append((converter.to_connect_data(topic, None).schema, None))
                continue
            column = pa.nulls(len(fetched), pa.binary()) if given is None else pa.array(given, pa.binary())
            made = _connect_batch(converter, topic, column, raw_headers or ())
            if made is NotImplemented:
                self._by_records(self._no_columns(part))
                return None
            parts.append(made)
        headers = None
        if raw_headers is not None and any(raw_headers):
            headers = [self._headers(topic, raw or []) for raw in raw_headers]
        times, offsets = fetched.timestamps, fetched.offsets
        (key_schema, key), (value_schema, value) = parts
        return RecordBatch(
            topic,
            kafka_partition=fetched.partition,
            key_schema=key_schema,
            key=key,
            value_schema=value_schema,
            value=value,
            timestamp=None if times is None else lambda: pa.array(times, pa.int64()),
            timestamp_type=fetched.timestamp_type,
            headers=headers,
            kafka_offsets=lambda: pa.array(offsets, pa.int64()),
            length=len(fetched),
        )

    def _list(self, fetched: FetchedBatch) -> list[SinkRecord] | None:
        import pyarrow as pa

        topic, partition, kind, length = fetched.topic, fetched.partition, fetched.timestamp_type, len(fetched)
        found = self._value.to_connect_list(topic, pa.array(fetched.values, pa.binary()))
        if found is NotImplemented:
            return None
        value_schema, values = found
        key_schema, keys = _keys_of(self._key, topic, fetched.keys, length)
        headers: list[Headers | None] = [None] * length
        if fetched.headers is not None and any(fetched.headers):
            headers = [self._headers(topic, raw) if raw else None for raw in fetched.headers]
        times = [None] * length if fetched.timestamps is None else fetched.timestamps
        return sink_records(
            topic, partition, key_schema, keys, value_schema, values, fetched.offsets, iter(times), kind, headers
        )

    def _headers(self, topic: str, raw: KafkaHeaders) -> Headers:
        headers = ConnectHeaders()
        for key, value in raw:
            made = self._header.to_connect_header(topic, key, value)
            headers.add(key, made.value, made.schema)
        return headers

    def _no_columns(self, part: str) -> str:
        converter = self._key if part == "key" else self._value
        return f"{part}.converter {type(converter).__name__} has no columns for them"

    def _attempt(self, stage: Stage, plugin: object, record: Any, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            return self._policy.on_failure(StageError(stage, type(plugin), record, error), call)


def _keys_of(
    converter: Converter, topic: str, given: list[bytes | None] | None, length: int
) -> tuple[Schema | None, list[Any]]:
    """The schema that all keys have, and each.

    Errors: DataError where they differ in it; whatever the converter raises.
    """
    import pyarrow as pa

    from kconnect.api.columns import values_of

    if given is None:
        null = converter.to_connect_data(topic, None)
        return null.schema, [null.value] * length
    texts = pa.array(given, pa.binary())
    made = converter.to_connect_list(topic, texts)
    if made is not NotImplemented:
        return made
    try:
        columns = converter.to_connect_batch(topic, texts)
    except Exception:
        columns = NotImplemented  # one by one below: the same error comes with the key that caused it
    if columns is not NotImplemented:
        return columns[0], values_of(*columns, length)
    each = [converter.to_connect_data(topic, key) for key in given]
    if any(one.schema != each[0].schema for one in each):
        raise DataError(f"Keys of {topic} have several schemas")
    return each[0].schema, [one.value for one in each]


def _sentence(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


# Below, to set up the list costs more than it saves
_FEWEST_IN_LISTS = 50


def _bytes_headers(pairs: Iterable[tuple[str, bytes | None]]) -> Headers:
    headers = ConnectHeaders()
    for key, value in pairs:
        headers.add(key, value)
    return headers


def _connect_batch(converter: Converter, topic: str, column: pa.Array, headers: Any) -> Any:
    """The columns of a converter, NotImplemented where it has none. Those of Java change the headers of the rows."""
    if not converter.takes_kafka_headers:
        return converter.to_connect_batch(topic, column)
    if not isinstance(converter, Hosted):
        return NotImplemented
    return cast("JavaConverter", converter).to_connect_batch(topic, column, headers)


def _bytes_of(
    converter: Converter,
    topic: str,
    schema: Schema | None,
    column: pa.Array | None,
    length: int,
    headers: Sequence[KafkaHeaders],
) -> Sequence[bytes | None] | Any | None:
    """The bytes of a column; None when all are null; NotImplemented when only records will do.

    A converter of Java that takes Kafka's headers changes those of the rows.
    """
    if converter.takes_kafka_headers:
        if not isinstance(converter, Hosted):
            return NotImplemented
        return as_bytes(cast("JavaConverter", converter).from_connect_batch(topic, schema, column, headers))
    if column is None:
        null = converter.from_connect_data(topic, schema, None)
        return None if null is None else [null] * length
    made = converter.from_connect_batch(topic, schema, column)
    return made if made is NotImplemented else as_bytes(made)


def _joined(batch: RecordBatch, records: Sequence[KafkaRecord | None]) -> KafkaBatch:
    """Records of one batch as parallel lists, without those that were dropped."""
    kept = [(row, record) for row, record in enumerate(records) if record is not None]
    return KafkaBatch(
        batch.topic,
        batch.kafka_partition,
        [record.key for _, record in kept],
        [record.value for _, record in kept],
        [record.timestamp for _, record in kept],
        [record.headers for _, record in kept] if any(record.headers for _, record in kept) else None,
        None if len(kept) == len(batch) else [row for row, _ in kept],
    )
