"""SinkOffsets: where each partition of a sink task stands, and the commits of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from kconnect.api import SinkTask
from kconnect.clock import Clock
from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.kafka import RecordConsumer
from kconnect.logs import log_context
from kconnect.metrics import TaskCounters
from kconnect.model import TopicPartition
from kconnect.pipeline.commit_troubles import CommitTroubles
from kconnect.pipeline.plugin_call import plugin_call
from kconnect.pipeline.ports import TaskControl

log = logging.getLogger(__name__)

_FAILED = "Offsets of %s were not committed, the next commit takes them: %s"


class SinkOffsets:
    """Positions after what put() took; committed on a timer in the background, and in the foreground at the end.

    Threads: the task's own. Errors: what flush and pre_commit raise, but for a RetriableError in a timed commit.
    Source: the offset half of o.a.k.connect.runtime.WorkerSinkTask (Kafka 4.3).
    Differs: in Java every error of a timed pre_commit goes back to the last committed offsets and puts the records
    again, without end; here that is for RetriableError, any other error fails the task.
    """

    def __init__(
        self,
        control: TaskControl,
        task: SinkTask,
        consumer: RecordConsumer,
        clock: Clock,
        *,
        interval_s: float,
        timeout_s: float,
        end_timeout_s: float,
        is_commit_requested: Callable[[], bool],
        settle_reports: Callable[[float], None] = lambda timeout_s: None,
    ) -> None:
        self._control = control
        self._task = task
        self._consumer = consumer
        self._clock = clock
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._end_timeout_s = end_timeout_s
        self._take_request = is_commit_requested
        self._settle_reports = settle_reports
        self._current: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._due_at = clock.monotonic() + interval_s
        self._sequence = 0
        self._name = str(control.spec.id)
        self._log_place = (control.spec.id.connector, control.spec.id.task, "offsets")
        self._running_since: float | None = None
        self._troubles = CommitTroubles(control, log)

    def began(self, partition: TopicPartition, offset: int) -> None:
        """The first record of a partition was fetched at `offset`: that is what it goes back to."""
        self._committed.setdefault(partition, offset)
        self._current.setdefault(partition, offset)

    def moved_to(self, partition: TopicPartition, offset: int) -> None:
        """The task asked to read on from `offset`."""
        self._committed[partition] = self._current[partition] = offset

    def put_done(self, after: Mapping[TopicPartition, int]) -> None:
        self._current.update(after)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._current.pop(partition, None)
            self._committed.pop(partition, None)

    def active(self) -> int:
        """Records that were put and are not committed yet, by their offsets."""
        return sum(current - self._committed.get(place, current) for place, current in self._current.items())

    def count(self, counters: TaskCounters) -> None:
        """What only this side knows. Threads: any."""
        counters.partitions = len(self._consumer.assignment)
        counters.offset_seq = self._sequence

    def positions(self) -> Mapping[TopicPartition, int]:
        """Behind what put() took last of each partition that had records. Not to be changed."""
        return self._current

    def until_due_s(self) -> float:
        return max(self._due_at - self._clock.monotonic(), 0)

    def commit_if_due(self) -> bool:
        """Begin a commit when it is time or asked for. True when the task must read again from the last commit."""
        now = self._clock.monotonic()
        with log_context(*self._log_place):
            return self._commit_if_due(now)

    def _commit_if_due(self, now: float) -> bool:
        if self._running_since is not None:
            if now - self._running_since < self._timeout_s:
                return False
            cause = f"the commit was not answered within {self._timeout_s:g} s (offset.flush.timeout.ms)"
            self._troubles.failed(logging.WARNING, _FAILED, self._name, cause)
            self._running_since = None
        if not self._take_request() and now < self._due_at:
            return False
        self._due_at = now + self._interval_s
        offsets = dict(self._current)
        if not offsets:
            return False
        try:
            self._settle_reports(self._timeout_s)
        except TimedOutError as error:
            self._troubles.failed(logging.WARNING, "Offsets of %s wait for the next commit: %s", self._name, error)
            return False
        try:
            wanted = self._pre_commit(offsets)
        except RetriableError as error:
            told = "%s could not flush; its records since the last commit come again: %s"
            self._troubles.failed(logging.WARNING, told, self._name, error)
            self._go_back(offsets)
            return True
        wanted = self._committable(offsets, wanted)
        if wanted and not self._control.is_cancelled:
            self._commit_in_background(wanted, now)
        return False

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions go: flush, the task's close (whatever flush does), then commit and wait.

        Source: WorkerSinkTask.commitOffsets with closing=true: awaitFutures, preCommit, close, commitSync.
        """
        with log_context(*self._log_place):
            self._close(partitions)

    def _close(self, partitions: Collection[TopicPartition]) -> None:
        offsets = {partition: self._current[partition] for partition in partitions if partition in self._current}
        wanted: Mapping[TopicPartition, int] = {}
        try:
            if offsets:
                self._settle_reports(self._end_timeout_s)
                wanted = self._committable(offsets, self._pre_commit(offsets))
        finally:
            with plugin_call(self._task, "close", self._control.health):
                self._task.close(list(partitions))
        if wanted and not self._control.is_cancelled:
            began_s = self._clock.monotonic()
            self._sequence += 1  # a commit in the background that ends later is of no interest any more
            try:
                self._consumer.commit(wanted, self._end_timeout_s)
            except ConnectError as error:  # as in Java: the records are put again by whoever reads on
                self._troubles.failed(logging.ERROR, "The last offsets of %s were not committed: %s", self._name, error)
            else:
                self._done(wanted, began_s)

    def _pre_commit(self, offsets: dict[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        with plugin_call(self._task, "pre_commit", self._control.health):
            return self._task.pre_commit(dict(offsets)) or {}

    def _committable(
        self, offsets: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """What of the task's answer may be committed: news of its partitions, and nothing beyond what it was given."""
        found = {}
        for partition, offset in wanted.items():
            if partition not in offsets:
                log.warning("Ignoring the offset of %s that the task gave: it was not asked for", partition)
            elif offset > offsets[partition]:
                log.warning("Ignoring offset %d of %s: only %d was read", offset, partition, offsets[partition])
            elif offset != self._committed.get(partition):
                found[partition] = offset
        return found

    def _commit_in_background(self, offsets: dict[TopicPartition, int], now: float) -> None:
        self._sequence += 1
        sequence = self._sequence
        self._running_since = now

        def done(error: ConnectError | None) -> None:
            if sequence != self._sequence:
                self._control.counters.commits_skipped += 1
                return  # an answer that came too late; a newer commit is on its way
            self._running_since = None
            if error is None:
                self._done(offsets, now)
            else:
                with log_context(*self._log_place):  # called from within a fetch
                    self._troubles.failed(logging.ERROR, _FAILED, self._name, error)

        try:
            self._consumer.commit_async(offsets, done)
        except ConnectError as error:
            done(error)

    def _done(self, offsets: Mapping[TopicPartition, int], began_s: float) -> None:
        counters = self._control.counters
        self._troubles.over()
        counters.commits += 1
        counters.commit_ms.note((self._clock.monotonic() - began_s) * 1000)
        self._committed.update(offsets)
        counters.records_active = self.active()

    def _go_back(self, offsets: Collection[TopicPartition]) -> None:
        for partition in offsets:
            offset = self._committed[partition]
            self._consumer.seek(partition, offset)
            self._current[partition] = offset
