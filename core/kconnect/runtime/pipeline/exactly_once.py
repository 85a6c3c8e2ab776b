"""ExactlyOnce: records and their source offsets in the same transactions (KIP-618)."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from kconnect.api import SourceRecord
from kconnect.errors import ConnectError, FencedError
from kconnect.logs.log_context import log_context
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset
from kconnect.runtime.kafka import DeliveryFailure, KafkaRecord, TransactionExpiredError, WrittenRecord
from kconnect.runtime.pipeline.boundaries import Boundary, Ending
from kconnect.runtime.pipeline.inflight import PartitionKey, SourcePosition, partition_key
from kconnect.runtime.pipeline.offset_copies import OffsetCopies
from kconnect.runtime.pipeline.offset_updates import OffsetUpdates
from kconnect.runtime.pipeline.polled import Polled, PolledPart
from kconnect.runtime.pipeline.ports import Housekeeping, TaskControl
from kconnect.runtime.pipeline.task_hooks import TaskHooks, WrittenRecords
from kconnect.runtime.pipeline.unit_producer import UnitProducer
from kconnect.runtime.storage.offset_topic import encode_key, encode_value

log = logging.getLogger(__name__)

_EXPIRED_ADVICE = (
    "It may be necessary to reconfigure this connector in order for it to run healthily with exactly-once support. "
    "Options for this include: tune the connector's producer configuration for higher throughput, increase the "
    "transaction timeout for the connector's producers, decrease the offset commit interval (if using interval-based "
    "transaction boundaries), or use the 'poll' transaction boundary (if the connector is not already configured to "
    "use it)."
)


class Transactions(UnitProducer, Protocol):
    """What the guarantee asks of a transactional producer; implemented by TransactionalProducer."""

    @property
    def timeout_s(self) -> float: ...

    def claim(self, timeout_s: float, give_up: Callable[[], bool]) -> bool: ...

    def begin(self) -> None: ...

    def commit(self, give_up: Callable[[], bool]) -> bool: ...

    def abort(self) -> None: ...

    def why_broken(self) -> ConnectError | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOnceParts:
    """The parts of exactly-once delivery."""

    producer: Transactions
    """The same as that of the source loop."""
    boundary: Boundary
    offsets_topic: str
    copies: OffsetCopies | None
    """Takes committed offsets to the worker's topic too, when the connector has one of its own."""
    copies_every_s: float
    verify: Callable[[], None]
    """Errors: ConnectError when the task is not to run any more: others may have fenced its generation off before."""
    housekeeping: Housekeeping
    updates: OffsetUpdates | None = None
    """Asks a task that overrides update_offsets(), before each commit and each `updates_every_s`."""
    updates_every_s: float = 60
    look_again_s: float
    """How often to look whether the transaction's time is over while a poll sits and waits."""
    stop_budget_s: float
    """How long the last copies of offsets may take."""


