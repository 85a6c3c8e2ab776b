"""Avro in columns gives what Avro by records gives, to the byte and to the value; what it cannot do goes by records."""

from __future__ import annotations

import datetime
import decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kconnect.api import (
    ConnectError,
    DataError,
    Date,
    Decimal,
    RecordBatch,
    Schema,
    SchemaAndValue,
    SchemaBuilder,
    Struct,
    Time,
    Timestamp,
    TimestampType,
)
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.builtin.schema_registry.avro import avro_converter
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.stages import StageError
from kit.examples import examples
from kit.memory_registry import MemoryRegistry
from kit.random_avro import random_row_schema, random_rows


@pytest.fixture(autouse=True)
def columns_however_few(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """What is tested here is columns; tests of few rows, which go by records, say so in their names."""
    if "few_rows" not in request.node.name:
        monkeypatch.setattr(avro_converter, "FEW_ROWS", -1)


ROWS = 200
TEN_MB = 10_000_000
_FLAGS = ("false", "true")


def converter(registry: MemoryRegistry | None = None, **settings: str) -> AvroConverter:
    made = AvroConverter(registry or MemoryRegistry())
    given = {key.replace("_", "."): value for key, value in settings.items()}
    made.configure({"schema.registry.url": "http://unused:1", "scrub.invalid.names": "true", **given}, False)
    return made


def by_records(made: AvroConverter, schema: Schema, values: list[Any]) -> list[bytes | None]:
    return [made.from_connect_data("t", schema, value) for value in values]


def read_columns(made: AvroConverter, data: list[Any]) -> tuple[Schema | None, list[Any]]:
    """The schema and values that the columnar form reads. Errors: AssertionError if it leaves them to records."""
    found = made.to_connect_batch("t", pa.array(data, pa.binary()))
    assert found is not NotImplemented, "it went by records"
    schema, column = found
    column.validate(full=True)
    assert schema is None or column.type == arrow_type(schema)
    return schema, values_of(schema, column, len(data))


@given(st.integers(0, 1 << 32))
@examples(50, may_fail=[HealthCheck.function_scoped_fixture])
def test_ten_thousand_random_records_are_written_and_read_alike(seed: int) -> None:
    random = Random(seed)
    general = random.random() < 0.3
    made = converter(
        enhanced_avro_schema_support="false" if general else "true",
        generalized_sum_type_support="true" if general else "false",
        ignore_default_for_nullables=random.choice(_FLAGS),
        allow_optional_map_keys=random.choice(_FLAGS),
    )
    schema = random_row_schema(random, general=general)
    values = random_rows(random, schema, ROWS)
    records, expected = column_of(schema, values), by_records(made, schema, values)

    written = made.from_connect_batch("t", schema, records)

    assert written is not NotImplemented, "it was written by records"
    written.validate(full=True)
    assert written.to_pylist() == expected
    assert made.from_connect_batch("t", schema, records.slice(7, 30)).to_pylist() == expected[7:37]
    found_schema, found = read_columns(made, expected)
    one_by_one = [made.to_connect_data("t", data) for data in expected]
    assert repr(found) == repr([each.value for each in one_by_one])  # NaN is not itself
    assert all(each.schema is found_schema for each in one_by_one)


@given(st.integers(0, 1 << 32), st.integers(1, 40))
@examples(100, may_fail=[HealthCheck.function_scoped_fixture])
def test_few_rows_give_the_columns_that_many_give(seed: int, count: int) -> None:
    random = Random(seed)
    made = converter(enhanced_avro_schema_support="true", allow_optional_map_keys=random.choice(_FLAGS))
    schema = random_row_schema(random)
    values = random_rows(random, schema, ROWS)
    many = made.from_connect_batch("t", schema, column_of(schema, values))
    _, read = made.to_connect_batch("t", many)

    few = made.from_connect_batch("t", schema, column_of(schema, values[:count]))

    few.validate(full=True)
    assert few.equals(many.slice(0, count))
    found_schema, found = made.to_connect_batch("t", few)
    if few.null_count == count:
        return
    found.validate(full=True)
    assert found_schema == made.to_connect_data("t", next(data for data in few.to_pylist() if data)).schema
    assert found.type == read.type
    assert repr(found.to_pylist()) == repr(read.slice(0, count).to_pylist())  # NaN is not itself


def test_few_rows_that_records_refuse_are_left_to_columns() -> None:
    made, schema = converter(), Decimal.schema(0)
    data = by_records(made, schema, [decimal.Decimal(10**38)])
    with pytest.raises((OverflowError, AssertionError)):
        read_columns(made, data)
    unscaled = pa.array([b"a"])
    assert made.from_connect_batch("t", schema, unscaled).to_pylist() == by_records(made, schema, [decimal.Decimal(97)])
    required = SchemaBuilder.struct().name("R").field("f", Schema.INT32_SCHEMA).build()
    with pytest.raises(DataError, match="Found null value for non-optional schema"):
        made.from_connect_batch("t", required, pa.array([{"f": None}], pa.struct([("f", pa.int32())])))


@given(st.integers(0, 1 << 32))
@examples(50, may_fail=[HealthCheck.function_scoped_fixture])
def test_damaged_records_are_never_read_as_something_else(seed: int) -> None:
    random, made = Random(seed), converter(enhanced_avro_schema_support="true")
    schema = random_row_schema(random)
    values = [value for value in random_rows(random, schema, 10) if value is not None]
    data = [each for each in by_records(made, schema, values) if each is not None]
    place = random.randrange(len(data)) if data else 0
    if data:
        whole = bytearray(data[place])
        at = random.randrange(5, len(whole) + 1)
        data[place] = bytes(whole[:at] if random.random() < 0.5 else whole[:at] + random.randbytes(2) + whole[at + 2 :])

    try:
        found = made.to_connect_batch("t", pa.array(data, pa.binary()))
    except (ConnectError, pa.ArrowException, OverflowError):
        return  # by records it is read, or the error names the record
    if found is not NotImplemented:
        schema_found, column = found
        column.validate(full=True)
        one_by_one = [made.to_connect_data("t", each).value for each in data]
        assert repr(values_of(schema_found, column, len(data))) == repr(one_by_one)


_LIST = SchemaBuilder.array(Schema.STRING_SCHEMA).build()
_UNION = (
    SchemaBuilder.struct()
    .name("io.confluent.connect.avro.Union")
    .field("string", Schema.OPTIONAL_STRING_SCHEMA)
    .field("long", Schema.OPTIONAL_INT64_SCHEMA)
    .build()
)
_FLOAT_KEYS = SchemaBuilder.map(Schema.FLOAT64_SCHEMA, Schema.INT8_SCHEMA).build()


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (None, pa.array([1])),
        (_FLOAT_KEYS, pa.array([[(1.0, 2)]], pa.map_(pa.float64(), pa.int8()))),
        (_UNION, pa.array([{"string": "a", "long": 1}])),
        (Decimal.schema(1), pa.array([b"a"])),
        (
            SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT8_SCHEMA).build(),
            pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8())),
        ),
    ],
)
def test_what_columns_cannot_say_is_written_by_records(schema: Schema | None, column: pa.Array) -> None:
    assert converter().from_connect_batch("t", schema, column) is NotImplemented


