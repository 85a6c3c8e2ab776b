"""Connect's schemas and values to Avro's and back, as Confluent's AvroData does it."""

from __future__ import annotations

import datetime
import decimal
import json

import pyarrow as pa
import pytest

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilder, Struct, Time, Timestamp
from kconnect.api.columns import values_of
from kconnect.builtin.schema_registry.avro.avro_codec import AvroCodec
from kconnect.builtin.schema_registry.avro.avro_names import AvroOptions
from kconnect.builtin.schema_registry.avro.avro_schema import avro_text, parse_avro
from kconnect.builtin.schema_registry.avro.avro_values import reader_of, writer_of
from kconnect.builtin.schema_registry.avro.columns_from_avro import ColumnReader
from kconnect.builtin.schema_registry.avro.schema_from_avro import connect_of
from kconnect.builtin.schema_registry.avro.schema_to_avro import avro_of

PLAIN = AvroOptions()


def text_of(schema: Schema, options: AvroOptions = PLAIN) -> str:
    return avro_text(avro_of(schema, options))


def there_and_back(schema: Schema, value: object, options: AvroOptions = PLAIN) -> tuple[Schema, object]:
    avro = parse_avro(text_of(schema, options))
    codec = AvroCodec(avro)
    data = codec.encode(writer_of(schema, avro, options)(value))
    found = connect_of(avro, None, options)
    return found, reader_of(found, avro)(codec.decode(data))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema.BOOLEAN_SCHEMA, '"boolean"'),
        (Schema.INT8_SCHEMA, '{"type":"int","connect.type":"int8"}'),
        (Schema.INT16_SCHEMA, '{"type":"int","connect.type":"int16"}'),
        (Schema.INT32_SCHEMA, '"int"'),
        (Schema.INT64_SCHEMA, '"long"'),
        (Schema.FLOAT32_SCHEMA, '"float"'),
        (Schema.FLOAT64_SCHEMA, '"double"'),
        (Schema.STRING_SCHEMA, '"string"'),
        (Schema.BYTES_SCHEMA, '"bytes"'),
        (Schema.OPTIONAL_STRING_SCHEMA, '["null","string"]'),
        (
            Date.SCHEMA,
            '{"type":"int","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Date","logicalType":"date"}',
        ),
        (
            Decimal.schema(2),
            '{"type":"bytes","scale":2,"precision":64,"connect.version":1,"connect.parameters":{"scale":"2"},'
            '"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}',
        ),
        (SchemaBuilder.array(Schema.INT32_SCHEMA).build(), '{"type":"array","items":"int"}'),
        (SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).build(), '{"type":"map","values":"int"}'),
        (
            SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).build(),
            '{"type":"array","items":{"type":"record","name":"MapEntry","namespace":"io.confluent.connect.avro",'
            '"fields":[{"name":"key","type":"int"},{"name":"value","type":"string"}]}}',
        ),
        (
            SchemaBuilder.struct().field("a", Schema.INT32_SCHEMA).build(),
            '{"type":"record","name":"ConnectDefault","namespace":"io.confluent.connect.avro",'
            '"fields":[{"name":"a","type":"int"}]}',
        ),
        (
            SchemaBuilder.struct().name("a.b.C").version(3).doc("d").field(
                "x", SchemaBuilder.int32().optional().default(7)
            ).field("y", Schema.OPTIONAL_STRING_SCHEMA).build(),
            '{"type":"record","name":"C","namespace":"a.b","fields":[{"name":"x","type":[{"type":"int",'
            '"connect.default":7},"null"],"default":7},{"name":"y","type":["null","string"],"default":null}],'
            '"connect.doc":"d","connect.version":3,"connect.name":"a.b.C"}',
        ),
    ],
)  # fmt: skip
def test_a_connect_schema_has_the_avro_text_of_java(schema: Schema, text: str) -> None:
    assert text_of(schema) == text


_INNER = SchemaBuilder.struct().name("in").field("n", Schema.INT64_SCHEMA).build()
_OPTIONAL_INNER = SchemaBuilder.struct().name("in").field("n", Schema.INT64_SCHEMA).optional().build()
_OUTER = (
    SchemaBuilder.struct()
    .name("com.example.Outer")
    .field("one", _INNER)
    .field("two", _OPTIONAL_INNER)
    .field("three", SchemaBuilder.array(_INNER))
    .build()
)
_NOW = datetime.datetime(2026, 11, 23, 4, 5, 6, 789000, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema.INT8_SCHEMA, -128),
        (Schema.OPTIONAL_INT16_SCHEMA, None),
        (Schema.INT64_SCHEMA, -(1 << 63)),
        (Schema.FLOAT32_SCHEMA, 1.5),
        (Schema.STRING_SCHEMA, "ünï😀"),
        (Schema.BYTES_SCHEMA, b"\x00\xff"),
        (Date.SCHEMA, datetime.date(2026, 11, 23)),
        (Time.SCHEMA, datetime.time(1, 2, 3, 4000)),
        (Timestamp.SCHEMA, _NOW),
        (Decimal.schema(2), decimal.Decimal("-12345678901234567890.12")),
        (SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).build(), ["a", None]),
        (SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_INT32_SCHEMA).build(), {"a": 1, "b": None}),
        (SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).build(), {1: "a", 2: "b"}),
        (SchemaBuilder.map(Schema.OPTIONAL_STRING_SCHEMA, Schema.STRING_SCHEMA).optional().build(), {"k": "v"}),
        (_OUTER, Struct(_OUTER, {"one": Struct(_INNER, {"n": 1}), "two": None, "three": [Struct(_INNER, {"n": 2})]})),
        (
            _OUTER,
            Struct(_OUTER, {"one": Struct(_INNER, {"n": 1}), "two": Struct(_OPTIONAL_INNER, {"n": 5}), "three": []}),
        ),
    ],
)
def test_schema_and_value_come_back_as_they_went(schema: Schema, value: object) -> None:
    found, again = there_and_back(schema, value)

    assert found == schema
    assert again == value


