"""The harness for sources: real connectors, transforms, converters and offsets, no Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigDef, RecordMetadata, RetriableError, SourceConnector, SourceRecord, SourceTask
from kconnect.builtin.connectors.file_source import FileStreamSourceConnector
from kconnect.errors import ConfigError, ConnectError, DataError, TimedOutError
from kconnect.runtime.pipeline.stages import StageError
from kconnect.testing import ManualClock, SourceHarness
from kconnect.testing.trial import TriedRecord, try_source
from kit.pace import ample_s

STRINGS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}


class CountTask(SourceTask):
    """Counts from the committed number on, one record a poll."""

    def start(self, props: Mapping[str, str]) -> None:
        self.part = {"part": props.get("part", "0")}
        offset = self.context.offset_storage_reader().offset(self.part)
        self.next = 0 if offset is None else offset["next"]
        self.committed = 0
        self.stopped = False
        self.heard: list[tuple[Any, RecordMetadata | None]] = []

    def poll(self) -> Any:
        if self.next >= 100:
            self.context.wait(3600)
            return None
        self.next += 1
        return [SourceRecord(self.part, {"next": self.next}, "numbers", {"number": self.next - 1})]

    def commit(self) -> None:
        self.committed += 1

    def stop(self) -> None:
        self.stopped = True


class ListeningTask(CountTask):
    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.heard.append((record.value["number"], metadata))


class WrongTask(CountTask):
    def poll(self) -> Any:
        return ["text"]


class CountConnector(SourceConnector):
    task: type[SourceTask] = CountTask
    parts = 1

    def start(self, props: Mapping[str, str]) -> None:
        self.props = props

    def task_class(self) -> type[SourceTask]:
        return self.task

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{"part": str(part)} for part in range(self.parts)]

    def stop(self) -> None:
        pass

    def config(self) -> ConfigDef:
        return ConfigDef().define("step", ConfigDef.Type.INT, 1, ConfigDef.Range.at_least(1))


class ListeningConnector(CountConnector):
    task = ListeningTask


class WrongConnector(CountConnector):
    task = WrongTask


def numbers(records: list[SourceRecord]) -> list[int]:
    return [record.value["number"] for record in records]


def test_records_pass_transforms_and_converters_into_the_log() -> None:
    hoist = {"transforms": "wrap", "transforms.wrap.type": "HoistField$Value", "transforms.wrap.field": "it"}
    with SourceHarness(CountConnector, hoist) as source:
        assert numbers(source.poll(2)) == [0, 1]
        assert [record.json for record in source.written("numbers")] == [{"it": {"number": 0}}, {"it": {"number": 1}}]
        assert [record.offset for record in source.written()] == [0, 1]


def test_a_restart_goes_on_from_the_committed_offset_and_a_crash_from_the_one_before() -> None:
    source = SourceHarness(CountConnector).start()
    source.poll(2)
    assert [offset.offset for offset in source.commit()] == [{"next": 2}]
    assert source.task.committed == 1
    source.poll(2)
    source.crash()
    with source:
        assert numbers(source.poll(1)) == [2]
        first = source.task
        source.restart()
        assert first.stopped
        assert numbers(source.poll(1)) == [3]
    assert source.offset(part="0") == {"next": 4}


def test_offsets_given_by_the_test_are_where_a_source_begins() -> None:
    with SourceHarness(CountConnector, offsets=[({"part": "0"}, {"next": 41})]) as source:
        assert numbers(source.poll(1)) == [41]


def test_a_refused_record_is_not_committed_and_comes_again_after_a_restart() -> None:
    source = SourceHarness(CountConnector).start()
    source.fail("produce", ConnectError("record too large"), after=1)
    source.poll(1)
    with pytest.raises(ConnectError, match="record too large"):
        source.poll(1)
    source.commit()
    source.crash()
    with source:
        assert numbers(source.poll(1)) == [1]
    assert [record.json["number"] for record in source.written()] == [0, 1]


def test_a_failed_commit_is_made_up_for_by_the_next() -> None:
    with SourceHarness(CountConnector) as source:
        source.poll(1)
        source.fail("commit", ConnectError("the store is away"))
        assert source.commit() == []
        assert source.task.committed == 0
        assert source.commit() != []
        assert source.task.committed == 1


def test_a_retriable_poll_is_asked_again_after_a_wait_and_other_errors_come_to_the_test() -> None:
    clock = ManualClock()
    with SourceHarness(CountConnector, clock=clock) as source:
        source.fail("poll", RetriableError("busy"), times=2)
        assert numbers(source.poll(1)) == [0]
        assert clock.waits == [0.1, 0.2]
        source.fail("poll", ZeroDivisionError("oh"))
        with pytest.raises(ZeroDivisionError):
            source.poll(1)


def test_a_source_with_nothing_more_is_reported_with_what_came_and_no_hour_is_waited() -> None:
    clock = ManualClock()
    with SourceHarness(CountConnector, offsets=[({"part": "0"}, {"next": 99})], clock=clock) as source:
        with pytest.raises(TimedOutError, match=r"gave 1 of 2 records within 0\.05 s"):
            source.poll(2, within_s=0.05)
        assert 3600 in clock.waits
        assert source.poll_once() == []


def test_a_wake_ends_the_next_wait_as_in_a_worker() -> None:
    with SourceHarness(CountConnector, offsets=[({"part": "0"}, {"next": 100})]) as source:
        source.task.context.wake()  # by a thread of the task's own, before poll() waits for an hour
        assert source.poll_once() == []


def test_commit_record_hears_where_each_record_went_and_of_dropped_ones() -> None:
    config = {
        "transforms": "bad",
        "transforms.bad.type": "InsertField$Value",
        "transforms.bad.topic.field": "topic",
        "errors.tolerance": "all",
    }
    with SourceHarness(ListeningConnector, config) as source:
        source.poll(2)
        assert [(number, place.offset) for number, place in source.task.heard] == [(0, 0), (1, 1)]
        source.fail("produce", ConnectError("refused"))
        source.poll(1)
        assert source.task.heard[-1] == (2, None)


def test_a_failing_transform_names_the_record_and_the_stage() -> None:
    config = {
        "transforms": "bad",
        "transforms.bad.type": "InsertField$Key",
        "transforms.bad.static.field": "a",
        "transforms.bad.static.value": "b",
        "key.converter": STRINGS["value.converter"],
    }
    with pytest.raises(StageError, match="numbers") as caught, SourceHarness(_KeyedConnector, config) as source:
        source.poll(1)
    assert isinstance(caught.value.error, DataError)


class _KeyedTask(CountTask):
    def poll(self) -> Any:
        return [record.new_record(key="text") for record in super().poll()]


class _KeyedConnector(CountConnector):
    task = _KeyedTask


def test_several_tasks_are_polled_in_turn_and_reconfigured_when_the_connector_asks() -> None:
    with SourceHarness(CountConnector, {"tasks.max": "3"}) as source:
        source.connector.parts = 3
        source.connector.context.request_task_reconfiguration()
        records = source.poll(6)
        assert sorted(record.source_partition["part"] for record in records) == ["0", "0", "1", "1", "2", "2"]
        assert len(source.tasks) == 3
        source.connector.context.raise_error(ConnectError("the server went away"))
        with pytest.raises(ConnectError, match="went away"):
            source.poll(1)


def test_wrong_settings_wrong_kinds_and_wrong_records_are_refused() -> None:
    with pytest.raises(ConfigError, match="step"):
        SourceHarness(CountConnector, {"step": "0"}).start()
    with pytest.raises(ConfigError, match="is not a SourceConnector"):
        SourceHarness("FileStreamSink", {"topics": "t"}).start()
    with pytest.raises(ConnectError, match="returned a list with a str"), SourceHarness(WrongConnector) as source:
        source.poll(1)
    with pytest.raises(ValueError, match="no step 'pol'"):
        SourceHarness(CountConnector).fail("pol", ConnectError("x"))


def test_the_columns_of_a_shipped_source_are_run_as_columns(tmp_path: Path) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(1000)))
    source = SourceHarness(FileStreamSourceConnector, {"file": str(lines), "topic": "lines"}, worker=STRINGS)
    with source:
        assert len(source.poll(1000)) == 1000
        assert source.written()[999].text == "line 999"
        assert source.commit()[0].offset == {"position": lines.stat().st_size}
        with lines.open("a") as file:
            file.write("one more\n")
        source.restart()
        assert [record.value for record in source.poll(1)] == ["one more"]


class _MovingTask(CountTask):
    """Counts on without records from 2 on, and says how far it is."""

    def poll(self) -> Any:
        if self.next < 2:
            return super().poll()
        self.next += 1
        return None

    def update_offsets(self, offsets: Any) -> Any:
        self.asked = list(offsets)
        return [(self.part, {"next": self.next})]


class _MovingConnector(CountConnector):
    task = _MovingTask


def test_a_task_that_moves_on_without_records_is_asked_before_each_commit() -> None:
    with SourceHarness(_MovingConnector) as source:
        source.poll(2)
        assert source.commit()[0].offset == {"next": 2}
        source.poll_once()
        assert source.commit()[0].offset == {"next": 3}
        assert source.tasks[0].asked == []
        source.restart()
        assert source.tasks[0].next == 3


def test_a_trial_shows_the_records_that_the_task_itself_gives_up(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\nnothing\n{"n": 3}\n')
    config = {"name": "x", "connector.class": "ObjectSource", "object.url": str(tmp_path), "topic": "t"}
    shown: list[TriedRecord] = []
    trial = try_source({**config, "errors.tolerance": "all"}, {}, limit=3, timeout_s=ample_s(10), show=shown.append)
    assert trial.count == 3
    assert [tried.outcome for tried in shown] == ["failed", "written", "written"]
    failure = shown[0].failure
    assert failure is not None
    assert failure.tolerated
    assert "Line 2 of" in str(failure.error)
    with pytest.raises(ConnectError, match="Line 2 of") as caught:
        try_source(config, {}, limit=3, timeout_s=ample_s(10), show=shown.append)
    assert caught.value.hint == "--verbose shows the whole trace.", "no advice for authors of connectors"


class UnwritableTask(CountTask):
    """Its first record is fine, and no topic takes the second."""

    record: Mapping[str, Any]

    def poll(self) -> Any:
        self.next += 1
        made = {"topic": "t", "value": "x", **(self.record if self.next == 2 else {})}
        return [SourceRecord(self.part, {"next": self.next}, **made)]


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"topic": None}, "A record could not be written: it has no topic."),
        ({"topic": "two words"}, "'two words' cannot be the name of a topic"),
        ({"kafka_partition": -2}, "Invalid partition: -2. A record for topic 't' has it."),
        ({"timestamp": -2, "key": "k"}, "Invalid record timestamp -2 of a record for topic 't' with the key b'k'"),
        ({"topic": 5}, "A record could not be written: its topic is 5 of type int."),
        ({"kafka_partition": "1"}, "Invalid partition: '1' of type str. A record for topic 't' has it."),
        ({"timestamp": 1.5}, "Invalid record timestamp 1.5 of type float of a record for topic 't' without a key."),
    ],
)
def test_what_no_topic_takes_is_refused_as_by_a_worker(record: Mapping[str, Any], error: str) -> None:
    class Task(UnwritableTask):
        pass

    class Connector(CountConnector):
        task = Task

    Task.record = record
    with SourceHarness(Connector, STRINGS | {"key.converter": STRINGS["value.converter"]}) as source:
        source.poll(1)
        with pytest.raises(ConnectError, match=re.escape(error)):
            source.poll(1)
        assert len(source.written()) == 1


def test_a_trial_names_the_record_that_no_topic_takes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\n")
    config = {"name": "x", "connector.class": "FileStreamSource", "file": str(tmp_path / "a.txt"), "topic": "t"}
    step = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": "t"}
    config |= step | {"transforms.r.replacement": "two words"}
    shown: list[TriedRecord] = []
    try_source(config, {}, limit=2, timeout_s=ample_s(10), show=shown.append)
    (tried,) = shown
    assert (tried.outcome, tried.failure and tried.failure.stage) == ("failed", "producer")
