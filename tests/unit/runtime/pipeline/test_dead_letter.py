"""Dead letters without a broker: headers, how a failed record is found again, what Java calls an error, commits."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from kconnect.api import SinkRecord, SinkTask, TimestampType
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.errors import (
    AlreadyExistsError,
    ConnectError,
    DataError,
    RetriableError,
    TimedOutError,
    UnreachableError,
)
from kconnect.java.plugins.java_error import java_error
from kconnect.model import TaskId, TopicPartition
from kconnect.runtime.kafka import TopicInfo
from kconnect.runtime.pipeline.dead_letter import DeadLetterSettings, context_headers, ensure_topic
from kconnect.runtime.pipeline.error_texts import exception_message, exception_name, exception_trace
from kconnect.runtime.pipeline.fetched import FetchedBatch, FetchedRecord
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.stages import Stage, StageError
from kconnect.runtime.plugins import PluginRegistry
from kit.places import GOLDEN
from kit.sink_bench import PLACES, Buffered, SinkBench, SinkRun


def raised(error: Exception) -> Exception:
    """The error with a trace, as a plugin gives it."""
    try:
        raise error
    except Exception as caught:
        return caught


def fetched(*offsets: int, topic: str = "orders", partition: int = 3) -> FetchedBatch:
    values: list[bytes | None] = [f"v{offset}".encode() for offset in offsets]
    return FetchedBatch(topic, partition, list(offsets), None, values, None, TimestampType.NO_TIMESTAMP_TYPE, None)


def record(offset: int, topic: str = "orders", partition: int = 3) -> SinkRecord:
    return SinkRecord(topic, partition, None, None, None, f"value {offset}", offset)


def javas_headers() -> list[str]:
    """What Java's worker added to a letter that had no headers of its own."""
    recorded = json.loads((GOLDEN / "topics/errors-dlq.json").read_text())
    letters = [letter for case in recorded["cases"] for letter in case.get("dlq_topic", ())]
    return next([name for name, _ in letter["headers"]] for letter in letters if len(letter["headers"]) == 10)


def test_the_headers_are_javas_in_javas_order() -> None:
    failure = StageError(Stage.VALUE_CONVERTER, JsonConverter, fetched(7).row(0), raised(DataError("broken ü")))
    made = context_headers(fetched(7).row(0), failure, TaskId("sink", 2), PluginRegistry.load().java_name)
    assert [name for name, _ in made] == javas_headers()
    assert [value for _, value in made[:9]] == [
        b"orders",
        b"3",
        b"7",
        b"sink",
        b"2",
        b"VALUE_CONVERTER",
        b"org.apache.kafka.connect.json.JsonConverter",
        b"org.apache.kafka.connect.errors.DataException",
        "broken ü".encode(),
    ]


def test_a_failed_put_is_reported_of_the_class_java_names_and_an_error_without_words_has_a_null_message() -> None:
    failure = StageError(Stage.TASK_PUT, SinkTask, fetched(7).row(0), ValueError())
    made = dict(context_headers(fetched(7).row(0), failure, TaskId("sink", 0), lambda kind: kind.__name__))
    assert made["__connect.errors.class.name"] == b"org.apache.kafka.connect.sink.SinkTask"
    assert made["__connect.errors.exception.message"] is None


def test_the_trace_begins_with_class_and_message_and_has_pythons_trace_behind() -> None:
    text = exception_trace(raised(DataError("broken")))
    assert text.startswith("org.apache.kafka.connect.errors.DataException: broken\nTraceback (most recent call last)")
    assert "in raised\n    raise error" in text


def test_the_trace_of_what_was_thrown_in_java_is_javas() -> None:
    trace = "java.io.UncheckedIOException: java.io.IOException: io\n\tat a.B.apply(B.java:5)\nCaused by: ..\n"
    thrown = {"class": "java.io.UncheckedIOException", "message": "java.io.IOException: io", "kind": "other"}
    error = java_error({**thrown, "trace": trace, "root": "java.io.IOException: io"})
    assert exception_trace(error) == trace


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (DataError("x"), "org.apache.kafka.connect.errors.DataException"),
        (RetriableError("x"), "org.apache.kafka.connect.errors.RetriableException"),
        (ConnectError("x"), "org.apache.kafka.connect.errors.ConnectException"),
        (ValueError("x"), "ValueError"),
        (UnreachableError("x"), "kconnect.errors.UnreachableError"),
    ],
)
def test_errors_have_javas_names_where_java_has_them(error: Exception, name: str) -> None:
    assert exception_name(error) == name


