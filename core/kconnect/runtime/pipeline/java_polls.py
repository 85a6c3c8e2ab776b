"""What poll() of a Java source returned: as the runs of its records, or as bytes where its whole chain is Java's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from kconnect.api import SourceRecord, SourceTask
from kconnect.java.plugins import EncodedFailure, EncodedPoll, Hosted, PolledRuns, java_class, java_error
from kconnect.java.plugins.encoded import EncodedPart, EncodingTask
from kconnect.runtime.kafka import ByteColumn, KafkaBatch
from kconnect.runtime.pipeline.inflight import SourcePosition
from kconnect.runtime.pipeline.polled import Polled, PolledPart, ReadyUnit, SourceConversion, polled_by
from kconnect.runtime.pipeline.stages import DROPPED, FailurePolicy, Stage, StageError


class JavaPolls:
    """Gives the form of what a Java source's poll() returned; `policy` settles the records its stages could not do."""

    def __init__(self, policy: FailurePolicy) -> None:
        self._policy = policy

    def __call__(self, task: SourceTask, given: Any) -> Polled | None:
        if isinstance(given, EncodedPoll):
            return _EncodedByJava(given, self._policy)
        if isinstance(given, PolledRuns):
            return _Runs(task, given)
        return polled_by(task, given)


class _Runs:
    """Records in several forms. Implements Polled."""

    def __init__(self, task: SourceTask, polled: PolledRuns) -> None:
        self.size = len(polled)
        runs = [polled_by(task, run) for run in polled.runs]
        self.parts: Sequence[PolledPart] = [part for run in runs if run is not None for part in run.parts]


class _EncodedByJava:
    """A poll that Java has transformed and converted. Implements Polled and PolledPart. Threads: the task's."""

    makes_records: Final = True

    def __init__(self, poll: EncodedPoll, policy: FailurePolicy) -> None:
        self.size = len(poll)
        self._poll = poll
        self._policy = policy
        self._batches: list[KafkaBatch] = []
        self._numbers: list[int] = []
        """By which Java knows the records of all batches."""
        self._positions: dict[str, SourcePosition] = {}
        self._done = 0

    @property
    def parts(self) -> Sequence[PolledPart]:
        return (self,)

    def records(self) -> Sequence[SourceRecord]:
        """None: Java ends its transactions itself, between polls."""
        return ()

    def units(self, conversion: SourceConversion) -> Iterator[ReadyUnit]:
        try:
            self._settle_failures()
        except StageError:
            if conversion.sends_before_failure and self._done:
                yield self._unit()
            raise
        yield self._unit()

    def _unit(self) -> ReadyUnit:
        positions, topics = list(self._positions.values()), {batch.topic for batch in self._batches}
        kept = len(self._numbers)
        if not self._poll.task.wants_each:
            return ReadyUnit(positions, self._done, kept, topics, self._batches)
        records = [record for batch in self._batches for record in batch.records()]
        return ReadyUnit(positions, self._done, kept, topics, (), records, self._numbers)

    def _settle_failures(self) -> None:
        """Take all of the poll. Errors: StageError; what came before its record is taken by then."""
        poll = self._poll
        self._take(poll)
        while poll.failure is not None:
            failure, task = poll.failure, poll.task
            outcome = self._policy.on_failure(_error(poll, failure), partial(_again, task, failure.row))
            if outcome is DROPPED:
                self._done += 1
                poll = task.go_on(failure.row + 1)
            else:
                poll = outcome
            self._take(poll)

    def _take(self, poll: EncodedPoll) -> None:
        """The next part of the poll, up to a record that failed."""
        for part in poll.parts:
            if len(part.values):
                self._batches.append(_batch(part))
                self._numbers += [poll.first + row for row in part.rows.to_pylist()]
        for partition, offset in poll.positions:
            self._positions[json.dumps(partition)] = (partition, offset)
        self._done += poll.done


def _again(task: EncodingTask, row: int) -> EncodedPoll:
    """The rest of the poll, beginning with the record that failed. Errors: as then, if it fails again."""
    found = task.go_on(row)
    if found.failure is not None and found.failure.row == row:
        raise java_error(found.failure.error, task.folder)
    return found


def _error(poll: EncodedPoll, failure: EncodedFailure) -> StageError:
    plugin = java_class(failure.java_class, None, Hosted)
    record = poll.task.record(failure.row)
    return StageError(Stage[failure.stage], plugin, record, java_error(failure.error, poll.task.folder))


def _batch(part: EncodedPart) -> KafkaBatch:
    return KafkaBatch(
        part.topic,
        part.partition,
        None if part.keys.null_count == len(part.keys) else ByteColumn(part.keys),
        ByteColumn(part.values),
        None if part.times is None else list(part.times),
        part.headers,
    )
