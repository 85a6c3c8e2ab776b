"""SinkChain: a sink connector's own converters, transformations and put() in this process, for records from outside.

What `connect dlq replay --through` runs on. Records keep their original topic, partition and offset.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kconnect.api import ConsumerRecord, ErrantRecordsError, SinkConnector, SinkRecord, SinkTask
from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.plugin_parts import make_task
from kconnect.testing.connector_run import ConnectorRun
from kconnect.testing.errant_records import ErrantLog, TaskReporter
from kconnect.testing.plugin_calls import explained
from kconnect.testing.sink_task_run import SinkTaskRun


@dataclass(frozen=True, slots=True)
class Passed:
    """What became of a record: put(), dropped by a transformation, or failed with `why`."""

    is_put: bool
    why: str | None = None


REPLAY = "kconnect.replay"
"""In a task's config: its records are single ones from outside, in any order. Their offsets say nothing."""


class SinkChain:
    """One task of a sink. A context manager: starts it, and stops it without a commit. Threads: one.

    No offset of the connector's is changed.
    Errors: ConfigError; what the connector raises when it starts.
    """

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str], *, clock: Clock | None = None) -> None:
        """`config`, `worker`: references resolved."""
        own = {**config, "tasks.max": "1", "errors.tolerance": "all", "errors.retry.timeout": "0"}
        # A sink that keeps offsets with its data must not take those of single records for the connector's own
        own |= {"name": f"{config.get('name', 'sink')}-replay-{secrets.token_hex(4)}", REPLAY: "true"}
        self._run = ConnectorRun(own["connector.class"], own, worker, clock or SystemClock())
        self._errant = ErrantLog()
        self._task: SinkTaskRun | None = None
        # Of what was put since the last flush:
        self._given: list[tuple[TopicPartition, int]] = []  # place and offset of each record
        self._put: dict[int, list[SinkRecord]] = {}  # number of a record -> what it has become
        self._left_out: set[int] = set()  # numbers of records that the task has named as ones it cannot write
        self._behind: dict[TopicPartition, int] = {}  # the offset behind the last record that the task took
        self._refused: dict[int, str] = {}  # number of a record -> what the task reported of it
        self._reports_read = 0

    def __enter__(self) -> Self:
        try:
            self._run.check(SinkConnector)
            try:
                self._start()
            except BaseException:
                with suppress(Exception):  # plugins that did not start do not stop well
                    self._stop()
                raise
        except BaseException as error:
            raise explained(self._run.calls, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with nullcontext() if kind is None else suppress(Exception):  # what stop() raises after an error comes second
            self._stop()

    def _start(self) -> None:
        (config,) = self._run.start(self._run)
        task = make_task(self._run.config, self._run.plugins, SinkTask)  # type: ignore[type-abstract]  # looks for a subclass
        reporter = TaskReporter(self._errant, tolerates_errors=True)
        self._task = SinkTaskRun(task, config, self._run.stages([self._errant]), lambda: reporter, self._run.calls)
        self._task.start()

    def _stop(self) -> None:
        task, self._task = self._task, None
        try:
            if task is not None:
                task.stop()
        finally:
            self._run.stop()

    def put(self, record: ConsumerRecord) -> Passed:
        """Take one record through converters and transformations to the task. Never raises for what they raise."""
        task = self._task
        assert task is not None, "it is entered"
        place = TopicPartition(record.topic, max(record.partition, 0))
        if place not in task.assignment:
            task.open({place: 0})
        number = len(self._given)
        self._given.append((place, record.offset))
        fetched = FetchedRecord(
            place.topic,
            place.partition,
            record.offset,
            record.key,
            record.value,
            record.timestamp,
            record.timestamp_type,
            list(record.headers) or None,
        )
        try:
            read = task.stages.converters.to_connect_record(fetched)
            kept: Any = () if read is None else task.stages.transforms.apply_each(read)
            if kept:
                self._put[number] = list(kept)
                self._give(task, [number])
        except Exception as error:  # the plugin's
            self._put.pop(number, None)
            self._read_reports(number)
            return Passed(False, _said(error))
        task.moved({place: record.offset + 1})
        if kept:
            self._behind[place] = record.offset + 1
        self._read_reports(number)
        why = self._refused.pop(number, None)
        return Passed(bool(kept)) if why is None else Passed(False, why)

    def flush(self) -> dict[int, str]:
        """Have the task write out what was put, as before a commit.

        Gives what the task reported of records after their own put(): by their number since the last flush, from 0 on.
        Errors: ConnectError with what it raised, or when it does not say that all of them are written.
        """
        task = self._task
        assert task is not None, "it is entered"
        try:
            allowed = self._flushed(task)
        except Exception as error:  # the plugin's
            raise ConnectError(f"flush() failed: {type(error).__name__}: {error}") from error
        for place, behind in self._behind.items():
            if allowed.get(place, 0) < behind:  # what it allows to commit is all that a task says of what is written
                said = f"up to offset {allowed[place]}" if place in allowed else "none"
                raise ConnectError(
                    f"{type(task.task).__name__} did not confirm that it wrote the records: records of {place} before "
                    f"offset {behind} were put, and pre_commit() allows offsets to be committed: {said}",
                    hint="Its log may say why. A sink that writes only full batches cannot take single records.",
                )
        self._read_reports(None)
        refused, self._refused = self._refused, {}
        for waiting in (self._given, self._put, self._left_out, self._behind):
            waiting.clear()
        return refused

    def _give(self, task: SinkTaskRun, numbers: Iterable[int]) -> None:
        """Put records; where the task names some that it cannot write, all others since the last flush again."""
        waiting = list(numbers)
        while waiting:
            try:
                task.put(self._put[waiting[0]])
                waiting.pop(0)
            except ErrantRecordsError as error:
                waiting = self._others(error)

    def _flushed(self, task: SinkTaskRun) -> Mapping[TopicPartition, int]:
        while True:
            try:
                return task.pre_commit(task.assignment, is_last=True)
            except ErrantRecordsError as error:
                self._give(task, self._others(error))

    def _others(self, error: ErrantRecordsError) -> list[int]:
        """Note the records that the task named; gives the numbers of the others. Errors: `error` if none is new."""
        known = len(self._left_out)
        for (place, offset), cause in error.errors.items():
            for number in self._put:
                if self._given[number] == (place, offset) and number not in self._left_out:
                    self._left_out.add(number)
                    self._refused.setdefault(number, _said(cause))
                    break
        if len(self._left_out) == known:
            raise ConnectError(f"{error}. But the task was not passed it, or named it before") from error
        return [number for number in self._put if number not in self._left_out]

    def _read_reports(self, current: int | None) -> None:
        """Find the records that new reports are of. `current`: the number of the one that is put now; None in a flush.

        Errors: ConnectError for a report in a flush that is of none of them: one of them is not written, and which one
        is not known.
        """
        reports = self._errant.records[self._reports_read :]
        self._reports_read += len(reports)
        for report in reports:
            number = self._number(report.record, current)
            if number is None:
                raise ConnectError(f"flush() reported a record that was not put since the flush before: {report.error}")
            self._refused.setdefault(number, _said(report.error))

    def _number(self, record: Any, current: int | None) -> int | None:  # what ErrantRecord has
        if not isinstance(record, SinkRecord):  # a converter's, which fails in the record's own turn
            return current
        place = TopicPartition(record.original_topic, max(record.original_kafka_partition or 0, 0))
        same = [number for number, given in enumerate(self._given) if given == (place, record.original_kafka_offset)]
        if current in same or not same:
            return current
        return next((number for number in same if number not in self._refused), same[0])


def _said(error: BaseException) -> str:
    """The error, and behind it what caused it first."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = f"{type(error).__name__}: {error}".strip().rstrip(":")
    return text if root is error or str(root) in text else f"{text}: {type(root).__name__}: {root}"
