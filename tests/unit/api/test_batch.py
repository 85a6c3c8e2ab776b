"""RecordBatch: to records and back without loss, lazy columns, slices."""

from __future__ import annotations

import datetime
import decimal
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    Headers,
    PresentTime,
    RecordBatch,
    Schema,
    SchemaBuilder,
    SinkRecord,
    SourceRecord,
    Struct,
    Time,
    Timestamp,
    TimestampType,
    Type,
)
from kconnect.api.columns import arrow_type
from kit.examples import examples

UTC = datetime.UTC
MILLIS = datetime.timedelta(milliseconds=1)
FLOATS = {Type.FLOAT32: 32, Type.FLOAT64: 64}
INTS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def primitives() -> st.SearchStrategy[SchemaBuilder]:
    kinds = st.sampled_from([kind for kind in Type if kind.is_primitive]).map(SchemaBuilder.type)
    scales = st.integers(-3, 10).map(Decimal.builder)
    return st.one_of(kinds, scales, st.sampled_from([Date, Time, Timestamp]).map(lambda logical: logical.builder()))


def with_optional(builders: st.SearchStrategy[SchemaBuilder]) -> st.SearchStrategy[Schema]:
    return st.tuples(builders, st.booleans()).map(lambda pair: (pair[0].optional() if pair[1] else pair[0]).build())


def structs(children: st.SearchStrategy[Schema]) -> st.SearchStrategy[SchemaBuilder]:
    def build(fields: list[Schema]) -> SchemaBuilder:
        builder = SchemaBuilder.struct().name("generated")
        for index, schema in enumerate(fields):
            builder.field(f"f{index}", schema)
        return builder

    return st.lists(children, max_size=3).map(build)


SCHEMAS = st.recursive(
    with_optional(primitives()),
    lambda children: with_optional(
        st.one_of(
            structs(children),
            children.map(SchemaBuilder.array),
            children.map(lambda item: SchemaBuilder.map(Schema.STRING_SCHEMA, item)),
        )
    ),
    max_leaves=6,
)


def values(schema: Schema) -> st.SearchStrategy[Any]:
    found = present_values(schema)
    return st.one_of(st.none(), found) if schema.is_optional else found


def present_values(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.name == Decimal.LOGICAL_NAME:
        scale = Decimal.scale(schema)
        return st.integers(-(10**30), 10**30).map(lambda n: decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=99)))
    if schema.name == Date.LOGICAL_NAME:
        return st.dates()
    if schema.name == Time.LOGICAL_NAME:
        return st.integers(0, 86_399_999).map(lambda n: Time.to_logical(Time.SCHEMA, n))
    if schema.name == Timestamp.LOGICAL_NAME:
        return st.integers(-(10**13), 10**14).map(lambda n: Timestamp.to_logical(Timestamp.SCHEMA, n))
    if schema.type in INTS:
        bits = INTS[schema.type]
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if schema.type in FLOATS:
        return st.floats(width=FLOATS[schema.type], allow_nan=False)
    if schema.type is Type.STRUCT:
        return st.tuples(*(values(field.schema) for field in schema.fields)).map(
            lambda row: Struct.from_values(schema, list(row))
        )
    if schema.type is Type.ARRAY:
        return st.lists(values(schema.value_schema), max_size=3)
    if schema.type is Type.MAP:
        return st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])), values(schema.value_schema), max_size=3
        )
    return {
        Type.BOOLEAN: st.booleans(),
        Type.STRING: st.text(st.characters(exclude_categories=["Cs"])),
        Type.BYTES: st.binary(),
    }[schema.type]


