"""Runs of records between RecordBatch and the blocks that Java reads and writes.

Schemas, and values that have no columns, cross as the JSON of Connect's JsonConverter.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import orjson
import pyarrow as pa

from kconnect.api import ConnectHeaders, ConnectRecord, Headers, RecordBatch, Schema, SinkRecord, SourceRecord
from kconnect.api.columns import column_of, values_of
from kconnect.api.record import TimestampType
from kconnect.errors import DataError
from kconnect.java.compat.json_reader import JsonReader
from kconnect.java.compat.json_writer import JsonWriter
from kconnect.java.plugins.blocks import BlockReader, BlockWriter
from kconnect.java.plugins.encoded import storable
from kconnect.java.plugins.few_rows import write_rows
from kconnect.java.plugins.wire_format import NO_PARTITION, NO_TIME

# From so many on an Arrow column is made faster than one by rows
_FEWEST_BY_ARROW = 16
_TIME_NAMES = {kind: kind.value for kind in TimestampType}


class Values:
    """One column as it came: Arrow's where it has one, else values."""

    def __init__(self, schema: Schema | None, count: int, column: pa.Array | None, values: list[Any] | None) -> None:
        self.schema = schema
        self.count = count
        self.column = column
        self._values = values

    @property
    def is_columnar(self) -> bool:
        return self._values is None

    def values(self) -> list[Any]:
        return values_of(self.schema, self.column, self.count) if self._values is None else self._values


def read_values(block: BlockReader, head: Mapping[str, Any], count: int, *, by_rows: bool) -> Values:
    """The column that a head describes (Java: Columns). `by_rows`: as values at once, for few of them."""
    schema, kind = read_schema(head["schema"]), head["kind"]
    if kind == "null":
        return Values(schema, count, None, None)
    if kind == "columns":
        assert schema is not None
        if by_rows:
            return Values(schema, count, None, block.rows(schema, count))
        return Values(schema, count, block.column(schema, count), None)
    texts = block.binary(count).to_pylist()
    if schema is None:
        return Values(None, count, None, [None if text is None else read_plain(text) for text in texts])
    return Values(schema, count, None, [None if text is None else read_value(schema, text) for text in texts])


def column_head(schema: Schema | None, column: pa.Array | None, values: list[Any] | None) -> dict[str, Any]:
    """What Java must know of a column before it reads it."""
    if column is None and (values is None or all(value is None for value in values)):
        kind = "null"
    elif schema is None:
        kind = "plain"
    else:
        kind = "json" if column is None else "columns"
    return {"kind": kind, "schema": schema_text(schema)}


def write_values(
    block: BlockWriter, head: Mapping[str, Any], schema: Schema | None, column: pa.Array | None, values: Any
) -> None:
    """The column, in the form that its head says."""
    if head["kind"] == "columns":
        assert schema is not None
        block.column(schema, column)
    elif head["kind"] == "plain":
        block.binary(pa.array([None if value is None else plain_text(value) for value in values], pa.binary()))
    elif head["kind"] == "json":
        assert schema is not None
        block.binary(pa.array([None if value is None else value_text(schema, value) for value in values], pa.binary()))


class Column:
    """A column on its way to Java: Arrow's if its values have the schema's types, else values."""

    def __init__(
        self,
        schema: Schema | None,
        column: pa.Array | None,
        values: list[Any] | None,
        encoded: bytearray | None = None,
    ) -> None:
        self.schema = schema
        self.column = column
        self.values = values
        self._encoded = encoded
        if encoded is not None:
            self.head = {"kind": "columns", "schema": schema_text(schema)}
        else:
            self.head = column_head(schema, column, values)

    @classmethod
    def of_values(cls, schema: Schema | None, values: list[Any]) -> Column:
        if schema is not None and any(value is not None for value in values):
            try:
                if len(values) >= _FEWEST_BY_ARROW:
                    return cls(schema, column_of(schema, values), None)
                encoded = bytearray()
                write_rows(encoded, schema, values)
                return cls(schema, None, None, encoded)
            except DataError:
                pass  # a decimal of 40 digits: by its text
        return cls(schema, None, values)

    @classmethod
    def of_batch(cls, schema: Schema | None, column: pa.Array | None) -> Column:
        if schema is None and column is not None:
            return cls(None, None, values_of(None, column, len(column)))
        return cls(schema, column, None)

    def write(self, block: BlockWriter) -> None:
        if self._encoded is not None:
            block.encoded(self._encoded)
        else:
            write_values(block, self.head, self.schema, self.column, self.values)


