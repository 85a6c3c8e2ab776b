"""How at-least-once and exactly-once delivery differ: when source offsets may be committed.

`source` is the loop that calls it and reports each unit. AtLeastOnce is here: source offsets are committed on a
timer, once everything before them is acknowledged. ExactlyOnce is in `exactly_once`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from kconnect.api import SourceRecord
from kconnect.errors import ConnectError
from kconnect.logs.wording import pluralize
from kconnect.runtime.kafka import DeliveryFailure, WrittenRecord
from kconnect.runtime.pipeline.inflight import InFlight, SourcePosition, Unit
from kconnect.runtime.pipeline.polled import Polled, PolledPart
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.source_offsets import SourceOffsetCommitter
from kconnect.runtime.pipeline.task_hooks import TaskHooks, WrittenRecords
from kconnect.runtime.pipeline.unit_producer import UnitProducer

log = logging.getLogger(__name__)


class SourceUnit(Protocol):
    """Records that are sent together: a poll's, a run's of it, or one of a task that overrides commit_record()."""

    def handed_over(self) -> None:
        """The producer has taken all of it. Threads: the task's."""
        ...

    def acknowledged(self) -> None:
        """All of it was handed over and acknowledged by Kafka. Threads: any."""
        ...

    def refused(self, failure: DeliveryFailure) -> bool:
        """Kafka rejected one of its records for good; returns whether that is tolerated. Threads: any."""
        ...

    def written(self, record: SourceRecord, place: WrittenRecord | None) -> None:
        """Where one record was written, for a task that overrides commit_record(); None when rejected. Threads: any."""
        ...

    def filtered(self, record: SourceRecord) -> None:
        """A transformation dropped this record, for a task that overrides commit_record(). Threads: the task's."""
        ...


class DeliveryGuarantee(Protocol):
    """What a source loop calls, in the order of the methods here. Threads: the task's."""

    sends_before_failure: bool
    """Whether records before the one that fails the task are still sent, so that a restart begins at that record."""

    @property
    def has_refused(self) -> bool:
        """A record was rejected for good, so the next settle() raises: waiting is pointless. Threads: any."""
        ...

    def claim(self) -> bool:
        """Called before the plugin starts; False when the task was stopped first. Errors: ConnectError."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Wraps the loop. Its exit commits what may be committed, even after an error, unless fenced off."""
        ...

    def pausing(self) -> None:
        """The task is about to pause."""
        ...

    def settle(self) -> None:
        """Process what Kafka acknowledged or rejected, and call the task's hooks that are due.

        Errors: ConnectError for the first rejected record that is not tolerated.
        """
        ...

    def polling(self) -> AbstractContextManager[None]:
        """Wraps poll(), which may block indefinitely."""
        ...

    def parts(self, polled: Polled | None) -> Iterable[PolledPart]:
        """The parts of a poll to send, in order. Ask for the next part only once the producer has the previous one.

        Unless the task asked for it, nothing of a poll is committed before the producer has all of its parts.
        """
        ...

    def begin_unit(self, positions: Sequence[SourcePosition], records: int) -> SourceUnit:
        """`records` records are about to be sent; `positions` are their source partitions' offsets after them."""
        ...

    def dead_letter_refused(self, failure: DeliveryFailure) -> bool:
        """Kafka rejected a dead letter for good: False, as its record would be lost. Threads: any."""
        ...


# Of the time that a stop may take: for the acknowledgements; the rest is for the last commit.
_SHARE_OF_FLUSH = 0.8


