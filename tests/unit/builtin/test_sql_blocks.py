"""SqlSink by columns writes what it writes row by row: random values with schema and without, into SQLite."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import DataError, RecordBatch, Schema, SchemaBuilder, SinkRecord, Struct
from kconnect.builtin.connectors.sql import sql_sink
from kconnect.builtin.connectors.sql.sql_blocks import Block, blocks_of_batch, blocks_of_records
from kconnect.builtin.connectors.sql.sql_rows import RowMaker
from kconnect.builtin.connectors.sql.sql_writer import TableWriter
from kconnect.builtin.converters.json_columns import ByRecordsError
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.types.fitting import json_text
from kconnect.testing import SinkHarness
from kit.examples import examples
from kit.random_types import Drawn, drawings

Put = Callable[[Any], None]  # a batch or records


def written(folder: Path, puts: Sequence[Any], **more: str) -> list[tuple[Any, ...]]:
    """The rows of the table, with their types, and what was refused."""
    file = folder / "rows.db"
    file.unlink(missing_ok=True)
    settings = {name.replace("_", "."): value for name, value in more.items()}
    config = {"topics": "t", "connection.url": f"sqlite:///{file}", "auto.create": "true", "auto.evolve": "true"}
    with SinkHarness("SqlSink", {**config, "errors.tolerance": "all", **settings}) as sink:
        (run,) = sink._tasks
        for put in puts:
            run.put(put)
        refused = [(str(one.error), one.record.value) for one in sink.errant]
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        names = sorted(row[1] for row in connection.execute("PRAGMA table_info(t)"))
        cells = ", ".join(f'"{name}", typeof("{name}")' for name in names)
        rows = connection.execute(f"SELECT {cells} FROM t ORDER BY rowid").fetchall() if names else []
    connection.close()
    return [tuple(names), *rows, *[(text, repr(value)) for text, value in refused]]


def one_by_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, puts: Sequence[Any], **more: str
) -> list[tuple[Any, ...]]:
    with monkeypatch.context() as patched:
        patched.setattr(sql_sink, "blocks_of_records", lambda maker, records: None)
        patched.setattr(sql_sink, "blocks_of_batch", lambda maker, batch: None)
        return written(folder, puts, **more)


@examples(25)
@given(drawn=st.lists(drawings(is_fine=True, has_nan=True), min_size=1, max_size=1), puts=st.integers(2, 3))
def test_columns_of_a_schema_become_the_rows_that_its_records_do(
    drawn: list[Drawn], puts: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("blocks")
    values, schema = drawn[0].values, drawn[0].schema
    batch = RecordBatch.from_records([record(n, value, schema) for n, value in enumerate(values)])
    assert batch is not None
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = written(folder, [batch] * puts)
        assert found == one_by_one(folder, monkeypatch, [batch] * puts)
        assert found == written(folder, [batch.to_records()] * puts)


def test_values_mean_what_they_do_one_by_one_and_defaults_are_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(name: str, kind: SchemaBuilder) -> Schema:
        return kind.name(name).optional().build()

    schema = (
        SchemaBuilder.struct()
        .field("id", SchemaBuilder.int64().build())
        .field("at", named("io.debezium.time.MicroTimestamp", SchemaBuilder.int64()))
        .field("day", named("io.debezium.time.Date", SchemaBuilder.int32()))
        .field("zoned", named("io.debezium.time.ZonedTimestamp", SchemaBuilder.string()))
        .field("n", SchemaBuilder.int32().optional().default(7).build())
        .build()
    )
    rows = [[1, 1_790_000_000_000_001, 20_000, "2026-01-02T03:04:05.5Z", None], [2, None, None, None, 3]]
    values = [Struct.from_values(schema, row) for row in rows]
    puts = [[record(n, value, schema) for n, value in enumerate(values)]] * 2
    for filled in ("true", "false"):
        found = written(tmp_path, puts, replace_null_with_default=filled)
        assert found == one_by_one(tmp_path, monkeypatch, puts, replace_null_with_default=filled)
        assert found[0] == ("at", "day", "id", "n", "zoned")


MODES = (
    {},
    {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"},
    {"insert_mode": "update", "pk_mode": "record_value", "pk_fields": "id"},
    {"pk_mode": "kafka"},
    {"fields_whitelist": "id,a,c"},
    {"schema_contract": "discard-value"},
    {"schema_infer": "false"},
    {"auto_evolve": "false"},
    {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "k", "delete_enabled": "true"},
    {"insert_mode": "update", "pk_mode": "record_key", "pk_fields": "k", "delete_enabled": "true"},
)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_maps_become_the_rows_that_they_do_one_by_one(
    mode: dict[str, str], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    puts = [[record(n, value, key=keys(draw, mode)) for n, value in enumerate(maps(draw))] for _ in range(6)]
    assert written(tmp_path, puts, **mode) == one_by_one(tmp_path, monkeypatch, puts, **mode)


@pytest.mark.parametrize("seed", range(6))
def test_columns_without_schema_become_the_rows_that_maps_do(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    puts, records = [], []
    for _ in range(4):
        values = [value for value in maps(draw) if value]
        texts = pa.array([json.dumps(value).encode() for value in values], pa.binary())
        try:
            found = converter.to_connect_batch("t", texts)
        except ByRecordsError:
            found = NotImplemented
        records.append([record(n, value) for n, value in enumerate(values)])
        offsets = pa.array(range(len(values)))
        if found is NotImplemented:
            puts.append(records[-1])
        else:
            puts.append(RecordBatch("t", value=found[1], kafka_partition=0, kafka_offsets=offsets))
    assert written(tmp_path, puts) == one_by_one(tmp_path, monkeypatch, records)


def maps(draw: random.Random) -> list[Any]:
    """Values much alike: members that are missing, null, of another kind at times, nested; and some that are none."""
    odd = draw.random() < 0.4
    made: list[Any] = []
    for n in range(draw.randrange(1, 12)):
        value = {
            "id": draw.choice([n, n, 1]),
            "a": draw.choice(["x", "", None, "1.5"]),
            "b": draw.choice([1.5, 2.0, 1e300, None]),
            "c": draw.choice([{"n": 1, "m": [None, 1e22, 0.1]}, None, []]),
            "d": draw.choice([True, None]),
        }
        if odd:
            value[draw.choice("abd")] = draw.choice([1, "text", 2.5, [1], 1 << 70, float("nan")])
        for name in draw.sample("abcd", draw.randrange(3)):
            del value[name]
        if draw.random() < 0.1:
            value = draw.choice([{}, None, "text", {"A": 1, "a": 2}, {"id": None}])
        made.append(value)
    return made


def test_rows_that_are_alike_go_by_columns_as_soon_as_there_is_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    puts = [[record(n, {"id": n, "a": "x"}) for n in range(3)] for _ in range(3)]
    runs: list[int] = []
    run = TableWriter.run
    monkeypatch.setattr(
        TableWriter, "run", lambda self, cursor, rows: runs.append(len(rows)) or run(self, cursor, rows)
    )
    assert len(written(tmp_path, puts)) == 1 + 9
    assert runs == [3]


def keys(draw: random.Random, mode: dict[str, str]) -> Any:
    if mode.get("pk_mode") != "record_key":
        return None
    return draw.choice([1, 2, 3, 4, {"k": 5}, None]) if draw.random() < 0.05 else draw.randrange(5)


def record(offset: int, value: Any, schema: Any = None, key: Any = None) -> SinkRecord:
    return SinkRecord("t", 0, None, key, schema, value, offset)


def maker(mode: str = "none", fields: Sequence[str] = (), whitelist: Sequence[str] = ()) -> RowMaker:
    return RowMaker("${topic}", mode, fields, whitelist, deletes=False)


def block_of_records(maker: RowMaker, records: Sequence[SinkRecord]) -> Block | None:
    blocks = blocks_of_records(maker, records)
    assert blocks is None or len(blocks) == 1
    return None if blocks is None else blocks[0]


def block_of_batch(maker: RowMaker, batch: RecordBatch) -> Block | None:
    blocks = blocks_of_batch(maker, batch)
    assert blocks is None or len(blocks) == 1
    return None if blocks is None else blocks[0]


def test_a_block_is_made_of_what_is_alike_only() -> None:
    def block(*values: Any) -> Any:
        return block_of_records(maker(), [record(n, value) for n, value in enumerate(values)])

    made = block({"a": 1, "b": 2}, {"b": 3, "c": 4, "a": 5})
    assert {name: list(cells) for name, cells in made.columns.items()} == {"a": [1, 5], "b": [2, 3], "c": [None, 4]}
    assert made.lacking == {"c"}
    assert len(made) == 2
    assert block({"a": 1}, {"b": 1, "c": 2, "d": 3}, {"e": 1, "f": 2, "g": 3}, {"h": 1}) is None  # names that are data
    assert block({"a": 1}, None) is None
    assert block({"a": 1}, {}) is None
    assert block({"a": 1}, {1: 1}) is None
    assert blocks_of_records(maker(), []) == []


def test_neighbours_of_one_topic_and_kind_are_a_block_and_tombstones_deletes() -> None:
    keyed = RowMaker("${topic}", "record_key", ["id"], (), deletes=True)
    values = [("a", {"x": 1})] * 8 + [("a", None)] * 3 + [("b", {"x": 1})] * 5
    records = [SinkRecord(topic, 0, None, n, None, value, n) for n, (topic, value) in enumerate(values)]
    made = blocks_of_records(keyed, records) or []
    assert [(one.table, len(one), one.is_delete, [*one.columns]) for one in made] == [
        ("a", 8, False, ["id", "x"]),
        ("a", 3, True, ["id"]),
        ("b", 5, False, ["id", "x"]),
    ]
    assert blocks_of_records(keyed, records[7:10] * 3) is None  # hardly two neighbours are alike
    assert blocks_of_records(RowMaker("${topic}", "record_key", ["id"], (), deletes=False), records) is None
    value, offsets = pa.array([{"x": 1}, {"x": 2}, None] * 4, pa.struct({"x": pa.int64()})), pa.array(range(12))
    batch = RecordBatch("a", value=value, key=pa.array(range(12)), kafka_partition=0, kafka_offsets=offsets)
    assert blocks_of_batch(keyed, batch) is None
    assert [len(one) for one in blocks_of_batch(keyed, batch.take(pa.array([0, 1, 3, 4, 6, 7, 2, 5]))) or []] == [6, 2]


def test_a_row_without_a_key_or_without_columns_is_left_to_its_own_error() -> None:
    rows = [record(0, {"id": 1, "a": 2}), record(1, {"a": 3})]
    assert block_of_records(maker("record_value", ["id"]), rows) is None
    assert block_of_records(maker("record_value", ["no"]), rows) is None
    assert block_of_records(maker("none", (), ["id"]), rows) is None
    assert block_of_records(maker("none", (), ["no"]), rows) is None
    with pytest.raises(DataError):
        maker("none", (), ["id"]).row(rows[1])


def test_keys_of_records_come_first_as_struct_or_alone() -> None:
    value, offsets = pa.array([{"a": 1}, {"a": 2}]), pa.array([7, 8])
    struct = RecordBatch("t", value=value, key=pa.array([{"k": 1}, {"k": 2}]), kafka_partition=3, kafka_offsets=offsets)
    made = block_of_batch(maker("record_key"), struct)
    assert made is not None
    assert (made.keys, [*made.columns]) == (("k",), ["k", "a"])
    alone = struct.with_(key=pa.array(["x", "y"]))
    assert block_of_batch(maker("record_key"), alone) is None  # which column it is, pk.fields must say
    made = block_of_batch(maker("record_key", ["id"]), alone)
    assert made is not None
    assert made.columns["id"] == ["x", "y"]
    assert block_of_batch(maker("record_key", ["id"]), struct.with_(key=pa.array(["x", None]))) is None
    made = block_of_batch(maker("kafka"), struct)
    assert made is not None
    assert [*made.columns.values()] == [["t", "t"], [3, 3], [7, 8], [1, 2]]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON | st.sampled_from([{"e": "1e5"}, {"n": "null"}, [1e-4, 1e-5, 1e16, 1e15, -0.0], (1, 2)]))
def test_json_is_written_as_by_pythons_own_writer(value: Any) -> None:
    from kconnect.api.plain_values import plain

    assert json_text(value) == json.dumps(plain(value, is_data=True), ensure_ascii=False, separators=(",", ":"))
