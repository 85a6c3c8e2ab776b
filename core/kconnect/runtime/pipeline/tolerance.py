"""What happens to a record that failed in a transform or converter: retries, tolerance, reports."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError, RetriableError
from kconnect.logs import redaction
from kconnect.logs.log_context import log_context
from kconnect.model import TaskId
from kconnect.runtime.pipeline.error_texts import log_text, one_line
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.health import TaskHealth
from kconnect.runtime.pipeline.retries import FIRST_PUT_PAUSE_S, backoff_of
from kconnect.runtime.pipeline.stages import DROPPED, Stage, StageError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceSettings:
    """The errors.* settings of one connector."""

    tolerate_all: bool = False
    retry_timeout_ms: int = 0
    """How long to retry; -1 means forever."""
    retry_delay_max_ms: int = 60_000
    log_enable: bool = False
    log_include_messages: bool = False


@dataclass(slots=True)
class ErrorCounts:
    """What went wrong in one task so far, as Java's task-error-metrics count it. Source: ErrorHandlingMetrics."""

    failures: int = 0
    """Attempts that failed."""
    errors: int = 0
    """Records that failed for good."""
    skipped: int = 0
    """How many failed records were dropped under errors.tolerance=all."""
    retries: int = 0
    last_error_ms: int | None = None


class ErrorReporter(Protocol):
    """Takes the report of each record that was given up. What report() raises fails the task. Threads: any.

    Source: o.a.k.connect.runtime.errors.ErrorReporter.
    """

    def report(self, failure: StageError, attempts: int) -> Future[None] | None:
        """Report one failure; the future completes once the report is stored, None if it is already."""
        ...


@runtime_checkable
class ReportQueue(ErrorReporter, Protocol):
    """A reporter that works asynchronously. Threads: the task's, except for report()."""

    def settle(self, timeout_s: float) -> None:
        """Wait until all reports so far are stored. Errors: TimedOutError; ConnectError when one is lost."""
        ...

    def close(self) -> None: ...


class StoppedInRetryError(ConnectError):
    """The task was stopped while a record was being retried: the record is neither done nor given up."""