def run_head(batch: RecordBatch, key: Column, value: Column) -> dict[str, Any]:
    """The head of a run that Java reads (Java: Reading)."""
    head: dict[str, Any] = {
        "topic": batch.topic,
        "partition": batch.kafka_partition,
        "rows": len(batch),
        "key": key.head,
        "value": value.head,
    }
    if batch.kafka_offsets is not None:
        head["time"] = _TIME_NAMES[batch.timestamp_type]
        head["original_topic"] = batch.original_topic
        head["original_partition"] = batch.original_kafka_partition
    if batch.headers is not None:
        head["headers"] = [
            [row, header.key, *_header_texts(header.schema, header.value)]
            for row, headers in enumerate(batch.headers)
            for header in headers
        ]
    return head


def write_run(block: BlockWriter, batch: RecordBatch, key: Column, value: Column) -> None:
    """The columns of a run after its head."""
    stamp = batch.timestamp
    if stamp is None or isinstance(stamp, int):
        times = [NO_TIME if stamp is None else stamp] * len(batch)
    else:
        times = stamp.fill_null(NO_TIME)
    block.longs(times)
    if batch.kafka_offsets is not None:
        block.longs(batch.kafka_offsets)
    key.write(block)
    value.write(block)


def _header_texts(schema: Schema | None, value: Any) -> tuple[str | None, str | None]:
    if schema is None:
        return None, None if value is None else plain_text(value).decode()
    return schema_text(schema), None if value is None else value_text(schema, value).decode()


class Run:
    """One run as Java reported it."""

    def __init__(self, block: BlockReader, head: Mapping[str, Any], *, by_rows: bool = False) -> None:
        """`by_rows`: values are wanted one by one, and are few."""
        self.head = head
        self.rows = int(head["rows"])
        self.times = block.longs(self.rows)
        self.key = read_values(block, head["key"], self.rows, by_rows=by_rows)
        self.value = read_values(block, head["value"], self.rows, by_rows=by_rows)
        self.misfit: Mapping[str, Any] | None = head.get("misfit")
        """What is wrong with its record, which is alone in it: values that are not of its schemas are texts."""

    @property
    def source_partition(self) -> Mapping[str, Any] | None:
        found = self.head["source_partition"]
        return storable(found) if self.head.get("unstorable") else found

    @property
    def source_offsets(self) -> list[Any]:
        """Mappings, or None; one a row."""
        found = self.head["source_offsets"]
        return [storable(offset) for offset in found] if self.head.get("unstorable") else found

    @property
    def topic(self) -> str:
        """Empty where Java gave the record none, which no producer takes."""
        return str(self.head["topic"] or "")

    @property
    def partition(self) -> int | None:
        found = self.head["partition"]
        return None if found is None or found == NO_PARTITION else int(found)

    @property
    def is_columnar(self) -> bool:
        return self.key.is_columnar and self.value.is_columnar

    def headers(self) -> list[Headers] | None:
        """Headers a row; None when no row has any."""
        reported = self.head.get("headers")
        if not reported:
            return None
        made: list[Headers] = [ConnectHeaders() for _ in range(self.rows)]
        for row, key, schema_reported, text in reported:
            schema = read_schema(schema_reported)
            value = None if text is None else (read_plain(text) if schema is None else read_value(schema, text))
            made[row].add(key, value, schema)
        return made

    def timestamps(self) -> pa.Array | None:
        """Times in ms; None when no record has one."""
        column = pa.array(self.times, pa.int64())
        import pyarrow.compute as pc

        known = pc.not_equal(column, NO_TIME)
        if known.false_count == 0:
            return column
        return None if known.true_count == 0 else pc.if_else(known, column, None)

    def records(self) -> Iterator[tuple[Any, Any, int | None, Headers | None]]:
        """Key, value, time and headers of each row."""
        headers: Sequence[Headers | None] = self.headers() or [None] * self.rows
        times = [None if time == NO_TIME else time for time in self.times]
        return zip(self.key.values(), self.value.values(), times, headers, strict=True)


def source_batch(run: Run) -> RecordBatch | None:
    """What a source polled, as a batch; None when values have no columns or offsets differ in their fields."""
    if not run.is_columnar or run.head.get("unstorable"):
        return None
    offsets = run.source_offsets
    fields = list(offsets[0]) if offsets[0] is not None else None
    if fields is None or any(offset is None or list(offset) != fields for offset in offsets):
        return None
    try:
        columns = {name: pa.array([offset[name] for offset in offsets]) for name in fields}
    except (pa.ArrowException, OverflowError):
        return None
    if any(pa.types.is_nested(column.type) for column in columns.values()):
        return None
    return RecordBatch(
        run.topic,
        kafka_partition=run.partition,
        key_schema=run.key.schema,
        key=run.key.column,
        value_schema=run.value.schema,
        value=run.value.column,
        timestamp=run.timestamps(),
        headers=run.headers(),
        source_partition=run.source_partition,
        source_offsets=columns,
        length=run.rows,
    )


