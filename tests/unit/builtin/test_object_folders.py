"""Folders as others leave them: what is data in them, what is written now, and columns of their paths."""

from __future__ import annotations

import datetime
import gzip
import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kconnect.api import DataError, Date, RecordBatch, Schema, SchemaBuilder, SinkRecord, Struct, Timestamp
from kconnect.api.columns import column_of
from kconnect.builtin.connectors.objects.object_names import ObjectNames, batch_field_values, field_values
from kconnect.builtin.types.fitting import as_mapping
from kconnect.errors import ConnectError
from kconnect.testing import SinkHarness, SourceHarness
from kit.objects import sink_into, source_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    return made


def test_a_folder_of_spark_is_read_once_its_job_is_over_with_the_columns_of_its_paths(folder: Path) -> None:
    staged = folder / "country=DE" / "city=M%C3%BCnchen"
    staged.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), staged / "part-0.snappy.parquet")
    (staged / ".part-0.snappy.parquet.crc").write_bytes(b"crc")
    (folder / "country=__HIVE_DEFAULT_PARTITION__").mkdir()
    (folder / "country=__HIVE_DEFAULT_PARTITION__" / "a.jsonl").write_text('{"id": 3}\n{"id": 4, "country": "own"}\n')
    (folder / "_temporary" / "0").mkdir(parents=True)
    with source_of(folder) as source:
        assert source.poll_once() == []
        (folder / "_temporary" / "0").rmdir()
        (folder / "_temporary").rmdir()
        (folder / "_SUCCESS").touch()
        found = [record.value for record in source.poll(4)]
    rows = [as_mapping(value) for value in found]
    assert rows == [
        {"id": 1, "country": "DE", "city": "München"},
        {"id": 2, "country": "DE", "city": "München"},
        {"id": 3, "country": None},
        {"id": 4, "country": "own"},
    ]


@pytest.mark.parametrize("after", ["keep", "delete", "move"])
def test_a_url_may_name_one_file_whatever_its_name(folder: Path, tmp_path: Path, after: str) -> None:
    file, done = folder / "_day=1.jsonl", tmp_path / "done"
    file.write_text('{"id": 1}\n')
    (folder / "other.jsonl").write_text('{"id": 2}\n')
    more = {"object_move_url": str(done)} if after == "move" else {}
    with source_of(file, object_after=after, object_settle_ms="0", **more) as source:
        assert [record.value for record in source.poll(1)] == [{"id": 1}]
        for _ in range(3):
            source.poll_once()
            source.commit()
        assert (file.exists(), (done / file.name).exists()) == (after == "keep", after == "move")
        source.restart()
        assert source.poll_once() == []
        file.write_text('{"id": 3}\n{"id": 4}\n')
        if after != "keep":  # where it was kept it has changed: object.changed says what follows
            assert [record.value for record in source.poll(2)] == [{"id": 3}, {"id": 4}]


def test_a_pattern_is_not_part_of_the_url(folder: Path) -> None:
    with pytest.raises(ConnectError, match=r"Patterns such as \*\.csv belong in object\.pattern"):
        source_of(folder / "*.csv").start()


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt"])
def test_a_file_that_is_written_is_read_as_it_grows_and_no_half_line_of_it(folder: Path, name: str) -> None:
    file = folder / name
    header = b"n\n" if name == "a.csv" else b""
    numbers: list[int] = []

    def read(source: SourceHarness) -> list[int]:
        for _ in range(5):
            for record in source.poll_once():
                value = as_mapping(record.value)
                numbers.append(int(value["n"] if isinstance(value, dict) and name == "a.csv" else value))
            source.commit()
        return numbers

    file.write_bytes(header + b"10\n2")
    with source_of(folder, object_settle_ms="600000", object_after="delete") as source:
        assert read(source) == [10]
        with file.open("ab") as out:
            out.write(b"0\n30")
        assert read(source) == [10, 20]
        source.crash()
        source.start()
        assert read(source) == [10, 20]
        assert file.exists()
    with source_of(folder, object_after="delete") as source:
        numbers.clear()
        assert read(source) == [10, 20, 30]
        assert not file.exists()


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_a_json_file_is_a_document_or_lines_as_it_begins(folder: Path, suffix: str) -> None:
    texts = {
        "a": '{"n": 1}\n{"n": 2}\n',
        "b": '\n{"n": 3}\n\n{"n": 4}',
        "c": '[{"n": 5},\n{"n": 6}]',
        "d": '{\n  "n": 7\n}\n',
        "e": '{"n": 8}',
        "f": '\ufeff{"n": 9}\n{"n": 10}\n',
        "g": '{"n": 11}\noops\n{"n": 12}\n',
        "h": "13",
    }
    for name, text in texts.items():
        data = text.encode()
        (folder / f"{name}.{suffix}").write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    with source_of(folder, errors_tolerance="all") as source:
        found = [record.value for record in source.poll(13)]
        assert [value["n"] if isinstance(value, dict) else value for value in found] == list(range(1, 14))
        assert [str(one.error).split(" of ")[0] for one in source.errant] == ["Line 2"]


