"""Values without schema in tables that have columns already: widened, beside, refused or left out, never changed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kconnect.api import ConfigError, DataError, Schema, SchemaBuilder, SinkRecord, Struct, TopicPartition
from kconnect.builtin.connectors.tables.open_table import OpenTable
from kconnect.builtin.connectors.tables.record_columns import Made, batches_of_records, rows_of_batch
from kconnect.builtin.connectors.tables.table_config import TableConfig
from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector
from kconnect.builtin.connectors.tables.upserts import by_offset
from kconnect.builtin.types.contracts import Contract, Contracts, Discards
from kconnect.builtin.types.evolution import Evolution, SchemaRules, conformed, merged
from kconnect.builtin.types.settling import Settling, settled
from kconnect.testing import SinkHarness
from kit.examples import examples
from kit.tables import FORMATS, memory_settings, read_table, table_settings

AT = TopicPartition("t", 0)
PRICES = [{"id": 1, "price": 3}, {"id": 2, "price": 3.5}, {"id": 3, "price": 2**63}]
DISCARDS_VALUES = Contracts(Contract.DISCARD_VALUE)
NOW = {"topics": "t", "flush.ms": "0", "value.converter.schemas.enable": "false"}


def written(sink: SinkHarness, *puts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the table after these puts, each of which is a flush, without what is null."""
    for values in puts:
        sink.put(*values)
    sink.commit()
    rows = sorted(read_table(sink._run.config).to_pylist(), key=lambda row: row["id"])
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def sink_of(kind: str, folder: Any, **more: str) -> SinkHarness:
    settings = {key.replace("__", ".").replace("_", "."): value for key, value in more.items()}
    return SinkHarness(TableSinkConnector, {**table_settings(kind, folder), **NOW, **settings})


@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_of_every_size_come_back_from_one_flush(kind, tmp_path):
    with sink_of(kind, tmp_path) as sink:
        rows = written(sink, PRICES)
    assert rows == [{"id": 1, "price": 3.0}, {"id": 2, "price": 3.5}, {"id": 3, "price": float(2**63)}]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_column_widens_between_flushes_and_restarts_or_has_a_second_one_beside_it(kind, tmp_path):
    with sink_of(kind, tmp_path) as sink:
        written(sink, PRICES[:1])
        sink.crash()
        sink.start()
        sink.deliver()
        rows = written(sink, PRICES[1:2], PRICES[2:], [{"id": 4, "price": 2**53 + 1}, {"id": 5, "price": "free"}])
    if kind == "parquet":
        assert read_table(sink._run.config).schema.field("price").type == pa.float64()
        assert [row.get("price") for row in rows] == [3, 3.5, 2**63, None, None]
        assert rows[3]["price__v_bigint"] == 2**53 + 1
    else:
        assert [row.get("price") for row in rows] == [3, None, None, 2**53 + 1, None]
        assert (rows[1]["price__v_double"], rows[2]["price__v_decimal"]) == (3.5, 2**63)
    assert rows[4] == {"id": 5, "price__v_text": "free"}


def test_a_column_of_files_with_long_numbers_is_not_read_as_doubles(tmp_path):
    with sink_of("parquet", tmp_path) as sink:
        rows = written(sink, [{"id": 1, "n": 2**53 + 1, "m": 1}], [{"id": 2, "n": 0.5, "m": 0.5}])
    assert rows == [{"id": 1, "n": 2**53 + 1, "m": 1.0}, {"id": 2, "n__v_double": 0.5, "m": 0.5}]


@pytest.mark.parametrize("kind", FORMATS)
def test_lists_of_structs_are_null_or_have_what_came(kind, tmp_path):
    values = [
        {"id": 1},
        {"id": 2, "l": [{"p": 1}, {"q": "z"}]},
        {"id": 3, "l": None},
        {"id": 4, "n": [1]},
        {"id": 5, "l": []},
    ]
    with sink_of(kind, tmp_path) as sink:
        rows = written(sink, values)
    two = [{"p": 1, "q": None}, {"p": None, "q": "z"}]
    assert rows == [{"id": 1}, {"id": 2, "l": two}, {"id": 3}, {"id": 4, "n": [1]}, {"id": 5, "l": []}]


