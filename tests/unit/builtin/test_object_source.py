"""ObjectSource in a folder, through the harness."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kconnect.api import (
    DataError,
    RetriableError,
    TopicPartition,
)
from kconnect.builtin.connectors.objects.object_formats import compressed
from kconnect.builtin.connectors.objects.object_progress import partition_of
from kconnect.builtin.types.fitting import as_mapping
from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.pipeline.inflight import partition_key
from kconnect.runtime.pipeline.offset_updates import updated_offsets
from kconnect.testing import SourceHarness
from kit.objects import source_of
from kit.waiting import eventually

PLACE = TopicPartition("t", 0)


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


def test_each_member_of_a_union_of_avro_may_be_null_so_that_converters_take_it(folder: Path) -> None:
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
    union = ["int", "string", point]
    fields = [
        {"name": "one", "type": union},
        {"name": "all", "type": {"type": "array", "items": ["null", "int", "Point"]}},
    ]
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})
    with (folder / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"one": 5, "all": [1, None]}, {"one": {"x": 7}, "all": [{"x": 8}]}])
    with source_of(folder) as source:
        first, second = (as_mapping(record.value) for record in source.poll(2))
        assert [json.loads(written.value or b"") for written in source.written()] == [first, second]
    none = {"int": None, "string": None, "Point": None}
    assert first == {"one": {**none, "int": 5}, "all": [{"int": 1, "Point": None}, None]}
    assert second == {"one": {**none, "Point": {"x": 7}}, "all": [{"int": None, "Point": {"x": 8}}]}


@pytest.mark.parametrize("kind", ["gzip", "zstd", "bz2", "lz4"])
@pytest.mark.parametrize(
    ("name", "body"),
    [("a.csv", b"a\n1\n2\n"), ("a.jsonl", b'{"a": 1}\n{"a": 2}\n'), ("a.json", b'[{"a": 1}, {"a": 2}]')],
)
def test_a_name_that_hides_the_compression_costs_no_row(folder: Path, name: str, body: bytes, kind: str) -> None:
    (folder / name).write_bytes(compressed(body, kind))
    with source_of(folder) as source:
        assert [record.value["a"] for record in source.poll(2)] == [1, 2]


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("a.zip", b"PK\x03\x04\x14\x00\nline\n", "a ZIP archive"),
        ("a.csv", b"PK\x03\x04\x14\x00\n1\n", "a ZIP archive"),
        ("a.tar.gz", gzip.compress(b"a.txt".ljust(257, b"\0") + b"ustar\x0000", mtime=0), "a tar archive"),
        ("part-00000", b"PAR1\x15\x04\n", "Parquet"),
        ("a.orc", b"ORC\n\x06\x12\x04", "ORC"),
    ],
)
def test_what_is_no_text_is_not_read_as_lines(folder: Path, name: str, body: bytes, said: str) -> None:
    (folder / name).write_bytes(body)
    with (
        source_of(folder) as source,
        pytest.raises(DataError, match=rf"{name} cannot be read: It is {said}.*, not a text"),
    ):
        source.poll_once()


def test_a_text_may_begin_as_other_formats_do(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"ORC\nPAR1\n")
    with source_of(folder) as source:
        assert [record.value for record in source.poll(2)] == ["ORC", "PAR1"]


@pytest.mark.parametrize("more", [{}, {"csv_delimiter": ";"}, {"csv_header": "false", "csv_columns": "id,n"}])
def test_the_line_that_tells_excel_the_delimiter_is_no_header(folder: Path, more: dict[str, str]) -> None:
    header = b"" if "csv_header" in more else b"id;n\r\n"
    (folder / "a.csv").write_bytes(b"\xef\xbb\xbfsep=;\r\n" + header + b"1;x\r\n2;y;z\r\n3;w\r\n")
    with source_of(folder, errors_tolerance="all", **more) as source:
        assert [(record.value["id"], record.value["n"]) for record in source.poll(2)] == [(1, "x"), (3, "w")]
        assert f"Row 2 (line {3 if header == b'' else 4})" in str(source.errant[0].error)


def test_a_header_of_one_column_that_another_delimiter_would_part_is_reported(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "a.csv").write_text("id;n\n1;x\n")
    with source_of(folder) as source:
        assert [record.value["id;n"] for record in source.poll(1)] == ["1;x"]
    assert "a.csv has one column, 'id;n'. If ';' separates columns, set csv.delimiter" in caplog.text


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


def test_a_file_that_grew_is_reported_or_read_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = folder / "a.log"
    for changed, wanted in (("ignore", []), ("read", ["2"])):
        file.write_text("1\n")
        with source_of(folder, object_changed=changed) as source:
            source.poll(1)
            source.commit()
            with file.open("a") as more:
                more.write("2\n")
            if changed == "ignore":
                reported = "a.log has changed since it was read"
                eventually(lambda reported=reported: source.poll_once() or reported in caplog.text, 5, "a warning")  # type: ignore[misc]
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
    for more, reported in (
        ({"object_after": "move"}, r"object\.after=move needs it"),
        ({"object_after": "move", "object_move_url": "memory://x"}, "in the same store"),
        ({"object_after": "move", "object_move_url": str(folder)}, "another folder"),
        ({"csv_delimiter": ";;"}, "one character"),
        ({"object_format": "xml"}, "xml"),
    ):
        with pytest.raises(ConfigError, match=reported):
            source_of(folder, **more).start()
    with pytest.raises(ConfigError, match="Protocol not known: nowhere"):
        SourceHarness("ObjectSource", {"object.url": "nowhere://x", "topic": "t"}).start()


def test_a_folder_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with source_of(tmp_path / "nothing") as source, pytest.raises(ConnectError, match="No such folder or file"):
        source.poll_once()


def test_offsets_are_checked(folder: Path) -> None:
    with source_of(folder) as source:
        assert source.connector.alter_offsets({}, [({"object": "a"}, {"row": 3}), ({"x": 1}, None)])
        good = {"row": 3, "etag": "x", "size": 9, "done": False, "position": 5}
        assert source.connector.alter_offsets({}, [({"object": "a"}, good)])
        for partition, offset, reported in (
            ({"x": "a"}, {"row": 1}, "key 'object'"),
            ({"object": "a"}, {"row": -1}, "from 0 on"),
            ({"object": "a"}, {}, "'row' key"),
            ({"object": "a"}, {**good, "rows": 1}, "no field 'rows'; it has row, etag, size, done, position"),
            ({"object": "a"}, {**good, "done": 1}, "'done' key in the offset of an object is true or false, not 1"),
            ({"object": "a"}, {**good, "size": True}, "is a whole number, not True"),
        ):
            with pytest.raises(DataError, match=reported):
                source.connector.alter_offsets({}, [(partition, offset)])
