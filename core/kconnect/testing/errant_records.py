"""Records that a stage gave up on or the sink task reported, kept for the test."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from kconnect.api import SinkRecord
from kconnect.errors import ConnectError
from kconnect.runtime.pipeline.stages import StageError


@dataclass(frozen=True, slots=True)
class ErrantRecord:
    """A record that a stage gave up on under `errors.tolerance=all`, or reported by the task itself."""

    record: Any  # SinkRecord, or FetchedRecord when a converter failed
    error: BaseException


class ErrantLog:
    """Keeps the records that stages gave up on. Implements kconnect.runtime.pipeline.tolerance.ErrorReporter."""

    def __init__(self) -> None:
        self.records: list[ErrantRecord] = []

    def report(self, failure: StageError, attempts: int) -> None:
        self.records.append(ErrantRecord(failure.record, failure.error))

    def settle(self, timeout_s: float) -> None:
        """Nothing is pending: report() keeps the record before it returns."""

    def close(self) -> None:
        """Nothing to close."""


class TaskReporter:
    """Keeps what a task reports. Implements kconnect.api.ErrantRecordReporter."""

    def __init__(self, log: ErrantLog, *, tolerates_errors: bool) -> None:
        self._log = log
        self._tolerates_errors = tolerates_errors

    def report(self, record: SinkRecord, error: BaseException) -> Future[None]:
        self._log.records.append(ErrantRecord(record, error))
        if not self._tolerates_errors:
            raise ConnectError(
                f"The task reported a record of {record.topic!r}, and errors.tolerance is none: {error}"
            ) from error
        written: Future[None] = Future()
        written.set_result(None)
        return written
