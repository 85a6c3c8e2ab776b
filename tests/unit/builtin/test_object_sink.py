"""ObjectSink in a folder, through the harness."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from kconnect.api import (
    Date,
    Decimal,
    RetriableError,
    Schema,
    SchemaBuilder,
    SinkRecord,
    Struct,
    Timestamp,
    TopicPartition,
)
from kconnect.builtin.connectors.objects.object_sink import ObjectSinkTask
from kconnect.builtin.types.fitting import as_mapping
from kconnect.errors import ConfigError
from kconnect.testing import MemoryLog, SinkHarness, SourceHarness
from kit.objects import sink_into, source_of
from kit.sql_tables import WITH_SCHEMA
from kit.waiting import eventually

PLACE = TopicPartition("t", 0)


def lines_of(folder: Path) -> list[Any]:
    """What is in all objects below a folder, by name."""
    return [json.loads(line) for path in sorted(folder.rglob("*.jsonl")) for line in path.read_text().splitlines()]


def idle_until_written(sink: SinkHarness, folder: Path, objects: int = 1) -> None:
    """Empty puts, as of a topic in which nothing happens, until flush.ms is over."""

    def written() -> bool:
        sink.task.put([])
        return len([path for path in folder.rglob("*") if path.is_file()]) >= objects

    eventually(written, 5, "the unit is written")


# --- sink ---


def test_units_are_written_when_full_and_offsets_follow_them(tmp_path: Path) -> None:
    with sink_into(tmp_path, flush_rows="4") as sink:
        sink.put(*[{"id": number} for number in range(10)])
        assert sink.commit() == {PLACE: 8}
        assert lines_of(tmp_path) == [{"id": number} for number in range(8)]
        assert not list(tmp_path.rglob(".unfinished-*"))


def test_the_end_of_a_batch_writes_units_that_are_not_full(tmp_path: Path) -> None:
    with sink_into(tmp_path, flush_rows="4") as sink:
        sink.put(*[{"id": number} for number in range(10)])
        assert sink.commit(is_last=True) == {PLACE: 8}  # the next owner of the partition reads on from there
        assert sink.commit(is_end=True) == {PLACE: 10}
        assert lines_of(tmp_path) == [{"id": number} for number in range(10)]


def test_records_that_come_again_replace_their_objects_even_with_other_limits(tmp_path: Path) -> None:
    log = MemoryLog()
    with sink_into(tmp_path, log, flush_rows="4") as sink:
        sink.put(*[{"id": number} for number in range(10)])
        sink.crash()  # 0-3 and 4-7 are written, nothing is committed
    names = {path.name for path in tmp_path.iterdir()}
    with sink_into(tmp_path, log, flush_rows="3") as sink:
        sink.put(*[{"id": number} for number in range(10, 12)])
        assert names < {path.name for path in tmp_path.iterdir()}
        assert lines_of(tmp_path) == [{"id": number} for number in range(11)]
        assert sink.commit() == {PLACE: 11}


def test_late_units_are_written_without_new_records(tmp_path: Path) -> None:
    with sink_into(tmp_path, flush_ms="1") as sink:
        sink.put({"id": 1})
        idle_until_written(sink, tmp_path)
        assert lines_of(tmp_path) == [{"id": 1}]
        assert sink.commit() == {PLACE: 1}


def test_a_store_that_is_away_costs_nothing_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sink_into(tmp_path, flush_rows="2") as sink:
        store = sink.task._store
        write, failures = store.write, [RetriableError("away"), RetriableError("away")]

        def failing(path: str, body: bytes) -> None:
            if failures:
                raise failures.pop()
            write(path, body)

        monkeypatch.setattr(store, "write", failing)
        records = [SinkRecord("t", 0, None, None, None, {"id": number}, number - 1) for number in range(1, 4)]
        for _ in range(2):
            with pytest.raises(RetriableError):
                sink.task.put(records)
        sink.task.put(records)  # the same again, as the worker does
        sink.task.put([SinkRecord("t", 0, None, None, None, {"id": 4}, 3)])
        assert lines_of(tmp_path) == [{"id": number} for number in range(1, 5)]


def test_columns_and_records_make_the_same_objects(tmp_path: Path) -> None:
    schema = SchemaBuilder.struct().field("id", SchemaBuilder.int32().build()).build()
    worker = {"value.converter.schemas.enable": "true", "value.converter": "JsonConverter"}
    config = {"object.url": str(tmp_path), "topics": "t", "object.format": "parquet", "flush.rows": "3"}
    with SinkHarness("ObjectSink", config, worker=worker) as sink:
        sink.put_records([SinkRecord("t", 0, None, None, schema, Struct(schema).put("id", n), n) for n in range(6)])
    paths = sorted((tmp_path / "t" / "partition=0").iterdir())
    assert [pq.read_table(path)["id"].to_pylist() for path in paths] == [[0, 1, 2], [3, 4, 5]]
    assert ObjectSinkTask.supports_batches


def test_a_schema_that_cannot_be_in_the_same_object_begins_another(tmp_path: Path) -> None:
    with sink_into(tmp_path, object_format="parquet", flush_ms="60000") as sink:
        sink.put({"a": 1}, {"a": 2.5, "b": "x"})
        assert len(list(tmp_path.iterdir())) == 0
        sink.put({"a": "text"})
        later_s = sink.task.now_s() + 61
        sink.task.now_s = lambda: later_s
        idle_until_written(sink, tmp_path, 2)
    tables = [pq.read_table(path).to_pylist() for path in sorted(tmp_path.iterdir())]
    assert tables == [[{"a": 1.0, "b": None}, {"a": 2.5, "b": "x"}], [{"a": "text"}]]


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([{"id": 1}, {"id": 2, "meta": {}}], [{"id": 1}, {"id": 2}]),  # Parquet has no structs of nothing
        ([{"a": 3}, {"a": 3.5}, {"a": 2**63}], [{"a": 3.0}, {"a": 3.5}, {"a": float(2**63)}]),
        ([{"a": 1}, {"a": 2**63}], [{"a": 1}, {"a": 2**63}]),
        ([{"a": 1.5}, {"a": 2**63}], [{"a": 1.5}, {"a": float(2**63)}]),
        ([{"a": 1}, {"a": "x"}, {"a": {"b": True}}], [{"a": "1"}, {"a": "x"}, {"a": '{"b":true}'}]),
        (
            [{"l": [{"p": 1}, {"q": "z"}]}, {"l": None}],
            [{"l": [{"p": 1, "q": None}, {"p": None, "q": "z"}]}, {"l": None}],
        ),
    ],
)
@pytest.mark.parametrize("format_", ["parquet", "avro"])
def test_values_of_several_types_are_columns_that_hold_them_all(
    tmp_path: Path, values: list[Any], kept: list[Any], format_: str
) -> None:
    with sink_into(tmp_path, object_format=format_, flush_rows=f"{len(values)}") as sink:
        sink.put(*values)
    path = next(tmp_path.iterdir())
    read = (
        pq.read_table(path).to_pylist()
        if format_ == "parquet"
        else list(fastavro.reader(io.BytesIO(path.read_bytes())))
    )
    assert read == kept


@pytest.mark.parametrize("format_", ["parquet", "avro"])
def test_a_contract_keeps_the_columns_that_objects_have(tmp_path: Path, format_: str) -> None:
    first, second = {"id": 1, "a": 1, "b": 1, "c": 1}, {"id": 2, "a": 2.5, "b": 2, "c": 3}
    contract = {"schema_contract": "freeze", "schema_contract_a": "discard-value", "schema_contract_b": "discard_row"}
    more = {"object_format": format_, "flush_rows": "1", "errors_tolerance": "all", "schema_contract_w": "evolve"}
    with sink_into(tmp_path, **contract, **more) as sink:
        sink.put(first)
        sink.commit()
        sink.crash()
        sink.start()
        sink.put(
            second,
            {"id": 3, "b": "x"},
            {"id": 4, "c": 3.5},
            {"id": 5, "new": 1},
            {"id": 6, "w": 1},
            {"id": 7, "w": 2.5},
        )
        reported = [str(letter.error) for letter in sink.errant]
        assert (sink.task._discards.rows, sink.task._discards.values) == (1, 1)
    assert "offset 3 cannot be written: Column c is double in the record, and cannot be int64: 3.5" in reported[0]
    assert "offset 4 cannot be written: Column new is not in the table, and its value is 1" in reported[1]
    rows = []
    for path in sorted(tmp_path.iterdir()):
        rows += (
            pq.read_table(path).to_pylist() if format_ == "parquet" else fastavro.reader(io.BytesIO(path.read_bytes()))
        )
    kept = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert kept == [first, {"id": 2, "b": 2, "c": 3}, {"id": 6, "w": 1}, {"id": 7, "w": 2.5}]


@pytest.mark.parametrize(("contract", "errors", "kept"), [("freeze", 2, []), ("discard-value", 0, [2, 3])])
def test_a_contract_keeps_members_of_structs_and_of_elements(
    tmp_path: Path, contract: str, errors: int, kept: list[int]
) -> None:
    first = {"id": 1, "s": {"x": 1}, "l": [{"q": 1}]}
    with sink_into(
        tmp_path, object_format="parquet", flush_rows="1", errors_tolerance="all", schema_contract=contract
    ) as sink:
        sink.put(first, {"id": 2, "s": {"x": 1, "new": 1}, "l": None}, {"id": 3, "s": None, "l": [{"q": 1, "new": 1}]})
        assert len(sink.errant) == errors
    rows = [row for path in sorted(tmp_path.iterdir()) for row in pq.read_table(path).to_pylist()]
    both = [{"id": 2, "s": {"x": 1}, "l": None}, {"id": 3, "s": None, "l": [{"q": 1}]}]
    assert rows == [first, *(row for row in both if row["id"] in kept)]


def test_a_value_that_is_left_out_takes_none_of_other_rows_with_it(tmp_path: Path) -> None:
    more = {"object_format": "parquet", "flush_rows": "4", "schema_contract": "discard-value"}
    first = {"id": 1, "p": 1, "l": [1]}
    with sink_into(tmp_path, **more) as sink:
        sink.put(first, first, first, first)
        sink.put({"id": 2, "p": "x"}, {"id": 3, "p": 5}, {"id": 4, "l": ["x"]}, {"id": 5, "l": [8]})
        assert sink.task._discards.values == 2
    rows = [row for path in sorted(tmp_path.iterdir()) for row in pq.read_table(path).to_pylist()]
    assert [(row["p"], row["l"]) for row in rows[4:]] == [(None, None), (5, None), (None, None), (None, [8])]


def test_a_contract_needs_columns_and_inference_may_be_off(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jsonl has no columns"):
        sink_into(tmp_path, schema_contract="freeze").start()
    with sink_into(tmp_path, object_format="csv", schema_infer="false", errors_tolerance="all") as sink:
        sink.put({"a": 1})
        assert "Its value has no schema" in str(sink.errant[0].error)


@pytest.mark.parametrize("kind", ["parquet", "avro", "csv"])
def test_an_object_without_fields_is_reported_and_one_of_empty_structs_is_a_row(tmp_path: Path, kind: str) -> None:
    with sink_into(tmp_path, object_format=kind, flush_rows="2", errors_tolerance="all") as sink:
        sink.put({}, {})
        sink.put({"meta": {}}, {"meta": None})
        message = "The record at t-0, offset 0 cannot be written: its value has no field, so that it is no row"
        assert len(sink.errant) == 2
        assert str(sink.errant[0].error) == message
    with source_of(tmp_path, object_format=kind) as source:
        assert [record.value["meta"] for record in source.poll(2)] == ["" if kind == "csv" else None] * 2


def test_a_null_alone_in_its_row_of_csv_is_no_blank_line(tmp_path: Path) -> None:
    with sink_into(tmp_path, object_format="csv", flush_rows="3") as sink:
        sink.put({"a": None}, {"a": 1.5}, {"a": None})
    (file,) = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert file.read_text().splitlines() == ['"a"', '""', '"1.5"', '""']


def test_structs_and_lists_are_json_text_in_columns_of_csv(tmp_path: Path) -> None:
    with sink_into(tmp_path, object_format="csv", flush_rows="3") as sink:
        sink.put({"a": 1, "b": [1, 2]}, {"a": {"b": 1}}, {"a": None})
    assert next(tmp_path.iterdir()).read_text() == '"a","b"\n"1","[1,2]"\n"{""b"":1}",\n,\n'


@pytest.mark.parametrize("at_once", [True, False])
def test_json_text_in_csv_is_the_value_as_it_came(tmp_path: Path, at_once: bool) -> None:
    values = [{"a": {"x": 1}}, {"a": {"x": 2.5}}, {"a": {"y": 3}}, {"b": [1, "x"]}]
    texts = [json.dumps(value).encode() for value in values * 200]
    with sink_into(tmp_path, object_format="csv", flush_rows="800") as sink:
        for part in [texts] if at_once else (texts[:3], texts[3:]):
            sink.put_bytes(*part)
    lines = next(tmp_path.iterdir()).read_text().splitlines()
    assert lines[1:5] == ['"{""x"":1}",', '"{""x"":2.5}",', '"{""y"":3}",', ',"[1,""x""]"']
    assert lines[1:] == lines[1:5] * 200


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_members_that_come_later_in_an_object_are_there(tmp_path: Path, kind: str) -> None:
    rows = [{"a": {"x": 1}}, {"a": {"y": 2.5}}, {"a": None, "b": [{"p": 1}]}, {"b": [{"q": "x"}]}]
    with sink_into(tmp_path, object_format=kind, flush_rows="4") as sink:
        for row in rows:
            sink.put(row)
    with source_of(tmp_path, object_format=kind) as source:
        found = [record.value for record in source.poll(4)]
    assert [(row["a"]["x"], row["a"]["y"]) for row in found[:2]] == [(1, None), (None, 2.5)]
    assert [(row["b"][0]["p"], row["b"][0]["q"]) for row in found[2:]] == [(1, None), (None, "x")]


@pytest.mark.parametrize("tab", ["\t", "\\t"])
def test_a_tab_separates_columns_of_csv_however_it_is_written(tmp_path: Path, tab: str) -> None:
    form = {"object_format": "csv", "csv_delimiter": tab}
    with sink_into(tmp_path, **form, flush_rows="1") as sink:
        sink.put({"a": 1, "b": "x"})
    assert next(tmp_path.iterdir()).read_text() == '"a"\t"b"\n1\t"x"\n'
    with source_of(tmp_path, **form) as source:
        assert [as_mapping(record.value) for record in source.poll(1)] == [{"a": 1, "b": "x"}]


def test_rows_of_one_record_are_all_there_where_one_of_them_is_refused(tmp_path: Path) -> None:
    unfold = {"transforms": "q", "transforms_q_type": "SqlTransform"}
    unfold["transforms_q_query"] = "SELECT explode(l) AS x FROM records"
    settings = {"object_format": "parquet", "schema_contract": "freeze", "errors_tolerance": "all", "flush_rows": "3"}
    with sink_into(tmp_path, **settings, **unfold) as sink:
        sink.put({"l": [{"a": 0}]})
        sink.put({"l": [{"a": 1}, {"a": 2, "b": 5}, {"a": 3}]})
        assert [error.record.kafka_offset for error in sink.errant] == [1]
    with source_of(tmp_path, object_format="parquet") as source:
        assert [record.value["x"]["a"] for record in source.poll(3)] == [0, 1, 3]


@pytest.mark.parametrize("value", [b"", b"abc", b"\x80", b"\x00", b'"\n,'], ids=repr)
def test_bytes_are_base64_in_csv_and_come_back(tmp_path: Path, value: bytes) -> None:
    schema = SchemaBuilder.struct().field("a", Schema.OPTIONAL_BYTES_SCHEMA).field("b", Schema.INT32_SCHEMA).build()
    with sink_into(tmp_path, object_format="csv", flush_rows="2") as sink:
        sink.put(Struct(schema).put("b", 1), Struct(schema).put("a", value).put("b", 2), schema=schema)
    declared = {"value_schema": "a binary, b int", **WITH_SCHEMA}
    with source_of(tmp_path, object_format="csv", **declared) as source:
        source.poll(2)
        sent = [json.loads(text)["payload"]["a"] for text in source.log.values()]
    assert sent == [None, base64.b64encode(value).decode()], "as JsonConverter writes bytes, by their schema"


def test_a_value_that_the_format_cannot_hold_names_its_place_or_goes_to_the_reporter(tmp_path: Path) -> None:
    with sink_into(tmp_path, object_format="lines", errors_tolerance="all", flush_ms="1") as sink:
        sink.put("a", {"no": "line"}, "b", None)
        idle_until_written(sink, tmp_path)
        assert [path.read_text() for path in tmp_path.iterdir()] == ["a\nb\n"]
        assert "t-0, offset 1 cannot be written" in str(sink.errant[0].error)


def test_secrets_are_in_no_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "very-secret-value"
    settings = {"object.url": "s3://b/x", "topic": "t", "object.options.key": "k", "object.options.secret": secret}
    settings |= {"object.options.endpoint_url": "http://127.0.0.1:1"}
    settings["object.options.config_kwargs"] = '{"retries": {"max_attempts": 0}, "connect_timeout": 1}'
    with SourceHarness("ObjectSource", settings) as source:
        with pytest.raises(RetriableError) as reported:
            source.task.poll()
        assert secret not in f"{reported.value} {reported.value.__cause__!r} {source.task.__dict__!r} {caplog.text}"
        assert "Cannot list b/x" in str(reported.value)


def test_files_are_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with sink_into(tmp_path, flush_rows="1") as sink:
            sink.put({"id": 1})
        assert next(tmp_path.iterdir()).stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("module", "url", "extra"), [("fsspec", "memory://b", "kconnect[objects]"), ("s3fs", "s3://b", "kconnect[s3]")]
)
def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, module: str, url: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    if module == "s3fs":
        import fsspec

        classes = sys.modules[fsspec.get_filesystem_class.__module__]._registry  # type: ignore[attr-defined]
        for protocol in ("s3", "s3a"):
            monkeypatch.delitem(classes, protocol, raising=False)
    with pytest.raises(ConfigError, match=re.escape(extra)):
        SourceHarness("ObjectSource", {"object.url": url, "topic": "t"}).start()
    with pytest.raises(ConfigError, match=re.escape(extra)):
        SinkHarness("ObjectSink", {"object.url": url, "topics": "t"}).start()


def test_objects_in_memory_need_no_disk() -> None:
    with SinkHarness("ObjectSink", {"object.url": "memory://out", "topics": "t", "flush.rows": "2"}) as sink:
        sink.put({"a": 1}, {"a": 2})
    with SourceHarness(
        "ObjectSource", {"object.url": "memory://out", "topic": "t", "object.after": "delete"}
    ) as source:
        assert [record.value for record in source.poll(2)] == [{"a": 1}, {"a": 2}]
        source.commit()
        source.task._finish_objects()
        assert source.task._store.listing("**") == []


@pytest.mark.parametrize("format_", ["parquet", "avro"])
def test_what_was_written_with_a_schema_is_read_with_it(tmp_path: Path, format_: str) -> None:
    inner = SchemaBuilder.struct().optional().field("x", Schema.OPTIONAL_INT64_SCHEMA).build()
    builder = SchemaBuilder.struct()
    for name, kind in {
        "amount": Decimal.builder(2).optional().build(),
        "day": Date.builder().optional().build(),
        "at": Timestamp.builder().optional().build(),
        "data": Schema.OPTIONAL_BYTES_SCHEMA,
        "list": SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build(),
        "map": SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_FLOAT64_SCHEMA).optional().build(),
        "inner": inner,
    }.items():
        builder.field(name, kind)
    schema = builder.build()
    full = Struct(schema).put("amount", decimal.Decimal("12.50")).put("day", datetime.date(2026, 11, 23))
    full.put("at", datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)).put("data", b"\x00\xff")
    full.put("list", ["a", None]).put("map", {"k": 1.5}).put("inner", Struct(inner).put("x", 7))
    with sink_into(tmp_path, object_format=format_, flush_rows="2") as sink:
        sink.put(full, Struct(schema), schema=schema)
    with source_of(tmp_path) as source:
        first, second = source.poll(2)
    names = [field.name for field in schema.fields]
    assert [str(first.value.get(name)) for name in names] == [str(full.get(name)) for name in names]
    assert [second.value.get(name) for name in names] == [None] * len(names)
    kinds = [str(field.schema) for field in first.value_schema.fields]  # type: ignore[union-attr]
    assert kinds == [str(field.schema) for field in schema.fields]


def test_a_unit_without_values_makes_no_object_and_is_committed(tmp_path: Path) -> None:
    with sink_into(tmp_path, object_format="parquet", flush_rows="2") as sink:
        sink.put(None, None)
        assert sink.commit() == {PLACE: 2}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_", ["jsonl", "json"])
def test_times_and_decimals_without_schema_are_json_as_other_formats_have_columns_for_them(
    tmp_path: Path, format_: str
) -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)
    value = {
        "at": at,
        "day": at.date(),
        "clock": at.time(),
        "inner": [{"price": decimal.Decimal("12.340")}],
        "big": 2**70,
    }
    with sink_into(tmp_path, object_format=format_, flush_rows="2") as sink:
        sink.put(value, {"price": decimal.Decimal("NaN")})
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    assert (
        '{"at":"2026-01-02T03:04:05.678901Z","day":"2026-01-02","clock":"03:04:05.678901",'
        '"inner":[{"price":12.340}],"big":1180591620717411303424}' in text
    )
    assert '{"price":"NaN"}' in text