def source_records(run: Run) -> list[SourceRecord]:
    """What a source polled, as records."""
    partition = run.source_partition
    return [
        SourceRecord(
            partition,
            offset,
            run.topic,
            value,
            kafka_partition=run.partition,
            key=key,
            key_schema=run.key.schema,
            value_schema=run.value.schema,
            timestamp=time,
            headers=headers,
        )
        for (key, value, time, headers), offset in zip(run.records(), run.source_offsets, strict=True)
    ]


def batch_of_one(record: ConnectRecord) -> tuple[RecordBatch, Column, Column]:
    """A record as a run of one row, with its columns."""
    return _run_of([record])


def runs_of(records: Sequence[SinkRecord]) -> list[tuple[RecordBatch, Column, Column]]:
    """Records of a sink as runs of neighbours that are of one kind, each with its columns."""
    return [_run_of(list(run)) for _, run in groupby(records, _kind_of)]


def _kind_of(record: SinkRecord) -> tuple[Any, ...]:
    return (
        record.topic,
        record.kafka_partition,
        record.key_schema,
        record.value_schema,
        record.timestamp_type,
        record.original_topic,
        record.original_kafka_partition,
    )


def _run_of(records: Sequence[ConnectRecord]) -> tuple[RecordBatch, Column, Column]:
    first = records[0]
    key = Column.of_values(first.key_schema, [record.key for record in records])
    value = Column.of_values(first.value_schema, [record.value for record in records])
    more: dict[str, Any] = {}
    if isinstance(first, SinkRecord):
        offsets = [record.kafka_offset for record in records if isinstance(record, SinkRecord)]
        more = {
            "kafka_offsets": pa.array(offsets, pa.int64()),
            "timestamp_type": first.timestamp_type,
            "original_topic": first.original_topic,
            "original_kafka_partition": first.original_kafka_partition,
        }
    times = [record.timestamp for record in records]
    batch = RecordBatch(
        first.topic,
        kafka_partition=first.kafka_partition,
        timestamp=times[0] if len(times) == 1 else pa.array(times, pa.int64()),
        headers=[record.headers for record in records] if any(record.has_headers for record in records) else None,
        length=len(records),
        **more,
    )
    return batch, key, value


_MOST_SCHEMAS = 500
_READER = JsonReader(replace_null_with_default=False)
_WRITER = JsonWriter(numeric_decimals=False, replace_null_with_default=False, cache_size=_MOST_SCHEMAS)
_SURROGATE = re.compile("[\ud800-\udfff]")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@lru_cache(maxsize=_MOST_SCHEMAS)
def read_schema(text: str | None) -> Schema | None:
    """The schema of a text; each is read once."""
    return None if text is None else _READER.schema(json.loads(text))


def schema_text(schema: Schema | None) -> str | None:
    """The text of a schema; each is written once."""
    return None if schema is None else _WRITER.schema(schema)


def read_value(schema: Schema, text: bytes | str) -> Any:
    """A value with a schema, out of its text."""
    return _READER.value(schema, json.loads(text))


def value_text(schema: Schema, value: Any) -> bytes:
    """The text of a value with a schema."""
    return _WRITER.value(schema, value).encode()


def read_plain(text: bytes | str) -> Any:
    """A value without a schema (Java: PlainJson)."""
    try:
        return _revived(orjson.loads(text))
    except orjson.JSONDecodeError:  # half a surrogate pair, which a text of Java's may have
        return _revived(json.loads(text))


def plain_text(value: Any) -> bytes:
    """The text of a value without a schema. Errors: DataError for one that Java has no form for."""
    reported = _reported(value)
    try:
        return orjson.dumps(reported)
    except orjson.JSONEncodeError:  # likewise
        return json.dumps(reported).encode()


def _revived(value: Any) -> Any:
    if isinstance(value, list):
        return [_revived(one) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name == "$bytes":
            return base64.b64decode(inner)
        if name == "$date":
            return _EPOCH + datetime.timedelta(milliseconds=inner)
        if name == "$decimal":
            return decimal.Decimal(inner)
        if name == "$integer":
            return int(inner)
        if name == "$double":
            return float(inner)
        if name == "$map":
            return {_revived(key): _revived(one) for key, one in inner}
    return {name: _revived(one) for name, one in value.items()}


def _reported(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else {"$integer": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$double": _java_double(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, decimal.Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, datetime.datetime):
        return {"$date": (value - _EPOCH) // datetime.timedelta(milliseconds=1)}
    if isinstance(value, list | tuple):
        return [_reported(one) for one in value]
    if isinstance(value, Mapping):
        if all(isinstance(name, str) and _is_name(name) for name in value):
            return {name: _reported(one) for name, one in value.items()}
        return {"$map": [[_reported(name), _reported(one)] for name, one in value.items()]}
    raise DataError(f"A value of type {type(value).__name__} has no schema and cannot be given to Java")


def _is_name(text: str) -> bool:
    """Whether it can be the name of a member: with half a surrogate pair Java could not read it."""
    return not text.startswith("$") and not _SURROGATE.search(text)


def _java_double(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
