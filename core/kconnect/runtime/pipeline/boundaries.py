"""Where the transactions of an exactly-once source end: pure rules, one class for each `transaction.boundary`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from kconnect.api import SourceRecord, TransactionBoundary
from kconnect.errors import ConnectError
from kconnect.runtime.pipeline.polled import Polled, PolledPart, PolledRecords


class Ending(Enum):
    """How a transaction ends. ABORT discards its records; the offsets of everything polled are still committed."""

    COMMIT = "commit"
    ABORT = "abort"


Part = tuple[PolledPart, Ending | None]
"""Consecutive records of a poll, and how the transaction ends after the last of them."""


class Boundary(Protocol):
    """When a transaction ends; asked by the source loop in this order. Times are seconds of a monotonic clock.

    Source: ExactlyOnceWorkerSourceTask.TransactionBoundaryManager (Kafka 4.3).
    """

    def begin(self, now_s: float) -> None:
        """The loop starts."""
        ...

    def parts(self, polled: Polled) -> list[Part]:
        """The records of a poll, split where a transaction ends between them, and where their form changes."""
        ...

    def after_poll(self, now_s: float, *, gave_records: bool) -> Ending | None:
        """A poll is done, and the producer has everything it returned."""
        ...

    def while_polling(self, now_s: float) -> Ending | None:
        """Called from time to time while a poll blocks."""
        ...

    def at_end(self, now_s: float) -> Ending | None:
        """The task is about to pause, or to stop as requested."""
        ...


class PollBoundary:
    """One transaction for each poll that returned records."""

    def begin(self, now_s: float) -> None: ...

    def parts(self, polled: Polled) -> list[Part]:
        return [(part, None) for part in polled.parts]

    def after_poll(self, now_s: float, *, gave_records: bool) -> Ending | None:
        return Ending.COMMIT if gave_records else None

    def while_polling(self, now_s: float) -> Ending | None:
        return None

    def at_end(self, now_s: float) -> Ending | None:
        return Ending.COMMIT


class IntervalBoundary:
    """One transaction per interval.

    Differs: Java checks its clock only when a poll returned records, so records of a source that then falls
    silent stay uncommitted until the broker aborts them.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last_s = 0.0

    def begin(self, now_s: float) -> None:
        self._last_s = now_s

    def parts(self, polled: Polled) -> list[Part]:
        return [(part, None) for part in polled.parts]

    def after_poll(self, now_s: float, *, gave_records: bool) -> Ending | None:
        if now_s < self._last_s + self._interval_s:
            return None
        self._last_s = now_s
        return Ending.COMMIT

    def while_polling(self, now_s: float) -> Ending | None:
        return self.after_poll(now_s, gave_records=False)

    def at_end(self, now_s: float) -> Ending | None:
        return Ending.COMMIT


class ConnectorBoundary:
    """Transactions as the task requests them (see `TransactionRequests`); nothing else is ever committed."""

    def __init__(self, requests: TransactionRequests) -> None:
        self._requests = requests

    def begin(self, now_s: float) -> None: ...

    def parts(self, polled: Polled) -> list[Part]:
        if not self._requests.has_records:
            return [(part, None) for part in polled.parts]
        return [cut for part in polled.parts for cut in self._cut(part)]

    def _cut(self, part: PolledPart) -> list[Part]:
        records, start = part.records(), 0
        cuts: list[Part] = []
        for index, ending in self._requests.take_records(records, are_copies=part.makes_records):
            cuts.append((PolledRecords(records[start : index + 1]), ending))
            start = index + 1
        if start == 0:
            return [(part, None)]
        return [*cuts, (PolledRecords(records[start:]), None)] if start < len(records) else cuts

    def after_poll(self, now_s: float, *, gave_records: bool) -> Ending | None:
        return self._requests.take()

    def while_polling(self, now_s: float) -> Ending | None:
        return None

    def at_end(self, now_s: float) -> Ending | None:
        return self._requests.take()


class TransactionRequests:
    """What a task asked of its transactions. Implements kconnect.api.TransactionContext. Threads: any.

    Contradictory requests fail the task when they are read, so the task cannot swallow the error.
    Source: WorkerTransactionContext (Kafka 4.3).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._polls: set[Ending] = set()
        self._records: dict[int, tuple[SourceRecord, set[Ending]]] = {}  # by id(), which the record kept here keeps

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(Ending.COMMIT, record)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(Ending.ABORT, record)

    def _ask(self, ending: Ending, record: SourceRecord | None) -> None:
        with self._lock:
            if record is None:
                self._polls.add(ending)
            else:
                self._records.setdefault(id(record), (record, set()))[1].add(ending)

    @property
    def has_records(self) -> bool:
        return bool(self._records)

    def take(self) -> Ending | None:
        """How the transaction ends after a poll; given once. Errors: ConnectError when the task asked for both."""
        with self._lock:
            asked, self._polls = self._polls, set()
        if len(asked) > 1:
            raise ConnectError("Connector requested both commit and abort of same transaction")
        return asked.pop() if asked else None

    def take_records(self, records: Sequence[SourceRecord], *, are_copies: bool) -> list[tuple[int, Ending]]:
        """After which of these records the transaction ends, and how, in order; each is given once.

        `are_copies`: the task has never seen these objects (they were made from its batch), so they match by equality.
        Errors: ConnectError when the task asked for both on one record.
        """
        with self._lock:
            found = {index: self._records.pop(id(record)) for index, record in enumerate(records) if self._has(record)}
            for asked, endings in list(self._records.values()) if are_copies else ():
                index = next((index for index, record in enumerate(records) if _is_equal(asked, record)), None)
                if index is not None:
                    found.setdefault(index, (asked, set()))[1].update(endings)
                    del self._records[id(asked)]
        return [(index, _only(*found[index])) for index in sorted(found)]

    def _has(self, record: SourceRecord) -> bool:
        return id(record) in self._records


def _only(record: SourceRecord, asked: set[Ending]) -> Ending:
    if len(asked) > 1:
        raise ConnectError(
            "Connector requested both commit and abort of same record against topic/partition "
            f"{record.topic}/{record.kafka_partition}"
        )
    return next(iter(asked))


def _is_equal(asked: SourceRecord, polled: SourceRecord) -> bool:
    """Compares offsets first: they are cheap to compare and nearly always differ."""
    return (
        asked.source_offset == polled.source_offset
        and asked.source_partition == polled.source_partition
        and asked == polled
    )


def boundary_of(kind: TransactionBoundary, interval_s: float, requests: TransactionRequests | None) -> Boundary:
    """The rules for a setting. CONNECTOR requires `requests`. Errors: ValueError without it."""
    if kind is TransactionBoundary.POLL:
        return PollBoundary()
    if kind is TransactionBoundary.INTERVAL:
        return IntervalBoundary(interval_s)
    if requests is None:
        raise ValueError("transaction.boundary=connector needs the requests of its task")
    return ConnectorBoundary(requests)