class AtLeastOnce:
    """Implements DeliveryGuarantee. Source: o.a.k.connect.runtime.WorkerSourceTask (Kafka 4.3)."""

    sends_before_failure = True

    def __init__(
        self,
        control: TaskControl,
        producer: UnitProducer,
        inflight: InFlight,
        committer: SourceOffsetCommitter,
        hooks: TaskHooks,
        *,
        flush_interval_s: float,
        stop_budget_s: float,
        tolerates_all: bool,
    ) -> None:
        self._control = control
        self._producer = producer
        self._inflight = inflight
        self._committer = committer
        self._hooks = hooks
        self._flush_interval_s = flush_interval_s
        self._stop_budget_s = stop_budget_s
        self._tolerates_all = tolerates_all
        self._written: WrittenRecords = deque()
        self._is_whole = True  # whether the producer has everything that was polled
        self._lock = threading.Lock()  # guards _refused, which deliveries set from any thread
        self._refused: ConnectError | None = None

    @property
    def has_refused(self) -> bool:
        return self._refused is not None

    def claim(self) -> bool:
        return True

    @contextmanager
    def running(self) -> Iterator[None]:
        self._committer.begin(self._flush_interval_s)
        try:
            yield
        except BaseException:
            self._is_whole = False  # the task may have moved on past records that it never gave
            self._inflight.end_poll()  # as in Java: a restart begins at the record that failed
            raise
        finally:
            try:
                self._finish()
            finally:  # also when the flush raises: a timer that goes on would commit over the task's next run
                self._committer.abandon()

    def pausing(self) -> None:
        """Nothing to do: the timer keeps committing."""

    def settle(self) -> None:
        self._producer.serve()
        if self._refused is not None:
            raise self._refused
        if self._is_whole:
            self._committer.ask_if_due()
        self._call_due_hooks()

    def polling(self) -> AbstractContextManager[None]:
        return _NOTHING

    def parts(self, polled: Polled | None) -> Iterator[PolledPart]:
        if polled is not None:
            self._is_whole = False
            self._inflight.begin_poll()
            yield from polled.parts
            self._inflight.end_poll()
            self._is_whole = True

    def begin_unit(self, positions: Sequence[SourcePosition], records: int) -> _Unit:
        return _Unit(self, self._inflight.submit(positions))

    def _finish(self) -> None:
        """Flush, then the last commit: within the stop's budget, and not at all once fenced off."""
        if self._control.is_cancelled:
            self._committer.abandon()
            return
        deadline = time.monotonic() + self._stop_budget_s
        if not self._producer.flush(self._stop_budget_s * _SHARE_OF_FLUSH, lambda: self._control.is_cancelled):
            log.warning(
                "Task %s ends with %s unacknowledged, to be sent again after a restart. %s",
                self._control.spec.id,
                pluralize(len(self._producer), "record"),
                self._producer.last_error or "",
            )
        if self._is_whole and not self._control.is_cut_off:  # a task that was stopped is asked nothing
            self._committer.ask_at_end(deadline - time.monotonic())
        self._committer.finish(deadline - time.monotonic())
        self._call_due_hooks()

    def _call_due_hooks(self) -> None:
        if self._control.is_cut_off:  # the task has been stopped, or is next
            return
        self._hooks.call_commit_record(self._written)
        if self._committer.take_committed():
            self._hooks.call_commit()

    # --- what units tell ---

    def _note_refused(self, failure: DeliveryFailure) -> bool:
        """Tolerated, or the task fails with the first such error."""
        if self._tolerates_all and not failure.is_of_batch:
            with self._control.in_stage("produce"):
                log.warning("Skipped because errors.tolerance=all: %s", failure.error)
            return True
        return self.dead_letter_refused(failure)

    def dead_letter_refused(self, failure: DeliveryFailure) -> bool:
        with self._lock:
            if self._refused is None:
                self._refused = failure.error
                failure.error.log_stage = "produce"
        return False

    def _note_written(self, record: SourceRecord, place: WrittenRecord | None) -> None:
        if place is not None or self._tolerates_all:
            self._written.append((record, place))

    def _note_filtered(self, record: SourceRecord) -> None:
        self._written.append((record, None))


class _Unit:
    """Implements SourceUnit: its offsets may be committed once it and all before it are acknowledged."""

    __slots__ = ("acknowledged", "filtered", "refused", "written")

    def __init__(self, guarantee: AtLeastOnce, unit: Unit) -> None:
        self.acknowledged = unit.ack
        self.refused = guarantee._note_refused
        self.written = guarantee._note_written
        self.filtered = guarantee._note_filtered

    def handed_over(self) -> None:
        """Nothing to do: a unit that was only partly handed over is never acknowledged."""


_NOTHING: AbstractContextManager[None] = nullcontext()
