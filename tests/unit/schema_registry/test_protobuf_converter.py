"""ProtobufConverter: wire format, subjects, registration, what comes back, and each thing that can be wrong."""

from __future__ import annotations

import base64
import datetime
import decimal
import zlib
from typing import Any

import pytest
from google.protobuf import wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import (
    ConfigError,
    DataError,
    Date,
    Decimal,
    Schema,
    SchemaAndValue,
    SchemaBuilder,
    Struct,
    Time,
    Timestamp,
)
from kconnect.schema_registry.protobuf.protobuf_converter import ProtobufConverter
from kit.memory_registry import MemoryRegistry

TAG = "io.confluent.connect.protobuf.Tag"
ORDER = (
    SchemaBuilder.struct()
    .name("com.example.Order")
    .field("id", Schema.INT64_SCHEMA)
    .field("note", Schema.OPTIONAL_STRING_SCHEMA)
    .build()
)
ORDER_TEXT = """\
syntax = "proto3";
package com.example;

message Order {
  int64 id = 1;
  string note = 2;
}
"""


def converter(registry: MemoryRegistry, is_key: bool = False, /, **settings: str) -> ProtobufConverter:
    made = ProtobufConverter(registry)
    given = {key.replace("_", "."): value for key, value in settings.items()}
    made.configure({"schema.registry.url": "http://unused:1", **given}, is_key)
    return made


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def order(number: int, note: str | None = None) -> Struct:
    return Struct(ORDER, {"id": number, "note": note})


def written(made: ProtobufConverter, schema: Schema, value: Any) -> bytes:
    data = made.from_connect_data("t", schema, value)
    assert data is not None
    return data


def read(made: ProtobufConverter, data: bytes | None) -> Any:  # its schema is never None, as in the type
    return made.to_connect_data("t", data)


def registered(registry: MemoryRegistry, text: str, **more: Any) -> int:
    return registry.add("t-value", text, schemaType="PROTOBUF", **more)


def record(schema_id: int, data: bytes, indexes: bytes = b"\x00") -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + indexes + data


def _order_class() -> Any:
    """What `protoc` would have made of ORDER_TEXT, to write and read without the converter."""
    file = FileDescriptorProto(name="order.proto", package="com.example", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="note", number=2, type=9, label=1)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("com.example.Order"))


Order = _order_class()


def test_a_record_is_magic_byte_id_path_and_protobuf(registry: MemoryRegistry) -> None:
    data = written(converter(registry), ORDER, order(7, "x"))

    assert data[:6] == b"\x00\x00\x00\x00\x01\x00"
    assert registry.subjects == {"t-value": [1]}
    assert registry.schemas[1] == {"schema": ORDER_TEXT, "schemaType": "PROTOBUF"}
    assert Order.FromString(data[6:]) == Order(id=7, note="x")


def test_what_another_wrote_is_read_with_the_registrys_version(registry: MemoryRegistry) -> None:
    data = record(registered(registry, ORDER_TEXT), Order(id=5).SerializeToString())
    schema, value = read(converter(registry), data)

    assert (schema.name, schema.version) == ("Order", 1)
    assert [field.schema.parameters for field in schema.fields] == [{TAG: "1"}, {TAG: "2"}]
    assert all(field.schema.is_optional for field in schema.fields)
    assert (value["id"], value["note"]) == (5, "")  # proto3 does not tell an empty text from none


def test_the_registry_is_asked_once_for_each_schema_and_id(registry: MemoryRegistry) -> None:
    writing, reading = converter(registry), converter(registry)
    data = [written(writing, ORDER, order(number)) for number in range(50)]
    found = [read(reading, each) for each in data]

    assert len(registry.asked) == 3  # register; the schema of the id, its version
    assert len({id(each.schema) for each in found}) == 1
    assert [each.value["id"] for each in found] == list(range(50))


