"""How at-least-once and exactly-once delivery differ: when source offsets may be committed.

`at_least_once` and `exactly_once` implement it; `source` is the loop that calls it, `sending` reports each unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from kconnect.api import SourceRecord
from kconnect.runtime.kafka import DeliveryFailure, WrittenRecord
from kconnect.runtime.pipeline.inflight import SourcePosition
from kconnect.runtime.pipeline.polled import Polled, PolledPart


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