def test_a_null_in_a_required_field_is_an_error_which_records_name() -> None:
    schema = SchemaBuilder.struct().name("R").field("f", Schema.INT32_SCHEMA).build()
    column = pa.array([{"f": 1}, {"f": None}], pa.struct([("f", pa.int32())]))

    with pytest.raises(DataError, match="Found null value for non-optional schema"):
        converter().from_connect_batch("t", schema, column)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()])
def test_text_of_other_arrow_types_is_written_the_same(kind: pa.DataType) -> None:
    made, texts = converter(), ["a", "ü" * 100]

    found = made.from_connect_batch("t", Schema.STRING_SCHEMA, pa.array(texts, kind))

    assert found.to_pylist() == by_records(made, Schema.STRING_SCHEMA, texts)


def test_tombstones_stay_null_and_ask_for_no_schema() -> None:
    registry = MemoryRegistry()
    made = converter(registry)

    nothing = made.from_connect_batch("t", Schema.OPTIONAL_STRING_SCHEMA, pa.array([None, None], pa.string()))
    assert nothing.to_pylist() == [None, None]
    assert read_columns(made, [None, None]) == (None, [None, None])
    assert not registry.asked
    some = made.from_connect_batch("t", Schema.OPTIONAL_STRING_SCHEMA, pa.array([None, "a", None], pa.string()))
    assert some.to_pylist() == by_records(made, Schema.OPTIONAL_STRING_SCHEMA, [None, "a", None])


def test_the_newest_schema_may_have_fields_of_its_own_another_order_and_wider_types() -> None:
    registry = MemoryRegistry()
    registry.add(
        "t-value",
        '{"type":"record","name":"R","fields":[{"name":"more","type":"bytes","default":"\\u00ffa"},'
        '{"name":"b","type":["string","null","float"]},{"name":"a","type":"double"},{"name":"c","type":"long"}]}',
    )
    made = converter(registry, auto_register_schemas="false", use_latest_version="true")
    schema = (
        SchemaBuilder.struct()
        .name("R")
        .field("a", Schema.INT64_SCHEMA)
        .field("b", Schema.OPTIONAL_INT32_SCHEMA)
        .field("c", Schema.INT8_SCHEMA)
        .build()
    )
    rows = [{"a": (1 << 62) + 1, "b": None, "c": -128}, {"a": -1, "b": 16_777_217, "c": 5}]

    found = made.from_connect_batch("t", schema, pa.array(rows, arrow_type(schema)))

    assert found.to_pylist() == by_records(made, schema, [Struct(schema, row) for row in rows])


