"""ProtobufConverter: wire format, subjects, registration, the newest schema."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import wrappers_pb2

from kconnect.api import (
    DataError,
    Schema,
    SchemaAndValue,
    SchemaBuilder,
    Struct,
)
from kit.memory_registry import MemoryRegistry
from kit.protobuf_records import (
    NEWEST,
    ORDER,
    ORDER_TEXT,
    TAG,
    Order,
    converter,
    latest,
    order,
    plain,
    read,
    record,
    registered,
    written,
)


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


def test_without_registration_the_schema_must_be_there(registry: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="the id of a schema under subject t-value") as caught:
        written(converter(registry, auto_register_schemas="false"), ORDER, order(1))
    assert "auto.register.schemas=true" in (caught.value.hint or "")

    written(converter(registry), ORDER, order(1))
    assert written(converter(registry, auto_register_schemas="false"), ORDER, order(1))


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
