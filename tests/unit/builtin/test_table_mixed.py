"""Members of several kinds, as a price that is number and text: the rows are those that each record makes alone."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kconnect.api import DataError, SinkRecord
from kconnect.builtin.connectors.tables.record_columns import batches_of_records
from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector
from kconnect.builtin.types.fitting import json_text
from kconnect.testing import SinkHarness
from kit.examples import examples
from kit.tables import read_table, table_settings

_LATER = {"topics": "t", "flush.ms": "60000", "flush.rows": "1000000"}
_UPSERT = {"write.mode": "upsert", "merge.keys": "id", "key.converter.schemas.enable": "false"}
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.integers(-9, 9).map(lambda number: number + 0.5),
    st.sampled_from(["", "x", "1", "true"]),
)
_KINDS = st.one_of(
    _LEAVES,
    st.fixed_dictionaries({"x": _LEAVES}),
    st.lists(st.integers(0, 3), min_size=1, max_size=2),
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
)
_VALUES = st.fixed_dictionaries(
    {"id": st.integers(0, 4)}, optional={"p": _KINDS, "in": st.fixed_dictionaries({"q": _LEAVES})}
)
_folders = itertools.count()


@examples(20)
@example([{"id": 0, "in": {"q": False}}, {"id": 0, "in": {"q": 0}}, {"id": 0, "in": {"q": 0.5}}])
@given(st.lists(st.one_of(_VALUES, _VALUES, _VALUES, st.none()), min_size=1, max_size=12))
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_many_records_together_make_the_rows_that_each_makes_alone(mode, tmp_path_factory, values):
    kind = "parquet" if mode == "append" else "delta"
    records = [
        SinkRecord("t", 0, None, at % 5 if value is None else value["id"], None, value, at)
        for at, value in enumerate(values)
    ]
    tables = []
    for puts in ([records], [[record] for record in records]):
        target = table_settings(kind, tmp_path_factory.mktemp(f"t{next(_folders)}"))
        with SinkHarness(TableSinkConnector, {**target, **_LATER, **(_UPSERT if mode == "upsert" else {})}) as sink:
            for put in puts:
                sink.put_records(put)
        tables.append(sorted(rows_of(target), key=repr) if mode == "upsert" else rows_of(target))
    assert tables[0] == tables[1]


def test_json_text_of_many_structs_together_is_that_of_each(tmp_path):
    target = table_settings("parquet", tmp_path)
    values = [{"x": 1}, {"x": 2.5}, {"y": 3}]
    with SinkHarness(TableSinkConnector, {**target, **_LATER}) as sink:
        sink.put({"p": "text"})
        sink.put_bytes(*(json.dumps({"p": value}).encode() for value in values * 200))
    assert [row["p"] for row in rows_of(target)] == ["text", *map(json_text, values * 200)]


def rows_of(target: dict[str, str]) -> list[dict[str, Any]]:
    try:
        rows = read_table(target).to_pylist()
    except (DataError, FileNotFoundError):
        return []  # no record had a value
    return [{name: row[name] for name in sorted(row) if said(row[name])} for row in rows]


def said(value: Any) -> bool:
    """Whether a value is there: of a struct, any of it."""
    return any(map(said, value.values())) if isinstance(value, dict) else value is not None


def test_values_with_nothing_in_common_are_a_batch_for_each_kind_and_in_order():
    values = [{"p": 1}, {"p": "x"}, {"p": 2.5}, {"p": None}, {}, {"p": [1]}, {"p": ["y"]}, {"p": "z"}]
    ((batches, run),) = batches_of_records([SinkRecord("t", 0, None, None, None, v, at) for at, v in enumerate(values)])
    assert [record.value for record in run] == values
    assert [batch.kafka_offsets.to_pylist() for batch, _ in batches] == [[0], [1, 7], [2], [3, 4], [5], [6]]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_beside_one_that_brings_a_member_to_structs_of_a_list_stay_as_they_are(kind, tmp_path):
    target = table_settings(kind, tmp_path)
    with SinkHarness(TableSinkConnector, {**target, **_LATER, **_UPSERT, "flush.rows": "2"}) as sink:
        sink.put({"id": 1, "a": {"z": [{"q": 1}]}}, {"id": 2, "b": "x"})
        sink.put({"id": 2, "a": {"z": [{"r": "s"}]}}, {"id": 3})
    rows = {row["id"]: row for row in read_table(target).to_pylist()}
    assert rows[1]["a"] == {"z": [{"q": 1, "r": None}]}
    assert rows[2]["a"] == {"z": [{"q": None, "r": "s"}]}


def test_json_text_of_what_one_record_was_unfolded_into_is_that_of_each(tmp_path):
    target = table_settings("parquet", tmp_path)
    unfold = {"transforms": "q", "transforms.q.type": "SqlTransform", "transforms.q.query": "SELECT explode(l) AS p"}
    unfold["transforms.q.query"] += " FROM records"
    with SinkHarness(TableSinkConnector, {**target, **_LATER, **unfold}) as sink:
        sink.put({"l": ["text"]}, {"l": [{"a": 1}, {"a": 2}]})
    assert [row["p"] for row in rows_of(target)] == ["text", '{"a":1}', '{"a":2}']


def test_values_of_very_many_kinds_are_looked_at_one_by_one():
    values = [{f"m{bit}": 1 if number >> bit & 1 else "x" for bit in range(5)} for number in range(32)]
    ((batches, _),) = batches_of_records([SinkRecord("t", 0, None, None, None, v, at) for at, v in enumerate(values)])
    assert batches == ()
