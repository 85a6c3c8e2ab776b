"""ObjectSource and ObjectSink in a folder, through the harness."""

from __future__ import annotations

import datetime
import decimal
import gzip
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
    DataError,
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
from kconnect.builtin.connectors.objects.object_progress import partition_of
from kconnect.builtin.connectors.objects.object_sink import ObjectSinkTask
from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.pipeline.inflight import partition_key
from kconnect.runtime.pipeline.offset_updates import updated_offsets
from kconnect.testing import MemoryLog, SinkHarness, SourceHarness
from kit.objects import sink_into, source_of
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    return made


# --- source ---


def test_files_come_in_order_each_to_its_end_and_a_restart_goes_on_inside(folder: Path) -> None:
    (folder / "b.txt").write_text("3\n4")
    (folder / "a.txt.gz").write_bytes(gzip.compress(b"1\n2\n"))
    with source_of(folder) as source:
        assert [record.value for record in source.poll(4)] == ["1", "2", "3", "4"]
        source.commit()
        assert source.offset(object=f"{folder}/a.txt.gz")["done"] is True  # type: ignore[index]
        (folder / "c.txt").write_text("5\n")
        source.restart()
        assert [record.value for record in source.poll(1)] == ["5"]
        assert source.poll_once() == []


def test_a_file_in_a_kill_goes_on_behind_the_last_committed_row(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(list(range(10))))
    with source_of(folder, batch_rows="3") as source:
        assert [record.value for record in source.poll_once()] == [0, 1, 2]
        source.commit()
        assert [record.value for record in source.poll_once()] == [3, 4, 5]
        source.crash()
        source.start()
        assert [record.value for record in source.poll(7)] == list(range(3, 10))


@pytest.mark.parametrize("after", ["delete", "move"])
def test_a_file_goes_when_its_rows_are_committed_and_its_offset_with_it(
    folder: Path, tmp_path: Path, after: str
) -> None:
    (folder / "x").mkdir()
    (folder / "x" / "a.txt").write_text("1\n")
    (folder / "empty.txt").write_text("")
    done = folder / "done"  # below the folder that is read: what is there is not read again
    with source_of(folder, object_after=after, object_move_url=str(done)) as source:
        source.poll(1)
        source.poll_once()
        source.poll_once()
        assert (folder / "x" / "a.txt").exists()
        source.commit()
        source.poll_once()
        assert not (folder / "x" / "a.txt").exists()
        assert (done / "x" / "a.txt").exists() is (after == "move")
        (folder / "b.txt").write_text("2\n")
        assert [record.value for record in source.poll(1)] == ["2"]
        source.commit()
        assert source.offset(object=f"{folder}/x/a.txt") is None
    assert not (folder / "b.txt").exists(), "what was committed at the end is done in stop()"


def test_what_a_kill_left_between_commit_and_deletion_is_done_at_the_next_start(folder: Path) -> None:
    (folder / "a.txt").write_text("1\n")
    with source_of(folder) as source:
        source.poll(1)
        source.commit()
        offsets = [(offset.partition, offset.offset) for offset in source.offsets]
    config = {
        "object.url": str(folder),
        "topic": "rows",
        "object.after": "delete",
        "poll.interval.ms": "1",
        "object.settle.ms": "0",
    }
    with SourceHarness("ObjectSource", config, offsets=offsets) as source:  # type: ignore[arg-type]
        assert source.poll_once() == []
        source.poll_once()
        assert not (folder / "a.txt").exists()


def test_a_file_that_grew_is_told_or_read_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = folder / "a.log"
    for changed, wanted in (("ignore", []), ("read", ["2"])):
        file.write_text("1\n")
        with source_of(folder, object_changed=changed) as source:
            source.poll(1)
            source.commit()
            with file.open("a") as more:
                more.write("2\n")
            if changed == "ignore":
                told = "a.log has changed since it was read"
                eventually(lambda told=told: source.poll_once() or told in caplog.text, 5, "a warning")  # type: ignore[misc]
            assert [record.value for record in source.poll(len(wanted))] == wanted