def test_empty_lists_and_structs_are_null_until_their_type_is_known_and_that_is_said_once(tmp_path, caplog):
    first = {"id": 1, "l": [], "e": {}, "n": None, "s": {"x": 1, "l": [None], "n": None}}
    with sink_of("parquet", tmp_path) as sink:
        rows = written(sink, [first], [first | {"id": 2}], [{"id": 3, "l": [1]}], [{"id": 4, "l": []}])
    assert rows == [
        {"id": 1, "s": {"x": 1}},
        {"id": 2, "s": {"x": 1}},
        {"id": 3, "l": [1]},
        {"id": 4, "l": []},
    ]
    reported = [one.getMessage().split(" of table")[0] for one in caplog.records if "[], {}" in one.getMessage()]
    assert reported == ["Column l", "Column e", "Column s.l"]


@pytest.mark.parametrize("kind", FORMATS)
def test_fields_of_structs_and_elements_of_lists_go_beside_as_well(kind, tmp_path):
    first = {"id": 1, "s": {"x": 1}, "l": [1], "t": "a", "e": {"x": 1}}
    with sink_of(kind, tmp_path) as sink:
        rows = written(
            sink,
            [first],
            [{"id": 2, "s": {"x": "b"}, "l": ["c"], "t": {"y": [True]}, "e": {}}, {"id": 3, "s": 7, "t": 1.5, "l": []}],
        )
    assert rows[0]["s"]["x"] == 1
    assert (rows[1]["s"]["x"], rows[1]["s"]["x__v_text"]) == (None, "b")
    assert (rows[1]["l__v_json"], rows[1]["t"]) == ('["c"]', '{"y":[true]}')
    assert (rows[2]["s__v_bigint"], rows[2]["t"], rows[2]["l"]) == (7, "1.5", [])


MIXED = [[1, "x"], [{"a": 1}, {"b": [1, "x", None, {}]}], {"k": [1, 2.5], "o": {}}]


@pytest.mark.parametrize("run", ["together", "alone"])
def test_json_text_beside_a_column_and_in_one_of_text_is_the_value_as_it_came(run, tmp_path):
    names = ("n", "t")
    rows = [{"id": 2 + at, **dict.fromkeys(names, value)} for at, value in enumerate(MIXED)]
    rows.append({"id": 5, "s": {"t": MIXED}, "l": [{"t": value} for value in MIXED]})
    with sink_of("parquet", tmp_path) as sink:
        puts = [rows] if run == "together" else [[row] for row in rows]
        first = {"id": 1, "n": 1, "t": "a", "s": {"t": "a"}, "l": [{"t": "a"}]}
        found = written(sink, [first], *puts)
    texts = [json.dumps(value, separators=(",", ":")) for value in MIXED]
    assert [(row["n__v_json"], row["t"]) for row in found[1:4]] == [(text, text) for text in texts]
    assert found[4] == {
        "id": 5,
        "s": {"t": json.dumps(MIXED, separators=(",", ":"))},
        "l": [{"t": text} for text in texts],
    }


def test_freeze_makes_a_record_an_error_that_names_column_value_type_and_place(tmp_path):
    with sink_of("parquet", tmp_path, schema_contract="freeze", errors_tolerance="all") as sink:
        rows = written(sink, PRICES[:1], [PRICES[1], {"id": 4, "price": 4}, {"id": 5, "new": 1}])
        reported = [str(letter.error) for letter in sink.errant]
    assert rows == [{"id": 1, "price": 3}, {"id": 4, "price": 4}]
    assert (
        "t-0, offset 1 cannot be written: Column price is double in the record, and cannot be int64: 3.5" in reported[0]
    )
    assert "t-0, offset 3 cannot be written: Column new is not in the table, and its value is 1" in reported[1]


def test_rows_and_values_are_left_out_by_column_and_counted(tmp_path, caplog):
    contract = {
        "schema_contract": "discard_value",
        "schema_contract_price": "discard-row",
        "schema_contract_n": "evolve",
    }
    with sink_of("delta", tmp_path, **contract) as sink:
        rows = written(
            sink,
            [{"id": 1, "price": 3, "name": "a", "n": 1}],
            [{"id": 2, "price": 3.5, "name": "b"}, {"id": 3, "price": 4, "name": "c", "n": 1.5, "new": True}],
            [{"id": 4, "price": "x"}, {"id": 5, "name": [1]}],
        )
        discards = sink.task._discards
    assert rows == [
        {"id": 1, "price": 3, "name": "a", "n": 1},
        {"id": 3, "price": 4, "name": "c", "n__v_double": 1.5},
        {"id": 5},
    ]
    assert (discards.rows, discards.values) == (2, 2)
    assert "The record at t-0, offset 1 is left out by schema.contract=discard-row: Column price" in caplog.text
    assert sink.committed


