"""VerifiableSource and VerifiableSink: numbers without a gap at a set rate, and a line for each record that moved."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigError, DataError, ExactlyOnceSupport, Schema
from kconnect.builtin.connectors.verifiable_lines import LineWriter
from kconnect.builtin.connectors.verifiable_sink import VerifiableSinkConnector
from kconnect.builtin.connectors.verifiable_source import VerifiableSourceConnector
from kconnect.testing import ManualClock, SinkHarness, SourceHarness

JAVA = "org.apache.kafka.connect.tools.Verifiable"


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def source_config(file: Path, **more: str) -> dict[str, str]:
    return {"name": "vs", "topic": "t", "throughput": "-1", "file": str(file), "tasks.max": "1", **more}


def test_numbers_come_in_sequence_with_the_tasks_number_as_key(tmp_path: Path) -> None:
    with SourceHarness(f"{JAVA}SourceConnector", source_config(tmp_path / "out")) as source:
        records = source.poll(600)
        source.commit()
        assert source.offset(id=0) == {"seqno": len(records) - 1}
    assert [record.value for record in records] == list(range(len(records)))
    first = records[0]
    assert (first.key, first.key_schema, first.value_schema) == (0, Schema.INT32_SCHEMA, Schema.INT64_SCHEMA)
    assert (first.topic, first.source_partition, first.source_offset) == ("t", {"id": 0}, {"seqno": 0})


def test_each_task_has_a_sequence_of_its_own(tmp_path: Path) -> None:
    with SourceHarness(VerifiableSourceConnector, source_config(tmp_path / "out", **{"tasks.max": "3"})) as source:
        records = source.poll(1500)
    assert {record.key for record in records} == {0, 1, 2}
    for task in range(3):
        own = [record.value for record in records if record.key == task]
        assert own == list(range(len(own)))


def test_a_task_goes_on_behind_the_committed_number(tmp_path: Path) -> None:
    config = source_config(tmp_path / "out")
    with SourceHarness("VerifiableSource", config, offsets=[({"id": 0}, {"seqno": 41})]) as source:
        assert source.poll()[0].value == 42
        source.commit()
        committed = source.offset(id=0)
        source.restart()
        assert committed is not None
        assert source.poll()[0].value == committed["seqno"] + 1


def test_what_was_not_committed_comes_again_after_a_crash(tmp_path: Path) -> None:
    with SourceHarness(VerifiableSourceConnector, source_config(tmp_path / "out")) as source:
        source.poll()
        source.crash()
        source.start()
        assert source.poll()[0].value == 0


def test_no_more_is_given_than_the_rate_allows(tmp_path: Path) -> None:
    config = source_config(tmp_path / "out", throughput="1000000")
    with SourceHarness(VerifiableSourceConnector, config) as source:
        assert len(source.poll_once()) <= 500
    none = source_config(tmp_path / "none", throughput="0")
    with SourceHarness(VerifiableSourceConnector, none, clock=ManualClock()) as source:
        assert [source.poll_once() for _ in range(3)] == [[], [], []]


def test_a_rate_is_kept_over_time_also_in_small_steps(tmp_path: Path) -> None:
    before_ms = time.time() * 1000
    with SourceHarness(VerifiableSourceConnector, source_config(tmp_path / "out", throughput="200")) as source:
        records = source.poll(20)
    stamps = [row["time_ms"] for row in rows(tmp_path / "out") if "committed" not in row]
    assert len(stamps) == len(records)
    # Never early by the time of the start; late it may be, on a busy machine, and makes up for it
    assert all(stamp - before_ms >= number * 1000 / 200 - 10 for number, stamp in enumerate(stamps))


def test_lines_tell_what_is_sent_and_what_kafka_has(tmp_path: Path) -> None:
    with SourceHarness(VerifiableSourceConnector, source_config(tmp_path / "out", throughput="1000")) as source:
        count = len(source.poll(5))
    lines = rows(tmp_path / "out")
    sent = [row for row in lines if "committed" not in row]
    assert [row["seqno"] for row in sent] == list(range(count))
    assert sent[0] == {"name": "vs", "task": 0, "topic": "t", "time_ms": sent[0]["time_ms"], "seqno": 0}
    assert [row["seqno"] for row in lines if row.get("committed") is True] == list(range(count))


def test_a_complete_record_holds_what_the_line_does(tmp_path: Path) -> None:
    config = source_config(tmp_path / "out", **{"complete.record.data": "true"})
    with SourceHarness(VerifiableSourceConnector, config) as source:
        value = source.poll()[0].value
    assert {field.name: value[field.name] for field in value.schema.fields} == rows(tmp_path / "out")[0]
    assert [(field.name, field.schema.type.value) for field in value.schema.fields] == [
        *(("name", "string"), ("task", "int32"), ("topic", "string"), ("time_ms", "int64"), ("seqno", "int64"))
    ]


@pytest.mark.parametrize("missing", ["topic", "throughput"])
def test_what_is_missing_is_refused_before_anything_starts(tmp_path: Path, missing: str) -> None:
    config = {key: value for key, value in source_config(tmp_path / "out").items() if key != missing}
    with pytest.raises(ConfigError, match=missing):
        SourceHarness(VerifiableSourceConnector, config).start()


def test_it_supports_exactly_once_and_takes_offsets_that_are_numbers() -> None:
    connector = VerifiableSourceConnector()
    assert connector.exactly_once_support({}) is ExactlyOnceSupport.SUPPORTED
    assert connector.alter_offsets({}, [({"id": 0}, {"seqno": 7}), ({"what": "ever"}, None)])
    with pytest.raises(DataError, match="seqno"):
        connector.alter_offsets({}, [({"id": 0}, {"seqno": "7"})])
    with pytest.raises(DataError, match="'id'"):
        connector.alter_offsets({}, [({"file": "x"}, {"seqno": 7})])


def sink_config(file: Path, **more: str) -> dict[str, str]:
    return {"name": "vk", "topics": "t", "file": str(file), **more}


def test_a_line_tells_of_each_record_when_put_returns_and_again_when_it_is_flushed(tmp_path: Path) -> None:
    with SinkHarness(f"{JAVA}SinkConnector", sink_config(tmp_path / "out")) as sink:
        sink.put(10, 11, key=3)
        put = rows(tmp_path / "out")
        sink.commit()
        flushed = rows(tmp_path / "out")[2:]
        sink.commit()
        assert len(rows(tmp_path / "out")) == 4
    assert put[0] == {
        "name": "vk",
        "task": 3,
        "sinkTask": 0,
        "topic": "t",
        "time_ms": put[0]["time_ms"],
        "seqno": 10,
        "offset": 0,
    }
    assert [(row["seqno"], row["offset"], row.get("flushed")) for row in flushed] == [(10, 0, True), (11, 1, True)]


def test_after_a_crash_what_was_not_committed_has_a_second_line(tmp_path: Path) -> None:
    with SinkHarness(VerifiableSinkConnector, sink_config(tmp_path / "out")) as sink:
        sink.put(1)
        sink.crash()
        sink.start()
        sink.put(2)
    assert [row["seqno"] for row in rows(tmp_path / "out") if "flushed" not in row] == [1, 1, 2]


def test_structs_are_objects_in_a_line(tmp_path: Path) -> None:
    with SourceHarness(
        VerifiableSourceConnector, source_config(tmp_path / "in", **{"complete.record.data": "true"})
    ) as source:
        value = source.poll()[0].value
    with SinkHarness(VerifiableSinkConnector, sink_config(tmp_path / "out")) as sink:
        sink.put(value)
    assert rows(tmp_path / "out")[0]["seqno"]["seqno"] == 0


def test_a_line_that_a_kill_cut_off_is_ended_before_others_follow(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text('{"seqno":1}\n{"seq')
    lines = LineWriter(str(file))
    lines.write([{"seqno": 2}])
    lines.close()
    assert file.read_text() == '{"seqno":1}\n{"seq\n{"seqno":2}\n'
