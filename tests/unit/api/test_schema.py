"""Schemas, their builder, and structs: what they accept, what they refuse and in which words."""

from __future__ import annotations

import copy
import datetime
import decimal
import pickle

import pytest

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    Field,
    Schema,
    SchemaAndValue,
    SchemaBuilder,
    SchemaBuilderError,
    Struct,
    Time,
    Timestamp,
    Type,
)

POINT = SchemaBuilder.struct().name("Point").field("x", Schema.INT32_SCHEMA).field("y", Schema.INT32_SCHEMA).build()
UTC = datetime.UTC


@pytest.mark.parametrize("kind", list(Type))
def test_types_are_spelled_as_java_spells_them(kind: Type) -> None:
    assert kind.value == kind.name.lower()
    assert str(kind) == kind.name


@pytest.mark.parametrize("kind", [kind for kind in Type if kind.is_primitive])
def test_ready_schemas_exist_required_and_optional(kind: Type) -> None:
    required, optional = getattr(Schema, f"{kind.name}_SCHEMA"), getattr(Schema, f"OPTIONAL_{kind.name}_SCHEMA")
    assert (required.type, required.is_optional) == (kind, False)
    assert (optional.type, optional.is_optional) == (kind, True)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema.INT8_SCHEMA, -128),
        (Schema.INT8_SCHEMA, 127),
        (Schema.INT64_SCHEMA, 2**63 - 1),
        (Schema.FLOAT32_SCHEMA, 1.5),
        (Schema.FLOAT64_SCHEMA, float("nan")),
        (Schema.BOOLEAN_SCHEMA, True),
        (Schema.STRING_SCHEMA, ""),
        (Schema.BYTES_SCHEMA, b"\x00"),
        (Schema.OPTIONAL_STRING_SCHEMA, None),
        (SchemaBuilder.array(Schema.INT32_SCHEMA).build(), [1, 2]),
        (SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_INT32_SCHEMA).build(), {"a": None}),
        (POINT, Struct(POINT, {"x": 1, "y": 2})),
        (Decimal.schema(2), decimal.Decimal("1.50")),
        (Date.SCHEMA, datetime.date(2020, 1, 1)),
        (Time.SCHEMA, datetime.time(1, 2, 3)),
        (Timestamp.SCHEMA, datetime.datetime(2020, 1, 1, tzinfo=UTC)),
    ],
)
def test_values_that_fit_are_accepted(schema: Schema, value: object) -> None:
    schema.validate_value(value)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (Schema.STRING_SCHEMA, None, "Invalid value: null used for required value, schema type: STRING"),
        (
            Schema.INT8_SCHEMA,
            128,
            "Invalid Python object for schema with type INT8: int for value (128 does not fit in 8 bits)",
        ),
        (Schema.INT32_SCHEMA, True, "Invalid Python object for schema with type INT32: bool for value"),
        (Schema.INT32_SCHEMA, "1", "Invalid Python object for schema with type INT32: str for value"),
        (Schema.FLOAT64_SCHEMA, 1, "Invalid Python object for schema with type FLOAT64: int for value"),
        (Schema.BYTES_SCHEMA, "a", "Invalid Python object for schema with type BYTES: str for value"),
        (
            SchemaBuilder.array(Schema.INT32_SCHEMA).build(),
            [1, "a"],
            "Invalid Python object for schema with type INT32: str for element of array value",
        ),
        (
            SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).build(),
            {"a": None},
            "Invalid value: null used for required value of map value, schema type: INT32",
        ),
        (
            SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).build(),
            {1: 1},
            "Invalid Python object for schema with type STRING: int for key of map value",
        ),
        (Schema(Type.ARRAY), [1], "No schema defined for element of array value"),
        (
            Date.SCHEMA,
            datetime.datetime(2020, 1, 1, tzinfo=UTC),
            f'Invalid Python object for schema "{Date.LOGICAL_NAME}" with type INT32: datetime for value',
        ),
        (
            Timestamp.SCHEMA,
            datetime.datetime(2020, 1, 1),  # noqa: DTZ001 - the point of the test
            f'Invalid Python object for schema "{Timestamp.LOGICAL_NAME}" with type INT64: datetime for value '
            "(the datetime has no time zone; use an aware one, such as datetime.now(timezone.utc))",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused_with_what_and_where(schema: Schema, value: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        schema.validate_value(value)
    assert str(caught.value) == message


def test_a_struct_of_another_schema_is_refused() -> None:
    other = SchemaBuilder.struct().field("x", Schema.INT32_SCHEMA).build()
    with pytest.raises(DataError, match=r"^Struct schemas do not match\.$"):
        POINT.validate_value(Struct(other, {"x": 1}))


def test_equal_schemas_are_equal_and_hash_alike_though_built_apart() -> None:
    def build() -> Schema:
        inner = SchemaBuilder.array(SchemaBuilder.int32().default(3)).optional()
        return SchemaBuilder.struct().name("a").version(2).doc("d").parameter("k", "v").field("f", inner).build()

    assert build() == build()
    assert build() is not build()
    assert hash(build()) == hash(build())


@pytest.mark.parametrize(
    "other",
    [
        SchemaBuilder.string().optional().build(),
        SchemaBuilder.string().name("n").build(),
        SchemaBuilder.string().version(1).build(),
        SchemaBuilder.string().doc("d").build(),
        SchemaBuilder.string().default("x").build(),
        SchemaBuilder.string().parameter("a", "b").build(),
        Schema.BYTES_SCHEMA,
    ],
)
def test_a_schema_differs_from_one_with_any_part_changed(other: Schema) -> None:
    assert other != Schema.STRING_SCHEMA


def test_schemas_and_fields_can_not_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        POINT.name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        POINT.fields[0].name = "z"
    with pytest.raises(TypeError):
        Decimal.schema(1).parameters["scale"] = "2"  # type: ignore[index]


def test_schemas_survive_pickle_and_copies_are_the_same_object() -> None:
    schema = SchemaBuilder.struct().field("p", POINT).field("d", Decimal.schema(2)).build()
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert copy.deepcopy(schema) is schema
    struct = Struct(POINT, {"x": 1, "y": 2})
    assert pickle.loads(pickle.dumps(struct)) == struct


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Schema.STRING_SCHEMA.fields, "Cannot list fields on non-struct type"),
        (lambda: Schema.STRING_SCHEMA.field("a"), "Cannot look up fields on non-struct type"),
        (lambda: Schema.STRING_SCHEMA.key_schema, "Cannot look up key schema on non-map type"),
        (lambda: Schema.STRING_SCHEMA.value_schema, "Cannot look up value schema on non-array and non-map type"),
    ],
)
def test_asking_for_what_a_type_has_not_is_an_error(ask: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        ask()  # type: ignore[operator]
    assert str(caught.value) == message


def test_schemas_show_their_name_and_type() -> None:
    assert repr(POINT) == "Schema{Point:STRUCT}"
    assert repr(Schema.STRING_SCHEMA) == "Schema{STRING}"
    assert repr(POINT.fields[1]) == "Field{name=y, index=1, schema=Schema{INT32}}"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SchemaBuilder.string().name("a").name("b"), "Invalid SchemaBuilder call: name has already been set."),
        (
            lambda: SchemaBuilder.string().optional().required(),
            "Invalid SchemaBuilder call: optional has already been set.",
        ),
        (
            lambda: SchemaBuilder.int8().default(1).default(2),
            "Invalid SchemaBuilder call: default has already been set.",
        ),
        (lambda: SchemaBuilder.int8().default("a"), "Invalid default value"),
        (lambda: SchemaBuilder.int8().default(None), "Invalid default value"),
        (lambda: SchemaBuilder.int8().field("a", Schema.INT8_SCHEMA), "Cannot create fields on type INT8"),
        (
            lambda: SchemaBuilder.struct().field("a", Schema.INT8_SCHEMA).field("", Schema.INT8_SCHEMA),
            "fieldName cannot be null. A field of a struct needs a name; the one after a has none",
        ),
        (lambda: SchemaBuilder.struct().field("a", None), "fieldSchema for field a cannot be null."),
        (lambda: SchemaBuilder.array(None), "valueSchema cannot be null."),
        (lambda: SchemaBuilder.map(None, Schema.INT8_SCHEMA), "keySchema cannot be null."),
        (
            lambda: SchemaBuilder.struct().field("a", Schema.INT8_SCHEMA).field("a", Schema.INT8_SCHEMA),
            "Cannot create field because of field name duplication a",
        ),
        (lambda: SchemaBuilder(None), "type cannot be null"),
    ],
)
def test_the_builder_refuses_in_javas_words(build: object, message: str) -> None:
    with pytest.raises(SchemaBuilderError) as caught:
        build()  # type: ignore[operator]
    assert str(caught.value) == message


