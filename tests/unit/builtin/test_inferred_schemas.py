"""JsonConverter with schemas.infer.enable: schemas of what was seen in a topic, by records and by columns alike."""

from __future__ import annotations

import json
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import DataError, Decimal, Schema, SchemaBuilder, Struct, Type
from kconnect.api.columns import values_of
from kconnect.builtin.converters.inferred_schemas import InferredSchemas
from kconnect.builtin.converters.json_columns import ByRecordsError
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.types.seen import NOTHING, Seen, see
from kconnect.builtin.types.seen_schemas import as_data
from kconnect.runtime.pipeline.build_stages import document_of, seen_of
from kit.examples import examples


def inferring() -> JsonConverter:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false", "schemas.infer.enable": "true"}, is_key=False)
    return converter


def read(converter: JsonConverter, value: Any, topic: str = "t") -> tuple[Schema | None, Any]:
    found = converter.to_connect_data(topic, json.dumps(value).encode())
    return found.schema, found.value


def fields(schema: Schema | None) -> dict[str, tuple[Type, str | None]]:
    assert schema is not None
    return {field.name: (field.schema.type, field.schema.name) for field in schema.fields}


def test_each_value_has_the_schema_of_its_topic_which_widens():
    converter = inferring()
    schema, value = read(converter, {"id": 1, "name": "a", "ok": True, "none": None, "tags": ["x"], "at": {"x": 1}})
    at = SchemaBuilder.struct().field("x", Schema.OPTIONAL_INT64_SCHEMA).optional().build()
    assert schema == (
        SchemaBuilder.struct()
        .field("id", Schema.OPTIONAL_INT64_SCHEMA)
        .field("name", Schema.OPTIONAL_STRING_SCHEMA)
        .field("ok", Schema.OPTIONAL_BOOLEAN_SCHEMA)
        .field("tags", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build())
        .field("at", at)
        .optional()
        .build()
    )
    assert (value.get("id"), value.get("at")) == (1, Struct(at).put("x", 1))
    again, value = read(converter, {"id": 2})
    assert again is schema, "the very same, so that sinks know it again"
    assert value.get("name") is None
    wide, value = read(converter, {"id": 3.5, "none": {"y": []}, "ok": 7})
    assert [kind for kind, _ in fields(wide).values()] == [
        Type.FLOAT64,
        Type.STRING,
        Type.STRING,
        Type.STRUCT,
        Type.ARRAY,
        Type.STRUCT,
    ]
    assert (value.get("id"), value.get("ok"), value.get("none").get("y")) == (3.5, "7", [])
    assert read(converter, {"id": 4, "ok": False})[1].get("ok") == "false"
    assert read(converter, {"id": 4}, topic="other")[0] != wide, "each topic has its own"


def test_what_a_converter_saw_is_where_another_begins():
    kept: dict[str, Seen] = {}
    first, second = inferring(), inferring()
    first.remember({}, kept.__setitem__)
    for value in ({"n": 1, "gone": None}, {"n": 0.5, "at": {"x": [1]}}, {"n": 2}):
        schema, _ = read(first, value)
    second.remember(kept, lambda topic, seen: pytest.fail("nothing widens"))
    assert read(second, {"n": 2})[0] == schema


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_JSON, max_size=4))
def test_what_was_seen_comes_back_from_its_document(values):
    seen = see(values)
    assert seen_of(json.loads(json.dumps(document_of(seen)))) == seen


def test_numbers_keep_every_digit():
    converter = inferring()
    assert fields(read(converter, {"n": 1})[0]) == {"n": (Type.INT64, None)}
    schema, value = read(converter, {"n": 2**63})
    assert fields(schema) == {"n": (Type.BYTES, Decimal.LOGICAL_NAME)}
    assert value.get("n") == PyDecimal(2**63)
    schema, value = read(converter, {"n": 0.5})
    assert (fields(schema)["n"][0], value.get("n")) == (Type.FLOAT64, 0.5)
    schema, value = read(converter, {"n": 2**63 + 1})
    assert (fields(schema)["n"][0], value.get("n")) == (Type.STRING, str(2**63 + 1))
    assert read(converter, {"n": 1.5})[1].get("n") == "1.5"


def test_values_without_fields_and_nulls():
    converter = inferring()
    assert read(converter, None) == (None, None)
    assert converter.to_connect_data("t", None).schema is None
    assert read(converter, 3) == (Schema.OPTIONAL_INT64_SCHEMA, 3)
    assert read(converter, None) == (Schema.OPTIONAL_INT64_SCHEMA, None)
    assert read(converter, "x") == (Schema.OPTIONAL_STRING_SCHEMA, "x")
    assert read(converter, 3) == (Schema.OPTIONAL_STRING_SCHEMA, "3")


def test_names_that_are_data_are_reported():
    inferred = InferredSchemas()
    inferred.read("t", {f"n{one}": 1 for one in range(1000)})
    with pytest.raises(DataError, match="more than 2000 fields") as reported:
        inferred.read("t", {f"m{one}": 1 for one in range(1000)})
    assert "value.schema" in str(reported.value.hint)


def _learned_each_time(inferred: InferredSchemas, value: Any) -> tuple[Schema, Any]:
    """What the rules say, without the way for values that widen nothing."""
    _, schema = inferred._learn("t", inferred._topics.get("t", (NOTHING, None))[0], value)
    return schema, as_data(schema, value)


@examples(200)
@given(st.lists(_JSON.filter(lambda value: value is not None), max_size=6))
def test_the_short_way_of_values_that_widen_nothing_gives_what_the_rules_give(values):
    short, plain = InferredSchemas(), InferredSchemas()
    for value in values:
        found, (schema, data) = short.read("t", value), _learned_each_time(plain, value)
        assert found.schema == schema
        assert repr(found.value) == repr(data), value
        assert short._topics["t"][0] == plain._topics["t"][0]


_NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, 1.25, 2**53 + 1, -(2**63), 2**63, 1e22, 10.0]))
_ROWS = st.fixed_dictionaries(
    {"id": st.integers(0, 9)},
    optional={
        "n": st.one_of(st.none(), _NUMBERS),
        "s": st.one_of(st.none(), st.text(max_size=3)),
        "l": st.lists(st.one_of(st.integers(0, 3), st.sampled_from([0.5])), max_size=2),
        "o": st.fixed_dictionaries({}, optional={"x": st.booleans(), "y": _NUMBERS}),
        "m": st.one_of(st.booleans(), st.integers(0, 1), st.just("t")),
    },
)


@examples(60)
@given(st.lists(st.lists(_ROWS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_by_columns_comes_what_comes_by_records(batches: list[list[dict[str, Any]]]):
    alone, together = inferring(), inferring()
    for rows in batches:
        texts = [json.dumps(row).encode() for row in rows] * 100
        records = [alone.to_connect_data("t", text) for text in texts]
        try:
            found = together.to_connect_batch("t", pa.array(texts, pa.binary()))
        except ByRecordsError:
            found = None
        if found is None:
            columns = [together.to_connect_data("t", text) for text in texts]
            assert columns == records
            continue
        schema, column = found
        assert all(record.schema == schema for record in records)
        assert values_of(schema, column, len(texts)) == [record.value for record in records]