class ExactlyOnce:
    """Implements DeliveryGuarantee. What is not committed when the loop ends with an error is aborted.

    Threads: the task's, but for commits of an interval that ends while poll() waits: those run on the housekeeping
    thread. `_turn` keeps the two apart: the task's thread has it all the time except inside of poll().
    Source: o.a.k.connect.runtime.ExactlyOnceWorkerSourceTask (Kafka 4.3).
    Differs: offsets of records that transformations filtered out are committed, in a transaction of offsets alone if
    need be; a task that fails aborts at once, where Java leaves that to the broker's timeout or the next start.
    Measured, lines of 98 B on 2 cores beside the broker: 0.29 M records/s (1.9 us CPU each) with a transaction for each
    poll of 10,600 lines, 26 ms a commit; 0.67 M/s (0.9 us) with one a second; at least once 0.9 M/s (0.85 us).
    """

    sends_before_failure = False
    """The transaction is aborted, and a restart begins where it began."""

    def __init__(self, control: TaskControl, parts: ExactlyOnceParts, hooks: TaskHooks) -> None:
        self._control = control
        self._parts = parts
        self._producer = parts.producer
        self._boundary = parts.boundary
        self._hooks = hooks
        self._turn = threading.Lock()
        # With the turn: offsets of what is in the open transaction or was aborted, by source partition
        self._offsets: dict[PartitionKey, ConnectorOffset] = {}
        self._size = 0  # records of the open transaction
        self._half_sent: _Unit | None = None  # of which only a part may be with the producer
        self._written: WrittenRecords = deque()
        self._committed: WrittenRecords = deque()  # their hooks are due
        self._is_hook_due = False
        self._is_whole = True  # whether the producer has everything that was polled
        self._is_over = False  # the loop has ended
        self._asked_s = time.monotonic()
        self._broken: ConnectError | None = None  # what a commit on the housekeeping thread ended with
        self._lock = threading.Lock()  # guards the two below, which deliveries change from any thread
        self._acked = 0  # records of the open transaction that were acknowledged
        self._refused: ConnectError | None = None

    @property
    def has_refused(self) -> bool:
        return self._refused is not None

    def claim(self) -> bool:
        """Fence off the task's previous run before the plugin reads offsets, so that it commits nothing more."""
        if not self._producer.claim(self._producer.timeout_s, lambda: self._control.is_stopping):
            return False
        self._parts.verify()
        return True

    @contextmanager
    def running(self) -> Iterator[None]:
        parts = self._parts
        self._boundary.begin(time.monotonic())
        ticket = parts.housekeeping.every(parts.look_again_s, self._look, f"transactions of {self._control.spec.id}")
        if parts.copies is not None:
            parts.copies.begin(parts.copies_every_s)
        try:
            with self._turn:
                try:
                    yield
                    self._finish()
                finally:  # with the turn: a look that is about to begin must not commit what a failed loop leaves
                    self._is_over = True
        except (FencedError, TransactionExpiredError) as error:
            raise self._explained(error) from error
        finally:
            ticket.cancel()
            if parts.copies is not None:
                parts.copies.finish(parts.stop_budget_s)

    def pausing(self) -> None:
        self._end(self._boundary.at_end(time.monotonic()), asks=True)

    def settle(self) -> None:
        self._producer.serve()
        self._raise_if_refused()
        self._call_due_hooks()

    @contextmanager
    def polling(self) -> Iterator[None]:
        self._turn.release()
        try:
            yield
        finally:
            self._turn.acquire()

    def parts(self, polled: Polled | None) -> Iterable[PolledPart]:
        """Splits a poll where a transaction ends; the transaction ends when the next part is asked for."""
        if polled is not None:
            self._raise_if_refused()
            self._is_whole = False
            parts = self._boundary.parts(polled)
            for number, (part, ending) in enumerate(parts, 1):
                yield part
                self._is_whole = number == len(parts)
                self._end(ending, asks=True)
        now_s = time.monotonic()
        self._end(self._boundary.after_poll(now_s, gave_records=polled is not None), asks=True)
        if self._parts.updates is not None and now_s >= self._asked_s + self._parts.updates_every_s:
            self._commit_updates()

    def begin_unit(self, positions: Sequence[SourcePosition], records: int) -> _Unit:
        self._producer.begin()
        self._size += records
        self._half_sent = _Unit(self, positions, records)
        return self._half_sent

    def _finish(self) -> None:
        """Commit what may be committed at the task's end; not when fenced off, nor in the middle of a poll."""
        if not self._control.is_cancelled and self._half_sent is None and self._is_whole:
            ending = self._boundary.at_end(time.monotonic())
            self._end(ending, asks=not self._control.is_cut_off)  # a task that was stopped is asked nothing
            if ending is None and not self._control.is_cut_off:
                self._commit_updates()
            self._call_due_hooks()

    # --- transactions ---

    def _end(self, ending: Ending | None, *, asks: bool = False) -> None:
        """End the transaction: commit it, or discard its records and commit only their offsets.

        `asks`: on the task's thread, where it may be asked what offsets to commit.
        """
        if ending is Ending.ABORT:
            self._abort()
        if ending is not None and not self._control.is_cancelled:
            with log_context(self._control.spec.id.connector, self._control.spec.id.task, "offsets"):
                if asks:
                    self._take_updates()
                self._commit()

    def _commit_updates(self) -> None:
        """Commit what the task says of its offsets, alone: not while a transaction is open that its boundary ends."""
        if not self._offsets and not self._size:
            self._end(Ending.COMMIT, asks=True)

    def _take_updates(self) -> None:
        """Into the offsets to commit. All records before them are in this transaction or were committed earlier."""
        if self._parts.updates is None or not self._is_whole:
            return
        self._asked_s = time.monotonic()
        for item in self._parts.updates.of(list(self._offsets.values())):
            self._offsets[partition_key(item.partition)] = item

    def _abort(self) -> None:
        if not self._size:
            log.warning("Ignoring request by task to abort transaction as the current transaction is empty")
            return
        log.info("Aborting a transaction of %s as requested by connector", pluralize(self._size, "record"))
        known, self._written = self._written, deque()
        self._producer.abort()
        self._producer.serve()  # notes as well what was not written yet
        with self._lock:
            self._control.counters.records_dropped += self._size - self._acked
            self._acked = 0
        self._committed.extend((record, None) for record, place in known if place is None)  # left out before
        self._hooks.drop([record for record, place in known if place] + [record for record, _ in self._written])
        self._written.clear()
        self._size = 0

    def _commit(self) -> None:
        """Errors: ConnectError in Java's words; nothing of the transaction counts then."""
        if not self._offsets and not self._size:
            return
        counters, began_s = self._control.counters, time.monotonic()
        self._control.health.commit_began(began_s)
        try:
            self._raise_if_refused()
            self._write_offsets(list(self._offsets.values()))
            self._raise_if_refused()  # one that the client itself refuses does not keep the commit from succeeding
            if not self._producer.commit(lambda: self._control.is_cancelled):
                return
        except ConnectError as error:
            counters.commit_failures += 1
            raise self._explained(error) from error
        finally:
            self._control.health.commit_done()
        counters.commits += 1
        counters.commit_ms.note((time.monotonic() - began_s) * 1000)
        counters.note_transaction(self._size)
        if self._parts.copies is not None:
            self._parts.copies.note(self._offsets)
        self._producer.serve()
        with self._lock:
            self._acked = 0
        self._committed.extend(self._written)
        self._written.clear()
        self._offsets, self._size, self._is_hook_due = {}, 0, True

    def _write_offsets(self, offsets: Sequence[ConnectorOffset]) -> None:
        """Into the open transaction; a tombstone goes to the worker's topic before, as its copy would outlive it."""
        connector, parts = self._control.spec.id.connector, self._parts
        entries = {encode_key(connector, item.partition): encode_value(item.offset) for item in offsets}
        if parts.copies is not None:
            parts.copies.remove([item for item in offsets if item.offset is None])
        self._producer.begin()
        delivery = self._producer.delivery(lambda is_acked: None, self._note_refused)
        for key, value in entries.items():
            entry = KafkaRecord(parts.offsets_topic, key=key, value=value)
            self._producer.send(entry, delivery, lambda: self._control.is_cancelled)
        delivery.complete()

    # --- what units tell ---

    def _note_handed_over(self, positions: Sequence[SourcePosition]) -> None:
        for partition, offset in positions:
            self._offsets[partition_key(partition)] = ConnectorOffset(partition, offset)
        self._half_sent = None

    def _note_acknowledged(self, records: int) -> None:
        with self._lock:
            self._acked += records

    def _note_refused(self, failure: DeliveryFailure) -> bool:
        """Never tolerated: the transaction cannot commit without the record."""
        with self._lock:
            if self._refused is None:
                self._refused = failure.error
        return False

    def dead_letter_refused(self, failure: DeliveryFailure) -> bool:
        return self._note_refused(failure)

    def _note_written(self, record: SourceRecord, place: WrittenRecord | None) -> None:
        self._written.append((record, place))

    # --- errors and hooks ---

    def _raise_if_refused(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._refused is None:
            return
        raise self._explained(self._producer.why_broken() or self._refused)

    def _explained(self, error: ConnectError) -> ConnectError:
        """Source: ExactlyOnceWorkerSourceTask.maybeWrapProducerSendException."""
        task_id = self._control.spec.id
        if isinstance(error, TransactionExpiredError):
            return ConnectError(
                f"The task {task_id} was unable to finish writing records to Kafka before its producer transaction "
                f"expired. {_EXPIRED_ADVICE}"
            )
        lead = f"Failed to flush offsets and/or records for task {task_id}"
        return error if str(error).startswith(lead) else ConnectError(f"{lead}: {error}", hint=error.hint)

    def _call_due_hooks(self) -> None:
        if self._is_hook_due and not self._control.is_cut_off:  # then the task has been stopped, or is next
            self._is_hook_due = False
            self._hooks.call_commit_record(self._committed)
            self._hooks.call_commit()

    # --- the housekeeping thread ---

    def _look(self) -> None:
        """Commit if it is time while poll() blocks. Never raises: the loop does, once poll has returned."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            if self._broken is None and not self._is_over and not self._control.is_stopping:
                self._end(self._boundary.while_polling(time.monotonic()))
        except ConnectError as error:
            self._broken = error
            self._control.wake()
        finally:
            self._turn.release()


class _Unit:
    """Implements SourceUnit: its offsets go into the transaction that its records are in."""

    __slots__ = ("_guarantee", "_positions", "_records", "refused", "written")

    def __init__(self, guarantee: ExactlyOnce, positions: Sequence[SourcePosition], records: int) -> None:
        self._guarantee = guarantee
        self._positions = positions
        self._records = records
        self.refused = guarantee._note_refused
        self.written = guarantee._note_written

    def handed_over(self) -> None:
        self._guarantee._note_handed_over(self._positions)

    def acknowledged(self) -> None:
        self._guarantee._note_acknowledged(self._records)

    def filtered(self, record: SourceRecord) -> None:
        self._guarantee._note_written(record, None)
