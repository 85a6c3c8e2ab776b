"""Retries: how a plugin call that failed with a RetriableError is retried, the same for all that run a task."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

from kconnect.clock import JITTER, Backoff, Pauses
from kconnect.errors import RetriableError, TimedOutError
from kconnect.logs.repeats import RepeatedMessages
from kconnect.logs.wording import pluralize
from kconnect.runtime.pipeline.error_texts import cause_of
from kconnect.runtime.pipeline.ports import TaskControl

log = logging.getLogger(__name__)

# errors.retry.delay.max.ms=0 means "soon": no loop spins.
_SOON_S: Final = 0.01


# The first pause after a poll() or put() that raised RetriableError; each next one is twice as long. Java's
# SEND_FAILED_BACKOFF_MS and RETRIES_DELAY_MIN_MS.
FIRST_POLL_PAUSE_S: Final = 0.1
FIRST_PUT_PAUSE_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call may fail before it is given up, and the setting that says so."""

    timeout_s: float
    setting: str


class Retries:
    """Counts, logs and paces the failures of one call of a task, such as poll(). Threads: the task's.

    Source: AbstractWorkerSourceTask.poll, WorkerSinkTask.deliverMessages (Kafka 4.3).
    Differs: Java calls poll() again at once, with a warning each time, and put() at the next commit.
    """

    def __init__(
        self,
        control: TaskControl,
        plugin: object,
        method: str,
        *,
        first_s: float,
        cap_s: float,
        patience: Patience | None = None,
    ) -> None:
        """`patience`: without it a call is retried endlessly, as in a worker."""
        self._control = control
        self._call = f"{type(plugin).__name__}.{method}()"
        self._stage = method
        self._cap_s = cap_s
        self._pauses = Pauses(backoff_of(first_s, cap_s))
        self._messages = RepeatedMessages(log)
        self.is_on = False
        """The last call failed, or too few since then went well to be sure."""
        self._patience = patience
        self.gives_up_at_s = float("inf")
        """When the call that fails now is given up, by `time.monotonic`; inf while it does not fail."""

    def failed(self, error: RetriableError, asked_s: float | None = None) -> float:
        """The call failed; returns how long to wait before the next. `asked_s`: the wait that the plugin asked for.

        Errors: TimedOutError when it has failed for as long as it may.
        """
        wait_s = self._pauses.next_s()
        if asked_s is None:
            asked_s = error.retry_after_s
        self.is_on = True
        self._control.health.failed(f"{self._call} raised {cause_of(error)}", time.monotonic())
        with self._control.in_stage(self._stage):
            message = "%s failed and will be retried%s: %s"
            self._messages.log(logging.WARNING, message, self._call, self._pace(asked_s), error)
        return min(wait_s if asked_s is None else asked_s, self._time_left_s(error))

    def went_well(self, *, moved: bool) -> bool:
        """The call succeeded; returns whether that ends the trouble. `moved`: it returned or took records."""
        self.gives_up_at_s = float("inf")
        over = self._control.health.went_well(time.monotonic(), moved=moved)
        if over is None and not moved:
            return False
        self.forget()
        if over is None:  # another call's success has ended the trouble
            return False
        lasted_s = time.monotonic() - over.since_s
        with self._control.in_stage(self._stage):
            attempts = "1 failed attempt" if over.count == 1 else f"{over.count:,} failed attempts"
            # Counted as one text, so that a call that fails every other time does not fill the log
            if self._messages.is_due(f"{self._call} works again"):
                log.info("%s works again after %s in %.1f s", self._call, attempts, lasted_s)
        return True

    def forget(self) -> None:
        """Stop retrying."""
        self.is_on = False
        self.gives_up_at_s = float("inf")
        self._pauses.reset()

    def _time_left_s(self, error: RetriableError) -> float:
        """Until the call is given up. Errors: TimedOutError when that is now."""
        if self._patience is None:
            return float("inf")
        now_s, timeout_s = time.monotonic(), self._patience.timeout_s
        if self.gives_up_at_s == float("inf"):
            self.gives_up_at_s = now_s + timeout_s
        if now_s >= self.gives_up_at_s:
            raise TimedOutError(
                f"{error}\n  {self._call} failed {pluralize(self._pauses.failures, 'time')} in {timeout_s:g} s",
                hint=error.hint or f"{self._patience.setting} says how long it is repeated.",
            ) from error
        return self.gives_up_at_s - now_s

    def _pace(self, asked_s: float | None) -> str:
        if asked_s is not None:
            return ""
        return f" after pauses of up to {self._cap_s:g} s (errors.retry.delay.max.ms)"


def backoff_of(first_s: float, cap_s: float, jitter: tuple[float, float] = JITTER) -> Backoff:
    """The pauses of a task's calls and records, none longer than errors.retry.delay.max.ms, which is `cap_s`."""
    cap_s = cap_s if cap_s > 0 else _SOON_S
    return Backoff(first_s=min(first_s, cap_s), most_s=cap_s, jitter=jitter)
