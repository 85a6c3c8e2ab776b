"""SinkPartitions: rebalances, rewinds and pauses of a sink's partitions; HeldPartitions: which are paused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.put_queue import PutQueue
from kconnect.runtime.pipeline.refused_records import RefusedRecords
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_commits import SinkCommits
from kconnect.runtime.pipeline.sink_consumer import SinkConsumer
from kconnect.runtime.pipeline.sink_offsets import SinkOffsets

log = logging.getLogger(__name__)


class HeldPartitions:
    """Which partitions must not be fetched now: those the task paused, or all with `hold_all`. Pure."""

    def __init__(self) -> None:
        self._by_task: set[TopicPartition] = set()
        self._held: set[TopicPartition] = set()
        """Paused at the consumer."""

    def __contains__(self, partition: object) -> bool:
        """Whether the task wants nothing of this partition for now."""
        return partition in self._by_task

    @property
    def has_any(self) -> bool:
        """A partition is paused, or the task asked for it."""
        return bool(self._by_task or self._held)

    def ask(self, requests: Iterable[tuple[bool, Collection[TopicPartition]]]) -> None:
        """The task's requests, in order: to pause (True) or to resume partitions."""
        for is_pause, partitions in requests:
            if is_pause:
                self._by_task.update(partitions)
            else:
                self._by_task.difference_update(partitions)

    def changes(
        self, assigned: set[TopicPartition], *, hold_all: bool
    ) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """The partitions that the consumer must pause, and resume, now."""
        wanted = set(assigned) if hold_all else self._by_task & assigned
        before, self._held = self._held & assigned, wanted
        return wanted - before, before - wanted

    def came(self, partitions: Collection[TopicPartition], *, hold_all: bool) -> list[TopicPartition]:
        """Which of the newly assigned partitions the consumer must pause at once."""
        held = [partition for partition in partitions if hold_all or partition in self._by_task]
        self._held = (self._held - set(partitions)) | set(held)
        return held

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        self._by_task.difference_update(partitions)
        self._held.difference_update(partitions)


class SinkPartitions:
    """Informs the task and keeps offsets, queue and consumer in step. Implements RebalanceListener.

    Threads: the task's; rebalances come from within a fetch.
    Source: HandleRebalance, closePartitions and rewind of o.a.k.connect.runtime.WorkerSinkTask (Kafka 4.3).
    """

    def __init__(
        self,
        control: TaskControl,
        calls: SinkCalls,
        consumer: SinkConsumer[Any],
        offsets: SinkOffsets,
        queue: PutQueue,
        refused: RefusedRecords,
        commits: SinkCommits,
        *,
        settle_puts: Callable[[], None],
    ) -> None:
        self._control = control
        self._calls = calls
        self._consumer = consumer
        self._context = calls.context
        self._offsets = offsets
        self._queue = queue
        self._refused = refused
        self._commits = commits
        self._settle_puts = settle_puts
        self._holds = HeldPartitions()
        self.is_paused = False
        """The user paused the task: it keeps its partitions but fetches nothing."""
        self._is_closing = False

    # --- for the loop ---

    @contextmanager
    def closed_at_end(self) -> Iterator[None]:
        """A block after which the assigned partitions are flushed, closed and committed: also after an error."""
        try:
            yield
        except BaseException:
            try:
                self._close()
            except Exception:
                with self._control.in_stage("offsets"):
                    log.warning("The failing task could not commit the offsets of what it had put", exc_info=True)
            raise
        self._close()

    def obey(self) -> None:
        """Rewind, pause and resume as the task asked; call before the consumer fetches."""
        self.hold()
        if self._context.has_asked:  # as in what Java was putting, for which hold() has waited
            self.go_where_asked()
            self.hold()

    def end(self) -> None:
        """The task stops next: it hears of no partition any more, not even of those that come as the consumer closes.

        They do when the task took its time to start, and failed.
        """
        self._is_closing = True

    def go_where_asked(self) -> None:
        """Rewind to the offsets that the task asked for.

        Differs: where the put was to be retried, Java first puts the same records again.
        """
        if not self._context.has_offsets:
            return
        self._settle_puts()  # in which the task may ask for more
        assigned = self._consumer.assignment
        self.go_to(self._context.take_offsets(assigned), by_task=True)
        if assigned:
            self._context.drop_offsets()

    def go_to(self, places: Mapping[TopicPartition, int], *, by_task: bool = False) -> None:
        """Read these partitions from these offsets on; what was fetched and not put is dropped."""
        if places:
            self._settle_puts()
        for partition, offset in places.items():
            self._queue.drop({partition})
            self._consumer.seek(partition, offset)
            self._offsets.moved_to({partition: offset}, by_task=by_task)

    def hold(self) -> None:
        """Pause and resume partitions at the consumer."""
        holds_all = self._holds_all
        self._holds.ask(self._context.take_pauses())
        if not (holds_all or self._holds.has_any):
            return
        pause, resume = self._holds.changes(self._consumer.assignment, hold_all=holds_all)
        if pause:
            self._consumer.pause(pause)
            if not holds_all:
                self._fetch_later(pause)
        if resume:
            self._consumer.resume(resume)

    def _fetch_later(self, partitions: Collection[TopicPartition]) -> None:
        """Give back what was fetched of these partitions while the task was being given what came before."""
        self._settle_puts()
        for partition, offset in self._queue.first_of(partitions).items():
            self._queue.drop({partition})
            self._consumer.seek(partition, offset)

    @property
    def _holds_all(self) -> bool:
        return self.is_paused or self._queue.is_retrying

    def _close(self) -> None:
        """Flush, close and commit what is assigned; nothing once fenced off.

        Where others may soon run the task it is closed only: a flush may take as long as what it writes to.
        """
        self._is_closing = True  # a rebalance during the commit tells the task nothing new
        partitions = self._consumer.assignment
        if partitions and not self._control.is_cancelled:
            if self._control.is_cut_off:
                self._calls.close(partitions)
            else:
                self._commits.close(partitions)

    # --- RebalanceListener ---

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self._is_closing or not partitions:
            return {}
        self._calls.open(partitions)
        begin = self._context.take_offsets(set(partitions))
        self._offsets.moved_to(begin, by_task=True)
        return begin

    def to_pause(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        return self._holds.came(partitions, hold_all=self._holds_all)

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self._is_closing or not partitions or self._control.is_cancelled:
            return
        try:
            self._settle_puts()
            # The next owner begins where the task asked to go in these puts: nothing behind it is committed
            self._offsets.moved_to(self._context.take_offsets(set(partitions)), by_task=True)
        finally:
            self._give_up(partitions)

    def _give_up(self, partitions: Sequence[TopicPartition]) -> None:
        try:
            self._commits.close(partitions)
        except ConnectError:  # as in Java: the next owner reads again what was not committed
            with self._control.in_stage("offsets"):
                log.warning("Offsets of revoked partitions could not be committed", exc_info=True)
        self._forget(partitions)

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        if self._is_closing or not partitions:
            return
        try:
            self._settle_puts()
        finally:
            self._calls.close(partitions)
            self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        self._queue.drop(partitions)
        self._offsets.forget(partitions)
        self._refused.forget(partitions)
        self._holds.forget(partitions)