def test_the_newest_schema_gets_times_in_its_unit_and_decimals_in_its_scale() -> None:
    schema = (
        SchemaBuilder.struct()
        .name("R")
        .field("at", Timestamp.SCHEMA)
        .field("time", Time.builder().optional().build())
        .field("price", Decimal.schema(2))
        .field("due", Timestamp.SCHEMA)
        .build()
    )
    registry = MemoryRegistry()
    registry.add(
        "t-value",
        '{"type":"record","name":"R","fields":[{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},'
        '{"name":"time","type":["null",{"type":"long","logicalType":"time-micros"}]},{"name":"price","type":'
        '{"type":"bytes","logicalType":"decimal","precision":9,"scale":1}},{"name":"due","type":"long"}]}',
    )
    made = converter(registry, auto_register_schemas="false", use_latest_version="true")
    moment = datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=datetime.UTC)
    row = {"at": moment, "time": datetime.time(0, 0, 0, 2000), "price": decimal.Decimal("1.20"), "due": moment}
    values = [Struct(schema, row)]

    assert (
        by_records(made, schema, values)[0][5:] == b"\xd0\x0f" + b"\x02\xa0\x1f" + b"\x02\x0c" + b"\x02"
    )  # 1000, 2000, 12 and 1
    assert made.from_connect_batch("t", schema, column_of(schema, values * 100)) is NotImplemented
    with pytest.raises(DataError, match=r"Field price: 1\.25 has more than the 1 places"):
        by_records(made, schema, [Struct(schema, {**row, "price": decimal.Decimal("1.25")})])


def test_a_day_is_not_written_as_a_moment() -> None:
    registry = MemoryRegistry()
    registry.add("t-value", '{"type":"long","logicalType":"timestamp-millis"}')
    made = converter(registry, auto_register_schemas="false", use_latest_version="true")

    with pytest.raises(DataError, match="cannot be written as the Avro type timestamp-millis"):
        by_records(made, Date.SCHEMA, [datetime.date(2026, 1, 2)])


@pytest.mark.parametrize(
    ("item", "values"),
    [
        (Schema.INT64_SCHEMA, [number << (number % 50) for number in range(5000)]),
        (Schema.FLOAT32_SCHEMA, [number / 8 for number in range(5000)]),
        (Schema.BOOLEAN_SCHEMA, [True, False] * 2500),
        (Schema.STRING_SCHEMA, ["a", ""] * 20),
    ],
)
def test_long_arrays_are_read_in_columns(item: Schema, values: list[Any]) -> None:
    made, schema = converter(), SchemaBuilder.array(item).build()
    rows = [values, [], values[:3], values]

    data = made.from_connect_batch("t", schema, column_of(schema, rows)).to_pylist()

    assert data == by_records(made, schema, rows)
    assert read_columns(made, data)[1] == rows


def test_long_arrays_of_text_are_read_by_records() -> None:
    made = converter()
    data = by_records(made, _LIST, [["a"] * 5000])

    assert made.to_connect_batch("t", pa.array(data, pa.binary())) is NotImplemented


def test_arrays_in_blocks_with_and_without_their_size() -> None:
    made = converter()
    (head,) = [each[:5] for each in by_records(made, _LIST, [[]]) if each]
    blocks = head + b"\x02\x02a" + b"\x03\x06\x02b\x02c" + b"\x02\x02d" + b"\x00"  # 1, then -2 of 4 bytes, then 1

    assert read_columns(made, [blocks, head + b"\x02\x02z\x00"])[1] == [["a", "b", "c", "d"], ["z"]]
    assert made.to_connect_data("t", blocks).value == ["a", "b", "c", "d"]


@pytest.mark.parametrize("schema", [Schema.STRING_SCHEMA, Schema.BYTES_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA])
def test_ten_megabytes_in_one_value(schema: Schema) -> None:
    made = converter()
    value: Any = b"x" * TEN_MB if schema is Schema.BYTES_SCHEMA else "x" * TEN_MB
    rows = [value[:1], value, value[:2]]

    data = made.from_connect_batch("t", schema, column_of(schema, rows)).to_pylist()

    assert data == by_records(made, schema, rows)
    assert read_columns(made, data)[1] == rows


