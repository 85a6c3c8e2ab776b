"""The harness for sinks: real connectors, transforms and converters, topics and offsets in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kconnect.api import (
    ConfigDef,
    ConnectHeaders,
    DataError,
    ErrantRecordsError,
    RetriableError,
    SinkConnector,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from kconnect.builtin.connectors.file_sink import FileStreamSinkConnector
from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.pipeline.stages import StageError
from kconnect.testing import ManualClock, SinkHarness
from kconnect.testing.trial import InputRecord, TriedRecord, try_sink

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
TOPIC = {"topics": "t"}


class KeepTask(SinkTask):
    """Keeps values; text "bad" is reported, "later" is retried, "late" is found bad as values are written."""

    flushed: ClassVar[list[Any]] = []

    def start(self, props: Mapping[str, str]) -> None:
        self.calls: list[str] = []
        self.values: list[Any] = []
        self.late: dict[tuple[TopicPartition, int], BaseException] = {}
        self.hold_back = 0

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(f"open {[tp.partition for tp in partitions]}")

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(f"close {[tp.partition for tp in partitions]}")

    def put(self, records: list[SinkRecord]) -> None:
        for record in records:
            if record.value == "later":
                self.context.timeout(7000)
                raise RetriableError("not now")
            if record.value == "bad":
                reporter = self.context.errant_record_reporter()
                if reporter is None:
                    raise DataError("bad, and nobody to tell")
                reporter.report(record, DataError("bad"))
                continue
            if record.value == "late":
                self.late[T0, record.original_kafka_offset] = DataError("late")
            self.values.append(record.value)

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.calls.append("pre_commit")
        if self.late:
            late, self.late, self.values = self.late, {}, []
            raise ErrantRecordsError(late)
        return {tp: offset - self.hold_back for tp, offset in current_offsets.items()}

    def stop(self) -> None:
        self.calls.append("stop")


class KeepConnector(SinkConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self.props = props

    def task_class(self) -> type[SinkTask]:
        return KeepTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{} for _ in range(max_tasks)]

    def stop(self) -> None:
        pass

    def config(self) -> ConfigDef:
        return ConfigDef()


def test_values_bytes_and_records_reach_put_in_order_with_their_offsets() -> None:
    with SinkHarness(KeepConnector, TOPIC) as sink:
        sink.put({"id": 1}, {"id": 2})
        sink.put_bytes(b'{"id": 3}', None)
        sink.put_records([SinkRecord("t", 0, None, None, None, {"id": 4}, 0, headers=ConnectHeaders())])
        assert sink.task.values == [{"id": 1}, {"id": 2}, {"id": 3}, None, {"id": 4}]
        assert sink.commit() == {T0: 5}
        assert sink.commit() == {}


def test_a_crash_delivers_again_what_was_not_committed_and_a_restart_does_not() -> None:
    sink = SinkHarness(KeepConnector, TOPIC).start()
    sink.put("a")
    sink.commit()
    sink.put("b", "c")
    sink.crash()
    sink.start()
    sink.deliver()
    assert sink.task.values == ["b", "c"]
    first = sink.task
    sink.restart()
    assert first.calls == ["open [0]", "pre_commit", "close [0]", "stop"]
    sink.deliver()
    assert sink.task.values == []
    sink.stop()
    assert sink.committed == {T0: 3}


def test_retriable_puts_are_tried_again_after_the_wait_the_task_asks_for() -> None:
    clock = ManualClock()
    with SinkHarness(KeepConnector, TOPIC, put_retries=2, clock=clock) as sink:
        sink.fail("put", RetriableError("busy"), times=2)
        sink.put("a")
        assert clock.waits == [0.3, 0.6]
        with pytest.raises(RetriableError, match="not now"):
            sink.put("later")
        assert clock.waits[2:] == [7.0, 7.0]


def test_records_that_can_not_be_put_or_read_are_kept_as_errant() -> None:
    with SinkHarness(KeepConnector, {**TOPIC, "errors.tolerance": "all"}) as sink:
        sink.put("good", "bad")
        sink.put_bytes(b"{no json")
        assert sink.task.values == ["good"]
        assert [(item.record.kafka_offset, type(item.error)) for item in sink.errant] == [
            (1, DataError),
            (2, DataError),
        ]
        assert sink.commit() == {T0: 3}
    with pytest.raises(ConnectError, match="tolerance"), SinkHarness(KeepConnector, TOPIC) as sink:
        sink.put("bad")
    with pytest.raises(DataError, match="nobody"), SinkHarness(KeepConnector, TOPIC, has_reporter=False) as sink:
        sink.put("bad")
    with pytest.raises(StageError, match="VALUE_CONVERTER"), SinkHarness(KeepConnector, TOPIC) as sink:
        sink.put_bytes(b"{no json")


def test_records_that_a_task_finds_bad_as_it_writes_are_left_out_of_what_it_is_given_again() -> None:
    with SinkHarness(KeepConnector, {**TOPIC, "errors.tolerance": "all"}) as sink:
        sink.put("a")
        assert sink.commit() == {T0: 1}
        sink.put("b", "late", "c", "late")
        assert sink.commit() == {T0: 5}
        assert sink.task.values == ["b", "c"]
        assert [(item.record.kafka_offset, str(item.error)) for item in sink.errant] == [(2, "late"), (4, "late")]
    with SinkHarness(KeepConnector, TOPIC) as sink:
        sink.put("late")
        with pytest.raises(ConnectError, match=r"errors\.tolerance is none: late"):
            sink.commit()


def test_partitions_are_dealt_to_tasks_and_move_with_commit_and_close() -> None:
    with SinkHarness(KeepConnector, {**TOPIC, "tasks.max": "2"}, partitions=[T0, T1]) as sink:
        sink.put("a", partition=0)
        sink.put("b", partition=1)
        assert [task.values for task in sink.tasks] == [["a"], ["b"]]
        sink.rebalance([T1, T2])
        assert sink.assignment == [{T1}, {T2}]
        assert sink.committed == {T0: 1, T1: 1}
        assert sink.tasks[0].calls == ["open [0]", "pre_commit", "close [0]", "open [1]"]
        sink.lose(T1)
        assert sink.tasks[0].calls[-1] == "close [1]"


def test_a_task_that_goes_back_pauses_or_commits_less_is_obeyed() -> None:
    with SinkHarness(KeepConnector, TOPIC) as sink:
        sink.put("a", "b", "c")
        sink.task.context.offset(T0, 1)
        sink.deliver()
        assert sink.task.values == ["a", "b", "c", "b", "c"]
        sink.task.context.pause(T0)
        sink.put("d")
        assert sink.task.values[-1] == "c"
        sink.task.context.resume(T0)
        sink.deliver()
        assert sink.task.values[-1] == "d"
        sink.task.hold_back = 1
        assert sink.flush() == {T0: 3}
        sink.task.hold_back = -1
        with pytest.raises(ConnectError, match="allows offset 5"):
            sink.commit()
        sink.task.hold_back = 1
        assert not sink.is_commit_requested
        sink.task.context.request_commit()
        assert sink.is_commit_requested


def test_a_flush_that_may_succeed_later_makes_the_task_read_again() -> None:
    with SinkHarness(KeepConnector, TOPIC) as sink:
        sink.put("a")
        sink.fail("flush", RetriableError("disk busy"))
        with pytest.raises(RetriableError):
            sink.commit()
        sink.deliver()
        assert sink.task.values == ["a", "a"]
        sink.fail("commit", ConnectError("no coordinator"))
        with pytest.raises(ConnectError, match="coordinator"):
            sink.commit()
        assert sink.commit() == {T0: 1}


def test_a_source_is_no_sink_and_topics_are_needed() -> None:
    with pytest.raises(ConfigError, match="is not a SinkConnector"):
        SinkHarness("FileStreamSource", {"topic": "t"}).start()
    with pytest.raises(ConfigError, match="topics"):
        SinkHarness(KeepConnector).start()


def test_a_shipped_sink_writes_its_lines(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    strings = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    with SinkHarness(FileStreamSinkConnector, {**TOPIC, "file": str(out)}, worker=strings) as sink:
        sink.put_bytes(b"one", b"two")
        sink.put("three")
    assert out.read_text() == "one\ntwo\nthree\n"


def test_a_trial_shows_again_a_record_that_the_sink_finds_bad_as_it_flushes() -> None:
    shown: list[TriedRecord] = []
    config = {**TOPIC, "connector.class": f"{__name__}.KeepConnector", "errors.tolerance": "all"}
    given = [InputRecord(b'"a"'), InputRecord(b'"late"'), InputRecord(b'"b"')]
    trial = try_sink(config, {}, given, limit=10, timeout_s=60, show=shown.append)
    assert [(one.number, one.outcome) for one in shown] == [(1, "put"), (2, "put"), (3, "put"), (2, "failed")]
    assert trial.count == 3
    failure = shown[-1].failure
    assert failure is not None
    assert (failure.stage, failure.why, failure.tolerated) == ("flush", "DataError: late", True)