def test_null_is_null_on_both_sides(registry: MemoryRegistry) -> None:
    made = converter(registry)

    assert made.from_connect_data("t", ORDER, None) is None
    assert read(made, None) == SchemaAndValue.NULL
    assert not registry.asked


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [
        (Schema.STRING_SCHEMA, "text", 7),
        (Schema.INT64_SCHEMA, -(1 << 63), 2),
        (Schema.INT32_SCHEMA, 5, 4),
        (Schema.FLOAT64_SCHEMA, 0.1, 0),
        (Schema.FLOAT32_SCHEMA, 0.5, 1),
        (Schema.BOOLEAN_SCHEMA, True, 6),
        (Schema.BYTES_SCHEMA, b"\x00\xff", 8),
    ],
)
def test_a_plain_value_is_in_its_wrapper(registry: MemoryRegistry, schema: Schema, value: Any, path: int) -> None:
    made = converter(registry)
    data = written(made, schema, value)

    assert data[5:].startswith(bytes((2, path * 2)) if path else b"\x00")  # one index, zigzag
    found = read(made, data)
    assert (found.schema.type, found.schema.is_optional, found.value) == (schema.type, False, value)
    raw = read(converter(registry, wrapper_for_raw_primitives="false"), data)
    assert raw.value["value"] == value


def test_the_wrapper_of_a_plain_value_is_googles(registry: MemoryRegistry) -> None:
    data = written(converter(registry), Schema.STRING_SCHEMA, "text")

    assert wrappers_pb2.StringValue.FromString(data[7:]).value == "text"
    assert "message StringValue {\n  string value = 1;\n}\n" in registry.schemas[1]["schema"]


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


NESTED = (
    SchemaBuilder.struct()
    .name("com.example.Line")
    .field("price", Decimal.builder(2).parameter("connect.decimal.precision", "9").build())
    .field("small", Schema.INT8_SCHEMA)
    .build()
)
WHOLE = (
    SchemaBuilder.struct()
    .name("com.example.Whole")
    .field("lines", SchemaBuilder.array(NESTED).build())
    .field("line", NESTED)
    .field("counts", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).name("my_counts").build())
    .field("by_id", SchemaBuilder.map(Schema.FLOAT64_SCHEMA, NESTED).name("by_id").build())
    .field("day", Date.SCHEMA)
    .field("time", Time.SCHEMA)
    .field("at", Timestamp.SCHEMA)
    .field("raw", Schema.BYTES_SCHEMA)
    .field("flags", SchemaBuilder.array(Schema.BOOLEAN_SCHEMA).build())
    .build()
)
WHOLE_TEXT = """\
syntax = "proto3";
package com.example;

import "confluent/type/decimal.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
import "google/protobuf/timestamp.proto";

message Whole {
  repeated Line lines = 1;
  LineMessage line = 2;
  repeated MyCountsEntry counts = 3;
  repeated ByIdEntry by_id = 4;
  google.type.Date day = 5;
  google.type.TimeOfDay time = 6;
  google.protobuf.Timestamp at = 7;
  bytes raw = 8;
  repeated bool flags = 9;
"""


def line(price: str) -> Struct:
    return Struct(NESTED, {"price": decimal.Decimal(price), "small": -3})


def whole() -> Struct:
    at = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, datetime.UTC)
    return Struct(
        WHOLE,
        {
            "lines": [line("1.10"), line("-0.01")],
            "line": line("123456.78"),
            "counts": {"a": 1, "": 0},
            "by_id": {1.5: line("0.00")},
            "day": datetime.date(2026, 2, 28),
            "time": datetime.time(23, 59, 59, 999000),
            "at": at,
            "raw": b"\x00\xff",
            "flags": [True, False],
        },
    )


def plain(value: Any) -> Any:
    """A value without its schemas."""
    if isinstance(value, Struct):
        return {field.name: plain(value[field.name]) for field in value.schema.fields}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def test_everything_that_nests_and_every_logical_type_comes_back(registry: MemoryRegistry) -> None:
    made = converter(registry)
    found = read(made, written(made, WHOLE, whole()))

    assert plain(found.value) == plain(whole())
    types = {field.name: field.schema for field in found.schema.fields}
    assert types["counts"].name == "my_counts"
    assert types["line"].field("small").schema.type is Schema.INT8_SCHEMA.type
    assert types["line"].field("price").schema.parameters == {
        "scale": "2", "connect.decimal.precision": "9", TAG: "1",
    }  # fmt: skip
    assert types["at"].name == Timestamp.LOGICAL_NAME