@pytest.mark.parametrize("kind", FORMATS)
def test_only_the_member_of_an_element_that_does_not_fit_is_left_out(kind, tmp_path):
    with sink_of(kind, tmp_path, schema_contract="discard-value") as sink:
        rows = written(
            sink,
            [{"id": 1, "l": [{"q": 1, "r": "a"}], "s": {"x": 1}}],
            [{"id": 2, "l": [{"q": 2, "new": 1}, None, {"q": 3, "r": {"y": 1}}], "s": {"x": 2, "new": 1}}, {"id": 3}],
        )
        assert sink.task._discards.values == 3
    assert rows[1:] == [{"id": 2, "l": [{"q": 2, "r": None}, None, {"q": 3, "r": None}], "s": {"x": 2}}, {"id": 3}]


def test_of_members_of_several_kinds_in_one_list_those_that_fit_stay(tmp_path):
    with sink_of("parquet", tmp_path, schema_contract="discard-value") as sink:
        mixed = [{"b": "x"}, {"b": 2}, None, {"b": None}, {"b": [3]}, {"b": 2**70}, {"c": True}]
        rows = written(sink, [{"id": 1, "l": [{"b": 1}]}], [{"id": 2, "l": mixed}, {"id": 3}, {"id": 4, "l": []}])
        assert sink.task._discards.values == 4
    none = {"b": None}
    assert rows[1:] == [
        {"id": 2, "l": [none, {"b": 2}, None, none, none, none, none]},
        {"id": 3},
        {"id": 4, "l": []},
    ]


def test_a_map_that_does_not_fit_is_left_out_without_those_beside_it():
    table = pa.schema([("m", pa.map_(pa.string(), pa.int32()))])
    wide = pa.array([[("a", 1)], [("b", 2**40)], None, [("c", 3)]], pa.map_(pa.string(), pa.int64()))
    rules = SchemaRules("t", Evolution.WIDEN, lambda kind: kind, lambda *change: False, DISCARDS_VALUES)
    counts: list[int] = []
    how = Settling(
        DISCARDS_VALUES,
        lambda old, column, path: merged(old, column, path, rules),
        moves=False,
        discarded=lambda path, count, error: counts.append(count),
    )
    rows = settled(pa.record_batch({"m": wide}), table, how)
    assert rows["m"].to_pylist() == [[("a", 1)], None, None, [("c", 3)]]
    assert counts == [1]


def test_values_with_schema_get_no_second_column(tmp_path):
    whole = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).build()
    text = SchemaBuilder.struct().field("id", Schema.STRING_SCHEMA).build()
    with SinkHarness(
        TableSinkConnector, {**table_settings("delta", tmp_path), **NOW, "errors.tolerance": "all"}
    ) as sink:
        values = [(whole, 1), (text, "b")]
        sink.put_records(
            [
                SinkRecord("t", 0, None, None, kind, Struct(kind).put("id", value), at)
                for at, (kind, value) in enumerate(values)
            ]
        )
        assert [letter.record.kafka_offset for letter in sink.errant] == [1]


def test_without_inference_values_need_a_schema(tmp_path):
    with sink_of("parquet", tmp_path, schema_infer="false", errors_tolerance="all") as sink:
        sink.put({"id": 1})
        assert "its value has no schema" in str(sink.errant[0].error)


def test_a_contract_that_is_not_there_is_reported(tmp_path):
    for key in ("schema.contract", "schema.contract.price"):
        with pytest.raises(ConfigError, match=r"(?i)evolve, freeze, discard-row, discard-value"):
            SinkHarness(TableSinkConnector, {**table_settings("parquet", tmp_path), **NOW, key: "melt"}).start()
    contracts = Contracts.parse(
        {"schema.contract": "freeze", "schema.contract.a": "evolve", "schema.contract.a.b": "discard_row"}
    )
    assert [contracts.of(path) for path in ("z", "a", "a.c[].d", "a.b")] == [
        Contract.FREEZE,
        Contract.EVOLVE,
        Contract.EVOLVE,
        Contract.DISCARD_ROW,
    ]


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**53 + 1, 2**63, 2**63 + 1, 10**39]),
    st.floats(allow_nan=False, width=32),
    st.text(max_size=2),
    st.lists(st.one_of(st.integers(0, 3), st.sampled_from([2**53 + 1, 0.5])), max_size=2),
    st.fixed_dictionaries(
        {}, optional={"x": st.one_of(st.sampled_from([0, 3, 2**53 + 1]), st.text(max_size=1), st.floats(0, 1))}
    ),
)


