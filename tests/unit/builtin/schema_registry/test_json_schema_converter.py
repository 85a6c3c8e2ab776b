"""JsonSchemaConverter: wire format, subjects, types, registration, what comes back."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    Schema,
    SchemaAndValue,
    SchemaBuilder,
    Struct,
    Time,
    Timestamp,
    Type,
)
from kit.json_schema_records import (
    ENUM,
    ORDER,
    ORDER_TEXT,
    UNION,
    converter,
    found,
    order,
    plain,
    read,
    record,
    registered,
    written,
)
from kit.memory_registry import MemoryRegistry


def test_a_record_is_magic_byte_id_and_json(registry: MemoryRegistry) -> None:
    data = written(converter(registry), ORDER, order(7, "\u00e4"))

    assert data == b'\x00\x00\x00\x00\x01{"id":7,"note":"\xc3\xa4"}'
    assert registry.subjects == {"t-value": [1]}
    assert registry.schemas[1] == {"schema": ORDER_TEXT, "schemaType": "JSON"}


def test_it_comes_back_with_the_same_schema_and_the_registrys_version(registry: MemoryRegistry) -> None:
    made = converter(registry)
    schema, value = read(made, written(made, ORDER, order(7)))

    assert [(field.name, field.schema) for field in schema.fields] == [
        (field.name, field.schema) for field in ORDER.fields
    ]
    assert (schema.name, schema.version, plain(value)) == (ORDER.name, 1, {"id": 7, "note": None})


def test_the_registry_is_asked_once_for_each_schema_and_id(registry: MemoryRegistry) -> None:
    writing, reading = converter(registry), converter(registry)
    data = [written(writing, ORDER, order(number)) for number in range(50)]
    values = [read(reading, each).value["id"] for each in data]

    assert len(registry.asked) == 3  # register; the schema of the id, its version
    assert values == list(range(50))


def test_null_has_no_bytes_or_is_json_as_in_java(registry: MemoryRegistry) -> None:
    made = converter(registry)

    assert made.from_connect_data("t", None, None) is None
    assert made.from_connect_data("t", ORDER, None) is None
    assert read(made, None) == SchemaAndValue.NULL
    data = written(made, Schema.OPTIONAL_BOOLEAN_SCHEMA, None)
    assert data[5:] == b"null"
    schema, value = read(made, data)
    assert (schema.type, schema.is_optional, value) == (Type.BOOLEAN, True, None)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "t-key"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "com.example.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "t-com.example.Order"),
    ],
)
def test_the_strategy_names_the_subject(registry: MemoryRegistry, strategy: str, subject: str) -> None:
    made = converter(registry, True, key_subject_name_strategy=strategy)
    data = written(made, ORDER, order(1))

    assert list(registry.subjects) == [subject]
    assert read(made, data).schema.version == 1


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema.INT8_SCHEMA, '{"type":"integer","connect.type":"int8"}'),
        (Schema.FLOAT32_SCHEMA, '{"type":"number","connect.type":"float32"}'),
        (Schema.BOOLEAN_SCHEMA, '{"type":"boolean"}'),
        (Schema.BYTES_SCHEMA, '{"type":"string","connect.type":"bytes"}'),
        (
            SchemaBuilder.string().doc("d").default("x").name("N").version(3).build(),
            '{"type":"string","title":"N","description":"d","default":"x","connect.version":3}',
        ),
        (
            Decimal.schema(2),
            '{"type":"string","title":"org.apache.kafka.connect.data.Decimal","connect.version":1,"connect.type":"bytes",'
            '"connect.parameters":{"scale":"2"}}',
        ),
        (
            SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).build(),
            '{"type":"object","connect.type":"map","additionalProperties":{"type":"integer","connect.type":"int32"}}',
        ),
        (
            SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).build(),
            '{"type":"array","connect.type":"map","items":{"type":"object","properties":{"value":{"type":"string",'
            '"connect.index":1},"key":{"type":"integer","connect.index":0,"connect.type":"int32"}}}}',
        ),
        (
            SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build(),
            '{"oneOf":[{"type":"null"},{"type":"array","items":{"oneOf":[{"type":"null"},{"type":"string"}]}}]}',
        ),
        (
            SchemaBuilder.string()
            .parameter(ENUM, "")
            .parameter(f"{ENUM}.a", "a")
            .parameter(f"{ENUM}.<NULL>", "<NULL>")
            .build(),
            '{"enum":["a",null]}',
        ),
    ],
)
def test_each_schema_has_the_text_of_confluents_converter_and_comes_back(
    registry: MemoryRegistry, schema: Schema, text: str
) -> None:
    made = converter(registry)
    wrapper = SchemaBuilder.struct().field("f", schema).build()
    written(made, wrapper, Struct(wrapper))
    inside = json.loads(registry.schemas[1]["schema"])["properties"]["f"]
    del inside["connect.index"]

    assert inside == json.loads(text)
    assert [key for key in inside if key in json.loads(text)] == list(json.loads(text))
    assert read(made, record(1, {})).schema.field("f").schema == schema


def test_additional_properties_can_be_forbidden(registry: MemoryRegistry) -> None:
    written(converter(registry, object_additional_properties="false"), ORDER, order(1))

    assert registry.schemas[1]["schema"].startswith('{"type":"object","additionalProperties":false,"title":')


@pytest.mark.parametrize(("setting", "text"), [("BASE64", '"bg=="'), ("numeric", "1.10")])
def test_decimals_are_base64_or_numbers(registry: MemoryRegistry, setting: str, text: str) -> None:
    made = converter(registry, decimal_format=setting)
    data = written(made, Decimal.schema(2), decimal.Decimal("1.10"))

    assert data[5:].decode() == text
    assert read(made, data).value == decimal.Decimal("1.10")


@pytest.mark.parametrize(("value", "member"), [(5, 0), ("x", 1), ({"a": True}, 2)])
@pytest.mark.parametrize("general", ["false", "true"])
def test_a_union_is_a_struct_with_the_one_member_set(
    registry: MemoryRegistry, value: Any, member: int, general: str
) -> None:
    made = converter(registry, generalized_sum_type_support=general)
    schema, struct = read(made, record(registered(registry, UNION), value))
    prefix = "connect_union_field_" if general == "true" else "io.confluent.connect.json.OneOf.field."

    assert plain(struct) == {f"{prefix}{index}": value if index == member else None for index in range(3)}
    assert json.loads(written(made, schema, struct)[5:]) == value


@pytest.mark.parametrize(
    ("schema", "type_", "optional"),
    [
        ({"type": "integer"}, Type.INT64, False),
        ({"type": "number"}, Type.FLOAT64, False),
        ({"type": ["null", "string"]}, Type.STRING, True),
        ({"type": ["string"]}, Type.STRING, False),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, Type.BOOLEAN, True),
        ({"allOf": [{"type": "string"}]}, Type.STRING, False),
        ({"type": "string", "enum": ["a", "b"]}, Type.STRING, False),
        ({"type": "integer", "enum": [1, 2]}, Type.INT64, False),
        ({"type": "string", "const": "a"}, Type.STRING, False),
        ({"type": "string", "format": "date"}, Type.STRING, False),
        ({"minLength": 3}, Type.STRING, False),
        ({"minimum": 3}, Type.FLOAT64, False),
        ({"items": {"type": "string"}}, Type.ARRAY, False),
        ({"properties": {"a": {"type": "string"}}}, Type.STRUCT, False),
        ({"$ref": "#/definitions/D", "definitions": {"D": {"type": "boolean"}}}, Type.BOOLEAN, False),
        ({"allOf": [{"properties": {"a": {"type": "string"}}}, {"$ref": "#/$defs/D"}],
          "$defs": {"D": {"properties": {"b": {"type": "integer"}}}}}, Type.STRUCT, False),
    ],
)  # fmt: skip
def test_schemas_that_others_write(registry: MemoryRegistry, schema: Any, type_: Type, optional: bool) -> None:
    whole = {"type": "object", "properties": {"f": schema}, **{key: schema[key] for key in schema if "def" in key}}
    field = found(registry, whole, {}).schema.field("f").schema

    assert (field.type, field.is_optional) == (type_, optional)


def test_an_enum_of_text_keeps_its_symbols(registry: MemoryRegistry) -> None:
    schema = found(registry, {"type": "string", "enum": ["a", "b"]}, "a").schema
    general = found(registry, {"enum": ["a", "b"]}, "a", generalized_sum_type_support="true").schema

    assert schema.parameters == {ENUM: "", f"{ENUM}.a": "a", f"{ENUM}.b": "b"}
    name = "org.apache.kafka.connect.data.Enum"
    assert general.parameters == {name: "", f"{name}.a": "0", f"{name}.b": "1"}


@pytest.mark.parametrize(("value", "text"), [("a", "a"), (2, "2"), (0.5, "0.5"), (True, "true")])
def test_an_enum_without_a_type_has_the_text_of_each_value(registry: MemoryRegistry, value: Any, text: str) -> None:
    schema, made = found(registry, {"enum": ["a", 2, 0.5, True, None]}, value)

    assert made == text
    assert f"io.confluent.connect.json.Enum.{text}" in (schema.parameters or {})


@pytest.mark.parametrize("more", [{}, {"title": "Labels", "type": "object"}])
def test_an_object_with_names_of_the_writers_own_is_a_map(registry: MemoryRegistry, more: dict[str, str]) -> None:
    labels = {"type": "object", "additionalProperties": {"type": "string"}, **more}
    schema, value = found(registry, {"type": "object", "properties": {"labels": labels}}, {"labels": {"k": "v"}})

    assert str(schema.field("labels").schema.type) == "MAP"
    assert value["labels"] == {"k": "v"}


def test_it_is_said_that_members_without_names_are_left_out(
    registry: MemoryRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    for free in ({"type": "object"}, {"type": "object", "additionalProperties": True, "title": "Free"}):
        assert found(registry, free, {"k": 1}).value.schema.fields == ()
    found(registry, {"type": "object", "additionalProperties": False}, {})

    assert caplog.messages == [
        'The JSON Schema {"type": "object"} names no property: what such objects have is left out',
        "The JSON Schema Free names no property: what such objects have is left out",
    ]


def test_a_member_that_the_schema_does_not_name_is_left_out_and_said_once(
    registry: MemoryRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    inner = {"type": "object", "title": "Inner", "properties": {"x": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "each": {"type": "array", "items": inner}}}
    made = converter(registry)
    number = registry.add("t-value", json.dumps(schema), schemaType="JSON")
    for value in ({"a": 1}, {"b": 2, "c": 3, "each": [{"x": 1}, {"y": 1}]}, {"d": 4, "each": [{"z": 1}]}):
        made.to_connect_data("t", b"\0" + number.to_bytes(4, "big") + json.dumps(value).encode())

    assert caplog.messages == [
        "The JSON Schema does not name b, c: such members are left out",
        "The JSON Schema Inner does not name y: such members are left out",
    ]


def test_properties_that_are_not_required_can_be_optional(registry: MemoryRegistry) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}

    def optional(**settings: str) -> list[bool]:
        return [field.schema.is_optional for field in found(registry, schema, {"b": "x"}, **settings).schema.fields]

    assert optional() == [False, False]
    assert optional(use_optional_for_nonrequired="true") == [True, False]


def test_references_are_looked_up_by_name(registry: MemoryRegistry) -> None:
    line = {"type": "object", "title": "Line", "properties": {"n": {"type": "integer"}, "unit": {"$ref": "unit.json"}}}
    registry.add("unit", json.dumps({"type": "string"}), schemaType="JSON")
    registry.add(
        "line", json.dumps(line), schemaType="JSON",
        references=[{"name": "unit.json", "subject": "unit", "version": 1}],
    )  # fmt: skip
    whole = {
        "$id": "http://example.com/order.json", "type": "object",
        "properties": {"lines": {"type": "array", "items": {"$ref": "line.json"}}},
    }  # fmt: skip
    number = registered(registry, whole, references=[{"name": "line.json", "subject": "line", "version": 1}])
    made = converter(registry, json_fail_invalid_schema="true")

    assert plain(read(made, record(number, {"lines": [{"n": 1, "unit": "kg"}]})).value) == {
        "lines": [{"n": 1, "unit": "kg"}]
    }
    with pytest.raises(DataError, match=r"Validation error in JSON at \$.lines\[0\].unit: 5 is not of type 'string'"):
        read(made, record(number, {"lines": [{"n": 1, "unit": 5}]}))


def test_defaults_stand_for_null_and_for_what_is_missing(registry: MemoryRegistry) -> None:
    schema = SchemaBuilder.struct().field("f", SchemaBuilder.float32().optional().default(12.5).build()).build()
    made = converter(registry)
    data = written(made, schema, Struct(schema))

    assert data[5:] == b'{"f":12.5}'
    assert read(made, data[:5] + b"{}").value["f"] == 12.5
    own = converter(registry, ignore_default_for_nullables="true")
    assert written(own, schema, Struct(schema))[5:] == b'{"f":null}'


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["integer", "null"], "default": 7, "title": "T", "description": "d", "connect.type": "int32"},
        {"type": "integer", "enum": [1, None], "default": 7, "title": "T", "description": "d", "connect.type": "int32"},
    ],
)
def test_a_default_beside_several_kinds_is_of_the_whole_and_replaces_no_null(
    registry: MemoryRegistry, schema: Any
) -> None:
    whole = {"type": "object", "properties": {"f": schema}}
    settings = {"use_optional_for_nonrequired": "true"}

    assert found(registry, whole, {"f": None}, **settings).value["f"] is None
    assert found(registry, whole, {}, **settings).schema.field("f").schema == Schema.OPTIONAL_INT64_SCHEMA


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1.50", "1.5"),
        ("12345678901234567890.12", "12345678901234567890.12"),
        ("0.00001", "0.00001"),
        ("1.28E+3", "1.28E+3"),
        ("0.00", "0"),
    ],
)
def test_a_default_that_is_a_decimal_keeps_its_digits_and_its_scale(
    registry: MemoryRegistry, value: str, text: str
) -> None:
    number = decimal.Decimal(value)
    kind = Decimal.builder(Decimal.scale_of(number)).default(number).build()
    schema = SchemaBuilder.struct().field("f", kind).build()
    made = converter(registry, decimal_format="NUMERIC")

    data = written(made, schema, Struct(schema, {"f": number}))
    assert f'"default":{text},' in registry.schemas[1]["schema"]
    assert read(made, data).schema.field("f").schema == kind
    assert str(read(made, data).value["f"]) == value


def test_a_whole_number_may_have_a_point(registry: MemoryRegistry) -> None:
    assert found(registry, {"type": "integer"}, 3.0).value == 3


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_text_as_jackson_writes_it(registry: MemoryRegistry, text: str) -> None:
    made = converter(registry)
    data = written(made, Schema.FLOAT64_SCHEMA, float(text))

    assert data[5:].decode() == f'"{text}"'
    assert repr(read(made, data).value) == repr(float(text))


def test_a_schema_that_changes_in_mid_stream_is_registered_and_read_as_it_is(registry: MemoryRegistry) -> None:
    wider = SchemaBuilder.struct().name("com.example.Order").field("id", Schema.INT64_SCHEMA)
    built = wider.field("more", Schema.OPTIONAL_INT32_SCHEMA).build()
    made = converter(registry)
    data = [
        written(made, ORDER, order(1)),
        written(made, built, Struct(built, {"id": 2})),
        written(made, ORDER, order(4)),
    ]

    read_back = [read(made, each) for each in data]
    assert [each.schema.version for each in read_back] == [1, 2, 1]
    assert [each.value["id"] for each in read_back] == [1, 2, 4]


_MILLIS = st.integers(-(1 << 40), 1 << 41)
_SCALARS = st.one_of(
    st.tuples(st.just(Schema.INT8_SCHEMA), st.integers(-128, 127)),
    st.tuples(st.just(Schema.OPTIONAL_INT64_SCHEMA), st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
    st.tuples(st.just(Schema.FLOAT32_SCHEMA), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    st.tuples(st.just(Schema.FLOAT64_SCHEMA), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just(Schema.OPTIONAL_BOOLEAN_SCHEMA), st.none() | st.booleans()),
    st.tuples(st.just(Schema.STRING_SCHEMA), st.text()),
    st.tuples(st.just(Schema.BYTES_SCHEMA), st.binary()),
    st.tuples(st.just(Date.SCHEMA), st.dates()),
    st.tuples(
        st.just(Time.SCHEMA), st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
    ),
    st.tuples(
        st.just(Timestamp.SCHEMA),
        _MILLIS.map(
            lambda ms: datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=ms)
        ),
    ),
    st.tuples(st.just(Decimal.schema(3)), st.decimals(places=3, allow_nan=False, allow_infinity=False)),
)


def _struct(columns: list[tuple[Schema, Any]]) -> tuple[Schema, Any]:
    builder = SchemaBuilder.struct().name("a.S")
    for number, (schema, _) in enumerate(columns):
        builder.field(f"f{number}", schema)
    built = builder.build()
    return built, Struct(built, {f"f{number}": value for number, (_, value) in enumerate(columns)})


def _array(parts: tuple[Schema, Any]) -> tuple[Schema, Any]:
    return SchemaBuilder.array(parts[0]).optional().build(), [parts[1]] * 2


def _map(parts: tuple[Schema, Any]) -> tuple[Schema, Any]:
    return SchemaBuilder.map(Schema.STRING_SCHEMA, parts[0]).build(), {"k": parts[1], "": parts[1]}


def _numbered(parts: tuple[Schema, Any]) -> tuple[Schema, Any]:
    return SchemaBuilder.map(Schema.INT32_SCHEMA, parts[0]).build(), {5: parts[1]}


_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(_struct), inner.map(_array), inner.map(_map), inner.map(_numbered)
    ),
    max_leaves=6,
)


@given(st.lists(_VALUES, max_size=4).map(_struct), st.sampled_from(["BASE64", "NUMERIC"]))
def test_any_struct_comes_back_with_its_schema(parts: tuple[Schema, Struct], decimals: str) -> None:
    made = converter(MemoryRegistry(), decimal_format=decimals, json_fail_invalid_schema="true")
    data = written(made, *parts)
    schema, value = read(made, data)

    assert schema.fields == parts[0].fields
    assert plain(value) == plain(parts[1])
    assert written(made, schema, value)[5:] == data[5:]
