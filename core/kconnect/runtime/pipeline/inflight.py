"""Which source offsets may be committed: those with nothing unacknowledged before them in their partition."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kconnect.errors import DataError
from kconnect.model import ConnectorOffset

PartitionKey = frozenset[tuple[str, Any]]
SourcePosition = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""A source partition and the offset to resume after in it."""


class Unit:
    """What one poll returned, or a part of it, on its way to Kafka. `ack()`, from any thread, settles all of it."""

    __slots__ = ("is_acked", "poll")

    def __init__(self, poll: int) -> None:
        self.is_acked = False
        self.poll = poll

    def ack(self) -> None:
        self.is_acked = True


@dataclass(slots=True)
class _Lane:
    """One source partition: units in the order they were polled, and the offset that may be committed."""

    partition: Mapping[str, Any]
    waiting: deque[tuple[Unit, Mapping[str, Any] | None]] = field(default_factory=deque)
    settled: Mapping[str, Any] | None = None
    has_progress: bool = False

    def settle(self, whole: int) -> None:
        waiting = self.waiting
        while waiting and waiting[0][0].is_acked and waiting[0][0].poll <= whole:
            unit, offset = waiting.popleft()
            if not waiting or waiting[0][0].poll != unit.poll or waiting[0][1] != offset:
                self.settled = offset
                self.has_progress = True


class InFlight:
    """Units between poll() and the broker's acknowledgement, by source partition.

    A unit is settled as a whole; an offset is committable when its unit and all earlier ones of its partition are.
    Several units of one poll may have the same offset: it waits for all of them, and for those still to be submitted.
    A unit emptied by a transformation is submitted and acked at once, so that its offset advances in order.
    Threads: submit() from the task thread, ack() of a unit from any, committable() from the committer's.
    Source: o.a.k.connect.runtime.SubmittedRecords (Kafka 4.3).
    Differs: Java tracks each record; here the list or batch of one poll is the unit. After a crash a few more records
    of a half acknowledged batch are sent again; a record that fails the task ends its unit before itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows and what is in it; never held over a callback
        self._lanes: dict[PartitionKey, _Lane] = {}
        self._poll = 0  # units belong to the poll of this number
        self._whole = 0  # the last poll of which all units were submitted

    def begin_poll(self) -> None:
        """Units from now on are one poll's: no offset of theirs is committable before `end_poll`."""
        with self._lock:
            self._poll = self._whole + 1

    def end_poll(self) -> None:
        """All units of the poll were submitted. Idempotent."""
        with self._lock:
            self._whole = self._poll

    def submit(self, positions: Sequence[SourcePosition]) -> Unit:
        """Register a unit with the last offset it reaches in each source partition, in poll order.

        Errors: DataError for a source partition that is not a flat mapping.
        """
        with self._lock:
            unit = Unit(self._poll)
            for partition, offset in positions:
                key = partition_key(partition)
                lane = self._lanes.get(key)
                if lane is None:
                    lane = self._lanes[key] = _Lane(partition)
                lane.settle(self._whole)  # keeps a lane short between commits, however many polls there are
                lane.waiting.append((unit, offset))
        return unit

    def committable(self) -> list[ConnectorOffset]:
        """Offsets that have become committable since the last call; one for each partition with progress."""
        return self.progress()[0]

    def progress(self) -> tuple[list[ConnectorOffset], set[PartitionKey]]:
        """What `committable` gives, and the partitions that have unacknowledged records at the same moment."""
        found = []
        with self._lock:
            for key, lane in list(self._lanes.items()):
                lane.settle(self._whole)
                if lane.has_progress:
                    found.append(ConnectorOffset(lane.partition, lane.settled))
                    lane.has_progress = False
                if not lane.waiting:
                    del self._lanes[key]  # partitions come and go (files, tables): only live ones are kept
            return found, set(self._lanes)

    def waiting_units(self) -> int:
        """The number of unsettled units, counted once for each source partition they touch."""
        with self._lock:
            return sum(not unit.is_acked for lane in self._lanes.values() for unit, _ in lane.waiting)


def partition_key(partition: Mapping[str, Any]) -> PartitionKey:
    """The partition as a key: equal whatever the order of its fields. Errors: DataError for nested values."""
    try:
        return frozenset(partition.items())
    except TypeError as error:
        raise DataError(
            f"The source partition {dict(partition)!r} contains a nested value",
            hint="Use only numbers, strings, booleans and None: offsets cannot store anything else.",
        ) from error
