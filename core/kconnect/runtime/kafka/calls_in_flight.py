"""CallsInFlight: which calls of a BulkClient still have messages under way, by messages or by whole batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from kconnect.runtime.kafka.refusals import RefusedRecord

OnDelivery = Callable[[KafkaError, RefusedRecord], None]


@dataclass(slots=True, eq=False)
class _Call:
    """Messages of one call that have not ended; the last of them drops the callback."""

    on_delivery: OnDelivery | None
    number: int
    rows: int
    left: int
    before_and_after: deque[_Call] | None = field(repr=False)
    """All calls to the same partition, in their order; None where librdkafka chooses partitions."""


class CallsInFlight:
    """Counts messages of calls down, and drops a call's callback after its last.

    What a broker acknowledges at once is a piece of one partition, in order. Where the partition of each call is known,
    the place of a piece's first message and its length say what has ended, and no other message is looked at: 0.61 us
    of CPU a record instead of 0.70 (100 B, all threads, medians of 3). That holds while each piece begins where the one
    before it ended. Once one does not (a retry behind a change of leader, a refused message), all are looked at until
    nothing is in flight.
    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all below
        self._calls: dict[int, _Call] = {}
        self._last_number = 0
        self._by_partition: dict[tuple[str, int], deque[_Call]] = {}
        self._is_in_order = True

    @property
    def are_in_order(self) -> bool:
        """Whether ended_in_order() may be asked at all."""
        return self._is_in_order

    def begin(self, rows: int, on_delivery: OnDelivery, place: tuple[str, int] | None) -> int:
        """The number of a call that is about to be made; `place`: the topic and partition all its messages go to."""
        with self._lock:
            queue = None if place is None else self._by_partition.setdefault(place, deque())
            self._last_number += 1
            call = _Call(on_delivery, self._last_number, rows, rows, queue)
            self._calls[call.number] = call
            if queue is None:
                self._is_in_order = False
            else:
                queue.append(call)
            return call.number

    def on_delivery(self, number: int) -> OnDelivery:
        with self._lock:
            found = self._calls[number].on_delivery
        assert found is not None, "a call in flight has its callback"
        return found

    def ended(self, counts: Mapping[int, int]) -> None:
        """So many messages of these calls have ended, or were not taken: each was looked at."""
        done = []
        with self._lock:
            self._is_in_order = False
            for number, count in sorted(counts.items()):
                call = self._calls[number]
                call.left -= count
                if not call.left:
                    done.append(self._remove(call))
        _drop_callbacks(done)

    def ended_in_order(self, number: int, row: int, count: int) -> bool:
        """So many messages, from that row of that call on, were acknowledged together. False: look at each of them."""
        done = []
        with self._lock:
            taken = self._piece(number, row, count) if self._is_in_order else None
            if taken is None:
                self._is_in_order = False
                return False
            for call, some in taken:
                call.left -= some
                if not call.left:
                    done.append(self._remove(call))
        _drop_callbacks(done)
        return True

    def _piece(self, number: int, row: int, count: int) -> list[tuple[_Call, int]] | None:
        """How many messages of which calls these are; None when they are not the next of their partition."""
        first = self._calls.get(number)
        if first is None or first.before_and_after is None or first.before_and_after[0] is not first:
            return None
        if row != first.rows - first.left:
            return None
        taken = []
        for call in first.before_and_after:
            some = min(call.left, count)
            taken.append((call, some))
            count -= some
            if not count:
                return taken
        return None

    def _remove(self, call: _Call) -> _Call:
        del self._calls[call.number]
        if call.before_and_after is not None:
            call.before_and_after.remove(call)  # the first of them, but for refused messages
        if not self._calls:
            self._by_partition.clear()
            self._is_in_order = True
        return call


def _drop_callbacks(done: Iterable[_Call]) -> None:
    """In the order of the calls; a list that is cleared drops its last item first.

    Call without the lock: a callback's end may be what somebody waits for.
    """
    for call in done:
        call.on_delivery = None