def test_the_text_is_that_of_confluents_converter(registry: MemoryRegistry) -> None:
    written(converter(registry), WHOLE, whole())
    text = registry.schemas[1]["schema"]

    assert text.startswith(WHOLE_TEXT.replace("LineMessage line", "Line line"))
    assert text[text.index("  message Line {") :].startswith(
        """\
  message Line {
    confluent.type.Decimal price = 1 [(confluent.field_meta) = {
      params: [
        {
          value: "9",
          key: "precision"
        },
        {
          value: "2",
          key: "scale"
        }
      ]
    }];
    int32 small = 2 [(confluent.field_meta) = {
      params: [
        {
          key: "connect.type",
          value: "int8"
        }
      ]
    }];
  }
  message MyCountsEntry {
    string key = 1;
    int32 value = 2;
  }
  message ByIdEntry {
    double key = 1;
    Line value = 2;
    ~
    message Line {
""".replace("~", "")  # an empty line is indented too
    )


def test_a_second_pass_keeps_numbers_names_and_schema(registry: MemoryRegistry) -> None:
    made = converter(registry, enhanced_protobuf_schema_support="true")
    once = read(made, written(made, WHOLE, whole()))
    twice = read(made, written(made, once.schema, once.value))

    assert plain(twice.value) == plain(once.value)
    assert [field.schema.parameters for field in twice.schema.fields] == [
        field.schema.parameters for field in once.schema.fields
    ]


ONEOF_TEXT = """
syntax = "proto3";
package com.example;
message Choice {
  int32 first = 1;
  oneof pick { string text = 2; int64 number = 3; Inner inner = 4; }
  enum Colour { RED = 0; GREEN = 1; }
  Colour colour = 5;
  message Inner { bool on = 1; }
}
"""


def choice_of(registry: MemoryRegistry, data: bytes, **settings: str) -> Any:
    return read(converter(registry, **settings), record(registered(registry, ONEOF_TEXT), data))


def test_a_oneof_is_a_struct_with_the_one_member_set(registry: MemoryRegistry) -> None:
    schema, value = choice_of(registry, b"\x08\x09\x18\x05\x28\x01")
    assert [field.name for field in schema.fields] == ["pick_0", "first", "colour"]
    assert schema.field("pick_0").schema.name == "io.confluent.connect.protobuf.Union.pick"
    assert plain(value) == {
        "pick_0": {"text": None, "number": 5, "inner": None}, "first": 9, "colour": "GREEN",
    }  # fmt: skip

    made = converter(registry)
    again = read(made, written(made, schema, value))
    assert plain(again.value) == plain(value)
    assert "  oneof pick {\n    string text = 2;\n    int64 number = 3;\n" in registry.schemas[2]["schema"]


@pytest.mark.parametrize(
    ("settings", "names", "colour"),
    [
        ({"generate_index_for_unions": "false"}, ["pick", "first", "colour"], "GREEN"),
        ({"int_for_enums": "true"}, ["pick_0", "first", "colour"], 1),
        ({"generalized_sum_type_support": "true"}, ["pick_0", "first", "colour"], "GREEN"),
    ],
)
def test_settings_shape_oneofs_and_enums(
    registry: MemoryRegistry, settings: dict[str, str], names: list[str], colour: Any
) -> None:
    schema, value = choice_of(registry, b"\x18\x05\x28\x01", **settings)
    assert [field.name for field in schema.fields] == names
    assert value["colour"] == colour

    made = converter(registry, **settings)
    assert plain(read(made, written(made, schema, value)).value) == plain(value)


def test_the_members_of_a_oneof_can_be_fields_of_their_own(registry: MemoryRegistry) -> None:
    _, value = choice_of(registry, b"\x18\x05", flatten_unions="true")

    assert plain(value) == {"text": None, "number": 5, "inner": None, "first": 0, "colour": "RED"}


