"""Records as columns of a DataFrame: which there are, and what becomes of values that fit and of those that do not."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from kconnect.api import Schema, SchemaBuilder, Struct
from kconnect.builtin.types.column_type import schema_of
from kconnect.builtin.types.declared import declared_type
from kconnect.errors import ConnectError, DataError
from kconnect.spark.arrow_types import arrow_schema, struct_type
from kconnect.spark.datasource.chain import Part, Rows
from kconnect.spark.datasource.columns import Columns, inferred, is_record_schema
from kconnect.spark.datasource.format import KConnectFormat

_ITEM = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("name", Schema.OPTIONAL_STRING_SCHEMA).build()


def _rows(value: Part, key: Part | None = None, length: int = 2) -> Rows:
    return Rows(length, "t", None, 1_500_000_000_123, None, key or Part(None), value)


def _item(id: int, name: str | None) -> Struct:
    return Struct(_ITEM).put("id", id).put("name", name)


def test_values_with_a_schema_are_inferred_as_its_type_and_others_as_text():
    assert inferred([_rows(Part([_item(1, "a")], _ITEM))], is_record=True).field("value").type == pa.struct(
        [("id", pa.int64()), ("name", pa.string())]
    )
    for data, kind in (
        ([{"a": 1}, None], pa.string()),
        ([1, 2], pa.int64()),
        ([1, "b"], pa.string()),
        ([True], pa.bool_()),
        ([b"x"], pa.binary()),
        ([None], pa.string()),
        (pa.array([{"a": 1}]), pa.string()),
        (pa.array([1.5]), pa.float64()),
    ):
        assert inferred([_rows(Part(data))], is_record=True).field("value").type == kind, data
    assert inferred([_rows(Part([b"{}"], is_bytes=True))], is_record=True).field("value").type == pa.binary()


@pytest.mark.parametrize(
    ("runs", "kind"),
    [
        ([[1], [1.5]], pa.float64()),
        ([[None], [1], [None]], pa.int64()),
        ([[2**53 + 1], [0.5]], pa.decimal128(38, 1)),
        ([[True], [1]], pa.string()),
        ([["a"], [{"b": 1}]], pa.string()),
    ],
)
def test_types_of_values_without_schema_are_the_same_wherever_a_run_ends(runs: list[list], kind: pa.DataType):
    together = [value for run in runs for value in run]
    for found in ([together], runs, runs[::-1]):
        made = inferred([_rows(Part(run), Part(run)) for run in found], is_record=True)
        assert (made.field("key").type, made.field("value").type) == (kind, kind), found


@pytest.mark.parametrize("name", ["timestamp", "timestamp_ntz", "date", "decimal(12,2)", "array<timestamp_ntz>"])
def test_a_declared_type_is_that_type_in_spark(name: str) -> None:
    schema = schema_of(declared_type(name), is_fine=True)
    kind = inferred([_rows(Part([None], schema))], is_record=True).field("value").type
    assert struct_type(pa.schema([("value", kind)])).simpleString() == f"struct<value:{name}>"


def test_fields_of_the_value_are_columns_where_that_is_wanted():
    assert inferred([_rows(Part([_item(1, "a")], _ITEM))], is_record=False).names == ["id", "name"]
    with pytest.raises(DataError, match="the values have no fields with a schema"):
        inferred([_rows(Part([{"a": 1}]))], is_record=False)
    assert is_record_schema(["value", "topic"])
    assert not is_record_schema(["topic"])
    assert not is_record_schema(["value", "id"])


def test_records_fill_the_columns_of_sparks_kafka_format():
    schema = inferred([_rows(Part(["a", "b"], Schema.STRING_SCHEMA))], is_record=True)
    rows = Rows(2, ["t", "u"], 3, [1000, None], [[("h", b"x")], None], Part([1, None]), Part([None, "b"]))
    found = Columns(schema, is_record=True).batch(rows).to_pylist()
    at = datetime.datetime.fromtimestamp(1, datetime.UTC)
    assert [(row["key"], row["value"], row["topic"], row["partition"], row["timestamp"]) for row in found] == [
        ("1", None, "t", 3, at),
        (None, "b", "u", 3, None),
    ]
    assert [row["headers"] for row in found] == [[{"key": "h", "value": b"x"}], None]


def test_schemaless_values_fill_the_columns_of_a_schema_by_name():
    schema = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", tz="UTC")), ("price", pa.decimal128(5, 2))])
    values = [{"id": 1, "at": "2026-01-02T03:04:05Z", "more": True}, {"price": 2.5, "id": "7"}]
    found = Columns(schema, is_record=False).batch(_rows(Part(values))).to_pylist()
    assert found == [
        {"id": 1, "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "price": None},
        {"id": 7, "at": None, "price": decimal.Decimal("2.50")},
    ]


def test_a_value_that_does_not_fit_is_named_with_its_field():
    columns = Columns(pa.schema([("id", pa.int32())]), is_record=False)
    with pytest.raises(DataError, match=r"A value of topic t does not fit the DataFrame: id is 'x', the column int32"):
        columns.batch(_rows(Part([{"id": 1}, {"id": "x"}])))
    with pytest.raises(DataError, match="has no fields"):
        columns.batch(_rows(Part([{"id": 1}, "x"])))


def test_a_field_that_the_first_records_did_not_have_is_reported_unless_the_user_chose_the_columns():
    wider = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("more", Schema.STRING_SCHEMA).build()
    value = Part([Struct(wider).put("id", 1).put("more", "x")] * 2, wider)
    schema = pa.schema([("value", pa.struct([("id", pa.int64())]))])
    with pytest.raises(DataError, match="more is a field that the first records did not have"):
        Columns(schema, is_record=True, is_strict=True).batch(_rows(value))
    assert Columns(schema, is_record=True).batch(_rows(value)).to_pylist() == [{"value": {"id": 1}}] * 2


def test_columns_of_another_type_than_the_part_of_a_record_are_refused_while_spark_plans() -> None:
    schema = StructType([StructField("value", StringType()), StructField("headers", StringType())])
    options = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    with pytest.raises(ConnectError, match="The column headers is string, and the headers of a record must be array"):
        KConnectFormat(options).reader(schema)


_NUMBER = StructType([StructField("x", IntegerType()), StructField("y", IntegerType(), nullable=False)])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"id": 1}, "n is NOT NULL"),
        ({"n": 1, "at": {"x": 1}}, "at.y is NOT NULL"),
        ({"n": 1, "all": [{"y": 1}, {}]}, r"all\[\].y is NOT NULL"),
        ({"n": 1, "by": {"a": {}}}, r"by\[\].y is NOT NULL"),
        ({"n": 1, "list": [1, None]}, r"list\[\] is NOT NULL"),
    ],
)
def test_a_null_where_the_schema_has_none_is_refused_and_not_read_as_a_number(value: dict[str, Any], said: str) -> None:
    """Spark does not look: it was an IllegalStateException of Java's."""
    schema = (
        StructType()
        .add("n", IntegerType(), nullable=False)
        .add("at", _NUMBER)
        .add("all", ArrayType(_NUMBER))
        .add("by", MapType(StringType(), _NUMBER))
        .add("list", ArrayType(IntegerType(), containsNull=False))
    )
    columns = Columns(arrow_schema(schema), is_record=False)
    whole = {"n": 3, "at": {"y": 1}, "all": None, "by": {"b": None}, "list": [1]}
    assert columns.batch(_rows(Part([whole, {"n": 4, "at": None, "all": [None, {"y": 2}]}]))).num_rows == 2
    with pytest.raises(DataError, match=said):
        columns.batch(_rows(Part([whole, value])))


@pytest.mark.parametrize("kind", [VariantType(), DayTimeIntervalType(), ArrayType(YearMonthIntervalType())])
def test_a_type_that_no_record_has_is_refused_while_spark_plans(kind: DataType) -> None:
    """A variant was a NullPointerException of Java's."""
    options = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    with pytest.raises(ConnectError, match="A record cannot hold a value of type"):
        KConnectFormat(options).reader(StructType([StructField("a", kind)]))
