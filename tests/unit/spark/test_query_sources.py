"""Positions of queries that read tables, the files they have read, and the checkpoint that is made of both."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pytest

from kconnect.api import DataError, Type
from kconnect.builtin.types.foreign_schemas import schema_of_arrow
from kconnect.errors import ConfigError
from kconnect.spark.query.checkpoint import SeenFile, new_files, offset_of, seed, seed_files
from kconnect.spark.query.row_sender import fitted
from kconnect.spark.query.row_source import cursor_text
from kconnect.spark.query.source_positions import ReadFiles, RowPosition, files_from


def test_a_position_comes_back_as_it_was_committed() -> None:
    planned = RowPosition.of(None).plan({"cursor": "7"})

    found = RowPosition.of(planned.to_commit("db").offset)

    assert found == planned
    ended = found.ended({"cursor": "7"})
    assert (ended.batch, ended.done, ended.planned) == (1, {"cursor": "7"}, None)
    assert RowPosition.of(ended.to_commit("db").offset) == ended
    assert RowPosition.of(None).id != RowPosition.of(None).id


@pytest.mark.parametrize("offset", [{"batch": "x"}, {"done": "{"}, {"done": 7}])
def test_an_offset_that_is_none_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # int's and json's own words
        RowPosition.of(offset)


def test_read_files_are_kept_in_chunks_and_each_once() -> None:
    files = [SeenFile(f"file:///in/{number}", number) for number in range(450)]
    kept = ReadFiles("f", "id")

    first, rest = kept.add(files[:150]), kept.add(files[150:])
    again = kept.add(files[-3:])

    assert [len(json.loads(str(item.offset["list"]))) for item in (*first, *rest) if item.offset] == [150, 200, 200, 50]
    assert again == []
    assert kept.done() == {"files": 450, "chunks": 3}
    position = RowPosition("id", 3, kept.done())
    partitions = ReadFiles.partitions("f", position)
    committed = {json.dumps(item.partition): item.offset for item in (*first, *rest)}
    found = ReadFiles("f", "id", [committed.get(json.dumps(at)) for at in partitions])
    assert found.files() == files


def test_files_beyond_what_the_position_counts_are_not_done() -> None:
    """Of a batch that did not end; or the offsets were set back by an import that has fewer files."""
    files = [SeenFile(f"file:///in/{number}", number) for number in range(450)]
    chunks = [item.offset for item in ReadFiles("f", "id").add(files)]

    kept = ReadFiles("f", "id", chunks, {"files": 210, "chunks": 2})

    assert kept.files() == files[:210]
    assert kept.done() == {"files": 210, "chunks": 2}
    assert [item.partition["files"] for item in kept.add(files[210:220])] == [1]


def test_a_position_that_was_set_back_gets_numbers_that_were_not_written() -> None:
    position = RowPosition("id", 3, {"cursor": "30"}, {"cursor": "40"})

    assert (position.highest, RowPosition("id", 3).highest) == (4, 3)
    assert position.after(7) == RowPosition("id", 7, {"cursor": "30"}, None)


def test_a_checkpoint_has_the_last_batch_and_the_planned_one(tmp_path: Path) -> None:
    seed(tmp_path, batch=7, done={"t": {"0": 5}}, planned={"t": {"0": 9}}, now_ms=1, conf={})

    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == ["7", "8"]
    assert [path.name for path in (tmp_path / "commits").iterdir()] == ["7"]
    assert offset_of((tmp_path / "offsets" / "8").read_text()) == {"t": {"0": 9}}


def test_a_checkpoint_without_a_plan_has_two_offsets_as_spark_reads_them(tmp_path: Path) -> None:
    seed(tmp_path, batch=7, done=3, planned=None, now_ms=1, conf={})

    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == ["6", "7"]


def test_a_first_batch_that_was_planned_is_spark_s_first(tmp_path: Path) -> None:
    seed(tmp_path, batch=0, done=None, planned=3, now_ms=1, conf={})

    assert [path.name for path in (tmp_path / "offsets").iterdir()] == ["0"]
    assert list((tmp_path / "commits").iterdir()) == []


def test_the_files_of_a_batch_are_found_in_spark_s_log(tmp_path: Path) -> None:
    files = [SeenFile(f"file:///in/{number}", number) for number in range(4)]
    seed_files(tmp_path, files[:2], files[2:])

    assert new_files(tmp_path, 0, 1) == files[2:]
    compact = tmp_path / "sources" / "0" / "2.compact"
    entries = [
        {"path": file.path, "timestamp": file.time_ms, "batchId": 2 if file.time_ms == 3 else 0} for file in files
    ]
    compact.write_text("\n".join(["v1", *map(json.dumps, entries)]))
    assert new_files(tmp_path, 1, 2) == files[3:]
    with pytest.raises(ValueError, match="An offset log of Spark has v1"):
        offset_of("v2\n{}\n{}")


def test_files_of_a_plan_are_read_from_its_text() -> None:
    assert files_from([["file:///a", 1]]) == [SeenFile("file:///a", 1)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (decimal.Decimal("1.50"), "1.50"),
        ("b", "b"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02 03:00:00.000000"),
    ],
)
def test_a_cursor_is_kept_as_text(value: object, text: str) -> None:
    assert cursor_text(value) == text


def test_a_cursor_needs_an_order() -> None:
    with pytest.raises(ConfigError, match="numbers, times or texts, not bool"):
        cursor_text(True)


def test_columns_of_spark_become_connect_s() -> None:
    at = pa.array([datetime.datetime(2026, 1, 1, 0, 0, 0, 1999, datetime.UTC)], pa.timestamp("us", "UTC"))

    assert fitted(at, schema_of_arrow(at.type, "at")).to_pylist()[0].microsecond == 1000
    assert schema_of_arrow(pa.decimal128(10, 2), "d").name == "org.apache.kafka.connect.data.Decimal"
    nested = schema_of_arrow(pa.struct([("a", pa.list_(pa.int64()))]), "value")
    assert nested.fields[0].schema.type is Type.ARRAY
    with pytest.raises(DataError, match=r"A record cannot hold a value of type .* at value.a"):
        schema_of_arrow(pa.struct([("a", pa.duration("s"))]), "value")