class Tolerance:
    """The failure policy of one task; only called when something fails.

    A RetriableError is retried with growing waits for errors.retry.timeout; what still fails is reported, then
    dropped with errors.tolerance=all or raised. Threads: give_up() any, the rest the task's; `wait` is woken by the
    stop. Source: o.a.k.connect.runtime.errors.RetryWithToleranceOperator (Kafka 4.3).
    Differs: with errors.tolerance=none Java silently drops a record when its retries run out; here the task fails.
    Each wait is spread; Java spreads those that would be too long. A stop during retries leaves the record for the
    next start; Java gives it up.
    """

    def __init__(
        self,
        settings: ToleranceSettings,
        wait: Callable[[float], bool],
        reporters: Sequence[ErrorReporter] = (),
        clock: Clock | None = None,
        *,
        settle_timeout_s: float = 5.0,
        health: TaskHealth | None = None,
    ) -> None:
        """`health` is informed of records being retried."""
        self.settings = settings
        self.counts = ErrorCounts()
        self._wait = wait
        self.report_to(reporters)
        self._clock = clock or SystemClock()
        self._settle_timeout_s = settle_timeout_s
        self._health = health
        self._held: list[tuple[StageError, int]] | None = None
        self._before = ErrorCounts()  # when it began to hold

    def report_to(self, reporters: Sequence[ErrorReporter]) -> None:
        """Set the reporters; for those that depend on parts built after the tolerance."""
        self._reporters = tuple(reporters)
        self._queues = tuple(reporter for reporter in reporters if isinstance(reporter, ReportQueue))

    def on_failure(self, failure: StageError, retry: Callable[[], Any]) -> Any:
        """The result of a later attempt, or DROPPED; else raises the failure. See FailurePolicy."""
        attempts = 1
        self.counts.failures += 1
        if getattr(failure.error, "is_fatal", False):  # Java's catches no Error either: it would drop every record
            raise failure
        timeout_s = self.settings.retry_timeout_ms / 1000
        deadline = self._clock.monotonic() + timeout_s if timeout_s >= 0 else float("inf")
        while isinstance(failure.error, RetriableError) and self._clock.monotonic() < deadline:
            if self._health is not None:
                self._health.failed(one_line(str(failure)), time.monotonic(), is_call=False)
            if self._wait(self._delay_s(attempts, deadline)):
                raise StoppedInRetryError(f"Stopped before attempt {attempts + 1}: {failure}") from failure.error
            attempts += 1
            self.counts.retries += 1
            try:
                found = retry()
            except Exception as error:  # the plugin's; kept as the failure's newest cause
                self.counts.failures += 1
                failure = _again(failure, error)
            else:
                self._is_over()
                return found
        self._is_over()
        self.give_up(failure, attempts)
        return DROPPED

    def _is_over(self) -> None:
        """The record is no longer being retried."""
        if self._health is not None:
            self._health.went_well(time.monotonic(), moved=True)

    def give_up(self, failure: StageError, attempts: int = 1) -> list[Future[None]]:
        """Report a failure; returns the pending reports when it is tolerated, else raises it."""
        if self._held is not None and self.settings.tolerate_all:
            self._held.append((failure, attempts))
            return []
        self.counts.errors += 1
        self.counts.last_error_ms = self._clock.time_ms()
        if topic := getattr(failure.record, "topic", None):
            redaction.keep("topics of failed records", str(topic))
        answers = [reporter.report(failure, attempts) for reporter in self._reporters]
        if not self.settings.tolerate_all:
            try:
                self.settle(self._settle_timeout_s)
            except ConnectError as error:
                log.error("The record that fails the task could not be reported: %s", error)
            raise failure
        self.counts.skipped += 1
        return [answer for answer in answers if answer is not None]

    def hold(self) -> None:
        """Keep tolerated failures until `release`: for records that may have to be read again."""
        self._held, self._before = [], replace(self.counts)

    @property
    def held(self) -> Sequence[StageError]:
        """Tolerated failures since `hold`."""
        return [failure for failure, _ in self._held or ()]

    def release(self, is_reported: Callable[[StageError], bool] = lambda failure: False) -> None:
        """Report what was held, but for what was reported before. Errors: what a reporter raises."""
        held, self._held = self._held or [], None
        for failure, attempts in held:
            if not is_reported(failure):
                self.give_up(failure, attempts)

    def forget(self) -> None:
        """What was held and counted since `hold` comes again."""
        if self._held is not None:
            self._held = None
            for each in fields(ErrorCounts):
                setattr(self.counts, each.name, getattr(self._before, each.name))

    def settle(self, timeout_s: float) -> None:
        """Wait until all reports are stored; call before committing offsets past the reported records.

        Errors: TimedOutError; ConnectError when a report is lost for good.
        """
        for queue in self._queues:
            queue.settle(timeout_s)

    def close(self) -> None:
        for queue in self._queues:
            queue.close()

    def _delay_s(self, attempt: int, deadline: float) -> float:
        delay_s = backoff_of(FIRST_PUT_PAUSE_S, self.settings.retry_delay_max_ms / 1000).pause_s(attempt - 1)
        return max(0.0, min(delay_s, deadline - self._clock.monotonic()))


class LogReporter:
    """Writes one ERROR line with the trace for each record given up (errors.log.enable). Source: LogReporter."""

    def __init__(
        self,
        task_id: TaskId,
        *,
        include_messages: bool,
        java_name: Callable[[type], str],
        original: Callable[[Any], FetchedRecord | None] = lambda record: None,
    ) -> None:
        self._task_id = task_id
        self._include_messages = include_messages
        self._java_name = java_name
        self._original = original

    def report(self, failure: StageError, attempts: int) -> None:
        text = log_text(
            self._task_id,
            failure,
            self._java_name,
            self._original(failure.record),
            include_messages=self._include_messages,
        )
        with log_context(self._task_id.connector, self._task_id.task, failure.log_stage):
            log.error("%s", text, exc_info=failure.error)


def _again(failure: StageError, error: BaseException) -> StageError:
    again = StageError(Stage(failure.stage), failure.plugin, failure.record, error, failure.named)
    again.steps_done = failure.steps_done
    return again
