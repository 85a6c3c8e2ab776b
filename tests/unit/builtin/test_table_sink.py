"""TableSink in the harness: real tables in folders, topics and consumer offsets in memory."""

from __future__ import annotations

import datetime as dt
import decimal
import importlib.util
import json
import threading

import pytest
from pyiceberg.catalog import load_catalog

from kconnect.api import (
    ConnectError,
    ConsumerRecord,
    Date,
    Decimal,
    Schema,
    SchemaBuilder,
    SinkRecord,
    Struct,
    Time,
    Timestamp,
    TopicPartition,
)
from kconnect.builtin.connectors.tables.open_table import Compaction
from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector
from kconnect.testing import SinkHarness
from kconnect.testing.sink_chain import SinkChain
from kit.pace import ample_s
from kit.tables import FORMATS, read_table, table_settings
from kit.waiting import eventually

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = {"topics": "t", "flush.ms": "0"}
TABLE_SINK = "kconnect.builtin.connectors.tables.table_sink.TableSinkConnector"
FREEZE = {"schema.contract": "freeze"}
LATER = {"topics": "t", "flush.ms": "600000"}


def rows(settings):
    return sorted(read_table(settings).to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("kind", FORMATS)
def test_records_are_rows_once_although_the_task_dies_and_nothing_was_committed_to_kafka(kind, tmp_path):
    settings = table_settings(kind, tmp_path)
    sink = SinkHarness(TableSinkConnector, {**settings, **NOW}).start()
    sink.put({"id": 1, "name": "a"}, {"id": 2, "name": None})
    sink.crash()
    sink.start()
    sink.deliver()
    sink.put({"id": 3, "name": "c", "more": {"x": 1.5}})
    sink.commit()
    assert sink.committed == {T0: 3}
    sink.crash()
    assert [row["id"] for row in rows(settings)] == [1, 2, 3]
    assert rows(settings)[2]["more"] == {"x": 1.5}


def test_what_waits_is_written_when_the_task_ends_and_kafka_has_the_same_offset(tmp_path):
    settings = table_settings("parquet", tmp_path)
    sink = SinkHarness(TableSinkConnector, {**settings, **LATER}).start()
    sink.put({"id": 1}, {"id": 2})
    assert sink.commit() == {}, "nothing is in the table yet"
    sink.stop()
    assert sink.committed == {T0: 2}
    assert rows(settings) == [{"id": 1}, {"id": 2}]


def test_so_many_rows_are_written_at_once_and_the_rest_waits(tmp_path):
    settings = table_settings("delta", tmp_path)
    sink = SinkHarness(TableSinkConnector, {**settings, **LATER, "flush.rows": "3"}).start()
    sink.put({"id": 1}, {"id": 2})
    sink.put({"id": 3}, {"id": 4})
    sink.put({"id": 5})
    assert [row["id"] for row in rows(settings)] == [1, 2, 3, 4]
    assert sink.commit() == {T0: 4}
    sink.crash()


@pytest.mark.parametrize("name", ["default", "lake"])
def test_an_iceberg_catalog_has_the_name_that_is_set(tmp_path, name):
    settings = table_settings("iceberg", tmp_path)
    named = {} if name == "default" else {"table.catalog.name": name}
    with SinkHarness(TableSinkConnector, {**settings, **NOW, **named}) as sink:
        sink.put({"id": 1})
    catalog = load_catalog(name, type="sql", uri=settings["table.catalog.uri"])
    assert catalog.list_tables("default") == [("default", "t")]
    catalog.close()


def test_records_with_schema_make_columns_of_its_types(tmp_path):
    settings = table_settings("iceberg", tmp_path)
    schema = SchemaBuilder.struct().field("id", Schema.INT32_SCHEMA).field("ok", Schema.OPTIONAL_BOOLEAN_SCHEMA).build()
    with SinkHarness(TableSinkConnector, {**settings, **NOW}) as sink:
        values = [Struct(schema).put("id", 1).put("ok", True), Struct(schema).put("id", 2)]
        sink.put_records([SinkRecord("t", 0, None, None, schema, value, at) for at, value in enumerate(values)])
    assert rows(settings) == [{"id": 1, "ok": True}, {"id": 2, "ok": None}]


@pytest.mark.parametrize("kind", FORMATS)
def test_values_of_every_schema_type_come_back(kind, tmp_path):
    place = SchemaBuilder.struct().field("city", Schema.OPTIONAL_STRING_SCHEMA).optional().build()
    schema = (
        SchemaBuilder.struct()
        .field("id", Schema.INT64_SCHEMA)
        .field("small", Schema.INT8_SCHEMA)
        .field("single", Schema.FLOAT32_SCHEMA)
        .field("raw", Schema.BYTES_SCHEMA)
        .field("amount", Decimal.schema(2))
        .field("day", Date.SCHEMA)
        .field("clock", Time.SCHEMA)
        .field("at", Timestamp.SCHEMA)
        .field("tags", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).build())
        .field("limits", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).build())
        .field("place", place)
        .build()
    )
    at = dt.datetime(2026, 11, 23, 14, 5, tzinfo=dt.UTC)
    values = {
        "id": 1,
        "small": -3,
        "single": 0.5,
        "raw": b"\x00",
        "amount": decimal.Decimal("1.25"),
        "day": at.date(),
        "clock": dt.time(1),
        "at": at,
        "tags": ["a", None],
        "limits": {"x": 7},
        "place": Struct(place).put("city", "Bern"),
    }
    value = Struct(schema)
    for name, one in values.items():
        value.put(name, one)
    settings = table_settings(kind, tmp_path)
    with SinkHarness(TableSinkConnector, {**settings, **NOW}) as sink:
        sink.put_records([SinkRecord("t", 0, None, None, schema, value, 0)])
    (row,) = rows(settings)
    assert {name: row[name] for name in ("id", "small", "single", "raw", "amount", "at", "tags")} == {
        name: values[name] for name in ("id", "small", "single", "raw", "amount", "at", "tags")
    }
    assert (row["day"], dict(row["limits"]), row["place"]) == (at.date(), {"x": 7}, {"city": "Bern"})
    assert row["clock"] == (3_600_000 if kind == "delta" else dt.time(1)), "Delta has no time of day: ms since midnight"