def test_what_was_thrown_in_java_has_its_name_and_message_there() -> None:
    thrown = java_error({"class": "org.h2.jdbc.JdbcException", "message": None})
    assert (exception_name(thrown), exception_message(thrown)) == ("org.h2.jdbc.JdbcException", None)
    thrown = java_error({"class": "java.io.IOException", "message": "closed", "root": "java.net.X: gone"})
    assert (exception_name(thrown), exception_message(thrown)) == ("java.io.IOException", "closed")


def test_a_record_in_conversion_is_found_by_where_it_was_read_also_when_a_transform_moved_it() -> None:
    raw_records = RawRecords(is_wanted=True)
    raw_records.at_hand = [fetched(1, 2), fetched(5, 9, partition=4)]
    moved = record(9, partition=4).new_record(topic="elsewhere", kafka_partition=0)
    assert value_of(raw_records, moved) == b"v9"
    assert value_of(raw_records, record(2)) == b"v2"
    assert raw_records.of(record(3)) is None, "a gap"
    assert raw_records.of(record(2, topic="other")) is None


def test_a_fetched_record_is_its_own_original() -> None:
    raw = fetched(4).row(0)
    assert RawRecords(is_wanted=True).of(raw) is raw


def test_records_of_a_task_that_reports_are_found_long_after_their_put() -> None:
    raw_records = RawRecords(is_wanted=True)
    raw_records.expect_reports()
    kept = [record(1), record(6)]
    raw_records.put(kept, [fetched(1), fetched(6)])
    raw_records.put([], [])
    assert [value_of(raw_records, each) for each in kept] == [b"v1", b"v6"]


def test_a_task_may_ask_for_the_reporter_in_the_midst_of_its_first_put() -> None:
    raw_records = RawRecords(is_wanted=True)
    kept = [record(1)]
    raw_records.put(kept, [fetched(1)])
    raw_records.expect_reports()
    raw_records.put([], [])
    assert value_of(raw_records, kept[0]) == b"v1"


def test_a_copy_that_a_task_made_has_no_original() -> None:
    raw_records = RawRecords(is_wanted=True)
    raw_records.expect_reports()
    given = record(1)
    raw_records.put([given], [fetched(1)])
    assert raw_records.of(given.new_record(value="mine")) is None


def test_records_of_a_batch_are_found_while_it_is_put() -> None:
    raw_records = RawRecords(is_wanted=True)
    raw_records.expect_reports()
    raw_records.put((), [fetched(1, 2)])
    assert value_of(raw_records, record(2)) == b"v2"


def value_of(raw_records: RawRecords, wanted: SinkRecord) -> bytes | None:
    found = raw_records.of(wanted)
    assert isinstance(found, FetchedRecord)
    return found.value


