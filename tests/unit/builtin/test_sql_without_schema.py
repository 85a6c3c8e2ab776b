"""Queries over values without schema: what types come out, and what becomes of fields that are not there."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pytest

from kconnect.api import ConfigError, DataError, Date, Decimal, Schema, SourceRecord, Timestamp
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.sql.engine import Engine
from kconnect.builtin.sql.plan import SelectPlan
from kconnect.builtin.sql.rows import RecordRows
from kconnect.builtin.sql.spark_query import parse_query
from kconnect.builtin.sql.sql_transform import SqlTransform
from kit.differences import hold_alike
from kit.places import GOLDEN

UPDATED = {"op": "u", "ts_ms": 1767312000123, "before": {"id": 1, "n": 1}, "after": {"id": 1, "tags": ["a"], "n": 2.5}}
DELETED = {"op": "d", "ts_ms": 1767312000999, "before": {"id": 2, "n": 1}, "after": None}
CREATED = {"op": "c", "ts_ms": 1767312001999, "before": None, "after": {"id": 3, "n": None}}


def made(query: str, value: Any) -> tuple[Schema | None, Any]:
    transform = SqlTransform()
    transform.configure({"query": query})
    try:
        after = transform.apply(SourceRecord({}, {}, "t", value))
    finally:
        transform.close()
    assert after is not None
    return after.value_schema, after.value


def test_decimals_dates_and_times_come_out_as_connects_logical_types() -> None:
    query = (
        "SELECT op, timestamp_millis(ts_ms) AS at, to_date(timestamp_millis(ts_ms)) AS day, after.n AS n, gone, "
        "CAST(after.n AS DECIMAL(12,2)) AS price, struct(CAST(1 AS DECIMAL(3,1)) AS d) AS s FROM records"
    )
    schema, value = made(query, UPDATED)
    assert schema is not None
    kinds = {field.name: (field.schema.type.name, field.schema.name) for field in schema.fields}
    assert kinds == {
        "op": ("STRING", None),
        "at": ("INT64", Timestamp.LOGICAL_NAME),
        "day": ("INT32", Date.LOGICAL_NAME),
        "n": ("FLOAT64", None),
        "price": ("BYTES", Decimal.LOGICAL_NAME),
        "s": ("STRUCT", None),
    }
    assert value.get("price") == decimal.Decimal("2.50")
    assert value.get("at") == datetime.datetime(2026, 1, 2, 0, 0, 0, 123000, datetime.UTC)
    assert value.get("day") == datetime.date(2026, 1, 2)


def test_whole_numbers_of_json_are_days_and_lengths() -> None:
    query = "SELECT date_from_unix_date(d) AS day, date_add(date_from_unix_date(d), n) AS next, lpad(t, n, '0') AS t"
    _, value = made(f"{query} FROM records", {"d": 20419, "n": 3, "t": "7"})
    assert [value.get("day"), value.get("next")] == [datetime.date(2025, 11, 27), datetime.date(2025, 11, 30)]
    assert value.get("t") == "007"
    for call in ("date_from_unix_date(n)", "date_add('2025-11-27', n)", "add_months('2025-11-27', n)", "lpad(t, n)"):
        with pytest.raises(DataError, match="n is DOUBLE, and a whole number is needed"):
            made(f"SELECT {call} AS x FROM records", {"n": 1.5, "t": "7"})
    with pytest.raises(DataError, match=r"destination type INT32$"):  # no name of a column that only the engine has
        made("SELECT date_from_unix_date(d) AS day FROM records", {"d": 10**12})


@pytest.mark.parametrize("text", ["INTERVAL 1 DAY + at", "INTERVAL 1 DAY", "coalesce(at, INTERVAL 1 DAY)"])
def test_an_interval_that_is_added_to_nothing_is_refused_before_a_record_comes(text: str) -> None:
    with pytest.raises(ConfigError, match="INTERVAL '1' DAY cannot be used here"):
        made(f"SELECT {text} AS x FROM records", {"at": None})


def test_lists_of_values_that_have_nothing_in_common_come_out_as_texts() -> None:
    schema, value = made("SELECT CAST(n AS DECIMAL(3,1)) AS d, l FROM records", {"n": 1, "l": [[1], 5, {"a": None}]})
    assert schema is not None
    assert value.get("l") == ["[1]", "5", '{"a":null}']


def test_such_a_value_is_written_by_the_json_converter_without_schemas() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)
    schema, value = made(
        "SELECT CAST('0.37' AS DECIMAL(12,2)) AS price, timestamp_millis(ts_ms) AS at FROM records", UPDATED
    )
    assert converter.from_connect_data("t", schema, value) == b'{"price":0.37,"at":1767312000123}'


def test_a_result_that_needs_no_schema_is_a_map() -> None:
    assert made("SELECT op, after.tags AS tags, ts_ms + 1 AS n FROM records", UPDATED) == (
        None,
        {"op": "u", "tags": ["a"], "n": 1767312000124},
    )


@pytest.mark.parametrize(("value", "found"), [(UPDATED, 1), (DELETED, 2), (CREATED, 3), ({}, None)])
def test_a_field_of_either_of_two_structs_that_differ(value: Any, found: int | None) -> None:
    assert made("SELECT coalesce(after, before).id AS id FROM records", value) == (None, {"id": found})


def test_a_field_of_a_number_is_an_error_that_names_it() -> None:
    with pytest.raises(DataError, match=r"COALESCE\(after, before\) is BIGINT, which has no fields"):
        made("SELECT coalesce(after, before).id AS id FROM records", {"after": 5})


@pytest.mark.parametrize(
    "expression",
    ["coalesce(after, before)", "nvl(after, before)", "if(op = 'd', before, after)", "get(array(after, before), 0)"],
)
def test_structs_of_other_fields_are_one_struct_with_all_of_them(expression: str) -> None:
    text = made(f"SELECT to_json({expression}) AS x FROM records", UPDATED)[1]["x"]
    assert json.loads(text) == {"id": 1, "tags": ["a"], "n": 2.5}


def test_an_envelope_is_flattened_in_one_line() -> None:
    assert made("SELECT after.* FROM records", UPDATED) == (None, UPDATED["after"])
    assert made("SELECT after.*, op FROM records", DELETED) == (None, {"op": "d"})


def test_all_fields_of_a_struct_that_is_null_are_no_row_of_nulls_but_a_tombstone() -> None:
    assert made("SELECT after.* FROM records", DELETED) == (None, None)
    assert made("SELECT after.*, before.* FROM records", DELETED) == (None, DELETED["before"])
    assert made("SELECT after.* FROM records", {"op": "d"}) == (None, {})  # not a change: it has no such member
    transform = SqlTransform()
    transform.configure({"query": "SELECT after.* FROM records WHERE op <> 'x'"})
    try:
        values = (DELETED, UPDATED, DELETED, {"op": "c"})
        several = transform.expand_list([SourceRecord({}, {}, "t", value) for value in values])
    finally:
        transform.close()
    assert [record.value for (record,) in several] == [None, UPDATED["after"], None, {}]


def test_lists_of_several_kinds_and_numbers_of_any_size_have_types_that_hold_them() -> None:
    value = {"l": [1, 2.5], "m": [1, "a", {"x": True}], "big": 2**63, "o": {"n": [2**63 + 1, 1]}}
    assert made("SELECT l, m, big, o.n AS n FROM records", value)[1] == {
        "l": [1, 2.5],
        "m": [1, "a", {"x": True}],
        "big": 2**63,
        "n": [2**63 + 1, 1],
    }, "fields that are only named stay as they are"
    schema, found = made("SELECT get(l, 0) AS l, get(m, 2) AS m, big + 1 AS big FROM records", value)
    read = found if schema is None else {field.name: found.get(field) for field in schema.fields}
    assert read == {"l": 1.0, "m": '{"x":true}', "big": 2**63 + 1}


def test_every_expression_over_a_field_that_is_not_there_gives_a_value_or_says_why_not() -> None:
    """Over columns with schemas Spark has reported what they give; here each field is null of no type."""
    recorded = json.loads((GOLDEN / "sql/spark.json").read_text("utf-8"))["expressions"]
    engine, rows = Engine(), RecordRows(SourceRecord({}, {}, "t", {}))

    def look(expression: str) -> None:
        try:
            SelectPlan(parse_query(f"SELECT {expression} AS x FROM records"), engine, rows).select_one(rows)
        except (ConfigError, DataError):
            return

    assert hold_alike([(one, one) for one in recorded], look) > 500


@pytest.mark.parametrize(
    ("select", "rows"),
    [
        ("id, explode(tags) AS tag", [{"id": 1, "tag": "p"}, {"id": 1, "tag": "q"}]),
        ("id, inline(items)", [{"id": 1, "a": 1, "b": "x"}, {"id": 1, "a": 2, "b": None}]),
        (
            "posexplode(items) AS (n, item)",
            [{"n": 0, "item": {"a": 1, "b": "x"}}, {"n": 1, "item": {"a": 2, "b": None}}],
        ),
        ("id, explode(nothing) AS x", []),
        ("id, explode_outer(gone) AS x", [{"id": 1, "x": None}]),
        ("id, inline(empty)", []),
        ("id, inline(gone)", []),
        ("id, inline_outer(empty)", [{"id": 1}]),
        ("id, inline_outer(gone) AS (a, b)", [{"id": 1, "a": None, "b": None}]),
        ("id + 1 AS id, explode(map('k', 1))", [{"id": 2, "key": "k", "value": 1}]),
    ],
)
def test_arrays_are_unfolded_into_records(select: str, rows: list[Any]) -> None:
    value = {
        "id": 1,
        "tags": ["p", "q"],
        "items": [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
        "empty": [],
        "nothing": None,
    }
    assert [record.value for record in unfolded(select, value)] == rows


def test_what_has_no_items_is_reported_with_its_type() -> None:
    for select, words in (
        ("explode(id) AS x", r"explode\(\) takes an array or a map, and id is BIGINT"),
        ("inline(tags)", r"inline\(\) takes an array of structs, and tags is ARRAY<STRING>"),
        ("explode(tags) AS (a, b)", r"explode\(tags\) gives col, and is named AS \(a, b\)"),
    ):
        with pytest.raises(DataError, match=words):
            unfolded(select, {"id": 1, "tags": ["p"]})


def test_a_record_without_value_passes_a_generator() -> None:
    (record,) = unfolded("explode(tags) AS tag", None)
    assert record.value is None


def unfolded(select: str, value: Any) -> list[SourceRecord]:
    transform = SqlTransform()
    transform.configure({"query": f"SELECT {select} FROM records"})
    try:
        return list(transform.expand(SourceRecord({}, {}, "t", value)))
    finally:
        transform.close()