def test_generalized_unions_and_enums_have_the_common_parameters(registry: MemoryRegistry) -> None:
    schema, _ = choice_of(registry, b"", generalized_sum_type_support="true")

    assert schema.field("pick_0").schema.name == "pick"
    assert schema.field("pick_0").schema.parameters == {"org.apache.kafka.connect.data.Union": "pick"}
    assert schema.field("colour").schema.parameters == {
        "org.apache.kafka.connect.data.Enum": "Colour",
        "org.apache.kafka.connect.data.Enum.RED": "0",
        "org.apache.kafka.connect.data.Enum.GREEN": "1",
        TAG: "5",
    }


def test_a_number_that_is_no_symbol_has_javas_name(registry: MemoryRegistry) -> None:
    assert choice_of(registry, b"\x28\x09").value["colour"] == "UNKNOWN_ENUM_VALUE_Colour_9"


def test_names_have_their_package_with_enhanced_support(registry: MemoryRegistry) -> None:
    schema, _ = choice_of(registry, b"", enhanced_protobuf_schema_support="true")

    assert schema.name == "com.example.Choice"
    assert schema.field("colour").schema.name == "com.example.Choice.Colour"
    assert schema.field("pick_0").schema.name == "io.confluent.connect.protobuf.Union.com.example.Choice.pick"


NULLABLE = (
    SchemaBuilder.struct()
    .name("N")
    .field("a", Schema.OPTIONAL_INT32_SCHEMA)
    .field("b", Schema.OPTIONAL_STRING_SCHEMA)
    .field("c", Schema.INT32_SCHEMA)
    .build()
)


@pytest.mark.parametrize("setting", ["optional_for_nullables", "wrapper_for_nullables"])
def test_null_comes_back_as_null_where_the_settings_say_so(registry: MemoryRegistry, setting: str) -> None:
    made = converter(registry, **{setting: "true"})
    empty = read(made, written(made, NULLABLE, Struct(NULLABLE, {"c": 1})))
    zero = read(made, written(made, NULLABLE, Struct(NULLABLE, {"a": 0, "b": "", "c": 0})))

    assert plain(empty.value) == {"a": None, "b": None, "c": 1}
    assert plain(zero.value) == {"a": 0, "b": "", "c": 0}
    assert [field.schema.is_optional for field in empty.schema.fields] == [True, True, False]


def test_null_is_the_value_of_proto3_by_default(registry: MemoryRegistry) -> None:
    made = converter(registry)
    found = read(made, written(made, NULLABLE, Struct(NULLABLE, {"c": 1})))

    assert plain(found.value) == {"a": 0, "b": "", "c": 1}


def test_an_absent_message_is_null_or_a_struct_of_defaults(registry: MemoryRegistry) -> None:
    text = 'syntax = "proto3"; message M { I i = 1; message I { int32 n = 1; } }'
    data = record(registered(registry, text), b"")

    assert read(converter(registry), data).value["i"] is None
    filled = read(converter(registry, generate_struct_for_nulls="true"), data)
    assert plain(filled.value) == {"i": {"n": 0}}


def test_unsigned_numbers_are_javas_long(registry: MemoryRegistry) -> None:
    text = 'syntax = "proto3"; message M { uint32 a = 1; fixed64 b = 2; sint32 c = 3; uint64 d = 4; }'
    registered(registry, text)
    made = converter(registry)
    high = b"\x08\xff\xff\xff\xff\x0f\x11" + b"\xff" * 8 + b"\x18\x01\x20" + b"\xff" * 9 + b"\x01"
    schema, value = read(made, record(1, high))

    assert plain(value) == {"a": 0xFFFFFFFF, "b": -1, "c": -1, "d": -1}
    assert written(made, schema, value)[6:] == high
    assert registry.schemas[2]["schema"].count("uint32 a = 1") == 1


def test_proto2_absent_optional_fields_are_null_and_defaults_are_kept(registry: MemoryRegistry) -> None:
    text = "message M { optional int32 a = 1 [default = 7]; required string b = 2; repeated int32 c = 3; }"
    data = record(registered(registry, text), b"\x12\x01x\x18\x01\x18\x02")

    assert plain(read(converter(registry), data).value) == {"a": None, "b": "x", "c": [1, 2]}
    old = read(converter(registry, optional_for_proto2="false"), data)
    assert old.value["a"] == 7


