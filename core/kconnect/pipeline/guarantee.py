"""What at least once and exactly once differ in: when the source offsets of what was polled count.

`at_least_once` and `exactly_once` implement it; `source` is the loop that asks, `sending` tells what became of a unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from kconnect.api import RecordBatch, SourceRecord
from kconnect.kafka import DeliveryFailure, WrittenRecord
from kconnect.pipeline.inflight import SourcePosition

Polled = list[SourceRecord] | RecordBatch


class SourceUnit(Protocol):
    """Records that count together: what one poll gave, or a single record of a task that wants commit_record()."""

    def handed_over(self) -> None:
        """All of it is with the producer. Threads: the task's."""
        ...

    def acknowledged(self) -> None:
        """All of it was handed over, and Kafka has it. Threads: any."""
        ...

    def refused(self, failure: DeliveryFailure) -> bool:
        """A record of it was refused for good; says whether that is tolerated. Threads: any."""
        ...

    def written(self, record: SourceRecord, place: WrittenRecord | None) -> None:
        """What became of one record, of a task that wants to know: None when it was refused. Threads: any."""
        ...

    def filtered(self, record: SourceRecord) -> None:
        """A transformation left this record out, of a task that wants to know. Threads: the task's."""
        ...


class DeliveryGuarantee(Protocol):
    """Asked along the way of a source loop, in the order of the methods here. Threads: the task's."""

    sends_before_failure: bool
    """Whether the records before the one that fails the task are still to be sent, so that a restart begins there."""

    @property
    def has_refused(self) -> bool:
        """A record was refused for good, and the next settle() raises: nobody needs to wait. Threads: any."""
        ...

    def claim(self) -> bool:
        """Before the plugin starts; False when the task is to stop before it may. Errors: ConnectError."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Around the loop. Its end makes count what may count: after an error too, unless the task is fenced off."""
        ...

    def pausing(self) -> None:
        """The task is about to pause."""
        ...

    def settle(self) -> None:
        """Take in what Kafka acknowledged or refused, and call the task's hooks that are due.

        Errors: ConnectError for the first record that was refused and is not tolerated.
        """
        ...

    def polling(self) -> AbstractContextManager[None]:
        """Around poll(), which may wait for as long as it likes."""
        ...

    def parts(self, polled: Polled | None) -> Iterable[Polled]:
        """What is to be sent of a poll, in order. Ask for the next part only when one is with the producer."""
        ...

    def begin_unit(self, positions: Sequence[SourcePosition], records: int) -> SourceUnit:
        """So many records are about to be sent; `positions` is where their source partitions stand after them."""
        ...
