"""What happens to a record that a transform or converter could not take: retries, tolerance, reports."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kconnect.clock import Clock, SystemClock
from kconnect.errors import RetriableError
from kconnect.model import TaskId
from kconnect.pipeline.stages import DROPPED, Stage, StageError

__all__ = ["ErrorReporter", "LogReporter", "Tolerance", "ToleranceSettings"]

log = logging.getLogger(__name__)

# Java's RETRIES_DELAY_MIN_MS: the first wait; each next one is twice as long.
_FIRST_DELAY_MS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceSettings:
    """The errors.* settings of one connector."""

    tolerate_all: bool = False
    retry_timeout_ms: int = 0
    """How long to retry; -1 without end."""
    retry_delay_max_ms: int = 60_000
    log_enable: bool = False
    log_include_messages: bool = False


class ErrorReporter(Protocol):
    """Takes the report of each record that was given up: the log here, a dead letter topic beside it.

    Threads: the task's own. Must have the report in safe hands before it returns; what it raises fails the task.
    Source: o.a.k.connect.runtime.errors.ErrorReporter.
    """

    def report(self, failure: StageError, attempts: int) -> None: ...


class Tolerance:
    """The failure policy of one task; never called while all goes well.

    A RetriableError is tried again with growing waits for errors.retry.timeout; what still fails is reported, then
    dropped with errors.tolerance=all or raised. Threads: the task's own; `wait` is woken by the stop.
    Source: o.a.k.connect.runtime.errors.RetryWithToleranceOperator (Kafka 4.3).
    Differs: with errors.tolerance=none Java drops a record in silence when its retries run out; here the task fails.
    """

    def __init__(
        self,
        settings: ToleranceSettings,
        wait: Callable[[float], bool],
        reporters: Sequence[ErrorReporter] = (),
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.dropped = 0
        """Records given up so far under errors.tolerance=all."""
        self._wait = wait
        self._reporters = tuple(reporters)
        self._clock = clock or SystemClock()

    def on_failure(self, failure: StageError, retry: Callable[[], Any]) -> Any:
        """The result of a later attempt, or DROPPED; else raises the failure. See FailurePolicy."""
        attempts = 1
        timeout_s = self.settings.retry_timeout_ms / 1000
        deadline = self._clock.monotonic() + timeout_s if timeout_s >= 0 else float("inf")
        while isinstance(failure.error, RetriableError) and self._clock.monotonic() < deadline:
            if self._wait(self._delay_s(attempts, deadline)):
                break  # the task must stop: no time for more
            attempts += 1
            try:
                return retry()
            except Exception as error:  # the plugin's; kept as the failure's newest cause
                failure = _again(failure, error)
        self.give_up(failure, attempts)
        return DROPPED

    def give_up(self, failure: StageError, attempts: int = 1) -> None:
        """Report a failure; returns when it is tolerated, raises it when not."""
        for reporter in self._reporters:
            reporter.report(failure, attempts)
        if not self.settings.tolerate_all:
            raise failure
        self.dropped += 1

    def _delay_s(self, attempt: int, deadline: float) -> float:
        delay_ms = _FIRST_DELAY_MS << min(attempt - 1, 30)
        if delay_ms > self.settings.retry_delay_max_ms:
            delay_ms = random.randint(0, max(self.settings.retry_delay_max_ms, 0))  # spread, as Java does
        return max(0.0, min(delay_ms / 1000, deadline - self._clock.monotonic()))


class LogReporter:
    """Writes one ERROR line for each record given up (errors.log.enable). Source: LogReporter."""

    def __init__(self, task_id: TaskId, *, include_messages: bool) -> None:
        self._task_id = task_id
        self._include_messages = include_messages

    def report(self, failure: StageError, attempts: int) -> None:
        record = f" Record: {failure.record!r}" if self._include_messages else ""
        log.error(
            "Error encountered in task %s: stage %s, class %s, attempt %d.%s",
            self._task_id,
            failure.stage.value,
            failure.plugin.__qualname__,
            attempts,
            record,
            exc_info=failure.error,
        )


def _again(failure: StageError, error: BaseException) -> StageError:
    return StageError(Stage(failure.stage), failure.plugin, failure.record, error)