def test_a_broken_row_fails_the_task_with_its_name_or_is_given_up(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"a": 1}\noops\n{"a": 2}\n')
    with source_of(folder) as source, pytest.raises(DataError, match=r"Line 2 of .*/a\.jsonl cannot be read.*oops"):
        source.poll(2)
    with source_of(folder, errors_tolerance="all") as source:
        assert [record.value for record in source.poll(2)] == [{"a": 1}, {"a": 2}]
        [errant] = source.errant
        assert (errant.record.value, errant.record.source_offset["row"]) == ("oops", 2)  # type: ignore[index]
    (folder / "b.parquet").write_bytes(b"no parquet")
    with source_of(folder, errors_tolerance="all") as source:
        source.poll(2)
        with pytest.raises(DataError, match=r"b\.parquet cannot be read"):
            source.poll(1)


def test_a_file_of_broken_rows_is_done_once_their_letters_are_on_the_way(folder: Path) -> None:
    """They are written with the next record, and no offset past them is committed before."""
    (folder / "a.jsonl").write_text("oops\n")
    with source_of(folder, errors_tolerance="all") as source:
        eventually(lambda: source.poll_once() or source.errant, 5, "it is read")
        assert source.commit() == []
        (folder / "b.txt").write_text("b\n")
        source.poll(1)
        assert {offset.partition["object"] for offset in source.commit()} == {f"{folder}/a.jsonl", f"{folder}/b.txt"}


def test_a_file_that_is_gone_since_it_was_listed_is_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_text(f"{name}\n")
    with source_of(folder) as source:
        assert [record.value for record in source.poll(1)] == ["a"]
        (folder / "b.txt").unlink()
        assert [record.value for record in source.poll(1)] == ["c"]
    assert "b.txt is gone since it was listed" in caplog.text


@pytest.mark.parametrize("step", ["open", "read"])
def test_a_store_that_goes_away_is_read_on_where_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    (folder / "a.json").write_text(json.dumps(list(range(10))))
    with source_of(folder, batch_rows="3") as source:
        store, failures = source.task._store, [RetriableError("away")] * 2
        opened = store.open

        def failing(path: str) -> Any:
            if step == "open" and failures:
                raise failures.pop()
            return opened(path)

        monkeypatch.setattr(store, "open", failing)
        if step == "read":
            source.poll(3)
            source.task._open._failure, source.task._open._ahead = failures.pop(), None
        assert [record.value for record in source.poll(10 if step == "open" else 7)][-7:] == list(range(3, 10))