def test_a_required_field_that_is_not_there_is_an_error(registry: MemoryRegistry) -> None:
    data = record(registered(registry, "message M { required string b = 2; }"), b"")

    with pytest.raises(DataError, match="The required field b is missing"):
        read(converter(registry), data)


def test_the_path_finds_messages_that_are_not_the_first(registry: MemoryRegistry) -> None:
    text = 'syntax = "proto3"; message A { map<string, int32> m = 1; message B { } message C { int32 n = 1; } }'
    data = record(registered(registry, text), b"\x08\x05", b"\x04\x00\x02")  # two indexes: 0, 1

    assert plain(read(converter(registry), data).value) == {"n": 5}


def test_a_map_of_protobuf_is_a_map(registry: MemoryRegistry) -> None:
    text = 'syntax = "proto3"; message A { map<string, V> my_map = 1; } message V { int32 n = 1; }'
    data = record(registered(registry, text), b"\x0a\x07\x0a\x01k\x12\x02\x08\x05\x0a\x03\x0a\x01z")
    schema, value = read(converter(registry), data)

    assert plain(value) == {"my_map": {"k": {"n": 5}, "z": {"n": 0}}}
    assert schema.field("my_map").schema.name == "my_map"


def test_a_schema_can_be_a_descriptor_in_base64(registry: MemoryRegistry) -> None:
    file = FileDescriptorProto()
    Order.DESCRIPTOR.file.CopyToProto(file)
    data = record(
        registered(registry, base64.b64encode(file.SerializeToString()).decode()),
        Order(id=5, note="n").SerializeToString(),
    )

    assert plain(read(converter(registry), data).value) == {"id": 5, "note": "n"}


def test_references_are_imported(registry: MemoryRegistry) -> None:
    registry.add("base", 'syntax = "proto3"; package b; message Base { int32 n = 1; }', schemaType="PROTOBUF")
    registry.add(
        "middle", 'syntax = "proto3"; import public "base.proto"; message Middle { b.Base base = 1; }',
        schemaType="PROTOBUF", references=[{"name": "base.proto", "subject": "base", "version": 1}],
    )  # fmt: skip
    number = registered(
        registry, 'syntax = "proto3"; import "middle.proto"; message Top { Middle m = 1; b.Base b = 2; }',
        references=[{"name": "middle.proto", "subject": "middle", "version": 1}],
    )  # fmt: skip
    data = record(number, b"\x0a\x04\x0a\x02\x08\x07\x12\x02\x08\x08")

    assert plain(read(converter(registry), data).value) == {"m": {"base": {"n": 7}}, "b": {"n": 8}}


def test_without_registration_the_schema_must_be_there(registry: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="the id of a schema under subject t-value") as caught:
        written(converter(registry, auto_register_schemas="false"), ORDER, order(1))
    assert "auto.register.schemas=true" in (caught.value.hint or "")

    written(converter(registry), ORDER, order(1))
    assert written(converter(registry, auto_register_schemas="false"), ORDER, order(1))


NEWEST = """
syntax = "proto3"; package com.example;
message Other { } message Order { string extra = 9; string note = 5; int64 id = 4; }
"""


def latest(registry: MemoryRegistry, **settings: str) -> ProtobufConverter:
    return converter(registry, auto_register_schemas="false", use_latest_version="true", **settings)


def test_the_newest_schema_decides_path_and_numbers(registry: MemoryRegistry) -> None:
    registered(registry, NEWEST)
    data = written(latest(registry), ORDER, order(7, "x"))

    assert data == record(1, b"\x20\x07\x2a\x01x", b"\x02\x02")
    assert plain(read(converter(registry), data).value) == {"extra": "", "note": "x", "id": 7}


