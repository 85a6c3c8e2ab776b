"""Source offsets in Spark's offsets, and polls that are read a second time, cut where they ended."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest

from kconnect.api import RecordBatch, Schema, SourceRecord
from kconnect.errors import ConnectError, DataError
from kconnect.spark.datasource.positions import Positions, Replay
from kconnect.spark.datasource.spool import Spool, SpooledFile


def _record(file: str, offset: int) -> SourceRecord:
    return SourceRecord({"file": file}, {"at": offset}, "t", f"{file}{offset}")


def test_offsets_survive_json_and_advance_by_partition():
    positions = Positions([({"file": "a"}, {"at": 1})])
    positions.advance([_record("b", 5), _record("a", 2), _record("b", 6)])
    again = Positions.from_json(json.loads(json.dumps(positions.to_json())))
    assert again == positions
    assert again.offsets([{"file": "a"}, {"file": "b"}, {"file": "c"}]) == [{"at": 2}, {"at": 6}, None]
    moved = Positions([({"file": "a"}, {"at": 2})]).moved_to(again)
    assert moved.to_json() == [[{"file": "b"}, {"at": 6}]]


def test_an_offset_that_json_cannot_hold_is_refused():
    with pytest.raises(DataError):
        Positions().advance([SourceRecord({"file": "a"}, {"at": {"nested": 1}}, "t", "x")])


def test_a_list_is_cut_behind_the_last_record_with_the_offset():
    replay = Replay(Positions([({"file": "a"}, {"at": 2})]))
    kept = replay.cut([_record("a", 1), _record("b", 9), _record("a", 2), _record("a", 2), _record("a", 3)])
    assert [record.value for record in kept] == ["a1", "a2", "a2"]
    assert replay.is_done
    assert replay.cut([_record("a", 4)]) == []


def test_a_batch_is_cut_behind_the_row_with_the_offset():
    replay = Replay(Positions([({"file": "a"}, {"at": 12})]))

    def batch(first: int) -> RecordBatch:
        return RecordBatch(
            "t",
            value=pa.array([str(number) for number in range(first, first + 5)]),
            value_schema=Schema.STRING_SCHEMA,
            source_partition={"file": "a"},
            source_offsets={"at": pa.array(range(first, first + 5), pa.int64())},
        )

    assert len(replay.cut(batch(5))) == 5
    assert not replay.is_done
    assert '"at": 12' in replay.missing
    assert len(replay.cut(batch(10))) == 3
    assert replay.is_done


def test_a_spooled_file_is_there_once_it_is_whole(tmp_path: Path):
    for path in (str(tmp_path / "s"), f"file://{tmp_path}/u"):
        spool = Spool.new(path)
        schema = pa.schema([("a", pa.int64())])
        writer = spool.writer("0-x.arrow", schema)
        writer.write(pa.record_batch([pa.array([1, 2])], schema=schema))
        assert not spool.has(SpooledFile("0-x.arrow", 2, 1))
        file = writer.close()
        assert (file.rows, spool.has(file)) == (2, True)
        assert [batch.num_rows for batch in spool.read(file.name, 0, 1)] == [2]
        (written,) = Path(spool.folder.removeprefix("file://")).iterdir()
        assert written.stat().st_mode & 0o077 == 0
        spool.remove([file.name, "gone.arrow"])
        assert not spool.has(file)
        with pytest.raises(ConnectError, match="cannot be read on this machine"):
            next(spool.read(file.name, 0, 1))


def test_a_spool_that_cannot_be_is_reported_by_its_setting(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(ConnectError, match="cannot be used") as caught:
        Spool.new(str(tmp_path / "file")).writer("x", pa.schema([]))
    assert "kconnect.spool.path" in (caught.value.hint or "")
    with pytest.raises(ConnectError, match="cannot be used"):
        Spool.new("nothing://x")


def test_spools_of_queries_that_nobody_ran_for_a_week_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    schema = pa.schema([("a", pa.int64())])
    old, young = Spool.new(None), Spool.new(None)
    for spool in (old, young):
        spool.writer("x.arrow", schema).close()
    began, day = time.time(), 24 * 3600
    monkeypatch.setattr(time, "time", lambda: began + 6 * day)
    Spool.new(None)
    assert Path(old.folder).exists()
    monkeypatch.setattr(time, "time", lambda: began + 8 * day)
    Spool.new(None)
    assert not Path(old.folder).exists()