@pytest.mark.parametrize("after", ["keep", "delete"])
def test_a_file_whose_end_is_found_while_its_rows_are_on_their_way_is_done_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """What the worker does with the answer then: it has no effect, and commit() is called all the same."""
    path = folder / "a.txt"
    path.write_text("1\n")
    failures = [RetriableError("away")]

    class FailsAtItsEnd(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            block = super().read(size)
            if not block and failures:
                raise failures.pop()
            return block

    with source_of(folder, object_after=after) as source:
        monkeypatch.setattr(source.task._store, "open", lambda path: FailsAtItsEnd(Path(path).read_bytes()))
        source.poll(1)
        assert source.poll_once() == source.poll_once() == []
        for _ in range(2):
            busy = {partition_key(partition_of(str(path)))}
            assert updated_offsets("objects", source.task.update_offsets, [], busy) == []
            source.task.commit()
            assert source.poll_once() == []
        assert [offset.offset and offset.offset["done"] for offset in source.commit()] == [True]
        assert source.poll_once() == []
        assert path.exists() is (after == "keep")
        assert [offset.offset for offset in source.commit()] == ([] if after == "keep" else [None])


def test_tasks_share_the_files(folder: Path) -> None:
    for number in range(20):
        (folder / f"{number:02}.txt").write_text(f"{number}\n")
    with source_of(folder, tasks_max="3") as source:
        values = sorted(int(record.value) for record in source.poll(20))
        assert values == list(range(20))
        assert source.poll_once() == source.poll_once() == source.poll_once() == []


def test_settings_that_cannot_work_are_refused_with_what_to_do(folder: Path) -> None:
    for more, told in (
        ({"object_after": "move"}, r"object\.after=move needs it"),
        ({"object_after": "move", "object_move_url": "memory://x"}, "in the same store"),
        ({"object_after": "move", "object_move_url": str(folder)}, "another folder"),
        ({"csv_delimiter": ";;"}, "one character"),
        ({"object_format": "xml"}, "xml"),
    ):
        with pytest.raises(ConfigError, match=told):
            source_of(folder, **more).start()
    with pytest.raises(ConfigError, match="Protocol not known: nowhere"):
        SourceHarness("ObjectSource", {"object.url": "nowhere://x", "topic": "t"}).start()


def test_a_folder_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with source_of(tmp_path / "nothing") as source, pytest.raises(ConnectError, match="The folder does not exist"):
        source.poll_once()


def test_offsets_are_checked(folder: Path) -> None:
    with source_of(folder) as source:
        assert source.connector.alter_offsets({}, [({"object": "a"}, {"row": 3}), ({"x": 1}, None)])
        good = {"row": 3, "etag": "x", "size": 9, "done": False, "position": 5}
        assert source.connector.alter_offsets({}, [({"object": "a"}, good)])
        for partition, offset, told in (
            ({"x": "a"}, {"row": 1}, "key 'object'"),
            ({"object": "a"}, {"row": -1}, "from 0 on"),
            ({"object": "a"}, {}, "'row' key"),
            ({"object": "a"}, {**good, "rows": 1}, "no field 'rows'; it has row, etag, size, done, position"),
            ({"object": "a"}, {**good, "done": 1}, "'done' key in the offset of an object is true or false, not 1"),
            ({"object": "a"}, {**good, "size": True}, "is a whole number, not True"),
        ):
            with pytest.raises(DataError, match=told):
                source.connector.alter_offsets({}, [(partition, offset)])


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
        told = [str(letter.error) for letter in sink.errant]
        assert (sink.task._discards.rows, sink.task._discards.values) == (1, 1)
    assert "offset 3 cannot be written: Column c is double in the record, and cannot be int64: 3.5" in told[0]
    assert "offset 4 cannot be written: Column new is not in the table, and its value is 1" in told[1]
    rows = []
    for path in sorted(tmp_path.iterdir()):
        rows += (
            pq.read_table(path).to_pylist() if format_ == "parquet" else fastavro.reader(io.BytesIO(path.read_bytes()))
        )
    kept = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert kept == [first, {"id": 2, "b": 2, "c": 3}, {"id": 6, "w": 1}, {"id": 7, "w": 2.5}]


def test_a_contract_needs_columns_and_inference_may_be_off(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jsonl has no columns"):
        sink_into(tmp_path, schema_contract="freeze").start()
    with sink_into(tmp_path, object_format="csv", schema_infer="false", errors_tolerance="all") as sink:
        sink.put({"a": 1})
        assert "Its value has no schema" in str(sink.errant[0].error)


def test_structs_and_lists_are_json_text_in_columns_of_csv(tmp_path: Path) -> None:
    with sink_into(tmp_path, object_format="csv", flush_rows="3") as sink:
        sink.put({"a": 1, "b": [1, 2]}, {"a": {"b": 1}}, {"a": None})
    assert next(tmp_path.iterdir()).read_text() == '"a","b"\n"1","[1,2]"\n"{""b"":1}",\n,\n'


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
        with pytest.raises(RetriableError) as told:
            source.task.poll()
        assert secret not in f"{told.value} {told.value.__cause__!r} {source.task.__dict__!r} {caplog.text}"
        assert "Cannot list b/x" in str(told.value)


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