def test_the_same_setting_twice_is_no_error() -> None:
    assert SchemaBuilder.string().name("a").name("a").optional().optional().build().name == "a"


def test_builders_are_taken_where_schemas_are() -> None:
    built = SchemaBuilder.struct().field("a", SchemaBuilder.array(SchemaBuilder.int8().optional())).build()
    assert built.field("a") == Field("a", 0, SchemaBuilder.array(SchemaBuilder.int8().optional().build()).build())


def test_a_struct_gives_defaults_only_where_asked() -> None:
    schema = SchemaBuilder.struct().field("a", SchemaBuilder.int8().default(7)).build()
    struct = Struct(schema)
    assert (struct["a"], struct.get("a"), struct.get_without_default("a")) == (7, 7, None)
    struct.validate()


def test_a_struct_misses_required_fields_only_when_validated() -> None:
    struct = Struct(POINT).put("x", 1)
    with pytest.raises(DataError, match=r'^Invalid value: null used for required field: "y", schema type: INT32$'):
        struct.validate()


def test_a_struct_refuses_unknown_fields_and_wrong_values() -> None:
    with pytest.raises(DataError, match=r"^z is not a valid field name$"):
        Struct(POINT)["z"] = 1
    with pytest.raises(DataError, match='for field: "x"'):
        Struct(POINT).put("x", "one")
    with pytest.raises(DataError, match='null used for required field: "x"'):
        Struct(POINT).put("x", None)
    with pytest.raises(DataError, match="Not a struct schema"):
        Struct(Schema.STRING_SCHEMA)


def test_structs_compare_by_value_and_show_as_java_shows_them() -> None:
    assert Struct(POINT, {"x": 1, "y": 2}) == Struct(POINT).put("y", 2).put("x", 1)
    assert hash(Struct(POINT, {"x": 1, "y": 2})) == hash(Struct(POINT, {"x": 1, "y": 2}))
    assert Struct(POINT, {"x": 1}) != Struct(POINT, {"x": 2})
    assert repr(Struct(POINT, {"x": 1, "y": 2})) == "Struct{x=1,y=2}"
    assert repr(Struct(POINT, {"y": 2})) == "Struct{y=2}"


def test_schema_and_value_unpacks_and_compares() -> None:
    schema, value = SchemaAndValue(Schema.INT8_SCHEMA, 1)
    assert (schema, value) == (Schema.INT8_SCHEMA, 1)
    assert SchemaAndValue(None, {"a": [1]}) == SchemaAndValue(None, {"a": [1]})
    assert hash(SchemaAndValue(None, {"a": [1]})) == hash(SchemaAndValue(None, {"a": [1]}))
    assert SchemaAndValue(None, None) == SchemaAndValue.NULL
