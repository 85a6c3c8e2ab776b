"""SinkCommits: commits the offsets of a sink task, on a timer in the background and in the foreground at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from kconnect.api import ErrantRecordsError
from kconnect.clock import Clock
from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.logs.log_context import log_context
from kconnect.model import TopicPartition
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.commit_troubles import CommitTroubles
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.refused_records import RefusedRecords
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_consumer import SinkConsumer
from kconnect.runtime.pipeline.sink_offsets import CommitTimer, SinkOffsets

log = logging.getLogger(__name__)

_FAILED = "Offsets of %s were not committed; the next commit includes them: %s"
_AGAIN = "%s could not flush; its records since the last commit will be delivered again: %s"
_NOWHERE: Mapping[TopicPartition, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTimes:
    """The worker's settings for commits of sinks."""

    interval_s: float
    """offset.flush.interval.ms"""
    timeout_s: float
    """offset.flush.timeout.ms"""
    end_timeout_s: float
    """How long the last commit, or the commit of revoked partitions, may take."""


class SinkCommits:
    """Asks the task what may be committed, and commits it.

    Threads: the task's own. Errors: what flush and pre_commit raise, but for a RetriableError in a timed commit.
    Source: the offset half of o.a.k.connect.runtime.WorkerSinkTask (Kafka 4.3).
    Differs: in Java every error of a timed pre_commit goes back to the last committed offsets and puts the records
    again, without end; here that is for RetriableError, any other error fails the task.
    """

    def __init__(
        self,
        control: TaskControl,
        calls: SinkCalls,
        consumer: SinkConsumer[Any],
        offsets: SinkOffsets,
        refused: RefusedRecords,
        clock: Clock,
        times: CommitTimes,
        *,
        settle_puts: Callable[[], None],
        settle_reports: Callable[[float], None],
    ) -> None:
        self._control = control
        self._calls = calls
        self._consumer = consumer
        self._offsets = offsets
        self._refused = refused
        self._now_s = clock.monotonic
        self._times = times
        self._timer = CommitTimer(self._now_s(), times.interval_s, times.timeout_s)
        self._again: Mapping[TopicPartition, int] = _NOWHERE
        """How far the task had come when it named records as it flushed: then it is asked again, not an interval later.
        """
        self._settle_puts = settle_puts
        self._settle_reports = settle_reports
        self._name = str(control.spec.id)
        self._log_place = (control.spec.id.connector, control.spec.id.task, "offsets")
        self._troubles = CommitTroubles(control, log)

    def count(self, counters: TaskCounters) -> None:
        """Fills in the counters only this class knows. Threads: any."""
        counters.partitions = len(self._consumer.assignment)
        counters.offset_seq = self._timer.sequence

    def until_due_s(self) -> float:
        """The time until commit_if_due() has something to do."""
        return self._timer.until_due_s(self._now_s())

    def commit_if_due(self) -> Mapping[TopicPartition, int]:
        """Start a commit when it is due or the task requested one.

        Returns where each partition must be rewound to when the task could not flush; empty otherwise.
        """
        now_s, timer = self._now_s(), self._timer
        if timer.until_due_s(now_s) > 0 and (timer.is_waiting or not self._is_wanted()):
            return _NOWHERE
        with log_context(*self._log_place):
            if timer.gives_up(now_s):
                cause = f"the commit was not answered within {self._times.timeout_s:g} s (offset.flush.timeout.ms)"
                self._troubles.failed(logging.WARNING, _FAILED, self._name, cause)
                if not (self._is_wanted() or timer.is_due(now_s)):
                    return _NOWHERE
            timer.restart(now_s)
            return self._commit(now_s)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are going away: flush, call the task's close (even if flush fails), then commit and wait.

        Source: WorkerSinkTask.commitOffsets with closing=true: awaitFutures, preCommit, close, commitSync.
        Differs: reports are waited for last, as the task may report in pre_commit and close too.
        """
        with log_context(*self._log_place):
            given = self._offsets.taken_of(partitions)
            wanted: Mapping[TopicPartition, int] = {}
            try:
                if given:
                    with self._calls.context.closing():
                        wanted = self._pre_commit(given)
            except ErrantRecordsError as error:
                self._refused.named(error)
                self._troubles.failed(logging.WARNING, _AGAIN, self._name, error)
            finally:
                self._calls.close(partitions)
            if not given or self._control.is_cancelled:
                return
            self._settle_reports(self._times.end_timeout_s)
            if wanted:
                self._commit_and_wait(wanted)

    def _is_wanted(self) -> bool:
        """Whether a commit is due before its time."""
        if self._again:
            taken = self._offsets.taken
            if all(taken.get(place, offset) >= offset for place, offset in self._again.items()):
                self._again = _NOWHERE
                return True
        return self._calls.context.take_commit_request()

    def _commit(self, now_s: float) -> Mapping[TopicPartition, int]:
        self._settle_puts()
        given = dict(self._offsets.taken)
        if not given:
            return _NOWHERE
        try:
            wanted = self._pre_commit(given)
        except RetriableError as error:
            self._troubles.failed(logging.WARNING, _AGAIN, self._name, error)
            return self._offsets.last_committed()
        except ErrantRecordsError as error:
            self._refused.named(error)
            self._again = given
            return self._offsets.last_committed()
        if self._control.is_cancelled:
            return _NOWHERE
        try:
            self._settle_reports(self._times.timeout_s)  # after the flush: the task may report in it too
        except TimedOutError as error:
            self._troubles.failed(
                logging.WARNING, "Offsets of %s are held back until the next commit: %s", self._name, error
            )
            return _NOWHERE
        if wanted:
            self._send(wanted, now_s)
        return _NOWHERE

    def _pre_commit(self, given: dict[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Flush; returns the task's offsets that may be committed."""
        found, refused = self._offsets.committable(given, self._calls.pre_commit(given))
        for sentence in refused:
            log.warning("%s", sentence)
        return found

    def _send(self, offsets: Mapping[TopicPartition, int], now_s: float) -> None:
        """Commit in the background; the answer arrives during a later fetch."""
        number = self._timer.sent(now_s)
        self._offsets.sent(offsets)
        try:
            self._consumer.commit_async(offsets, partial(self._answered, number, now_s))
        except ConnectError as error:
            self._answered(number, now_s, error)

    def _answered(self, number: int, sent_at_s: float, error: ConnectError | None) -> None:
        if not self._timer.answered(number):
            self._control.counters.commits_skipped += 1
            return  # an answer that came too late; a newer commit is on its way
        self._offsets.answered(is_committed=error is None)
        if error is None:
            self._succeeded(sent_at_s)
            return
        with log_context(*self._log_place):
            self._troubles.failed(logging.ERROR, _FAILED, self._name, error)

    def _commit_and_wait(self, offsets: Mapping[TopicPartition, int]) -> None:
        began_s = self._now_s()
        try:
            self._consumer.commit(offsets, self._times.end_timeout_s)
        except ConnectError as error:  # as in Java: the next owner puts the records again
            self._troubles.failed(logging.ERROR, "The last offsets of %s were not committed: %s", self._name, error)
        else:
            self._offsets.committed(offsets)
            self._succeeded(began_s)

    def _succeeded(self, began_s: float) -> None:
        counters = self._control.counters
        self._troubles.over()
        counters.commits += 1
        counters.commit_ms.note((self._now_s() - began_s) * 1000)
        counters.records_active = self._offsets.active()