def test_a_record_that_does_not_fit_fails_the_task_with_its_place(tmp_path):
    settings = table_settings("delta", tmp_path)
    sink = SinkHarness(TableSinkConnector, {**settings, **NOW, **FREEZE}).start()
    sink.put({"id": 1, "name": "a"})
    with pytest.raises(ConnectError) as error:
        sink.put({"id": 2, "name": "b"}, {"id": "three", "name": "c"})
    assert str(error.value).endswith(
        "The record at t-0, offset 2 cannot be written: Column id is string in the record, and cannot be int64: "
        f"'three', as it is in table {tmp_path}/table"
    )
    sink.crash()


def test_a_record_that_does_not_fit_is_reported_where_errors_are_tolerated(tmp_path):
    settings = table_settings("delta", tmp_path)
    with SinkHarness(TableSinkConnector, {**settings, **NOW, **FREEZE, "errors.tolerance": "all"}) as sink:
        sink.put({"id": 1, "name": "a"})
        sink.put({"id": 2, "name": "b"}, {"id": 3, "name": ["c"]}, {"id": 4, "name": "d"})
        sink.put({"id": "five"})
        assert [letter.record.kafka_offset for letter in sink.errant] == [2, 4]
        assert [row["id"] for row in rows(settings)] == [1, 2, 4]


def test_a_topic_that_begins_again_is_reported_and_not_skipped(tmp_path):
    settings = table_settings("parquet", tmp_path)
    sink = SinkHarness(TableSinkConnector, {**settings, **NOW}).start()
    sink.put({"id": 1}, {"id": 2})
    sink.crash()
    other = SinkHarness(TableSinkConnector, {**settings, **NOW}).start()
    with pytest.raises(
        ConnectError, match=r"t-0 begins again at offset 0, and table .* has everything before offset 2"
    ):
        other.task.put([SinkRecord("t", 0, None, None, None, {"id": 1}, 0)])
    other.crash()


@pytest.mark.parametrize("kind", FORMATS)
def test_altered_offsets_are_where_the_table_goes_on(kind, tmp_path):
    settings = table_settings(kind, tmp_path)
    with SinkHarness(TableSinkConnector, {**settings, **NOW}) as sink:
        sink.put({"id": 1}, {"id": 2}, {"id": 3})
    assert TableSinkConnector().alter_offsets({**settings, **NOW}, {T0: 1, T1: None})
    sink.start()
    sink.deliver()
    sink.stop()
    assert [row["id"] for row in rows(settings)] == [1, 2, 2, 3, 3]


