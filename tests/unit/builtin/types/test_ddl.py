"""Declared schemas: DDL, Avro, JSON Schema, and tables to be like."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kconnect.api import ConfigError, Decimal, Schema, Timestamp, Type
from kconnect.api.columns import arrow_type
from kconnect.builtin.types.column_type import Column, ColumnType, parse_ddl, schema_of
from kconnect.builtin.types.declared import declared_type, problems
from kconnect.builtin.types.foreign_schemas import of_arrow


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("id bigint", "struct<id:bigint>"),
        ("id: BIGINT NOT NULL, `a b` String", "struct<id:bigint, `a b`:string>"),
        ("a byte, b short, c integer, d long, e real, f dec(5), g numeric(12,2), h bool",
         "struct<a:tinyint, b:smallint, c:int, d:bigint, e:float, f:decimal(5,0), g:decimal(12,2), h:boolean>"),
        ("p decimal", "struct<p:decimal(10,0)>"),
        ("tags array<string>, who struct<a:int, b: string COMMENT 'x' >, m map<string,array<date>>",
         "struct<tags:array<string>, who:struct<a:int, b:string>, m:map<string,array<date>>>"),
        ("n varchar(5), c char(2), s string COLLATE UNICODE", "struct<n:varchar(5), c:char(2), s:string>"),
        ("at timestamp(us), on date(ms), t time(s), l timestamp_ltz, n timestamp_ntz",
         "struct<at:timestamp(us), on:date(ms), t:time(s), l:timestamp, n:timestamp_ntz>"),
        ("u uuid, j json, v variant, b binary", "struct<u:uuid, j:json, v:variant, b:binary>"),
        ("id int, -- the key\n  name string /* or none */", "struct<id:int, name:string>"),
        ("date date, array array<int>", "struct<date:date, array:array<int>>"),
        ("`with ``quote``` int", "struct<`with ``quote```:int>"),
        ("größe double", "struct<`größe`:double>"),
        ("struct<a:int>", "struct<a:int>"),
        ("decimal(3,1)", "decimal(3,1)"),
        ("bigint", "bigint"),
        ("e struct<>", "struct<e:struct<>>"),
    ],
)  # fmt: skip
def test_ddl_is_read_as_spark_reads_it(text, shown):
    assert str(parse_ddl(text)) == shown
    assert parse_ddl(shown) == parse_ddl(text) or "NOT NULL" in text or "COMMENT" in text


def test_not_null_and_comments_are_of_the_column():
    (column,) = parse_ddl("id bigint NOT NULL COMMENT 'it''s \"the\" key'").columns
    assert column == Column("id", ColumnType("bigint"), is_required=True, doc='it\'s "the" key')


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("id bigin", "Unknown type: bigin, at line 1, column 4"),
        ("id bigint, price", "a type, such as bigint was expected, at line 1, column 17"),
        ("id bigint price int", "'price' was not expected here, at line 1, column 11"),
        ("id bigint,", "the name of a column was expected, at line 1, column 11"),
        ("a decimal(40,2)", "decimal(40): a number from 1 to 38 was expected, at line 1, column 3"),
        ("a decimal(2,3)", "more digits behind the point than it has, at line 1, column 3"),
        ("x array<int", "'>' was expected, not the end, at line 1, column 12"),
        ("x map<string>", "',' was expected, not >, at line 1, column 13"),
        ("user-id int", "'-' has no meaning here, at line 1, column 5"),
        ("a int, A int, a string", "Column a is declared twice, at line 1, column 15"),
        ("s struct<b:int, b:int>", "Column b is declared twice, at line 1, column 17"),
        ("x varchar", "varchar needs its length, such as varchar(20), at line 1, column 3"),
        ("x timestamp(hours)", "the unit of numbers is one of s, ms, us, ns, at line 1, column 3"),
        ("x interval day to second", "interval has no place in a format of a sink: declare it as string, at line 1"),
        ("x void", "void holds nothing"),
        ("x `int`", "int stands in quotes, and a type was expected, at line 1, column 3"),
        ("a 'b' int", "b stands in quotes, and a type was expected"),
        ("a int default 5", "DEFAULT cannot be declared"),
        ("a `b", "A quote is not closed, at line 1, column 3"),
        ("a int,\n  b foo", "Unknown type: foo, at line 2, column 5"),
        ("id bigint(20)", "bigint takes nothing in parentheses, at line 1, column 4"),
        (" ", "Nothing is declared, at line 1, column 1"),
    ],
)  # fmt: skip
def test_what_does_not_parse_is_reported_with_its_position(text, reported):
    with pytest.raises(ConfigError) as caught:
        parse_ddl(text)
    assert reported in str(caught.value)


def test_a_near_type_is_suggested():
    with pytest.raises(ConfigError) as caught:
        parse_ddl("id bigin")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Did you mean bigint?")


def test_schemas_have_precision_and_fine_times():
    schema = schema_of(parse_ddl("p decimal(12,2) NOT NULL, at timestamp, ms timestamp(3), n timestamp_ntz, t time"),
                       is_fine=True)  # fmt: skip
    price = schema.field("p").schema  # type: ignore[union-attr]
    assert (Decimal.scale(price), Decimal.precision(price), price.is_optional) == (2, 12, False)
    assert [str(part.type) for part in arrow_type(schema)] == [
        "decimal128(12, 2)", "timestamp[us, tz=UTC]", "timestamp[ms, tz=UTC]", "timestamp[us]", "time64[us]",
    ]  # fmt: skip
    coarse = schema_of(parse_ddl("at timestamp"))
    assert coarse.field("at").schema == Timestamp.builder().optional().build()  # type: ignore[union-attr]


AVRO = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long", "doc": "the key"},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW"]}, "default": "NEW"},
        {"name": "next", "type": ["null", "State"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "n", "type": "int"}]}}},
        {"name": "small", "type": {"type": "int", "connect.type": "int16"}},
    ],
}  # fmt: skip
JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"}, "price": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"}, "tags": {"type": "array", "items": {"type": "string"}},
        "who": {"$ref": "#/$defs/who"}, "any": {"type": "object"},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    }, "$defs": {"who": {"type": "object", "properties": {"a": {"type": "integer", "connect.type": "int8"}}}},
}  # fmt: skip


def test_schemas_of_avro_and_json_schema_are_taken(tmp_path):
    (tmp_path / "orders.avsc").write_text(json.dumps(AVRO))
    made = declared_type(str(tmp_path / "orders.avsc"))
    assert str(made) == (
        "struct<id:bigint, price:decimal(12,2), at:timestamp(us), state:string, next:string, "
        "lines:array<struct<n:int>>, small:smallint>"
    )
    assert [column.is_required for column in made.columns] == [True, False, True, False, False, True, True]
    assert made.columns[0].doc == "the key"
    made = declared_type(json.dumps(JSON_SCHEMA))
    assert str(made) == (
        "struct<id:bigint, price:double, at:timestamp, tags:array<string>, who:struct<a:tinyint>, any:json, "
        "map:map<string,bigint>, maybe:boolean>"
    )
    (tmp_path / "ddl.sql").write_text("id bigint,\nprice foo")
    with pytest.raises(ConfigError, match=r"ddl\.sql: Unknown type: foo, at line 2, column 7"):
        declared_type(f"file:{tmp_path / 'ddl.sql'}")
    with pytest.raises(ConfigError, match="cannot be read"):
        declared_type(str(tmp_path / "none.avsc"))


def test_a_union_of_two_types_is_reported_with_its_place():
    bad = {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["int", "string"]}]}
    with pytest.raises(ConfigError, match="A column cannot be a union of 2 types at x"):
        declared_type(json.dumps(bad))


def test_a_table_can_be_the_declaration(tmp_path):
    rows = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("price", pa.decimal128(12, 2)),
                      pa.field("at", pa.timestamp("us", "UTC")),
                      pa.field("l", pa.list_(pa.struct([("p", pa.int8())])))])  # fmt: skip
    pq.write_table(rows.empty_table(), tmp_path / "part-0.parquet")
    (tmp_path / "_SUCCESS").touch()
    for where in (tmp_path, tmp_path / "part-0.parquet"):
        made = declared_type(f"like:{where}")
        assert str(made) == "struct<id:bigint, price:decimal(12,2), at:timestamp, l:array<struct<p:tinyint>>>"
        assert made.columns[0].is_required
    with pytest.raises(ConfigError, match="does not exist"):
        declared_type(f"like:{tmp_path / 'none'}")


def test_a_delta_and_an_iceberg_table_can_be_the_declaration(tmp_path):
    from deltalake import write_deltalake
    from pyiceberg.catalog import load_catalog

    rows = pa.table({"id": pa.array([1], pa.int16()), "price": pa.array([None], pa.decimal128(12, 2)),
                     "at": pa.array([None], pa.timestamp("us", "UTC"))})  # fmt: skip
    write_deltalake(str(tmp_path / "delta"), rows)
    assert str(declared_type(f"like:{tmp_path / 'delta'}")) == "struct<id:smallint, price:decimal(12,2), at:timestamp>"
    settings = {"table.catalog.type": "sql", "table.catalog.uri": f"sqlite:///{tmp_path}/c.db",
                "table.catalog.warehouse": str(tmp_path)}  # fmt: skip
    catalog = load_catalog("default", **{name.removeprefix("table.catalog."): text for name, text in settings.items()})
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", rows.select(["price", "at"]).schema)
    want = "struct<price:decimal(12,2), at:timestamp>"
    assert str(declared_type("like:shop.orders", settings)) == want
    assert str(declared_type(f"like:{table.location().removeprefix('file://')}")) == want


def test_declarations_that_disagree_are_reported_by_both_names():
    said = problems({"value.schema": "id bigint, x int", "spark.schema": "id bigint, x date"}, is_sink=True)
    assert [name for name, _ in said] == ["value.schema", "spark.schema"]
    differ = "value.schema and spark.schema declare different schemas: x is int in value.schema and date in"
    assert all(differ in reported for _, reported in said)
    assert problems({"value.schema": "ID  bigint", "spark.schema": "`ID` long"}, is_sink=True) == []
    assert problems({"spark.schema": "no type"}, is_sink=False) == []
    ((name, reported),) = problems({"value.schema.orders": "id bigin"}, is_sink=True)
    assert name == "value.schema.orders"
    assert "Did you mean bigint?" in reported


def test_arrow_types_that_no_record_has_are_reported():
    with pytest.raises(ConfigError, match=r"A record cannot hold a value of type month_day_nano_interval at x"):
        of_arrow(pa.struct([("x", pa.month_day_nano_interval())]))
    assert Schema.INT8_SCHEMA.type is Type.INT8


@pytest.mark.parametrize("ref", ["#", "#/properties/a", "#/definitions/Node"])
def test_a_json_schema_that_has_no_end_is_refused_with_the_place(ref):
    node = {"type": "object", "properties": {"next": {"type": "array", "items": {"$ref": "#/definitions/Node"}}}}
    text = json.dumps({"type": "object", "properties": {"a": {"$ref": ref}}, "definitions": {"Node": node}})
    with pytest.raises(ConfigError, match=r"\$ref leads back to where it stands at a") as caught:
        declared_type(text)
    assert "JSON text" in caught.value.hint


@pytest.mark.parametrize(("name", "meant"), [("bytea", "binary"), ("float64", "double"), ("uint64", "decimal")])
def test_a_type_of_others_is_named_by_what_it_is_and_not_by_its_letters(name, meant):
    with pytest.raises(ConfigError, match=f"Unknown type: {name}") as caught:
        declared_type(f"id {name}")
    assert caught.value.hint.startswith(f"Did you mean {meant}?")