def test_a_field_that_the_newest_schema_lacks_is_refused_or_left_out(registry: MemoryRegistry) -> None:
    registered(registry, 'syntax = "proto3"; package com.example; message Order { int64 id = 1; }')
    with pytest.raises(DataError, match=r"newest schema of subject t-value .* it has no field note") as caught:
        written(latest(registry), ORDER, order(7))
    assert "latest.compatibility.strict=false" in (caught.value.hint or "")

    assert written(latest(registry, latest_compatibility_strict="false"), ORDER, order(7))[6:] == b"\x08\x07"


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
        (b"\x00\x00\x00", "3 bytes are too few"),
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
            "'a-b' is no valid Protobuf name",
        ),
        (SchemaBuilder.struct().field("f-g", Schema.INT8_SCHEMA).build(), None, "'f-g' is no valid Protobuf name"),
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


def test_a_schema_that_changes_in_mid_stream_is_registered_and_read_as_it_is(registry: MemoryRegistry) -> None:
    wider = SchemaBuilder.struct().name("com.example.Order").field("id", Schema.INT64_SCHEMA)
    wider.field("note", Schema.OPTIONAL_STRING_SCHEMA).field("more", Schema.INT32_SCHEMA)
    built = wider.build()
    made = converter(registry)
    data = [
        written(made, ORDER, order(1)),
        written(made, built, Struct(built, {"id": 2, "note": "n", "more": 3})),
        written(made, ORDER, order(4)),
    ]

    found = [read(made, each) for each in data]
    assert [each.schema.version for each in found] == [1, 2, 1]
    assert [each.value["id"] for each in found] == [1, 2, 4]


def test_a_setting_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigError, match=r"flatten\.unions"):
        converter(MemoryRegistry(), flatten_unions="perhaps")


_SCALARS = st.one_of(
    st.tuples(st.just(Schema.INT8_SCHEMA), st.integers(-128, 127)),
    st.tuples(st.just(Schema.INT16_SCHEMA), st.integers(-(1 << 15), (1 << 15) - 1)),
    st.tuples(st.just(Schema.INT32_SCHEMA), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.tuples(st.just(Schema.INT64_SCHEMA), st.integers(-(1 << 63), (1 << 63) - 1)),
    st.tuples(st.just(Schema.FLOAT32_SCHEMA), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(Schema.FLOAT64_SCHEMA), st.floats(allow_nan=False)),
    st.tuples(st.just(Schema.BOOLEAN_SCHEMA), st.booleans()),
    st.tuples(st.just(Schema.STRING_SCHEMA), st.text()),
    st.tuples(st.just(Schema.BYTES_SCHEMA), st.binary()),
    st.tuples(st.just(Date.SCHEMA), st.dates()),
    st.tuples(
        st.just(Time.SCHEMA), st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
    ),
    st.tuples(st.just(Decimal.schema(3)), st.decimals(places=3, allow_nan=False, allow_infinity=False)),
)


def _struct(columns: list[tuple[Schema, Any]]) -> tuple[Schema, Any]:
    builder = SchemaBuilder.struct().name(f"a.S{zlib.crc32(repr(columns).encode())}")
    for number, (schema, _) in enumerate(columns):
        builder.field(f"f{number}", schema)
    built = builder.build()
    return built, Struct(built, {f"f{number}": value for number, (_, value) in enumerate(columns)})


def _array(parts: tuple[Schema, Any]) -> tuple[Schema, Any]:
    return SchemaBuilder.array(parts[0]).build(), [parts[1]] * 2


def _map(parts: tuple[Schema, Any]) -> tuple[Schema, Any]:
    return SchemaBuilder.map(Schema.STRING_SCHEMA, parts[0]).build(), {"k": parts[1], "": parts[1]}


_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(_struct)),
    max_leaves=6,
)
_FIELDS = st.one_of(_VALUES, _VALUES.map(_array), _VALUES.map(_map))


@given(st.lists(_FIELDS, min_size=1, max_size=4).map(_struct), st.sampled_from(["", "optional", "wrapper"]))
def test_any_struct_comes_back_and_writes_the_same_bytes_again(parts: tuple[Schema, Struct], nullables: str) -> None:
    settings = {f"{nullables}_for_nullables": "true"} if nullables else {}
    made = converter(MemoryRegistry(), enhanced_protobuf_schema_support="true", **settings)
    data = written(made, *parts)
    found = read(made, data)

    assert plain(found.value) == plain(parts[1])
    again = written(made, found.schema, found.value)
    assert plain(read(made, again).value) == plain(parts[1])
