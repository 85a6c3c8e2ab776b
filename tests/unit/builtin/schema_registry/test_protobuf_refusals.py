"""ProtobufConverter: each thing that can be wrong, in bytes, schemas, values, settings."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from kconnect.api import (
    ConfigError,
    DataError,
    Date,
    Schema,
    SchemaBuilder,
    Struct,
)
from kit.memory_registry import MemoryRegistry
from kit.protobuf_records import (
    ORDER,
    ORDER_TEXT,
    TAG,
    converter,
    latest,
    order,
    plain,
    read,
    record,
    registered,
    written,
)


def test_a_field_of_another_type_in_the_newest_schema_is_refused(registry: MemoryRegistry) -> None:
    registered(registry, 'syntax = "proto3"; message Order { Id id = 1; string note = 2; message Id { } }')

    with pytest.raises(DataError, match=r"newest schema of subject t-value .*Id cannot take INT64"):
        written(latest(registry), ORDER, order(7))


def test_an_incompatible_schema_names_subject_and_rule(registry: MemoryRegistry) -> None:
    registry.closed.add("t-value")

    with pytest.raises(DataError, match=r"subject t-value, whose compatibility rule is BACKWARD.*field x"):
        written(converter(registry), ORDER, order(1))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x00\x00", "A schema id needs more than 3 bytes"),
        (b"\x01\x00\x00\x00\x01\x00", "Unknown magic byte"),
        (b"\x00\x00\x00\x00\x63\x00", "the schema with id 99"),
        (b"\x00\x00\x00\x00\x01", "path of its message"),
        (b"\x00\x00\x00\x00\x01\x02", "path of its message"),
        (b"\x00\x00\x00\x00\x01\x80\x80\x80\x80\x80\x00", "path of its message"),
        (b"\x00\x00\x00\x00\x01\x02\x14", r"message \[10\] of its Protobuf schema"),
        (b"\x00\x00\x00\x00\x01\x01", "-1 levels deep"),
        (b"\x00\x00\x00\x00\x01\xfe\xff\xff\xff\x0f", "levels deep"),
        (b"\x00\x00\x00\x00\x01\x00\x12\x05ab", "Failed to deserialize data for topic t"),
        (b"\x00\x00\x00\x00\x01\x00\x12\x01\xff", "Failed to deserialize data for topic t"),
    ],
)
def test_bytes_that_are_no_such_record_are_a_data_error(registry: MemoryRegistry, data: bytes, message: str) -> None:
    registered(registry, ORDER_TEXT)

    with pytest.raises(DataError, match=message):
        read(converter(registry), data)


def test_a_schema_of_another_converter_is_named(registry: MemoryRegistry) -> None:
    registry.add("t-value", '"string"')

    with pytest.raises(DataError, match="is of type AVRO, not PROTOBUF"):
        read(converter(registry), record(1, b""))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message M { int32 a = 1; ", "line 1: expected a field but found 'the end'"),
        ("syntax = 'proto3';\nmessage M {\n  Foo a = 1;\n}", "couldn't resolve name 'Foo'"),
        (
            'import "shop/money.proto";\nmessage M {\n  optional shop.Money a = 1;\n}',
            r"The Protobuf schema imports shop/money.proto, which it has no reference to: .*'shop.Money'",
        ),
        ("syntax = 'proto3';\nmessage M {\n  int32 = 1;\n}", "line 3: expected a field's name but found '='"),
        ("message M { optional M m = 1; }", "The Protobuf message M contains itself"),
        ("edition = '2023';", "'edition' begins no statement"),
        ("message M {" * 70, "more than 60 levels deep"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(registry: MemoryRegistry, text: str, message: str) -> None:
    registered(registry, text)

    with pytest.raises(DataError, match=message):
        read(converter(registry), record(1, b""))


def test_a_schema_that_refers_to_itself_is_refused(registry: MemoryRegistry) -> None:
    registered(registry, ORDER_TEXT, references=[{"name": "order.proto", "subject": "t-value", "version": 1}])

    with pytest.raises(DataError, match="subject t-value, version 1, refers to itself"):
        read(converter(registry), record(1, b""))


def test_what_a_schema_has_besides_messages_is_passed_over(registry: MemoryRegistry) -> None:
    text = """
    // services, extensions and options shape no data
    syntax = "proto2"; package p; import "google/protobuf/descriptor.proto"; import "absent/one.proto";
    option java_package = "a\\";b"; option (my).deep = { list: [1, 2] text: "}" };
    extend google.protobuf.FieldOptions { optional string my = 50001; }
    service S { option deprecated = true; rpc Do (M) returns (stream M) { option (x) = { a: "b" }; } }
    message M {
      reserved 4, 6 to 9; reserved "old"; extensions 100 to 199; option deprecated = true;
      optional string a = 1 [(my) = "x", deprecated = false, json_name = "b", (confluent.field_meta) = { doc: "d" }];
      optional group G = 2 { optional int32 n = 1; }
      extend M { optional int32 later = 100; } ;
      enum E { option allow_alias = true; reserved 7; X = -0x1 [(o) = true]; Y = 010; Z = 8; }
      optional E e = 3; /* a comment
      of two lines */
    } ;
    """
    data = record(registered(registry, text), b"\x0a\x01x\x18\x08")
    assert plain(read(converter(registry), data).value) == {"a": "x", "e": "Y"}


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (SchemaBuilder.array(Schema.STRING_SCHEMA).build(), ["a"], "Unsupported root schema of type ARRAY"),
        (Date.SCHEMA, datetime.date(2026, 1, 1), "Unsupported root schema of type org.apache.kafka.connect.data.Date"),
        (
            SchemaBuilder.struct().name("a-b").field("f", Schema.INT8_SCHEMA).build(),
            None,
            "'a-b' is not a valid Protobuf name",
        ),
        (SchemaBuilder.struct().field("f-g", Schema.INT8_SCHEMA).build(), None, "'f-g' is not a valid Protobuf name"),
        (
            SchemaBuilder.struct().field("f", SchemaBuilder.array(SchemaBuilder.array(Schema.INT8_SCHEMA))).build(),
            None,
            "Array cannot be nested",
        ),
        (
            SchemaBuilder.struct().field("f", SchemaBuilder.int8().parameter(TAG, "x")).build(),
            None,
            f"The parameter {TAG} is 'x', not a number",
        ),
        (
            SchemaBuilder.struct()
            .field("f", SchemaBuilder.int8().parameter(TAG, "1"))
            .field("g", SchemaBuilder.int8().parameter(TAG, "1"))
            .build(),
            None,
            "duplicate field number",
        ),
    ],
)
def test_schemas_that_protobuf_has_no_place_for_are_refused_before_the_registry_has_them(
    registry: MemoryRegistry, schema: Schema, value: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        written(converter(registry), schema, Struct(schema) if value is None else value)
    assert not registry.asked


def test_invalid_names_are_scrubbed_if_asked_for(registry: MemoryRegistry) -> None:
    schema = (
        SchemaBuilder.struct().name("my-app.a b").field("1st", Schema.INT32_SCHEMA).field("_x", Schema.INT32_SCHEMA)
    )
    built = schema.build()
    made = converter(registry, scrub_invalid_names="true")
    found = read(made, written(made, built, Struct(built, {"1st": 5, "_x": 6})))

    assert registry.schemas[1]["schema"].startswith(
        'syntax = "proto3";\npackage my_app;\n\nmessage a_b {\n  int32 x1st = 1;'
    )
    assert plain(found.value) == {"x1st": 5, "x_x": 6}


def test_a_schema_without_a_name_gets_confluents(registry: MemoryRegistry) -> None:
    inner = SchemaBuilder.struct().field("n", Schema.INT32_SCHEMA).build()
    schema = SchemaBuilder.struct().field("i", inner).build()
    written(converter(registry), schema, Struct(schema, {"i": Struct(inner, {"n": 1})}))

    assert "message ConnectDefault1 {\n  ConnectDefault2 i = 1;\n" in registry.schemas[1]["schema"]


def test_a_message_is_not_named_as_its_field(registry: MemoryRegistry) -> None:
    inner = SchemaBuilder.struct().name("i").field("n", Schema.INT32_SCHEMA).build()
    schema = SchemaBuilder.struct().name("T").field("i", inner).build()
    written(converter(registry), schema, Struct(schema, {"i": Struct(inner, {"n": 1})}))

    assert "iMessage i = 1;" in registry.schemas[1]["schema"]


def test_data_without_a_schema_is_refused(registry: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="Data without a schema cannot be Protobuf"):
        converter(registry).from_connect_data("t", None, {"a": 1})


def test_values_that_do_not_fit_name_the_field(registry: MemoryRegistry) -> None:
    wrong = Struct.from_values(ORDER, ["text", None])
    with pytest.raises(DataError, match="Failed to serialize Protobuf data from topic t: Field id: Invalid"):
        written(converter(registry), ORDER, wrong)
    with pytest.raises(DataError, match="Mismatching struct schema"):
        written(converter(registry), ORDER, {"id": 1})
    with pytest.raises(DataError, match="Field note"):
        written(converter(registry), ORDER, order(1, "\ud800"))


def test_a_setting_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigError, match=r"flatten\.unions"):
        converter(MemoryRegistry(), flatten_unions="perhaps")