def test_what_is_cut_off_waits_while_it_is_young_and_fails_the_task_then(folder: Path) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), out)
    (folder / "a.parquet").write_bytes(out.getvalue()[:-6])
    (folder / "b.txt.gz").write_bytes(gzip.compress(b"2\n" * 9)[:-3])
    (folder / "c.json").write_bytes(b'[{"n": 3}')
    with source_of(folder, object_settle_ms="600000") as source:
        for _ in range(5):
            assert source.poll_once() == []
        (folder / "a.parquet").write_bytes(out.getvalue())
        (folder / "c.json").write_bytes(b'[{"n": 3}]')
        assert [as_mapping(record.value) for record in source.poll(2)] == [{"n": 1}, {"n": 3}]
    os.utime(folder / "b.txt.gz", (0, 0))
    with source_of(folder, object_settle_ms="1000") as source, pytest.raises(ConnectError, match="cannot be read"):
        source.poll(3)


def test_a_bad_row_of_a_young_file_is_an_error_at_once(folder: Path) -> None:
    (folder / "a.csv").write_bytes(b"id,name\n1,a\n2\n3,J\xfc\n4,d\n")
    with (
        source_of(folder, object_settle_ms="600000") as source,
        pytest.raises(DataError, match=r"Row 2 \(line 3\) of .*/a\.csv"),
    ):
        source.poll(4)
    with source_of(folder, object_settle_ms="600000", errors_tolerance="all") as source:
        assert [record.value.get("id") for record in source.poll(2)] == [1, 4]
        assert [str(one.error).partition(" cannot")[0].split("/")[0] for one in source.errant] == [
            "Row 2 (line 3) of ",
            "Row 3 (line 4) of ",
        ]


def test_fields_of_records_are_folders_that_the_source_reads_as_fields(tmp_path: Path) -> None:
    rows = [{"id": 1, "country": "DE"}, {"id": 2, "country": "Côte d'Ivoire"}, {"id": 3}, {"id": 4, "country": ["x"]}]
    path = "country=${field:country}/day=${time:day:%Y-%m-%d}"
    with sink_into(tmp_path, object_path=path, errors_tolerance="all") as sink:
        sink.put(*rows)
        sink.commit(is_end=True)
        [errant] = sink.errant
    assert "offset 3 cannot be written: Field country of object.path is list, which names no folder" in str(
        errant.error
    )
    folders = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.jsonl"))
    null = "__HIVE_DEFAULT_PARTITION__"
    assert folders == [f"country={name}/day={null}" for name in ("Côte d%27Ivoire", "DE", null)]
    with source_of(tmp_path) as source:
        found = sorted((record.value for record in source.poll(3)), key=lambda row: row["id"])
    assert found == [{"country": None, **row, "day": None} for row in rows[:3]]


@pytest.mark.parametrize("path", ["day=${date:%Y-%m-%d}", "day=${time:at:%Y-%m-%d:Europe/Berlin}"])
def test_a_time_beyond_the_calendar_is_its_records_error(tmp_path: Path, path: str) -> None:
    times = (0, 1_764_237_600_000_000, 1_764_237_600_000)  # the second is of microseconds
    with sink_into(tmp_path, object_path=path, errors_tolerance="all") as sink:
        sink.put_records(
            SinkRecord("t", 0, None, None, None, {"at": time_ms}, 0, timestamp=time_ms) for time_ms in times
        )
        sink.commit(is_end=True)
        assert [one.record.timestamp for one in sink.errant] == [times[1]]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["day=1970-01-01", "day=2025-11-27"]


@pytest.mark.parametrize("with_schema", [True, False])
def test_columns_and_records_go_to_the_same_folders(tmp_path: Path, with_schema: bool) -> None:
    builder = SchemaBuilder.struct().field("at", Timestamp.SCHEMA).field("n", Schema.FLOAT64_SCHEMA)
    schema = builder.field("day", Date.SCHEMA).build() if with_schema else None
    when = datetime.datetime(2026, 1, 1, 23, 30, tzinfo=datetime.UTC)
    values: list[Any] = [{"at": when.isoformat(), "n": 1.5}, {"at": when.isoformat(), "n": 2.5}]
    if schema is not None:
        values = [Struct(schema).put("at", when).put("n", n).put("day", when.date()) for n in (1.0, 2.5)]
    names = ObjectNames("${time:at:%Y/%m/%d:Europe/Berlin}/n=${field:n}/${field:day}", "jsonl", "none")
    records = [SinkRecord("t", 0, None, None, schema, value, n) for n, value in enumerate(values)]
    batch = RecordBatch("t", value=column_of(schema, values) if schema else pa.array(values), value_schema=schema)
    by_columns = batch_field_values(batch, names.fields)
    by_records = [field_values(record.value, names.fields) for record in records]
    folders = [[names.folder("t", 0, None, row) for row in rows] for rows in (by_columns, by_records)]
    assert folders[0] == folders[1]
    assert folders[0][1].startswith("2026/01/02/n=2.5/")


def test_a_table_of_parquet_is_read_with_the_columns_that_its_folders_are(tmp_path: Path) -> None:
    rows = [{"id": 1, "country": "Côte d'Ivoire"}, {"id": 2, "country": "a/b=c"}, {"id": 3, "country": None}]
    config = {"table.format": "parquet", "table.path": str(tmp_path / "t"), "topics": "t", "partition.by": "country"}
    with SinkHarness("TableSink", config) as sink:
        sink.put(*rows)
        sink.commit(is_end=True)
    with source_of(tmp_path / "t") as source:
        found = [as_mapping(record.value) for record in source.poll(3)]
    assert sorted(found, key=lambda row: row["id"]) == rows