@examples(150)
@given(st.lists(st.lists(st.tuples(_VALUES, st.booleans()), min_size=1, max_size=4), min_size=1, max_size=4))
@pytest.mark.parametrize("widens", [True, False])
@example([[(10**39, False)], [(2**53 + 1, False), (0.0, False)]])  # of a column of text, in one of decimals
@example([[({"x": 2**53 + 1}, False), ({"x": 0.5}, False)]])  # types that come together, and do not become one
@example([[(2**53 + 1, False), (0.5, False)]])
@example([[(2**63, False)], [(3.149911142140506e-24, False)]])  # a scale that Arrow's decimals do not have
def test_no_value_changes_in_any_table_whatever_batches_it_comes_in(widens, puts):
    config = TableConfig.parse(memory_settings())
    table = OpenTable(config, "t")
    table.format.can_widen = lambda column, old, new: widens  # as Parquet's, as Delta's
    discards, rows = Discards(lambda: pytest.fail("nothing is left out")), []
    for put in puts:
        records = [SinkRecord("t", 0, None, None, None, {"p": value}, at) for at, (value, _) in enumerate(put)]
        for batches, run in batches_of_records(records):
            try:
                made = fitted(table, discards, batches)
            except DataError:
                made = []
            for part in made:
                table.plan.add(AT, part, 0, 1, 0.0)
            if not made:  # no batch, or values that wait for each other: record by record, as the task does
                for alone, _ in (found for record in run for found in batches_of_records([record])):
                    table.plan.add(AT, *fitted(table, discards, alone), 0, 1, 0.0)
        if put[0][1]:
            rows += flushed(table)
    rows += flushed(table)
    for value, row in zip([value for put in puts for value, _ in put], rows, strict=True):
        kept = [read for read in row.values() if read is not None]
        assert len(kept) <= 1
        assert is_kept(value, kept[0] if kept else None), (value, row)


def fitted(table: OpenTable, discards: Discards, batches: Sequence[Made]) -> list[pa.RecordBatch]:
    """The batches of one run as the table has them, joined by their offsets where it has columns."""
    made, places = [], []
    for one in (rows_of_batch(batch) for batch, _ in batches):
        try:
            made.append(table.fitted(one.columns, discards, moves=True))
        except DataError:
            if table.schema is not None:
                raise
            made.append(pa.RecordBatch.from_pydict({"p": pa.nulls(len(one.columns))}))  # no field with a value
        places.append(one.offsets)
    joined = by_offset(made, places, table.schema) if table.schema is not None and len(made) > 1 else None
    return made if joined is None else [joined]


def flushed(table: OpenTable) -> list[dict[str, Any]]:
    """The rows that waited, as they are written."""
    waiting = [batch for commit in table.plan.commits(joins_partitions=True) for batch in commit[AT].batches]
    table.plan.drop([AT])
    if table.schema is not None:
        table.know(table.schema)
        names = table.schema.names
        waiting = [
            conformed(batch.select([n for n in batch.schema.names if n in names]), table.schema) for batch in waiting
        ]
    return [row for batch in waiting for row in batch.to_pylist()]


def is_kept(value: Any, read: Any) -> bool:
    if isinstance(value, dict) and isinstance(read, str):  # JSON text of a column, in which no member is null
        return {name: part for name, part in json.loads(read).items() if part is not None} == value
    if value is None or (value in ({}, []) and not isinstance(value, bool | int | float)):
        return read in (None, [], "{}", "[]") or (
            isinstance(read, dict) and all(part is None for part in read.values())
        )
    if isinstance(value, dict) and isinstance(read, dict):
        kept = [part for part in read.values() if part is not None]
        return len(kept) == 1 and is_kept(value["x"], kept[0])
    if isinstance(value, list) and isinstance(read, list):
        return value == read
    if isinstance(read, str) and not isinstance(value, str):
        return read == str(value) if isinstance(value, float) and math.isinf(value) else bool(json.loads(read) == value)
    if isinstance(value, bool) or isinstance(read, bool):
        return value is read
    if isinstance(value, float) and isinstance(read, Decimal):
        return read in (Decimal(repr(value)), Decimal(value))
    return bool(value == read)
