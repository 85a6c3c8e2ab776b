"""Retries: what happens when a plugin's call fails in a way that may pass. The loops of sources and sinks share it."""

from __future__ import annotations

import logging
import time

from kconnect.errors import RetriableError
from kconnect.pipeline.backoff import Backoff
from kconnect.pipeline.one_line import cause_of
from kconnect.pipeline.ports import TaskControl
from kconnect.repeats import RepeatedMessages

__all__ = ["Retries"]

log = logging.getLogger(__name__)


class Retries:
    """Counts, tells and paces the failures of one call of a task, such as poll(). Threads: the task's.

    Source: AbstractWorkerSourceTask.poll, WorkerSinkTask.deliverMessages (Kafka 4.3).
    Differs: Java calls poll() again at once, with a warning each time, and put() at the next commit.
    """

    def __init__(self, control: TaskControl, plugin: object, method: str, *, first_s: float, cap_s: float) -> None:
        self._control = control
        self._call = f"{type(plugin).__name__}.{method}()"
        self._stage = method
        self._cap_s = cap_s
        self._backoff = Backoff(first_s, cap_s)
        self._messages = RepeatedMessages(log)
        self.is_on = False
        """The last call failed, or too few since then went well to be sure."""

    def failed(self, error: RetriableError, asked_s: float | None = None) -> float:
        """The call failed; gives how long to wait before the next. `asked_s`: what the plugin wants instead."""
        wait_s = self._backoff.next_s()
        if asked_s is None:
            asked_s = error.retry_after_s
        self.is_on = True
        self._control.health.failed(f"{self._call} raised {cause_of(error)}", time.monotonic())
        with self._control.in_stage(self._stage):
            told = "%s failed and will be retried%s: %s"
            self._messages.log(logging.WARNING, told, self._call, self._pace(asked_s), error)
        return wait_s if asked_s is None else asked_s

    def went_well(self, *, moved: bool) -> bool:
        """The call returned; says whether the trouble is over. `moved`: it gave or took records."""
        over = self._control.health.went_well(time.monotonic(), moved=moved)
        if over is None:
            return False
        self.forget()
        lasted_s = time.monotonic() - over.since_s
        with self._control.in_stage(self._stage):
            attempts = "1 failed attempt" if over.count == 1 else f"{over.count:,} failed attempts"
            # Counted as one text, so that a call that fails every other time does not fill the log
            if self._messages.is_due(f"{self._call} works again"):
                log.info("%s works again after %s in %.1f s", self._call, attempts, lasted_s)
        return True

    def forget(self) -> None:
        """Nothing is retried any more."""
        self.is_on = False
        self._backoff.reset()

    def _pace(self, asked_s: float | None) -> str:
        if asked_s is not None:
            return ""
        return f" after pauses of up to {self._cap_s:g} s (errors.retry.delay.max.ms)"
