"""SqlTransform and SqlPredicate on single records: what a table of the same row gives, or the same error."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

from kconnect.api import ConfigError, DataError, RecordBatch, Schema, SchemaBuilder, SinkRecord, Struct, Timestamp
from kconnect.api.columns import values_of
from kconnect.builtin.sql import plan as plans
from kconnect.builtin.sql.rows import RecordRows
from kconnect.builtin.sql.sql_predicate import SqlPredicate
from kconnect.builtin.sql.sql_transform import SqlTransform
from kit.places import GOLDEN
from kit.sql_rows import ROWS

SCHEMA = (
    SchemaBuilder.struct()
    .field("i", Schema.OPTIONAL_INT32_SCHEMA)
    .field("l", Schema.OPTIONAL_INT64_SCHEMA)
    .field("t", Schema.OPTIONAL_INT8_SCHEMA)
    .field("x", Schema.OPTIONAL_FLOAT64_SCHEMA)
    .field("f", Schema.OPTIONAL_FLOAT32_SCHEMA)
    .field("s", Schema.OPTIONAL_STRING_SCHEMA)
    .field("j", Schema.OPTIONAL_STRING_SCHEMA)
    .field("b", Schema.OPTIONAL_BOOLEAN_SCHEMA)
    .field("by", Schema.OPTIONAL_BYTES_SCHEMA)
    .field("ts", Timestamp.builder().optional().build())
    .build()
)
COLUMNS = [field.name for field in SCHEMA.fields]
STRUCTS = [Struct.from_values(SCHEMA, [row[name] for name in COLUMNS]) for row in ROWS.select(COLUMNS).to_pylist()]
LINES = (GOLDEN / "sql/expressions.txt").read_text("utf-8").splitlines()
# KCONNECT_ALL_EXPRESSIONS=1 goes through all of them, which takes a minute
EVERY = 1 if os.environ.get("KCONNECT_ALL_EXPRESSIONS") else 30
SAMPLE = [line for line in LINES if line.strip()][::EVERY]


def _record(value: Any, schema: Schema | None = SCHEMA) -> SinkRecord:
    return SinkRecord("topic", 3, None, None, schema, value, 7, timestamp=1_700_000_000_123)


def _transform(query: str) -> SqlTransform:
    made = SqlTransform()
    made.configure({"query": query})
    return made


def _said(values: Any) -> Any:
    """NaN is like NaN here."""
    if isinstance(values, dict):
        return {name: _said(value) for name, value in values.items()}
    return "NaN" if isinstance(values, float) and math.isnan(values) else values


def _alone(plan: plans.SelectPlan, rows: RecordRows) -> Any:
    try:
        return _said(plan.select_one(rows))
    except DataError as err:
        return str(err)


def _as_table(plan: plans.SelectPlan, rows: RecordRows) -> Any:
    try:
        found = plan.select(rows)
        if found.kept is not None:
            return None
        return {
            field.name: _said(values_of(field.schema, found.made[field.name], 1)[0])
            for field in plan.fields
            if field.name in found.made
        }
    except DataError as err:
        return str(err)


def test_a_record_alone_gives_what_a_table_of_it_gives() -> None:
    alone = 0
    for line in SAMPLE:
        try:
            transform = _transform(f"SELECT {line} AS r, _offset + 1 AS n, i FROM records WHERE coalesce(i, 1) < 2")
            plan = transform._plans.of(RecordRows(_record(STRUCTS[0])))
        except (DataError, ConfigError):  # names a field of another type than these, or is refused
            continue
        for struct in STRUCTS:
            rows = RecordRows(_record(struct))
            assert _alone(plan, rows) == _as_table(plan, rows), line
        alone += plan._single is not None
        transform.close()
    assert alone > len(SAMPLE) // 4


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": "x"},
        {"a": 2**63, "b": "x"},  # no long
        {"a": "1", "b": "x"},  # text where the first record has a number
        {"a": None, "b": None},
        {"b": "x\0y'; DROP TABLE t; --"},
        {"a": 1.5, "b": "\ud800"},
        {"a": float("nan"), "b": ""},
        {"a": [1, 2], "b": {"c": 1}},
    ],
)
def test_schemaless_records_one_after_the_other(value: Any) -> None:
    transform = _transform("SELECT a, a * 2 AS twice, concat(b, '!') AS said FROM records")
    transform.apply(_record({"a": 1, "b": "first"}, None))
    found: list[Any] = []
    for single in (True, False):
        try:
            rows = RecordRows(_record(value, None))
            plan = transform._plans.of(rows)
            found.append(_alone(plan, rows) if single else _as_table(plan, rows))
        except DataError as err:
            found.append(str(err))
    assert found[0] == found[1]
    transform.close()


def test_a_struct_that_lies_about_its_types_fails_as_a_table_does() -> None:
    lie = Struct.from_values(SCHEMA, list(STRUCTS[0]._values))
    lie._values[0] = "text"
    transform = _transform("SELECT i + 1 AS r FROM records")
    transform.apply(_record(STRUCTS[0]))
    with pytest.raises(DataError, match="Values of type str in a column"):
        transform.apply(_record(lie))
    transform.close()


def test_a_predicate_says_of_a_record_what_it_says_of_a_batch() -> None:
    batch = RecordBatch.from_records([_record(struct) for struct in STRUCTS])
    for condition in ("i > 0", "s LIKE '%l%' OR b", "x > 1 AND NOT b", "_timestamp > '2020-01-01'", "_offset = 7"):
        predicate = SqlPredicate()
        predicate.configure({"condition": condition})
        assert predicate.test_batch(batch).to_pylist() == [predicate.test(_record(struct)) for struct in STRUCTS]
        predicate.close()


def test_a_batch_can_follow_a_record_and_a_record_a_batch() -> None:
    transform = _transform("SELECT i * 2 AS r FROM records WHERE i > 0")
    batch = RecordBatch.from_records([_record(struct) for struct in STRUCTS])
    for _ in range(2):
        assert [transform.apply(_record(struct)) is None for struct in STRUCTS] == [False, False, True, True, True]
        assert len(transform.apply_batch(batch)) == 2
    transform.close()
