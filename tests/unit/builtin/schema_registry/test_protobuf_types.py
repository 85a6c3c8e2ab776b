"""ProtobufConverter: what types become, oneofs, null, references, and what comes back."""

from __future__ import annotations

import base64
import datetime
import decimal
import zlib
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    Schema,
    SchemaBuilder,
    Struct,
    Time,
    Timestamp,
)
from kit.memory_registry import MemoryRegistry
from kit.protobuf_records import (
    TAG,
    Order,
    converter,
    plain,
    read,
    record,
    registered,
    written,
)

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


def test_a_wrapper_in_a_field_is_the_value_in_it(registry: MemoryRegistry) -> None:
    text = (
        'syntax = "proto3"; import "google/protobuf/wrappers.proto"; message M { google.protobuf.StringValue s = 1;'
        " google.protobuf.UInt64Value u = 2; repeated google.protobuf.Int32Value r = 3; oneof o"
        " { google.protobuf.BoolValue b = 4; } map<string, google.protobuf.DoubleValue> m = 5; }"
    )
    number = registered(registry, text)
    data = record(
        number, b"\x0a\x03\x0a\x01x\x12\x02\x08\x07\x1a\x00\x1a\x02\x08\x05\x22\x02\x08\x01\x2a\x05\x0a\x01k\x12\x00"
    )

    schema, value = read(converter(registry), data)
    assert plain(value) == {"o_0": {"b": True}, "s": "x", "u": 7, "r": [0, 5], "m": {"k": 0.0}}
    assert [schema.field(name).schema.type.name for name in "su"] == ["STRING", "INT64"]
    assert plain(read(converter(registry), record(number, b"")).value) == {
        "o_0": None, "s": None, "u": None, "r": [], "m": {},
    }  # fmt: skip
    whole = read(converter(registry, wrapper_for_raw_primitives="false"), data).value
    assert plain(whole)["s"] == {"value": "x"}


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