def test_a_union_of_several_is_a_struct_that_tells_the_branch() -> None:
    avro = parse_avro(
        '["null","int","long","string",{"type":"record","name":"a.R","fields":[{"name":"f","type":"double"}]},'
        '{"type":"enum","name":"a.E","symbols":["X","Y"]},{"type":"fixed","name":"a.F","size":2}]'
    )
    schema = connect_of(avro, None, PLAIN)
    codec, write, read = AvroCodec(avro), writer_of(schema, avro, PLAIN), reader_of(schema, avro)

    assert schema.name == "io.confluent.connect.avro.Union"
    assert [field.name for field in schema.fields] == ["int", "long", "string", "R", "E", "F"]
    record = schema.fields[3].schema
    for name, value in {
        "int": 7, "long": 7, "string": "s", "R": Struct(record, {"f": 0.5}), "E": "Y", "F": b"ab",
    }.items():  # fmt: skip
        struct = Struct(schema, {name: value})
        assert read(codec.decode(codec.encode(write(struct)))) == struct
    assert read(codec.decode(codec.encode(write(None)))) is None


def test_enums_survive_with_enhanced_support_and_are_strings_without() -> None:
    enhanced = AvroOptions(enhanced=True)
    avro = parse_avro('{"type":"enum","name":"E","namespace":"a.b","symbols":["X","Y"],"default":"X"}')

    schema = connect_of(avro, None, enhanced)

    assert dict(schema.parameters or {}) == {
        "io.confluent.connect.avro.enum.default.E": "X",
        "io.confluent.connect.avro.Enum": "a.b.E",
        "io.confluent.connect.avro.Enum.X": "X",
        "io.confluent.connect.avro.Enum.Y": "Y",
    }
    again = json.loads(text_of(schema, enhanced))
    assert (again["type"], again["symbols"], again["default"]) == ("enum", ["X", "Y"], "X")
    assert json.loads(text_of(schema))["type"] == "string"


def test_generalized_unions_and_enums_have_their_own_names() -> None:
    options = AvroOptions(generalized=True)
    schema = connect_of(parse_avro('["int","string",{"type":"enum","name":"E","symbols":["X"]}]'), None, options)

    assert [field.name for field in schema.fields] == [f"connect_union_field_{index}" for index in range(3)]
    assert (schema.fields[2].schema.parameters or {})["org.apache.kafka.connect.data.Enum.X"] == "0"
    assert json.loads(text_of(schema, options))[:2] == ["int", "string"]


def test_the_registrys_version_counts_only_where_the_schema_has_none() -> None:
    record = '{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]%s}'

    assert connect_of(parse_avro(record % ""), 4, PLAIN).version == 4
    assert connect_of(parse_avro(record % ',"connect.version":2'), 4, PLAIN).version == 2


def test_defaults_docs_and_parameters_come_from_avro() -> None:
    avro = parse_avro(
        '{"type":"record","name":"R","doc":"rd","fields":[{"name":"f","type":"int","default":3,"doc":"fd"},'
        '{"name":"b","type":"bytes","default":"\\u00ff"},{"name":"l","type":{"type":"array","items":"string"},'
        '"default":["x"]},{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2},'
        '"default":"\\u0001"}]}'
    )

    schema = connect_of(avro, None, PLAIN)

    assert (schema.parameters or {})["io.confluent.connect.avro.record.doc"] == "rd"
    assert (schema.parameters or {})["io.confluent.connect.avro.field.doc.f"] == "fd"
    defaults = [field.schema.default for field in schema.fields]
    assert defaults == [3, b"\xff", ["x"], decimal.Decimal("0.01")]
    again = json.loads(text_of(schema))
    assert [field.get("default") for field in again["fields"]] == [3, "\xff", ["x"], "\x01"]
    assert [field.get("doc") for field in again["fields"]] == ["fd", None, None, None]