def test_decimals_of_every_length_up_to_38_digits() -> None:
    made, schema = converter(), Decimal.schema(2)
    edges = [sign * (1 << bits) + step for bits in range(126) for sign in (1, -1) for step in (-1, 0, 1)]
    values = [decimal.Decimal(edge).scaleb(-2, decimal.Context(prec=60)) for edge in [*edges, 10**38 - 1, 1 - 10**38]]
    records = SchemaBuilder.struct().name("D").field("d", schema).build()
    rows = [Struct(records, {"d": value}) for value in values]

    for each, column in ((schema, values), (records, rows)):
        data = made.from_connect_batch("t", each, column_of(each, column)).to_pylist()
        assert data == by_records(made, each, column)
        assert repr(read_columns(made, data)[1]) == repr(column)  # what is read has the registry's version


@pytest.mark.parametrize("unscaled", [10**38, -(10**38), 1 << 200])
def test_decimals_of_more_than_38_digits_go_by_records(unscaled: int) -> None:
    made, schema = converter(), Decimal.schema(0)
    data = by_records(made, schema, [decimal.Decimal(unscaled)])

    with pytest.raises((OverflowError, AssertionError)):
        read_columns(made, data)
    assert data[0] is not None
    assert made.to_connect_data("t", data[0]).value == unscaled


@pytest.mark.parametrize(
    ("schema", "number"),
    [
        (Date.SCHEMA, 2_932_897),
        (Date.SCHEMA, -719_163),
        (Time.SCHEMA, 86_400_000),
        (Time.SCHEMA, -1),
        (Timestamp.SCHEMA, 253_402_300_800_000),
    ],
)
def test_days_and_times_that_python_does_not_have_are_errors_of_their_record(schema: Schema, number: int) -> None:
    registry = MemoryRegistry()
    made = converter(registry)
    moment = {
        Date.LOGICAL_NAME: datetime.date(2026, 11, 23),
        Time.LOGICAL_NAME: datetime.time(1),
        Timestamp.LOGICAL_NAME: datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC),
    }[schema.name or ""]
    (good,) = by_records(made, schema, [moment])
    (plain,) = by_records(made, Schema.INT64_SCHEMA, [number])
    assert good is not None
    assert plain is not None
    bad = good[:5] + plain[5:]

    with pytest.raises(DataError):
        made.to_connect_batch("t", pa.array([good, bad], pa.binary()))
    with pytest.raises(DataError):
        made.to_connect_data("t", bad)


def test_a_schema_that_refers_to_itself_is_an_error_in_columns_too() -> None:
    registry = MemoryRegistry()
    made = converter(registry)
    text = '{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}'
    data = b"\x00" + registry.add("t-value", text).to_bytes(4, "big") + b"\x00"

    with pytest.raises(DataError, match="refers to itself"):
        made.to_connect_batch("t", pa.array([data], pa.binary()))


ROW = SchemaBuilder.struct().name("R").field("n", Schema.INT64_SCHEMA).field("s", Schema.STRING_SCHEMA).build()


def fetched(values: list[Any]) -> FetchedBatch:
    return FetchedBatch("t", 0, list(range(len(values))), None, values, None, TimestampType.NO_TIMESTAMP_TYPE, None)


def sink_converters(made: AvroConverter) -> Converters:
    return Converters(StringConverter(), made, StringConverter())


def test_a_sink_gets_columns_and_an_error_names_the_record_that_is_cut_off() -> None:
    made = converter()
    data = by_records(made, ROW, [Struct(ROW, {"n": n, "s": "x" * n}) for n in range(20)])

    batch = sink_converters(made).to_connect_batch(fetched(data))
    assert isinstance(batch, RecordBatch)
    assert [record.value["n"] for record in batch.to_records()] == list(range(20))

    last = data[13]
    assert last is not None
    data[13] = last[:-1]
    with pytest.raises(StageError) as failure:
        sink_converters(made).to_connect_batch(fetched(data))
    assert [record.kafka_offset for record in failure.value.done] == list(range(13))


def test_a_schema_that_changes_in_mid_stream_gives_each_record_its_own() -> None:
    made = converter()
    wider = SchemaBuilder.struct().name("R").field("n", Schema.INT64_SCHEMA).build()
    values = [(ROW, Struct(ROW, {"n": 1, "s": "a"})), (wider, Struct(wider, {"n": 2})), (None, {"n": 3})]
    data = [made.from_connect_data("t", schema, value) for schema, value in values]

    records = sink_converters(made).to_connect_batch(fetched([*data, None, data[0]]))

    assert isinstance(records, list)
    found = [SchemaAndValue(record.value_schema, record.value) for record in records]
    assert found == [made.to_connect_data("t", each) for each in [*data, None, data[0]]]
    assert [None if each.schema is None else len(each.schema.fields) for each in found] == [2, 1, None, None, 2]
