"""FileStreamSink: every value a line, in Java's spelling, by records and by columns."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from kconnect.api import ConnectError, RecordBatch, Schema, SchemaBuilder, SinkRecord, Struct
from kconnect.builtin.connectors.file_sink import FileStreamSinkConnector, FileStreamSinkTask


def sink_record(value: object, schema: Schema | None = None) -> SinkRecord:
    return SinkRecord("t", 0, None, None, schema, value, 0)


def started(file: Path) -> FileStreamSinkTask:
    task = FileStreamSinkTask()
    task.start({"file": str(file)})
    return task


def batch_of(column: pa.Array, schema: Schema) -> RecordBatch:
    offsets = pa.array(range(len(column)), pa.int64())
    return RecordBatch("t", kafka_partition=0, value=column, value_schema=schema, kafka_offsets=offsets)


def test_values_print_as_java_prints_them(tmp_path: Path) -> None:
    schema = SchemaBuilder.struct().field("a", Schema.INT32_SCHEMA).field("b", Schema.OPTIONAL_BOOLEAN_SCHEMA).build()
    task = started(tmp_path / "out")
    values = [
        "text",
        "",
        5,
        True,
        None,
        1.0,
        [1, None, "x"],
        {"k": False},
        Struct(schema).put("a", 1).put("b", True),
        b"raw\xff",
    ]
    task.put([sink_record(value) for value in values])
    task.stop()
    assert (
        tmp_path / "out"
    ).read_bytes() == b"text\n\n5\ntrue\nnull\n1.0\n[1, null, x]\n{k=false}\nStruct{a=1,b=true}\nraw\xff\n"


def test_lines_are_in_the_file_when_put_returns_and_are_appended(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("before\n")
    task = started(file)
    task.put([sink_record("one")])
    assert file.read_text() == "before\none\n"
    task.put([])
    task.put_batch(batch_of(pa.array(["two", "zwölf 😀"]), Schema.STRING_SCHEMA))
    task.flush({})
    assert file.read_text() == "before\none\ntwo\nzwölf 😀\n"
    task.stop()
    task.stop()


@pytest.mark.parametrize(
    ("column", "schema"),
    [
        (pa.array(["a", "", "b\nc"]), Schema.STRING_SCHEMA),
        (pa.array(["a", None]), Schema.OPTIONAL_STRING_SCHEMA),
        (pa.array([b"a", b"\xff"]), Schema.BYTES_SCHEMA),
        (pa.array([1, None], pa.int32()), Schema.OPTIONAL_INT32_SCHEMA),
        (pa.array([1.5, 1e10], pa.float32()), Schema.FLOAT32_SCHEMA),
        (pa.array(["x", "y", "z"]).slice(1, 2), Schema.STRING_SCHEMA),
        (pa.array(["x", "y"]).slice(1, 0), Schema.STRING_SCHEMA),
        (pa.array([""]), Schema.STRING_SCHEMA),
        (pa.array(["", "é", ""], pa.large_string()), Schema.STRING_SCHEMA),
    ],
)
def test_a_batch_writes_what_its_records_write(tmp_path: Path, column: pa.Array, schema: Schema) -> None:
    batch = batch_of(column, schema)
    by_batch, by_records = started(tmp_path / "batch"), started(tmp_path / "records")
    by_batch.put_batch(batch)
    by_records.put(batch.to_records())
    by_batch.stop()
    by_records.stop()
    assert (tmp_path / "batch").read_bytes() == (tmp_path / "records").read_bytes()


def test_all_null_batch_writes_null_lines(tmp_path: Path) -> None:
    task = started(tmp_path / "out")
    task.put_batch(RecordBatch("t", kafka_partition=0, kafka_offsets=pa.array([1, 2], pa.int64())))
    task.stop()
    assert (tmp_path / "out").read_text() == "null\nnull\n"


def test_without_a_file_lines_go_to_standard_output() -> None:
    read_end, write_end = os.pipe()
    task = FileStreamSinkTask(stdout_fd=write_end)
    task.start({})
    task.put([sink_record("seen")])
    task.stop()
    os.write(write_end, b"still open\n")
    os.close(write_end)
    with os.fdopen(read_end, "rb") as out:
        assert out.read() == b"seen\nstill open\n"


def test_file_that_can_not_be_made_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"Couldn't find or create file '.*nowhere/out' for FileStreamSinkTask"):
        started(tmp_path / "nowhere" / "out")


def test_failing_write_is_raised() -> None:
    with open("/dev/full", "wb") as full:
        task = FileStreamSinkTask(stdout_fd=full.fileno())
        task.start({})
        with pytest.raises(ConnectError, match="Cannot write to standard output: No space left"):
            task.put([sink_record("lost")])


def test_each_task_gets_the_same_config() -> None:
    connector = FileStreamSinkConnector()
    connector.start({"file": "f"})
    assert connector.task_configs(3) == [{"file": "f"}] * 3
    assert connector.task_class() is FileStreamSinkTask
    assert connector.alter_offsets({"file": "f"}, {})
