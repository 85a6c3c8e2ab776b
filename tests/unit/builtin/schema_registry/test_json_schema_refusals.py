"""JsonSchemaConverter: each thing that can be wrong, in bytes, schemas, values, settings."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import (
    ConfigError,
    DataError,
    Struct,
)
from kit.json_schema_records import (
    ORDER,
    ORDER_TEXT,
    UNION,
    converter,
    found,
    order,
    read,
    record,
    registered,
    written,
)
from kit.memory_registry import MemoryRegistry


def test_a_value_of_no_member_is_an_error(registry: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="Did not find matching oneof field"):
        found(registry, UNION, True)


def test_values_that_break_the_schema_are_refused_if_asked_for(registry: MemoryRegistry) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer", "maximum": 5}, "note": {"type": "string"}}}
    number = registered(registry, schema)
    settings = {"auto_register_schemas": "false", "use_latest_version": "true"}

    assert read(converter(registry), record(number, {"id": 6})).value["id"] == 6
    strict = converter(registry, json_fail_invalid_schema="true", **settings)
    with pytest.raises(DataError, match="6 is greater than the maximum of 5"):
        read(strict, record(number, {"id": 6}))
    with pytest.raises(DataError, match="6 is greater than the maximum of 5"):
        written(strict, ORDER, order(6, "x"))
    assert written(strict, ORDER, order(5, "x"))[5:] == b'{"id":5,"note":"x"}'


def test_a_property_that_the_newest_schema_lacks_is_refused_or_written(registry: MemoryRegistry) -> None:
    registered(registry, {"type": "object", "properties": {"id": {"type": "integer"}}})
    settings = {"auto_register_schemas": "false", "use_latest_version": "true"}

    with pytest.raises(DataError, match=r"newest schema of subject t-value .* it has no property note"):
        written(converter(registry, **settings), ORDER, order(7))
    lenient = converter(registry, latest_compatibility_strict="false", **settings)
    assert written(lenient, ORDER, order(7)) == record(1, None)[:5] + b'{"id":7,"note":null}'


def test_an_incompatible_schema_names_subject_and_rule(registry: MemoryRegistry) -> None:
    registry.closed.add("t-value")

    with pytest.raises(DataError, match=r"subject t-value, whose compatibility rule is BACKWARD"):
        written(converter(registry), ORDER, order(1))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x00\x00", "A schema id needs more than 3 bytes"),
        (b"\x01\x00\x00\x00\x01{}", "Unknown magic byte"),
        (b"\x00\x00\x00\x00\x63{}", "the schema with id 99"),
        (b"\x00\x00\x00\x00\x01", "There is no JSON"),
        (b'\x00\x00\x00\x00\x01{"id":', "Converting byte"),
        (b'\x00\x00\x00\x00\x01{"note":"\xff"}', "Converting byte"),
        (b'\x00\x00\x00\x00\x01{"id":"x"}', "Field id: Invalid type for INT64: JSON string"),
        (b'\x00\x00\x00\x00\x01{"id":9223372036854775808}', "9223372036854775808 is out of the range of INT64"),
        (b'\x00\x00\x00\x00\x01{"id":1.5}', "Field id: 1.5 is not a whole number"),
        (b'\x00\x00\x00\x00\x01{"id":1e99999999}', "out of the range of INT64"),
        (b'\x00\x00\x00\x00\x01{"id":null}', "Field id: Invalid null value for required INT64 field"),
        (b'\x00\x00\x00\x00\x01{"id":1,"note":[]}', "Field note: Invalid type for STRING: JSON array"),
        (b"\x00\x00\x00\x00\x01[]", "Invalid type for com.example.Order: JSON array"),
        (b"\x00\x00\x00\x00\x01" + b"[" * 100_000, "Converting byte"),
    ],
)
def test_bytes_that_are_no_such_record_are_a_data_error(registry: MemoryRegistry, data: bytes, message: str) -> None:
    registered(registry, ORDER_TEXT)

    with pytest.raises(DataError, match=message):
        read(converter(registry), data)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "This is not a JSON Schema"),
        ("[]", "This is not a JSON Schema"),
        ({"type": "thing"}, "unknown type 'thing'"),
        ({"type": "array"}, "Array schema did not specify the items type"),
        ({}, "Unsupported schema type empty"),
        ({"not": {"type": "string"}}, "Unsupported schema type not"),
        ({"$ref": "#/definitions/none"}, "refers to #/definitions/none, which it does not have"),
        ({"$ref": "other.json"}, "refers to other.json, which it does not have"),
        ({"$ref": "#"}, "refers to itself, with nothing between"),
        (
            {"title": "Tree", "type": "object", "properties": {"child": {"$ref": "#"}}},
            "The JSON Schema Tree refers to itself",
        ),
        ({"allOf": [{"$ref": "#"}, {"type": "string"}]}, "refers to itself"),
        ({"type": "integer", "connect.type": "int128"}, "Unsupported type int128"),
        ({"type": "integer", "default": "x"}, "Invalid type for INT64: JSON string"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(registry: MemoryRegistry, schema: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        found(registry, schema, 1)


def test_data_without_a_schema_is_refused(registry: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="Data without a schema cannot be written with a JSON Schema"):
        converter(registry).from_connect_data("t", None, {"a": 1})


def test_values_that_do_not_fit_name_the_field(registry: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="Field id"):
        written(converter(registry), ORDER, Struct.from_values(ORDER, ["text", None]))
    with pytest.raises(DataError, match="Mismatching schema"):
        written(converter(registry), ORDER, {"id": 1})


def test_a_setting_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigError, match=r"decimal\.format"):
        converter(MemoryRegistry(), decimal_format="text")


def test_what_has_no_connect_schema_is_named_by_its_properties(registry: MemoryRegistry) -> None:
    inner = {"type": "object", "properties": {"any": {}, "list": {"type": "array"}}}
    with pytest.raises(DataError, match="Property outer: Property any: Unsupported schema type empty") as failure:
        found(registry, {"type": "object", "properties": {"outer": inner}}, {})
    assert "Give each property a type" in str(failure.value.hint)