class Topics:
    """What ensure_topic asks of the admin client."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.created: list[TopicInfo] = []
        self.create_fails: Exception | None = None

    def has_topic(self, topic: TopicInfo, timeout_s: float) -> bool:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return topic.name in answer

    def create_topic(self, topic: TopicInfo, timeout_s: float) -> None:
        if self.create_fails is not None:
            raise self.create_fails
        self.created.append(topic)


def ensured(topics: Topics, is_stopping: Callable[[], bool] = lambda: False) -> list[TopicInfo]:
    ensure_topic(topics, DeadLetterSettings(topic="dlq", replication_factor=2), is_stopping)  # type: ignore[arg-type]
    return topics.created


def test_a_topic_that_is_there_is_left_alone_and_a_missing_one_is_made() -> None:
    assert ensured(Topics(["dlq"])) == []
    assert ensured(Topics([])) == [TopicInfo("dlq", 1, 2)]


def test_another_task_may_be_quicker() -> None:
    topics = Topics([])
    topics.create_fails = AlreadyExistsError("there")
    assert ensured(topics) == []


def test_a_broker_that_is_away_is_waited_for_until_the_task_is_to_stop() -> None:
    assert ensured(Topics(UnreachableError("away"), UnreachableError("away"), ["dlq"])) == []
    with pytest.raises(ConnectError, match="Could not initialize dead letter queue with topic=dlq: away"):
        ensured(Topics(UnreachableError("away")), lambda: True)


def test_a_topic_that_is_refused_is_reported_with_the_setting_to_change() -> None:
    topics = Topics([])
    topics.create_fails = ConnectError("replication factor: 2 larger than available brokers: 1")
    with pytest.raises(ConnectError) as error:
        ensured(topics)
    assert "larger than available brokers" in str(error.value)
    assert "errors.deadletterqueue.topic.replication.factor" in (error.value.hint or "")


class Reports(Buffered):
    """Reports the records that put() took, in its first call of `where`."""

    def __init__(self, where: str, *, swallows: bool = False) -> None:
        super().__init__()
        self._where = where
        self._swallows = swallows
        self._taken: list[SinkRecord] = []

    def put(self, records: list[SinkRecord]) -> None:
        super().put(records)
        self._taken += records

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._report_in("pre_commit")
        return super().pre_commit(current_offsets)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._report_in("close")
        super().close(partitions)

    def _report_in(self, where: str) -> None:
        if where != self._where:
            return
        reporter = self.context.errant_record_reporter()
        assert reporter is not None
        taken, self._taken = self._taken, []
        for record in taken:
            try:
                reporter.report(record, ValueError("no room for it"))
            except ConnectError:
                if not self._swallows:
                    raise


def commits_once(run: SinkRun) -> None:
    """Two records, a commit by the timer, and the end."""
    fetches = len(run.consumer.waits)
    if fetches == 1:
        run.consumer.assign(PLACES[0])
    elif fetches == 2:
        run.clock.advance(1.1)
    elif fetches == 4:
        run.control.stop()


def only_ends(run: SinkRun) -> None:
    """Two records, and the end: the only commit is the last one."""
    run.consumer.assign(PLACES[0])
    run.control.stop()


@pytest.mark.parametrize("where", ["pre_commit", "close"])
@pytest.mark.parametrize("script", [commits_once, only_ends])
def test_what_a_task_reports_when_it_flushes_or_closes_is_written_before_its_offsets_are_committed(
    script: Callable[[SinkRun], None], where: str
) -> None:
    bench = SinkBench()
    bench.write(PLACES[0], 2)
    run = SinkRun(bench, Reports(where), script)
    assert run() is None
    assert (len(run.letters.written), bench.position(PLACES[0])) == (2, 2)


def test_letters_of_a_flush_that_nobody_acknowledges_hold_its_offsets_back_until_the_next_commit() -> None:
    bench = SinkBench()
    bench.write(PLACES[0], 2)
    seen: list[int] = []

    def is_late(run: SinkRun) -> None:
        seen.append(bench.position(PLACES[0]))
        if len(seen) == 2:
            run.settles.append(TimedOutError("not yet"))
        commits_once(run)

    run = SinkRun(bench, Reports("pre_commit"), is_late)
    assert run() is None
    assert (seen, len(run.letters.written), bench.position(PLACES[0])) == ([0, 0, 0, 0], 2, 2)


@pytest.mark.parametrize(
    ("script", "where"), [(commits_once, "pre_commit"), (only_ends, "pre_commit"), (only_ends, "close")]
)
def test_without_tolerance_a_report_that_the_task_swallows_when_it_flushes_or_closes_fails_it_and_its_offset_stays(
    script: Callable[[SinkRun], None], where: str
) -> None:
    bench = SinkBench()
    bench.write(PLACES[0], 2)
    task = Reports(where, swallows=True)
    ended = SinkRun(bench, task, script, tolerates_all=False)()
    assert "no room for it" in str(ended)
    assert bench.kafka.committed == {}


class ReportsInThirdPut(Buffered):
    """Reports one of its records once it has been given three."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = offset
        self._given: list[SinkRecord] = []

    def put(self, records: list[SinkRecord]) -> None:
        self._given += records
        if len(self._given) == 3:
            reporter = self.context.errant_record_reporter()
            assert reporter is not None
            reporter.report(self._given[self._offset], ValueError("no room for it"))
        super().put(records)


@pytest.mark.parametrize(("reported", "committed"), [(2, {PLACES[0]: 2}), (0, {})])
def test_a_task_that_fails_with_a_report_commits_what_it_took_unless_the_reported_record_is_among_that(
    reported: int, committed: dict[TopicPartition, int]
) -> None:
    bench = SinkBench()
    bench.write(PLACES[0], 2)

    def script(run: SinkRun) -> None:
        if not run.consumer.assignment:
            run.consumer.assign(PLACES[0])
        else:
            bench.write(PLACES[0], 1)

    ended = SinkRun(bench, ReportsInThirdPut(reported), script, tolerates_all=False)()
    assert "no room for it" in str(ended)
    assert bench.kafka.committed == committed
