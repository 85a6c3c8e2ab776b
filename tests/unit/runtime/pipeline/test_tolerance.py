"""Retries, tolerance and reports of records that fail in a stage."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kconnect.api import SinkRecord, SourceRecord, TimestampType
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.errors import ConnectError, DataError, RetriableError
from kconnect.model import Condition, TaskCondition, TaskId
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.health import HealthSettings, TaskHealth
from kconnect.runtime.pipeline.stages import DROPPED, Stage, StageError
from kconnect.runtime.pipeline.tolerance import (
    ErrorCounts,
    LogReporter,
    StoppedInRetryError,
    Tolerance,
    ToleranceSettings,
)


class Hands:
    """A clock whose waits pass at once, and are kept."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.stop_after = 1_000_000

    def monotonic(self) -> float:
        return self.now

    def time_ms(self) -> int:
        return int(self.now * 1000)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        raise AssertionError("not used here")

    def pass_time(self, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        self.now += timeout_s
        return len(self.waits) >= self.stop_after


class Reports:
    def __init__(self) -> None:
        self.seen: list[tuple[BaseException, int]] = []

    def report(self, failure: StageError, attempts: int) -> None:
        self.seen.append((failure.error, attempts))


def failing(error: BaseException) -> StageError:
    return StageError(Stage.VALUE_CONVERTER, str, SourceRecord({}, {}, "topic", "the record"), error)


def raising(*errors: BaseException, then: Any = "converted") -> Callable[[], Any]:
    left = list(errors)

    def retry() -> Any:
        if left:
            raise left.pop(0)
        return then

    return retry


def test_a_failure_is_raised_with_tolerance_none_and_reported_first() -> None:
    reports, hands = Reports(), Hands()
    tolerance = Tolerance(ToleranceSettings(), hands.pass_time, [reports], hands)
    failure = failing(DataError("bad"))
    with pytest.raises(StageError) as raised:
        tolerance.on_failure(failure, raising())
    assert raised.value is failure
    assert reports.seen == [(failure.error, 1)]
    assert hands.waits == []


def test_a_failure_is_dropped_and_counted_with_tolerance_all() -> None:
    reports, hands = Reports(), Hands()
    tolerance = Tolerance(ToleranceSettings(tolerate_all=True), hands.pass_time, [reports], hands)
    assert tolerance.on_failure(failing(DataError("bad")), raising()) is DROPPED
    assert tolerance.counts.skipped == 1
    assert len(reports.seen) == 1


def test_what_is_held_is_reported_at_the_release_or_forgotten_with_its_counts() -> None:
    reports, hands = Reports(), Hands()
    tolerance = Tolerance(ToleranceSettings(tolerate_all=True), hands.pass_time, [reports], hands)
    tolerance.hold()
    assert tolerance.on_failure(failing(DataError("bad")), raising()) is DROPPED
    tolerance.forget()
    assert (reports.seen, tolerance.counts) == ([], ErrorCounts())
    tolerance.hold()
    tolerance.on_failure(failing(DataError("bad")), raising())
    assert (reports.seen, tolerance.counts.skipped) == ([], 0)
    tolerance.release()
    tolerance.release()
    assert (len(reports.seen), tolerance.counts.skipped, tolerance.counts.errors) == (1, 1, 1)


def test_a_retriable_error_is_tried_again_with_growing_waits() -> None:
    hands = Hands()
    tolerance = Tolerance(ToleranceSettings(retry_timeout_ms=10_000), hands.pass_time, clock=hands)
    result = tolerance.on_failure(failing(RetriableError("1")), raising(RetriableError("2"), RetriableError("3")))
    assert result == "converted"
    assert hands.waits == pytest.approx([0.3, 0.6, 1.2], rel=0.21)


def test_retries_end_with_their_timeout_and_the_record_is_not_lost_in_silence() -> None:
    hands, reports = Hands(), Reports()
    tolerance = Tolerance(ToleranceSettings(retry_timeout_ms=1_200), hands.pass_time, [reports], hands)
    # Two waits of 0.3 and 0.6 s, each a fifth longer or shorter, and what is left of the time
    with pytest.raises(StageError, match="last"):
        tolerance.on_failure(failing(RetriableError("1")), raising(*map(RetriableError, ["2", "3", "last"])))
    assert sum(hands.waits) == pytest.approx(1.2)
    assert [attempts for _, attempts in reports.seen] == [4]


def test_an_error_that_is_not_retriable_ends_the_retries() -> None:
    hands = Hands()
    tolerance = Tolerance(ToleranceSettings(retry_timeout_ms=-1), hands.pass_time, clock=hands)
    with pytest.raises(StageError, match="broken"):
        tolerance.on_failure(failing(RetriableError("1")), raising(DataError("broken")))
    assert hands.waits == pytest.approx([0.3], rel=0.21)


def test_no_retry_without_a_retry_timeout() -> None:
    hands = Hands()
    tolerance = Tolerance(ToleranceSettings(), hands.pass_time, clock=hands)
    with pytest.raises(StageError):
        tolerance.on_failure(failing(RetriableError("1")), raising())
    assert hands.waits == []


@pytest.mark.parametrize("tolerate_all", [True, False])
def test_a_stop_ends_endless_retries_and_the_record_is_not_given_up(tolerate_all: bool) -> None:
    hands, reports = Hands(), Reports()
    hands.stop_after = 3
    settings = ToleranceSettings(retry_timeout_ms=-1, tolerate_all=tolerate_all)
    tolerance = Tolerance(settings, hands.pass_time, [reports], hands)
    with pytest.raises(StoppedInRetryError):
        tolerance.on_failure(failing(RetriableError("1")), raising(*[RetriableError("again")] * 100))
    assert len(hands.waits) == 3
    assert reports.seen == []


def test_waits_never_exceed_the_longest_delay() -> None:
    hands = Hands()
    hands.stop_after = 40
    settings = ToleranceSettings(retry_timeout_ms=-1, retry_delay_max_ms=500)
    tolerance = Tolerance(settings, hands.pass_time, clock=hands)
    with pytest.raises(StoppedInRetryError):
        tolerance.on_failure(failing(RetriableError("1")), raising(*[RetriableError("again")] * 100))
    assert max(hands.waits) <= 0.5


class Queue(Reports):
    def __init__(self, trouble: ConnectError | None = None) -> None:
        super().__init__()
        self.trouble = trouble
        self.settled: list[tuple[int, float]] = []
        self.is_closed = False

    def settle(self, timeout_s: float) -> None:
        self.settled.append((len(self.seen), timeout_s))
        if self.trouble is not None:
            raise self.trouble

    def close(self) -> None:
        self.is_closed = True


def test_the_report_of_the_record_that_fails_the_task_is_waited_for() -> None:
    queue, hands = Queue(), Hands()
    tolerance = Tolerance(ToleranceSettings(), hands.pass_time, [queue], hands, settle_timeout_s=7.0)
    with pytest.raises(StageError):
        tolerance.on_failure(failing(DataError("bad")), raising())
    assert queue.settled == [(1, 7.0)]


def test_a_report_that_is_lost_does_not_hide_why_the_task_fails(caplog: pytest.LogCaptureFixture) -> None:
    queue, hands = Queue(ConnectError("no room")), Hands()
    tolerance = Tolerance(ToleranceSettings(), hands.pass_time, [queue], hands)
    with pytest.raises(StageError, match="bad"):
        tolerance.on_failure(failing(DataError("bad")), raising())
    assert "no room" in caplog.text


def test_tolerated_failures_are_settled_when_the_loop_asks_and_queues_are_closed() -> None:
    queue, hands = Queue(), Hands()
    tolerance = Tolerance(ToleranceSettings(tolerate_all=True), hands.pass_time, [Reports(), queue], hands)
    tolerance.on_failure(failing(DataError("bad")), raising())
    assert queue.settled == []
    tolerance.settle(2.0)
    tolerance.close()
    assert queue.settled == [(1, 2.0)]
    assert queue.is_closed


def test_attempts_retries_and_records_given_up_are_counted() -> None:
    hands = Hands()
    settings = ToleranceSettings(retry_timeout_ms=1_000, tolerate_all=True)
    tolerance = Tolerance(settings, hands.pass_time, clock=hands)
    tolerance.on_failure(failing(RetriableError("1")), raising(RetriableError("2")))
    tolerance.on_failure(failing(DataError("bad")), raising())
    counts = tolerance.counts
    assert (counts.failures, counts.retries, counts.errors, counts.skipped) == (3, 2, 1, 1)
    assert counts.last_error_ms == hands.time_ms()


def log_lines(record: Any, caplog: pytest.LogCaptureFixture, *, shown: bool, original: Any = None) -> str:
    failure = StageError(Stage.VALUE_CONVERTER, JsonConverter, record, DataError("bad"))
    reporter = LogReporter(
        TaskId("orders", 3), include_messages=shown, java_name=lambda kind: kind.__name__, original=lambda _: original
    )
    with caplog.at_level(logging.ERROR):
        reporter.report(failure, 2)
    return caplog.messages[0]


FETCHED = FetchedRecord("t", 1, 7, b"k", b"secret", 1700000000000, TimestampType.CREATE_TIME, None)


def test_the_log_of_a_sink_is_javas_line_and_shows_no_data(caplog: pytest.LogCaptureFixture) -> None:
    assert log_lines(FETCHED, caplog, shown=True) == (
        "Error encountered in task orders-3. Executing stage 'VALUE_CONVERTER' with class 'JsonConverter', where "
        "consumed record is {topic='t', partition=1, offset=7, timestamp=1700000000000, timestampType=CreateTime}."
    )


def test_the_log_names_no_record_unless_asked(caplog: pytest.LogCaptureFixture) -> None:
    assert log_lines(FETCHED, caplog, shown=False) == (
        "Error encountered in task orders-3. Executing stage 'VALUE_CONVERTER' with class 'JsonConverter'."
    )


def test_the_log_of_a_transform_shows_where_the_record_was_read(caplog: pytest.LogCaptureFixture) -> None:
    moved = SinkRecord("other", 9, None, None, None, "x", 7, original_topic="t", original_kafka_partition=1)
    assert "{topic='t', partition=1, offset=7}" in log_lines(moved, caplog, shown=True)


def test_the_log_of_a_source_shows_the_whole_record(caplog: pytest.LogCaptureFixture) -> None:
    record = SourceRecord({"file": "a"}, {"position": 3}, "topic", "the record")
    text = log_lines(record, caplog, shown=True)
    assert f", where source record is = {record}." in text
    assert "the record" in text


def test_records_that_are_tried_again_make_the_task_retrying_until_it_is_over() -> None:
    health = TaskHealth(HealthSettings(), 0.0, 0.0)
    seen: list[TaskCondition] = []

    def wait(wait_s: float) -> bool:
        seen.append(health.look(0.0))
        return False

    answers = iter([RetriableError("busy"), RetriableError("busy"), None])

    def retry() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "done"

    policy = Tolerance(ToleranceSettings(retry_timeout_ms=-1), wait, health=health)
    failure = StageError(Stage.TRANSFORMATION, Tolerance, SourceRecord({}, {}, "t"), RetriableError("busy"))
    assert policy.on_failure(failure, retry) == "done"
    assert [(found.condition, found.count) for found in seen] == [(Condition.RETRYING, count) for count in (1, 2, 3)]
    assert "failed in TRANSFORMATION of Tolerance: busy" in (seen[0].cause or "")
    assert health.look(0.0).condition is Condition.HEALTHY
    assert (policy.counts.retries, health.failed_calls) == (3, 0), "counted once"


def test_an_error_that_is_no_records_is_tolerated_for_none() -> None:
    """A class that is missing in Java would drop every record."""
    tolerance = Tolerance(ToleranceSettings(tolerate_all=True), Hands().pass_time, [reports := Reports()])
    error = ConnectError("NoClassDefFoundError")
    error.is_fatal = True
    with pytest.raises(StageError, match="NoClassDefFoundError"):
        tolerance.on_failure(failing(error), raising())
    assert (reports.seen, tolerance.counts.skipped) == ([], 0)