def test_names_are_scrubbed_on_request_and_refused_otherwise() -> None:
    schema = SchemaBuilder.struct().name("a-b.1c").field("x y", Schema.INT32_SCHEMA).build()
    scrubbed = json.loads(text_of(schema, AvroOptions(scrub=True)))

    assert (scrubbed["namespace"], scrubbed["name"], scrubbed["fields"][0]["name"]) == ("a_b", "x1c", "x_y")
    with pytest.raises(DataError, match="is not a valid Avro name"):
        AvroCodec(avro_of(schema, PLAIN))


def test_names_have_letters_of_any_language_as_in_java() -> None:
    schema = SchemaBuilder.struct().name("com.größen.Maß_1").field("größe", Schema.INT32_SCHEMA).build()

    assert there_and_back(schema, Struct(schema, {"größe": 7})) == (schema, Struct(schema, {"größe": 7}))
    for wrong in ("1a", "a.b", "a€", "\U00020000"):
        with pytest.raises(DataError, match="is not a valid Avro name"):
            AvroCodec(avro_of(SchemaBuilder.struct().name("R").field(wrong, Schema.INT32_SCHEMA).build(), PLAIN))


def test_a_default_of_single_precision_has_the_digits_that_it_needs() -> None:
    schema = SchemaBuilder.struct().name("R").field("f", SchemaBuilder.float32().default(0.10000000149011612)).build()

    assert '"connect.default":0.1},"default":0.1}' in text_of(schema)


def test_a_union_of_one_schema_is_a_struct_if_it_is_not_flattened() -> None:
    avro = parse_avro('{"type":"record","name":"R","fields":[{"name":"a","type":["int"],"default":-3}]}')
    schema = connect_of(avro, None, AvroOptions(flatten_singleton_unions=False))
    member = schema.field("a").schema

    value = reader_of(schema, avro)(AvroCodec(avro).decode(b"\x00\x0e"))
    columns = ColumnReader(schema, avro).read(pa.array([b"\x00\x00\x00\x00\x01\x00\x0e"], pa.binary()))

    assert (value, values_of(schema, columns, 1)) == (Struct(schema, {"a": Struct(member, {"int": 7})}), [value])
    assert member.default["int"] == -3


def test_generalized_unions_of_a_schema_are_numbered_alike_each_time() -> None:
    avro = parse_avro('{"type":"record","name":"R","fields":[{"name":"a","type":["int","string"]}]}')
    options = AvroOptions(generalized=True)

    assert connect_of(avro, None, options) == connect_of(avro, None, options)
    assert connect_of(avro, None, options).field("a").schema.name == "connect_union_0"


def test_without_meta_data_only_avros_own_things_are_written() -> None:
    schema = SchemaBuilder.struct().name("R").version(2).doc("d").field("f", Schema.INT8_SCHEMA).build()

    assert text_of(schema, AvroOptions(meta_data=False)) == (
        '{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]}'
    )


def test_a_schema_that_refers_to_itself_is_refused() -> None:
    avro = parse_avro('{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}')

    with pytest.raises(DataError, match="The Avro schema Node refers to itself"):
        connect_of(avro, None, PLAIN)


def test_a_decimal_fills_a_fixed_with_its_sign() -> None:
    avro = parse_avro('{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":9,"scale":1}')
    schema = connect_of(avro, None, PLAIN)
    codec, write, read = AvroCodec(avro), writer_of(schema, avro, PLAIN), reader_of(schema, avro)

    for text in ("0.0", "-0.1", "123456.7", "-214748364.8"):
        assert read(codec.decode(codec.encode(write(decimal.Decimal(text))))) == decimal.Decimal(text)
    with pytest.raises(DataError, match="do not fit"):
        write(decimal.Decimal("2147483648.0"))


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        (Schema.INT32_SCHEMA, None, "Found null value for non-optional schema"),
        (Schema.INT32_SCHEMA, "x", "Invalid Python object"),
        (Schema.INT32_SCHEMA, 1 << 31, "does not fit in 32 bits"),
        (_INNER, Struct(SchemaBuilder.struct().field("m", Schema.INT8_SCHEMA).build()), "Mismatching struct schema"),
        (_INNER, Struct(_INNER), "Field n: Found null value"),
    ],
)
def test_a_value_that_does_not_fit_is_a_data_error(schema: Schema, value: object, says: str) -> None:
    with pytest.raises(DataError, match=says):
        writer_of(schema, avro_of(schema, PLAIN), PLAIN)(value)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"type":"record","name":"R"}', '"nosuch"', '{"type":"enum","name":"E"}', "[1]", '{"type":5}']
)
def test_text_that_is_no_schema_is_a_data_error(text: str) -> None:
    with pytest.raises(DataError):
        parse_avro(text)


def test_structs_of_one_name_within_each_other_are_refused() -> None:
    """One has the other in it, so that to compare them does not end by itself."""
    inner = SchemaBuilder.struct().name("N").field("a", Schema.INT8_SCHEMA).build()
    middle = SchemaBuilder.struct().name("N").field("list", SchemaBuilder.array(inner).build()).build()

    with pytest.raises(DataError, match="Two different Connect schemas would both be the Avro type N"):
        text_of(SchemaBuilder.struct().name("N").field("n", middle).build())
