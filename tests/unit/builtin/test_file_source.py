"""FileStreamSource: what it gives, where it stands, and what it does when the file is not what it was."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigError, ConnectError, ExactlyOnceSupport, Schema
from kconnect.builtin.connectors import file_source, file_tail
from kconnect.builtin.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask
from kconnect.builtin.connectors.inotify import FileWatch
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.model import CONNECT_VERSION


class Context:
    """A task context over a committed offset; remembers how long the task wanted to wait."""

    def __init__(self, offset: Mapping[str, Any] | None = None) -> None:
        self._offset = offset
        self.asked: list[Mapping[str, Any]] = []
        self.waits: list[float] = []
        self.woken = threading.Event()

    def offset_storage_reader(self) -> Context:
        return self

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self.asked.append(partition)
        return self._offset

    def wake(self) -> None:
        self.woken.set()

    def wait(self, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        return False


Start = Callable[..., tuple[FileStreamSourceTask, Context]]


@pytest.fixture
def start() -> Any:
    tasks = []

    def begin(
        file: Path, offset: Mapping[str, Any] | None = None, **config: str
    ) -> tuple[FileStreamSourceTask, Context]:
        task, context = FileStreamSourceTask(), Context(offset)
        task.initialize(context)
        task.start({"file": str(file), "topic": "t", **{name.replace("_", "."): text for name, text in config.items()}})
        tasks.append(task)
        return task, context

    yield begin
    for task in tasks:
        task.stop()


def lines_of(task: FileStreamSourceTask) -> list[tuple[str, int]] | None:
    """One poll: each line with the position behind it."""
    batch = task.poll()
    if batch is None:
        return None
    return list(zip(batch.value.to_pylist(), batch.source_offsets["position"].to_pylist(), strict=True))


def test_lines_become_string_records_with_the_byte_position_behind_each(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes("one\nzwölf\n\nlast\n".encode())
    task, _ = start(file)
    records = task.poll().to_records()
    assert [record.value for record in records] == ["one", "zwölf", "", "last"]
    assert [record.source_offset for record in records] == [{"position": n} for n in (4, 11, 12, 17)]
    assert {record.topic for record in records} == {"t"}
    assert {record.value_schema for record in records} == {Schema.STRING_SCHEMA}
    assert {record.key for record in records} == {None}
    assert records[0].source_partition == {"filename": str(file)}
    assert records[0].timestamp > 1_600_000_000_000
    assert task.poll() is None


def test_last_line_waits_for_its_end(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntw")
    task, _ = start(file)
    assert lines_of(task) == [("one", 4)]
    assert lines_of(task) is None
    with file.open("ab") as more:
        more.write(b"o\nthree\n")
    assert lines_of(task) == [("two", 8), ("three", 14)]


def test_every_java_line_end_ends_a_line(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"unix\nwindows\r\nmac\rempty\r\r\n\nend\n")
    task, _ = start(file)
    expected = [("unix", 5), ("windows", 14), ("mac", 18), ("empty", 24), ("", 26), ("", 27), ("end", 31)]
    assert lines_of(task) == expected


def test_a_carriage_return_at_the_end_may_be_half_a_line_end(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\r")
    task, _ = start(file)
    assert lines_of(task) is None
    with file.open("ab") as more:
        more.write(b"\ntwo\r")
    assert lines_of(task) == [("one", 5)]
    with file.open("ab") as more:
        more.write(b"x")
    assert lines_of(task) == [("two", 9)]


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 7, 64])
def test_lines_do_not_depend_on_where_chunks_are_cut(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(file_tail, "CHUNK_BYTES", chunk_bytes)
    file = tmp_path / "in.txt"
    file.write_bytes("a\r\nbb\rccc\n\r\n\rzwölf\n😀 and a longer line than the others\r\n".encode())
    task, context = start(file)
    found = []
    while not context.waits:
        found += lines_of(task) or []
    expected = [
        ("a", 3),
        ("bb", 6),
        ("ccc", 10),
        ("", 12),
        ("", 13),
        ("zwölf", 20),
        ("😀 and a longer line than the others", 60),
    ]
    assert found == expected


def test_a_line_longer_than_the_chunk_is_one_record(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    size = 3 * file_tail.CHUNK_BYTES + 17
    file.write_bytes(b"x" * size + b"\nshort\n")
    task, _ = start(file)
    found = lines_of(task)
    assert [(len(line), position) for line, position in found] == [(size, size + 1), (5, size + 7)]


def test_bytes_that_are_no_utf8_become_replacement_characters_as_in_java(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"a\xff\xfeb\n\xe2\x82\n\xed\xa0\x80\nfine\n")
    task, _ = start(file)
    assert lines_of(task) == [("a\ufffd\ufffdb", 5), ("\ufffd", 8), ("\ufffd", 12), ("fine", 17)]


def test_reading_goes_on_at_the_committed_position(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo\nthree\n")
    task, context = start(file, {"position": 4})
    assert lines_of(task) == [("two", 8), ("three", 14)]
    assert context.asked == [{"filename": str(file)}]


def test_committed_position_of_another_type_is_refused(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\n")
    task, _ = start(file, {"position": "4"})
    with pytest.raises(ConnectError, match="Offset position is the incorrect type"):
        task.poll()


def test_committed_position_behind_the_end_starts_over_with_a_warning(
    tmp_path: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\n")
    task, _ = start(file, {"position": 4000})
    with caplog.at_level(logging.WARNING):
        assert lines_of(task) == [("one", 4)]
    assert "position 4000 is committed" in caplog.text


def test_truncated_file_starts_over_with_a_warning(
    tmp_path: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo\n")
    task, _ = start(file)
    assert lines_of(task) == [("one", 4), ("two", 8)]
    with file.open("r+b") as same:
        same.truncate(0)
        same.write(b"new\n")
    assert lines_of(task) is None
    assert lines_of(task) == [("new", 4)]
    assert "was truncated to 4 B, below position 8" in caplog.text


def test_rotated_file_is_read_to_its_end_before_the_one_that_replaces_it(
    tmp_path: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    file, old = tmp_path / "in.txt", tmp_path / "in.txt.1"
    file.write_bytes(b"one\n")
    task, _ = start(file)
    assert lines_of(task) == [("one", 4)]
    file.rename(old)
    assert lines_of(task) is None
    file.touch()
    with old.open("ab") as late:
        late.write(b"late\nhalf")
    assert lines_of(task) == [("late", 9)]
    assert lines_of(task) is None  # the new file is empty: its writer may still be at the old one
    file.write_bytes(b"first\n")
    assert lines_of(task) == [("half", 0)]
    assert lines_of(task) == [("first", 6)]
    assert "was replaced by another file" in caplog.text
    assert "had no end" in caplog.text


@pytest.mark.parametrize(
    ("file_system", "longest_s"),
    [("of this machine", 5.0), ("shared with others", 0.5), ("without events", 0.1)],
)
def test_an_idle_source_looks_as_seldom_as_its_file_system_allows(
    file_system: str, longest_s: float, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = None if file_system == "without events" else FileWatch(lambda: None, hears_all=longest_s == 5.0)
    monkeypatch.setattr(file_source, "watch_file", lambda path, changed: watch)
    task, context = start(tmp_path / "quiet.txt")

    for _ in range(30):
        assert task.poll() is None

    assert context.waits[-1] == max(context.waits) == longest_s


def test_file_that_does_not_exist_yet_is_waited_for(
    tmp_path: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "later.txt"
    task, context = start(file)
    for _ in range(14):
        assert task.poll() is None
    assert caplog.text.count("Couldn't find file") == 1
    assert context.waits[:3] == [0.002, 0.004, 0.008]
    assert max(context.waits) == 5.0  # the system tells of all changes
    file.write_bytes(b"here\n")
    assert lines_of(task) == [("here", 5)]
    assert task.poll() is None
    assert context.waits[-1] == 0.002  # quick again after work


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_batch_size_that_is_set_is_kept(tmp_path: Path, start: Start, size: int) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"".join(b"%d\n" % number for number in range(7)))
    task, context = start(file, batch_size=str(size))
    polls = []
    while not context.waits:
        polls.append(lines_of(task) or [])
    assert [line for poll in polls for line in poll] == [(str(n), 2 * n + 2) for n in range(7)]
    assert max(len(poll) for poll in polls) == min(size, 7)


def test_batch_size_that_is_not_set_leaves_it_to_the_chunk(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"x\n" * 5000)
    task, _ = start(file)
    assert len(task.poll()) == 5000


def test_directory_is_refused(tmp_path: Path, start: Start) -> None:
    task, _ = start(tmp_path)
    with pytest.raises(ConnectError, match="is a directory"):
        task.poll()


def test_standard_input_has_no_positions(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    try:
        task = FileStreamSourceTask(stdin_fd=read_end)
        task.initialize(Context())
        task.start({"topic": "t"})
        assert task.poll() is None
        os.write(write_end, b"typed\nhal")
        record = task.poll().to_records()[0]
        assert (record.value, record.source_partition, record.source_offset) == (
            "typed",
            {"filename": None},
            {"position": None},
        )
        os.write(write_end, b"f\n")
        assert task.poll().value.to_pylist() == ["half"]
        task.stop()
        os.close(write_end)
        write_end = -1
        assert os.read(read_end, 1) == b""  # the stream was left open
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def test_named_pipe_is_read_as_it_is_written(tmp_path: Path, start: Start) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    task, _ = start(pipe)
    assert task.poll() is None
    writer = os.open(pipe, os.O_WRONLY)
    try:
        os.write(writer, b"one\ntwo\n")
        assert lines_of(task) == [("one", 4), ("two", 8)]
    finally:
        os.close(writer)


def test_connector_gives_one_task_whatever_tasks_max_is(tmp_path: Path) -> None:
    connector = FileStreamSourceConnector()
    connector.start({"file": "f", "topic": "t"})
    assert connector.task_configs(5) == [{"file": "f", "topic": "t"}]
    assert connector.task_class() is FileStreamSourceTask
    assert connector.version() == KAFKA_VERSION == CONNECT_VERSION
    assert connector.exactly_once_support({"file": "f", "topic": "t"}) is ExactlyOnceSupport.SUPPORTED
    assert connector.exactly_once_support({"topic": "t"}) is ExactlyOnceSupport.UNSUPPORTED
    with pytest.raises(ConfigError, match='Missing required configuration "topic" which has no default value'):
        FileStreamSourceConnector().start({"file": "f"})


FILE = {"file": "f", "topic": "t"}


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"filename": "f"}, {"position": 0}),
        ({"filename": 1}, {"position": 5}),
        ({"filename": "g"}, {"position": 1 << 40}),
        ({"x": 1}, None),
        ({}, None),
    ],
)
def test_offsets_that_a_file_can_have_are_taken(partition: dict[str, Any], offset: dict[str, Any] | None) -> None:
    assert FileStreamSourceConnector().alter_offsets(FILE, [(partition, offset)])


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        ({"filename": "f"}, {"pos": 1}, "Offset objects should either be null or contain the key 'position'"),
        (
            {"filename": "f"},
            {"position": "1"},
            "The value for the 'position' key in the offset is expected to be a Long value",
        ),
        (
            {"filename": "f"},
            {"position": True},
            "The value for the 'position' key in the offset is expected to be a Long value",
        ),
        (
            {"filename": "f"},
            {"position": -1},
            "The value for the 'position' key in the offset should be a non-negative value",
        ),
        ({"name": "f"}, {"position": 1}, "Partition objects should contain the key 'filename'"),
    ],
)
def test_offsets_that_no_file_can_have_are_refused_in_java_words(
    partition: dict[str, Any], offset: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConnectError) as caught:
        FileStreamSourceConnector().alter_offsets(FILE, [(partition, offset)])
    assert str(caught.value) == message


def test_offsets_of_standard_input_can_not_be_altered() -> None:
    with pytest.raises(ConnectError, match="Offsets cannot be modified if the 'file' configuration is unspecified"):
        FileStreamSourceConnector().alter_offsets({"topic": "t"}, [])
