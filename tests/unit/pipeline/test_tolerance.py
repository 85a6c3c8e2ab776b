"""Retries, tolerance and reports of records that fail in a stage."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kconnect.api import SourceRecord
from kconnect.errors import DataError, RetriableError
from kconnect.model import TaskId
from kconnect.pipeline.stages import DROPPED, Stage, StageError
from kconnect.pipeline.tolerance import LogReporter, Tolerance, ToleranceSettings


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
    assert tolerance.dropped == 1
    assert len(reports.seen) == 1


def test_a_retriable_error_is_tried_again_with_growing_waits() -> None:
    hands = Hands()
    tolerance = Tolerance(ToleranceSettings(retry_timeout_ms=10_000), hands.pass_time, clock=hands)
    result = tolerance.on_failure(failing(RetriableError("1")), raising(RetriableError("2"), RetriableError("3")))
    assert result == "converted"
    assert hands.waits == [0.3, 0.6, 1.2]


def test_retries_end_with_their_timeout_and_the_record_is_not_lost_in_silence() -> None:
    hands, reports = Hands(), Reports()
    tolerance = Tolerance(ToleranceSettings(retry_timeout_ms=1_000), hands.pass_time, [reports], hands)
    with pytest.raises(StageError, match="last"):
        tolerance.on_failure(failing(RetriableError("1")), raising(*map(RetriableError, ["2", "3", "last"])))
    assert sum(hands.waits) == pytest.approx(1.0)
    assert [attempts for _, attempts in reports.seen] == [4]


def test_an_error_that_is_not_retriable_ends_the_retries() -> None:
    hands = Hands()
    tolerance = Tolerance(ToleranceSettings(retry_timeout_ms=-1), hands.pass_time, clock=hands)
    with pytest.raises(StageError, match="broken"):
        tolerance.on_failure(failing(RetriableError("1")), raising(DataError("broken")))
    assert hands.waits == [0.3]


def test_no_retry_without_a_retry_timeout() -> None:
    hands = Hands()
    tolerance = Tolerance(ToleranceSettings(), hands.pass_time, clock=hands)
    with pytest.raises(StageError):
        tolerance.on_failure(failing(RetriableError("1")), raising())
    assert hands.waits == []


def test_a_stop_ends_endless_retries() -> None:
    hands = Hands()
    hands.stop_after = 3
    tolerance = Tolerance(ToleranceSettings(retry_timeout_ms=-1), hands.pass_time, clock=hands)
    with pytest.raises(StageError):
        tolerance.on_failure(failing(RetriableError("1")), raising(*[RetriableError("again")] * 100))
    assert len(hands.waits) == 3


def test_waits_never_exceed_the_longest_delay() -> None:
    hands = Hands()
    hands.stop_after = 40
    settings = ToleranceSettings(retry_timeout_ms=-1, retry_delay_max_ms=500)
    tolerance = Tolerance(settings, hands.pass_time, clock=hands)
    with pytest.raises(StageError):
        tolerance.on_failure(failing(RetriableError("1")), raising(*[RetriableError("again")] * 100))
    assert max(hands.waits) <= 0.5


@pytest.mark.parametrize("shown", [True, False])
def test_the_log_names_task_and_stage_and_the_record_only_when_asked(
    shown: bool, caplog: pytest.LogCaptureFixture
) -> None:
    failure = failing(DataError("bad"))
    with caplog.at_level(logging.ERROR):
        LogReporter(TaskId("orders", 3), include_messages=shown).report(failure, 2)
    text = caplog.messages[0]
    assert "orders-3" in text
    assert "VALUE_CONVERTER" in text
    assert ("the record" in text) is shown