WRONG = {
    ("table.format", "csv"): "Invalid value csv for configuration table.format: String must be one of: parquet, delta, "
    "iceberg",
    ("table.path", ""): "table.format=parquet needs table.path, the folder of the table",
    ("table.path", "/etc/passwd/x"): "Cannot write to table.path=/etc/passwd/x: /etc/passwd is not a folder",
    ("write.mode", "upsert"): "write.mode=upsert needs table.format=delta or iceberg: plain files cannot be changed",
    ("merge.keys", "id"): "merge.keys is for write.mode=upsert, and write.mode is append",
    ("partition.by", "week()"): "'week()' is neither a column nor one of year(), month(), day(), hour(), with a column "
    "between the brackets, or nothing for the record's time",
    ("compact.interval.ms", "1000"): "compact.interval.ms needs table.format=delta or iceberg: readers would see plain "
    "files exchanged",
}


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_wrong_settings_are_reported(key, value, tmp_path):
    settings = {**table_settings("parquet", tmp_path), key: value}
    found = {one.name: one.error_messages for one in TableSinkConnector().validate(settings).config_values}
    assert {name: messages for name, messages in found.items() if messages} == {key: [WRONG[key, value]]}


@pytest.mark.parametrize(
    ("changes", "package", "key", "reported"),
    [
        (
            {"table.format": "delta"},
            "deltalake",
            "table.format",
            "table.format=delta needs the package deltalake: pip install 'kconnect[delta]'",
        ),
        (
            {"table.path": "s3://b/t"},
            "s3fs",
            "table.path",
            "A table in s3:// needs the package s3fs: pip install 'kconnect[s3]'",
        ),
        (
            {"table.path": "gs://b/t"},
            "fsspec",
            "table.path",
            "A table in gs:// needs the package fsspec: pip install 'kconnect[objects]'",
        ),
    ],
)
def test_a_missing_extra_is_reported_by_name(changes, package, key, reported, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    values = TableSinkConnector().validate({**table_settings("parquet", tmp_path), **changes}).config_values
    assert {one.name: one.error_messages for one in values if one.error_messages} == {key: [reported]}


def test_a_store_that_takes_two_commits_at_once_is_refused(tmp_path):
    settings = {"name": "sink", "table.format": "delta", "table.path": "s3://b/t"}
    for key, value in (("AWS_S3_ALLOW_UNSAFE_RENAME", "true"), ("conditional_put", "disabled")):
        values = TableSinkConnector().validate({**settings, f"table.storage.{key}": value}).config_values
        message = f"table.storage.{key} would let two writers commit at once: records could be lost"
        assert {one.name: one.error_messages for one in values if one.error_messages} == {"table.path": [message]}


def test_files_say_which_offsets_they_hold(tmp_path):
    settings = table_settings("parquet", tmp_path)
    with SinkHarness(TableSinkConnector, {**settings, **NOW, "partition.by": "day()"}) as sink:
        sink.put_records([SinkRecord("t", 0, None, None, None, {"id": 1}, 0, timestamp=1_763_900_000_000)])
    (file,) = (tmp_path / "table").glob("record_day=*/*.parquet")
    assert file.relative_to(tmp_path / "table").parts[0] == "record_day=2025-11-23"
    assert file.name.startswith("sink.t-0-000000000000-000000000000-")
    commits = sorted((tmp_path / "table" / "_kconnect" / "sink" / "t" / "0").glob("*.json"))
    assert json.loads(commits[-1].read_text())["offset"] == 1


UPSERT = {**LATER, "write.mode": "upsert", "key.converter.schemas.enable": "false"}


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_last_change_of_each_key_is_the_row_and_a_tombstone_removes_it(kind, tmp_path):
    settings = table_settings(kind, tmp_path)

    def change(at, key, value):
        return SinkRecord("t", 0, None, {"id": key}, None, value, at)

    with SinkHarness(TableSinkConnector, {**settings, **UPSERT}) as sink:
        sink.put_records([change(0, 1, {"name": "a"}), change(1, 2, {"name": "b"}), change(2, 1, {"name": "A"})])
        sink.put_records([change(3, 3, {"name": "c"}), change(4, 3, None), change(5, 9, None)])
    with SinkHarness(TableSinkConnector, {**settings, **UPSERT}, log=sink.log) as again:
        again.deliver()
        again.put_records([change(6, 2, None), change(7, 2, {"name": "B"}), change(8, 1, {"name": None, "more": 1})])
    assert rows(settings) == [{"id": 1, "name": None, "more": 1}, {"id": 2, "name": "B", "more": None}]


def test_merge_keys_of_the_value_take_deletions_by_a_key_of_one_value(tmp_path):
    settings = {**table_settings("delta", tmp_path), "merge.keys": "id"}
    with SinkHarness(TableSinkConnector, {**settings, **UPSERT}) as sink:
        sink.put_records([SinkRecord("t", 0, None, "1", None, {"id": 1, "n": "a"}, 0)])
        sink.put_records([SinkRecord("t", 0, None, "2", None, {"id": 2, "n": "b"}, 1)])
        sink.put_records([SinkRecord("t", 0, None, "1", None, None, 2)])
    assert rows(settings) == [{"id": 2, "n": "b"}]


NO_KEY = {
    "a value without the column": (None, {"n": 1}, "It has no key, and no column id in its value"),
    "a struct in it": (
        None,
        {"id": {"a": 1}},
        "Column id of its key is struct<a: int64>, and rows are identified by plain",
    ),
    "a list as a key": ({"id": [1]}, None, "Column id of its key is list<"),
    "NaN in it": (None, {"id": float("nan")}, "Column id of its key is NaN"),
    "a null in it": (None, {"id": None, "n": 1}, "Column id of its key is null"),
    "a deletion without key": (None, None, "It has no key, and no column id in its value"),
}


@pytest.mark.parametrize("case", NO_KEY)
def test_a_record_that_no_key_can_be_taken_from_is_reported(case, tmp_path):
    key, value, message = NO_KEY[case]
    settings = {**table_settings("delta", tmp_path), "merge.keys": "id"}
    sink = SinkHarness(TableSinkConnector, {**settings, **UPSERT}).start()
    sink.put_records([SinkRecord("t", 0, None, None, None, {"id": 1}, 0)])
    with pytest.raises(ConnectError) as error:
        sink.put_records([SinkRecord("t", 0, None, key, None, value, 1)])
    assert f"The record at t-0, offset 1 cannot be written: {message}" in str(error.value)
    sink.crash()


def test_upserts_by_a_key_without_fields_are_reported_what_to_set(tmp_path):
    sink = SinkHarness(TableSinkConnector, {**table_settings("delta", tmp_path), **UPSERT}).start()
    with pytest.raises(ConnectError, match="its key has no fields to know its row by"):
        sink.put_records([SinkRecord("t", 0, None, "k", None, {"id": 1}, 0)])
    sink.crash()


def test_small_files_are_joined_on_a_timer_beside_the_task(tmp_path, caplog):
    settings = {**table_settings("delta", tmp_path), **NOW, "compact.interval.ms": "60000"}
    caplog.set_level("INFO")
    with SinkHarness(TableSinkConnector, settings) as sink:
        for number in range(5):
            sink.put({"id": number})
        now_s = sink.task.now_s()
        sink.task.now_s = lambda: now_s + 61
        sink.put({"id": 5})
        sink.stop()
    assert f"Compacted table {tmp_path}/table: " in caplog.text
    assert [row["id"] for row in rows(settings)] == [0, 1, 2, 3, 4, 5]


def test_a_long_compaction_does_not_hold_the_stop_up_and_begins_no_further_table(caplog, monkeypatch):
    begun, waited_s, goes_on = [], [], threading.Event()

    class Long:
        def __init__(self, where):
            self.where = where

        def compact(self, small_bytes):
            begun.append(self.where)
            assert goes_on.wait(ample_s(30))

        def close(self): ...

    compaction = Compaction("sink", 1.0, 1, Long, 0.0)
    compaction.tend(["t", "u"], 2.0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", lambda thread, timeout: waited_s.append(timeout))
        compaction.stop()
    assert waited_s == [2], "of 5 s that a stop may take: the consumer is closed behind it"
    assert "The compaction of sink still runs; it ends by itself" in caplog.text
    goes_on.set()
    eventually(lambda: not [one for one in threading.enumerate() if one.name == "compaction-sink"], 10, "it has ended")
    assert begun == ["t"]


def test_dead_letters_put_through_the_sink_are_rows_whatever_the_tables_offsets_say(tmp_path):
    settings = {**table_settings("delta", tmp_path), **LATER, "connector.class": TABLE_SINK}
    with SinkHarness(TableSinkConnector, settings) as sink:
        sink.put({"id": 0}, {"id": 1}, {"id": 2})
    with SinkChain(settings, {}) as chain:
        for number, offset in enumerate((2, 0, 1), 10):
            value = json.dumps({"id": number}).encode()
            letter = ConsumerRecord("t", 0, offset, None, value)
            assert chain.put(letter).is_put
            chain.flush()
    with SinkHarness(TableSinkConnector, settings, log=sink.log) as again:
        again.deliver()
        again.put({"id": 3})
    assert [row["id"] for row in rows(settings)] == [0, 1, 2, 3, 10, 11, 12]
