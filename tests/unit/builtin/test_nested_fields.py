"""Paths to nested fields (field.syntax.version=V2), beyond Java: in structs and in maps."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import ConfigError, DataError, Field, Schema, SchemaBuilder, SourceRecord, Struct, Transformation
from kconnect.builtin.transforms.cast import CastValue
from kconnect.builtin.transforms.header_from import HeaderFromValue
from kconnect.builtin.transforms.insert_field import InsertFieldValue
from kconnect.builtin.transforms.mask_field import MaskFieldValue
from kconnect.builtin.transforms.replace_field import ReplaceFieldValue
from kconnect.builtin.transforms.timestamp_converter import TimestampConverterValue
from kconnect.builtin.transforms.value_to_key import ValueToKey

INNER = SchemaBuilder.struct().field("x", Schema.INT64_SCHEMA).field("y", Schema.STRING_SCHEMA).optional().build()
ROW = SchemaBuilder.struct().field("n", INNER).field("a.b", Schema.STRING_SCHEMA).build()
STRUCT = Struct(ROW, {"n": Struct(INNER, {"x": 5, "y": "t"}), "a.b": "dot"})
MAP = {"n": {"x": 5, "y": "t"}, "a.b": "dot"}


def applied(kind: type[Transformation], config: dict[str, str], value: Any) -> SourceRecord:
    transform = kind()
    transform.configure({**config, "field.syntax.version": "V2"})
    schema = value.schema if isinstance(value, Struct) else None
    made = transform.apply(SourceRecord({}, {}, "t", value, value_schema=schema))
    assert made is not None
    return made


def plain(value: Any) -> Any:
    if not isinstance(value, Struct):
        return value
    return {field.name: plain(value.get(field)) for field in value.schema.fields}


@pytest.mark.parametrize("given", [STRUCT, MAP], ids=["struct", "map"])
@pytest.mark.parametrize(
    ("kind", "config", "made"),
    [
        (CastValue, {"spec": "n.x:string"}, {"n": {"x": "5", "y": "t"}, "a.b": "dot"}),
        (MaskFieldValue, {"fields": "n.y,`a.b`"}, {"n": {"x": 5, "y": ""}, "a.b": ""}),
        (ReplaceFieldValue, {"exclude": "n.x"}, {"n": {"y": "t"}, "a.b": "dot"}),
        (ReplaceFieldValue, {"include": "n.x"}, {"n": {"x": 5}}),
        (ReplaceFieldValue, {"include": "n", "exclude": "n.y"}, {"n": {"x": 5}}),
        (ReplaceFieldValue, {"renames": "n.x:z,`a.b`:c"}, {"n": {"z": 5, "y": "t"}, "c": "dot"}),
        (
            TimestampConverterValue,
            {"field": "n.x", "target.type": "string", "format": "ss.SSS"},
            {"n": {"x": "00.005", "y": "t"}, "a.b": "dot"},
        ),
        (
            InsertFieldValue,
            {"topic.field": "n.topic!", "static.field": "`c.d`", "static.value": "v"},
            {"n": {"x": 5, "y": "t", "topic": "t"}, "a.b": "dot", "c.d": "v"},
        ),
        (
            HeaderFromValue,
            {"fields": "n.x", "headers": "h", "operation": "move"},
            {"n": {"y": "t"}, "a.b": "dot"},
        ),
    ],
)
def test_a_path_changes_the_nested_field_alone(
    kind: type[Transformation], config: dict[str, str], made: dict[str, Any], given: Any
) -> None:
    record = applied(kind, config, given)
    assert plain(record.value) == made
    assert [header.value for header in record.headers] == ([5] if kind is HeaderFromValue else [])


@pytest.mark.parametrize("given", [STRUCT, MAP], ids=["struct", "map"])
def test_fields_of_a_key_are_named_by_the_last_step(given: Any) -> None:
    assert plain(applied(ValueToKey, {"fields": "n.y,`a.b`"}, given).key) == {"y": "t", "a.b": "dot"}


def test_two_fields_of_a_key_cannot_have_one_name() -> None:
    with pytest.raises(ConfigError, match="one name"):
        applied(ValueToKey, {"fields": "n.y,m.y"}, MAP)


def test_a_field_and_one_inside_it_cannot_both_be_changed() -> None:
    with pytest.raises(ConfigError, match="is named too"):
        applied(MaskFieldValue, {"fields": "n,n.y"}, MAP)


@pytest.mark.parametrize("kind", [CastValue, MaskFieldValue])
def test_what_is_no_map_has_no_fields(kind: type[Transformation]) -> None:
    config = {"spec": "n.x.deep:string"} if kind is CastValue else {"fields": "n.x.deep"}
    with pytest.raises(DataError, match="Only Map objects supported"):
        applied(kind, config, MAP)


def test_a_null_on_the_way_stays_null() -> None:
    empty = Struct(ROW, {"a.b": "dot"})
    for kind, config in (
        (CastValue, {"spec": "n.x:string"}),
        (ReplaceFieldValue, {"exclude": "n.x"}),
        (InsertFieldValue, {"topic.field": "n.topic!"}),
    ):
        assert plain(applied(kind, config, empty).value) == {"n": None, "a.b": "dot"}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("m.topic", "Field m does not exist: nothing can be inserted into it"),
        ("n.x.topic", "Only Struct objects"),
    ],
)
def test_a_field_is_inserted_into_a_struct_that_is_there(path: str, why: str) -> None:
    with pytest.raises(DataError, match=why):
        applied(InsertFieldValue, {"topic.field": path}, STRUCT)


def test_a_map_that_lacks_the_way_to_a_field_stays_as_it_is() -> None:
    assert applied(InsertFieldValue, {"topic.field": "m.topic"}, MAP).value == MAP


def test_a_struct_that_was_optional_stays_so_with_its_new_field() -> None:
    schema = applied(InsertFieldValue, {"topic.field": "n.topic!"}, STRUCT).value_schema
    inner = None if schema is None else schema.field("n")
    assert inner is not None
    assert inner.schema.is_optional
    assert inner.schema.field("topic") == Field("topic", 2, Schema.STRING_SCHEMA)