@examples(150)
@given(st.data())
def test_records_of_any_schema_come_back_as_they_were(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    items = data.draw(st.lists(values(schema), min_size=1, max_size=6))
    records = [
        SourceRecord(
            {"f": 1},
            {"at": index, "name": str(index)},
            "t",
            item,
            value_schema=schema,
            key=index,
            key_schema=Schema.INT32_SCHEMA,
        )
        for index, item in enumerate(items)
    ]
    batch = RecordBatch.from_records(records)
    assert batch is not None
    assert batch.to_records() == records
    start = data.draw(st.integers(0, len(records)))
    count = data.draw(st.integers(0, len(records)))
    assert batch.slice(start, count).to_records() == records[start : start + count]
    mask = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    kept = [record for record, keep in zip(records, mask, strict=True) if keep]
    assert batch.filter(pa.array(mask, pa.bool_())).to_records() == kept


def lines(*texts: str, **changes: Any) -> list[SourceRecord]:
    return [
        SourceRecord({"file": "a"}, {"position": at}, "lines", text, value_schema=Schema.STRING_SCHEMA, **changes)
        for at, text in enumerate(texts)
    ]


def test_sink_records_keep_offsets_times_headers_and_origin() -> None:
    records = [
        SinkRecord(
            "renamed", 3, None, None, Schema.STRING_SCHEMA, f"v{at}", at,
            timestamp=at * 10, timestamp_type=TimestampType.CREATE_TIME, original_topic="read",
        )
        for at in range(3)
    ]  # fmt: skip
    records[1].headers.add_string("h", "1")
    batch = RecordBatch.from_records(records)
    assert batch is not None
    assert (batch.original_topic, batch.original_kafka_partition, batch.kafka_partition) == ("read", 3, 3)
    assert batch.to_records() == records
    assert batch.slice(1, 1).to_records() == records[1:2]


def test_a_column_given_as_a_function_is_called_once_and_only_when_read() -> None:
    calls = []

    def make() -> pa.Array:
        calls.append(1)
        return pa.array(["a", "b"], pa.string())

    batch = RecordBatch("t", value=make, value_schema=Schema.STRING_SCHEMA, source_offsets={"p": pa.array([1, 2])})
    changed = batch.with_(topic="u").slice(0, 1)
    assert len(batch) == 2
    assert calls == []
    assert [record.value for record in changed.to_records()] == ["a"]
    assert batch.value.to_pylist() == ["a", "b"]
    assert calls == [1]


def test_the_present_is_settled_when_it_is_first_read_and_then_the_same_for_all_copies() -> None:
    batch = RecordBatch("t", value=pa.array(["a", "b"]), value_schema=Schema.STRING_SCHEMA, timestamp=PresentTime())
    copies = [batch, batch.with_(topic="u"), batch.slice(1), batch.filter(pa.array([True, False]))]
    assert all(copy.leaves_time_to_producer for copy in copies)
    began_ms = time.time_ns() // 1_000_000
    read = copies[1].timestamp
    assert began_ms <= read <= time.time_ns() // 1_000_000
    assert not any(copy.leaves_time_to_producer for copy in copies)
    assert {copy.timestamp for copy in copies} == {read}
    assert {record.timestamp for copy in copies for record in copy.to_records()} == {read}


def test_a_present_time_alone_does_not_tell_a_length() -> None:
    with pytest.raises(DataError, match="no column to tell its length"):
        RecordBatch("t", timestamp=PresentTime())


def test_the_length_comes_from_whatever_column_there_is() -> None:
    assert len(RecordBatch("t", kafka_offsets=pa.array([1, 2, 3]))) == 3
    assert len(RecordBatch("t", value=lambda: pa.array(["a"]))) == 1
    assert len(RecordBatch("t", headers=[Headers(), Headers()])) == 2
    assert len(RecordBatch("t", length=4)) == 4
    with pytest.raises(DataError, match="no column to tell its length"):
        RecordBatch("t")


def test_the_offset_to_commit_is_that_of_the_last_row() -> None:
    batch = RecordBatch.from_records(lines("a", "b", "c"))
    assert batch is not None
    assert batch.last_source_offset() == {"position": 2}
    assert batch.slice(0, 2).last_source_offset() == {"position": 1}
    with pytest.raises(DataError, match="no last source offset"):
        batch.slice(0, 0).last_source_offset()


def test_a_changed_topic_keeps_where_a_sink_batch_was_read() -> None:
    batch = RecordBatch(
        "read", kafka_partition=1, kafka_offsets=pa.array([5]), value=pa.array(["v"]), value_schema=Schema.STRING_SCHEMA
    )
    record = batch.with_(topic="other").to_records()[0]
    assert (record.topic, record.original_topic, record.original_kafka_partition) == ("other", "read", 1)


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(TypeError, match="'vlaue' of RecordBatch"):
        RecordBatch("t", length=1).with_(vlaue=None)


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([], "nothing"),
        (lines("a") + [record.new_record(topic="u") for record in lines("b")], "topics differ"),
        (lines("a") + lines("b", kafka_partition=1), "partitions differ"),
        (
            lines("a") + [record.new_record(value_schema=Schema.OPTIONAL_STRING_SCHEMA) for record in lines("b")],
            "schemas differ",
        ),
        ([SourceRecord({}, {}, "t", {"a": 1})], "schemaless"),
        ([SourceRecord({}, {}, "t", b"a", value_schema=Schema.STRING_SCHEMA)], "bytes are no text, Arrow or not"),
        ([SourceRecord({}, {}, "t", 1, value_schema=Schema.FLOAT64_SCHEMA)], "an int is no float, Arrow or not"),
        ([SourceRecord({}, {}, "t", 300, value_schema=Schema.INT8_SCHEMA)], "out of range"),
        ([SourceRecord({}, {}, "t", "\ud800", value_schema=Schema.STRING_SCHEMA)], "a lone surrogate"),
        ([SourceRecord({}, {}, "t", decimal.Decimal("1.5"), value_schema=Decimal.schema(2))], "another scale"),
        ([SourceRecord({}, {}, "t", decimal.Decimal(10**47), value_schema=Decimal.schema(0))], "too many digits"),
        ([SourceRecord({"a": 1}, {}, "t"), SourceRecord({"a": 2}, {}, "t")], "source partitions differ"),
        ([SourceRecord({}, {"a": 1}, "t"), SourceRecord({}, {"a": "1"}, "t")], "offset types differ"),
        ([SourceRecord({}, {"a": [1]}, "t")], "an offset that is no plain value"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)  # fmt: skip
def test_what_can_not_be_a_batch_gives_none(records: list[SourceRecord], why: str) -> None:
    assert RecordBatch.from_records(records) is None, why


def test_nulls_alone_make_a_batch_without_columns() -> None:
    records = [SourceRecord({"f": 1}, {"p": at}, "t") for at in range(3)]
    batch = RecordBatch.from_records(records)
    assert batch is not None
    assert (batch.key, batch.value, len(batch)) == (None, None, 3)
    assert batch.to_records() == records


def test_schemaless_columns_are_read_as_plain_values() -> None:
    column = pa.array([{"a": [("k", 1)]}, None], pa.struct([("a", pa.map_(pa.string(), pa.int64()))]))
    batch = RecordBatch("t", value=column, source_offsets={"p": pa.array([1, 2])})
    assert [record.value for record in batch.to_records()] == [{"a": {"k": 1}}, None]


def test_logical_columns_may_hold_the_plain_type() -> None:
    schema = Timestamp.builder().optional().build()
    batch = RecordBatch("t", value=pa.array([0, None], pa.int64()), value_schema=schema)
    assert [record.value for record in batch.to_records()] == [datetime.datetime(1970, 1, 1, tzinfo=UTC), None]


@pytest.mark.parametrize("schema", [Schema.STRING_SCHEMA, Date.SCHEMA, SchemaBuilder.array(Schema.INT8_SCHEMA).build()])
def test_a_column_that_does_not_fit_its_schema_is_an_error(schema: Schema) -> None:
    with pytest.raises(DataError, match="cannot be read with Schema"):
        RecordBatch("t", value=pa.array([1.5]), value_schema=schema).to_records()


def test_arrow_types_follow_the_schema() -> None:
    schema = SchemaBuilder.struct().field("a", Schema.FLOAT32_SCHEMA).field("d", Decimal.schema(3)).build()
    assert arrow_type(schema) == pa.struct([("a", pa.float32()), ("d", pa.decimal128(38, 3))])
    assert arrow_type(Schema.BYTES_SCHEMA) == pa.binary()
    assert arrow_type(Schema.BOOLEAN_SCHEMA) == pa.bool_()
