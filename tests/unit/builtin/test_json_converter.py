"""JSON: columns say what records say, byte for byte; the recorded Java cases are in tests/integration/builtin."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    RecordBatch,
    Schema,
    SchemaBuilder,
    SourceRecord,
    Struct,
    Time,
    Timestamp,
)
from kconnect.builtin.converters.json_columns import escaped
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.java.compat import jackson
from kit.examples import examples

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
NASTY = st.text(st.sampled_from('"\\,[]\n\t\x00\x1b\x7f€é😀a'), max_size=12)

ROW = (
    SchemaBuilder.struct()
    .name("com.x.Row")
    .field("s", Schema.STRING_SCHEMA)
    .field('o"dd', Schema.OPTIONAL_STRING_SCHEMA)
    .field("i", Schema.INT32_SCHEMA)
    .field("l", SchemaBuilder.int64().optional().default(7).build())
    .field("b", Schema.OPTIONAL_BOOLEAN_SCHEMA)
    .field("d", Schema.FLOAT64_SCHEMA)
    .field("f", Schema.OPTIONAL_FLOAT32_SCHEMA)
    .field("y", Schema.BYTES_SCHEMA)
    .field("ts", Timestamp.builder().optional().build())
    .field("day", Date.SCHEMA)
    .field("clock", Time.SCHEMA)
    .field("in", SchemaBuilder.struct().field("x", Schema.OPTIONAL_INT8_SCHEMA).build())
    .build()
)
INNER = ROW.field("in").schema
INSTANTS = st.datetimes(timezones=st.just(datetime.UTC))


def row_of(values: dict[str, Any]) -> Struct:
    return Struct(ROW, values)


ROWS = st.fixed_dictionaries(
    {
        "s": TEXT | NASTY,
        'o"dd': st.none() | NASTY,
        "i": st.integers(-(1 << 31), (1 << 31) - 1),
        "l": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "b": st.none() | st.booleans(),
        "d": st.floats(),
        "f": st.none() | st.floats(width=32),
        "y": st.binary(max_size=5),
        "ts": st.none() | INSTANTS.map(lambda when: when.replace(microsecond=when.microsecond // 1000 * 1000)),
        "day": st.dates(),
        "clock": st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
        "in": (st.none() | st.integers(-128, 127)).map(lambda x: Struct(INNER, {"x": x})),
    }
).map(row_of)


def configured(**config: str) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({name.replace("_", "."): text for name, text in config.items()}, False)
    return converter


@pytest.mark.parametrize("envelope", ["true", "false"])
@given(rows=st.lists(ROWS, min_size=1, max_size=4))
@examples(150)
def test_a_struct_column_gives_the_bytes_that_records_give(envelope: str, rows: list[Struct]) -> None:
    converter = configured(schemas_enable=envelope)
    batch = RecordBatch.from_records([SourceRecord({}, {}, "t", row, value_schema=ROW) for row in rows])
    assert batch is not None
    made = converter.from_connect_batch("t", ROW, batch.value)
    assert made is not NotImplemented
    assert made.to_pylist() == [converter.from_connect_data("t", ROW, row) for row in rows]


@given(texts=st.lists(st.none() | TEXT | NASTY, min_size=1, max_size=6), start=st.integers(0, 2))
@examples(200)
def test_a_string_column_gives_the_bytes_that_records_give(texts: list[str | None], start: int) -> None:
    converter = configured()
    schema = Schema.OPTIONAL_STRING_SCHEMA
    made = converter.from_connect_batch("t", schema, pa.array(texts, pa.string()).slice(start))
    assert made.to_pylist() == [converter.from_connect_data("t", schema, text) for text in texts[start:]]


@pytest.mark.parametrize("form", ["BASE64", "NUMERIC"])
@given(
    unscaled=st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-300, 300), min_size=1),
    scale=st.sampled_from([0, 2, 30]),
    start=st.integers(0, 2),
)
def test_a_column_of_decimals_gives_the_bytes_that_records_give(
    form: str, unscaled: list[int | None], scale: int, start: int
) -> None:
    converter = configured(decimal_format=form)
    schema = Decimal.builder(scale).optional().build()
    exact = [None if number is None else PyDecimal(number).as_tuple() for number in unscaled]
    numbers = [None if parts is None else PyDecimal((parts.sign, parts.digits, -scale)) for parts in exact]
    made = converter.from_connect_batch("t", schema, pa.array(numbers, pa.decimal128(38, scale)).slice(start))
    assert made.to_pylist() == [converter.from_connect_data("t", schema, number) for number in numbers[start:]]


@given(texts=st.lists(TEXT | NASTY, max_size=8))
def test_escaped_strings_read_back(texts: list[str]) -> None:
    made = escaped(pa.array(texts, pa.string())).to_pylist()
    assert [json.loads(f'"{text}"') for text in made] == texts
    assert made == [jackson.quote(text)[1:-1] for text in texts]


def test_defaults_and_nulls_in_columns_are_those_of_records() -> None:
    with_default = SchemaBuilder.int32().default(42).build()
    for schema in (with_default, Schema.OPTIONAL_INT32_SCHEMA):
        column = pa.array([1, None, 3], pa.int32())
        made = configured().from_connect_batch("t", schema, column)
        assert made.to_pylist() == [configured().from_connect_data("t", schema, value) for value in (1, None, 3)]
    with pytest.raises(DataError, match="null value for field that is required and has no default value"):
        configured().from_connect_batch("t", Schema.INT32_SCHEMA, pa.array([None], pa.int32()))


def test_null_struct_rows_become_null_payloads() -> None:
    schema = SchemaBuilder.struct().optional().field("a", Schema.OPTIONAL_STRING_SCHEMA).build()
    column = pa.array([{"a": "x"}, None, {"a": None}], pa.struct([("a", pa.string())]))
    made = configured(schemas_enable="false").from_connect_batch("t", schema, column)
    assert made.to_pylist() == [b'{"a":"x"}', b"null", b'{"a":null}']


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (None, pa.array(["a"], pa.large_string())),
        (Schema.STRING_SCHEMA, pa.array(["a"], pa.large_string())),
        (Decimal.schema(3), pa.array([PyDecimal("1.25")], pa.decimal128(38, 2))),
        (Decimal.schema(127), pa.array([b"\x01"], pa.binary())),
        (SchemaBuilder.array(Schema.INT32_SCHEMA).build(), pa.array([[1]], pa.list_(pa.int32()))),
        (
            SchemaBuilder.struct().field("a", SchemaBuilder.array(Schema.INT32_SCHEMA).build()).build(),
            pa.array([{"a": [1]}]),
        ),
    ],
)
def test_what_columns_can_not_say_is_left_to_records(schema: Schema | None, column: pa.Array) -> None:
    assert configured().from_connect_batch("t", schema, column) is NotImplemented


def test_equal_envelopes_give_the_same_schema_object() -> None:
    converter = configured()
    raw = b'{"schema":{"type":"struct","fields":[{"type":"int32","field":"a"}]},"payload":{"a":1}}'
    assert converter.to_connect_data("t", raw).schema is converter.to_connect_data("t", raw).schema


def test_struct_of_another_schema_is_refused_in_java_words() -> None:
    one = SchemaBuilder.struct().field("a", Schema.OPTIONAL_INT32_SCHEMA).build()
    other = SchemaBuilder.struct().field("b", Schema.OPTIONAL_INT32_SCHEMA).build()
    with pytest.raises(DataError, match="Mismatching schema"):
        configured().from_connect_data("t", one, Struct(other))


def test_lone_surrogates_are_escaped_in_upper_case() -> None:
    assert (
        configured(schemas_enable="false").from_connect_data("t", Schema.STRING_SCHEMA, "lone\ud800x")
        == b'"lone\\uD800x"'
    )


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"123456789012345678901234567890", 123456789012345678901234567890),  # the low 64 bits, as BigInteger.longValue
        (b'{"a":1} trailing', {"a": 1}),
        (b'{"a":1}x', {"a": 1}),
        (b'"a""b"', "a"),
        (b"1 x", 1),
        (b"1\n{", 1),
        (b"true,", True),
        (b"false]", False),
        (b"null}", None),
        (b"true:1", True),
        (b"[01, 1.50]", [1, 1.5]),
        (b'\xef\xbb\xbf"bom"', "bom"),
        ('{"a":"ü"}'.encode("utf-16-le"), {"a": "ü"}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"  ", None),
        (b"1e400", float("inf")),
    ],
)
def test_reading_is_as_lenient_as_jackson(raw: bytes, value: Any) -> None:
    assert configured(schemas_enable="false").to_connect_data("t", raw).value == value


@pytest.mark.parametrize(
    "raw", [b"1,", b"1]", b"1.5x", b"-7..8", b'2"a"', b"truex", b"null1", b"false_", "true\u20ac".encode()]
)
def test_what_stands_right_behind_a_number_or_a_word_is_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"Converting byte\[\] to Kafka Connect data failed due to serialization error"):
        configured(schemas_enable="false").to_connect_data("t", raw)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('{"type":"int32"}', 0),
        ('{"type":"double"}', 0.0),
        ('{"type":"boolean"}', False),
        ('{"type":"string"}', None),
        ('{"type":"bytes","optional":true}', None),
        ('{"type":"array","items":{"type":"string"}}', []),
    ],
)
@pytest.mark.parametrize("raw", [b"", b"  "])
def test_an_empty_text_is_no_null_when_the_schema_is_fixed(raw: bytes, schema: str, value: Any) -> None:
    made = JsonConverter()
    made.configure({"schemas.enable": "true", "schema.content": schema}, is_key=False)
    assert made.to_connect_data("t", raw).value == value


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ('{"type":"struct","fields":[],"optional":true}', "Structs should be encoded as JSON objects"),
        ('{"type":"map","keys":{"type":"string"},"values":{"type":"string"}}', "Maps with string fields should be"),
        ('{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"}', "Invalid type for Timestamp"),
    ],
)
def test_an_empty_text_is_no_object_and_no_date(schema: str, found: str) -> None:
    made = JsonConverter()
    made.configure({"schemas.enable": "true", "schema.content": schema}, is_key=False)
    with pytest.raises(DataError, match=f"{found}.*MISSING"):
        made.to_connect_data("t", b"")


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("raw", [b"7e99999999", b"-1.5e999999999", b"1e64", b"3e-999999999"])
def test_a_number_of_millions_of_digits_is_read_at_once(kind: str, raw: bytes) -> None:
    made = JsonConverter()
    made.configure({"schemas.enable": "true", "schema.content": f'{{"type":"{kind}"}}'}, is_key=False)
    assert made.to_connect_data("t", raw).value == 0


@pytest.mark.parametrize(
    "raw", [b"1e99999999999", b"9e5223372036854775807", b"1" * 1001, b"0." + b"1" * 999, b"1.5e2147483700"]
)
def test_numbers_beyond_what_java_can_hold_are_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"Converting byte\[\] to Kafka Connect data failed due to serialization error"):
        configured(schemas_enable="false").to_connect_data("t", raw)


def test_names_with_half_a_surrogate_pair_are_refused_as_by_jackson() -> None:
    for raw in (b'{"\\ud83dx":1}', b'[{"a":{"\\uDC00":1}}]'):
        with pytest.raises(DataError, match=r"Converting byte\[\] to Kafka Connect data failed"):
            configured(schemas_enable="false").to_connect_data("t", raw)
    read = configured(schemas_enable="false").to_connect_data("t", b'{"\\ud83d\\ude00":"\\ud83dx"}').value
    assert read == {"\U0001f600": "\ud83dx"}


@pytest.mark.parametrize("text", ["Lohv81fiXgBk=", "AAAA==", "AAA", "A===", "AA=A"])
def test_base64_of_a_wrong_length_is_refused(text: str) -> None:
    made = JsonConverter()
    made.configure({"schemas.enable": "true", "schema.content": '{"type":"bytes"}'}, is_key=False)
    with pytest.raises(DataError, match="Invalid bytes field"):
        made.to_connect_data("t", f'"{text}"'.encode())


@pytest.mark.parametrize("raw", [b"{a:1}", b"[1,]", b"NaN", b'"\xff"', b'"a\nb"', b"{'a':1}", b'{"a":', b"[" * 100_000])
def test_what_jackson_refuses_is_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"Converting byte\[\] to Kafka Connect data failed due to serialization error"):
        configured(schemas_enable="false").to_connect_data("t", raw)


@pytest.mark.parametrize(
    ("schema", "bits"),
    [(Schema.INT8_SCHEMA, 8), (Schema.INT16_SCHEMA, 16), (Schema.INT32_SCHEMA, 32), (Schema.INT64_SCHEMA, 64)],
)
def test_whole_numbers_fill_the_range_of_their_schema_and_no_more(schema: Schema, bits: int) -> None:
    made = JsonConverter()
    made.configure({"schemas.enable": "false"}, is_key=False)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    assert [made.from_connect_data("t", schema, value) for value in (low, high)] == [b"%d" % low, b"%d" % high]
    for value in (low - 1, high + 1):
        with pytest.raises(DataError, match=rf"does not fit in {bits}$"):
            made.from_connect_data("t", schema, value)


def test_a_whole_number_with_an_exponent_keeps_all_its_digits() -> None:
    text = b'{"schema":{"type":"int64","optional":true},"payload":-6181659010448263e5}'
    assert configured().to_connect_data("topic", text).value == 9023397461298454944  # the low 64 bits, as in Java


def test_a_scale_with_a_space_is_refused_as_by_java() -> None:
    schema = '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"5 "}}'
    with pytest.raises(DataError, match="Invalid bytes for Decimal field"):
        configured().to_connect_data("topic", f'{{"schema":{schema},"payload":"/38="}}'.encode())


def test_json_that_is_nested_too_deeply_is_said_so_both_ways() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    for depth in (1_100, 100_000):
        with pytest.raises(DataError) as caught:
            converter.to_connect_data("t", b'{"a":' * depth + b"1" + b"}" * depth)
        assert isinstance(caught.value.__cause__, RecursionError) or "nested too deeply" in str(caught.value)
    for depth in (600, 1_100, 100_000):
        deep: object = 1
        for _ in range(depth):
            deep = {"a": deep}
        with pytest.raises(DataError, match="nested too deeply"):
            converter.from_connect_data("t", None, deep)
