"""PutQueue: batches that a sink has fetched and put() has not taken yet. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from kconnect.logs.wording import pluralize
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.sink_puts import Put, RecordsPut

# So many small batches Java is given before it has put the first of them; of large ones, one. Records of 100 bytes a
# second to a file: with two 550,000, with one 490,000, with three 515,000
_MOST_BATCHES: Final = 2
_MOST_BYTES: Final = 1 << 20


@dataclass(slots=True)
class PutBatch:
    """What one put() takes, and the offsets of its partitions afterwards."""

    payload: Put
    first: dict[TopicPartition, int]
    after: dict[TopicPartition, int]
    """The offset after its last record, by partition, counting records dropped on the way."""

    def has(self, place: TopicPartition, offset: int) -> bool:
        """Whether it is of this place."""
        return place in self.after and self.first[place] <= offset < self.after[place]

    def __str__(self) -> str:
        spans = [f"{place} {self.first[place]} to {after - 1}" for place, after in self.after.items()]
        more = f" and of {pluralize(len(spans) - 3, 'more partition')}" if len(spans) > 3 else ""
        return ", ".join(spans[:3]) + more


_NOTHING = PutBatch(RecordsPut([]), {}, {})


class PutQueue:
    """Batches in fetch order; the head stays until put() takes it or its partitions are gone.

    Times are seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._batches: deque[PutBatch] = deque()
        self._retry_at_s: float | None = None

    @property
    def head(self) -> PutBatch:
        """What put() is given next; an empty batch when nothing is queued, so that a task can do timed work."""
        return self._batches[0] if self._batches else _NOTHING

    @property
    def is_retrying(self) -> bool:
        """The last put() raised RetriableError and has not been repeated yet."""
        return self._retry_at_s is not None

    @property
    def is_under_way(self) -> bool:
        """Java converts and puts the head, or has done so: its answer has not been taken."""
        return self.head.payload.is_under_way

    @property
    def is_ahead(self) -> bool:
        """Java has as much before it as it should: the next batch is not fetched before it has put the head."""
        sizes = [batch.payload.size for batch in self._batches]
        return len(sizes) > (_MOST_BATCHES if sum(sizes) < _MOST_BYTES else 1)

    def __len__(self) -> int:
        return len(self._batches)

    def wait_s(self, now_s: float) -> float:
        """How long the next put() must wait; 0 unless it is a retry."""
        return 0.0 if self._retry_at_s is None else max(self._retry_at_s - now_s, 0.0)

    def records(self) -> int:
        return sum(len(batch.payload) for batch in self._batches)

    def first_of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record that is queued, of those partitions that have one."""
        found: dict[TopicPartition, int] = {}
        for batch in self._batches:
            for place in batch.after.keys() & set(partitions):
                found.setdefault(place, batch.first[place])
        return found

    def add(self, batches: Iterable[PutBatch]) -> None:
        """Append what one fetch returned."""
        self._batches.extend(_joined(batches))

    def taken(self) -> None:
        """put() took the head."""
        self._retry_at_s = None
        if self._batches:
            self._batches.popleft()

    def retry_at(self, at_s: float) -> None:
        """put() did not take the head; call it again at this time."""
        self._retry_at_s = at_s

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Remove everything of these partitions."""
        if not self._batches:
            return
        self._batches = _without(self._batches, set(partitions))
        if not self._batches:
            self._retry_at_s = None


def _joined(batches: Iterable[PutBatch]) -> list[PutBatch]:
    found: list[PutBatch] = []
    for batch in batches:
        last = found[-1] if found else None
        if last is not None and last.payload.join(batch.payload):
            last.first = {**batch.first, **last.first}
            last.after.update(batch.after)
        else:
            found.append(batch)
    return found


def _without(batches: Iterable[PutBatch], gone: set[TopicPartition]) -> deque[PutBatch]:
    kept: deque[PutBatch] = deque()
    for batch in batches:
        touched = batch.after.keys() & gone
        if touched:
            batch.payload.drop(touched)
        for partition in touched:
            del batch.after[partition]
        if batch.after:
            kept.append(batch)
    return kept
