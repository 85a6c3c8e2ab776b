"""FlushPlan: the rows that wait for a table's next commit or for an object, and when that is due. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kconnect.api import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FlushLimits:
    """When what waits is written: after so many rows or bytes (in memory), or that long after the oldest of them."""

    rows: int
    bytes: int
    seconds: float

    def are_reached(self, rows: int, size: int) -> bool:
        """Whether these numbers of rows and bytes are enough to write them."""
        return rows >= self.rows or size >= self.bytes

    def due_in_s(self, since_s: float, now_s: float) -> float:
        """How long rows that wait since then may go on waiting; 0 when they may not."""
        return max(since_s + self.seconds - now_s, 0.0)


@dataclass(slots=True)
class Waiting:
    """The records of one partition that wait, as batches in order. Tombstones and records left out count as none."""

    start: int
    stop: int
    since_s: float
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


def due_plans(plans: Sequence[FlushPlan], limits: FlushLimits, now_s: float) -> list[FlushPlan]:
    """What to write now: plans that are due, and the largest ones until all that wait fit into the limit of bytes."""
    due = [plan for plan in plans if plan.is_due(now_s)]
    others = sorted((plan for plan in plans if plan not in due and plan.bytes), key=lambda plan: plan.bytes)
    waiting = sum(plan.bytes for plan in others)
    while others and waiting >= limits.bytes:
        largest = others.pop()
        waiting -= largest.bytes
        due.append(largest)
    return due


class FlushPlan:
    """Records of one table that wait, by partition. Times are seconds of a monotonic clock."""

    def __init__(self, limits: FlushLimits) -> None:
        self._limits = limits
        self._waiting: dict[TopicPartition, Waiting] = {}

    @property
    def bytes(self) -> int:
        return sum(waiting.bytes for waiting in self._waiting.values())

    def add(self, at: TopicPartition, batch: pa.RecordBatch | None, start: int, stop: int, now_s: float) -> None:
        """Records of a partition from `start` up to before `stop`, of which `batch` has the rows (None: no rows)."""
        waiting = self._waiting.get(at)
        if waiting is None:
            if batch is None or not len(batch):
                return  # nothing to write: the consumer group alone moves on
            waiting = self._waiting[at] = Waiting(start, stop, now_s)
        waiting.stop = stop
        if batch is not None and len(batch):
            waiting.batches.append(batch)
            waiting.rows += len(batch)
            waiting.bytes += batch.nbytes

    def is_due(self, now_s: float) -> bool:
        """Whether to write now."""
        rows = sum(one.rows for one in self._waiting.values())
        return bool(self._waiting) and (self._limits.are_reached(rows, self.bytes) or self.due_in_s(now_s) == 0)

    def due_in_s(self, now_s: float) -> float | None:
        """How long until it is due by time; None when nothing waits."""
        if not self._waiting:
            return None
        return self._limits.due_in_s(min(one.since_s for one in self._waiting.values()), now_s)

    def start(self, at: TopicPartition) -> int | None:
        """The first offset of a partition that waits; None when nothing of it does."""
        waiting = self._waiting.get(at)
        return None if waiting is None else waiting.start

    def waits(self, at: TopicPartition) -> bool:
        """Whether records of this partition wait."""
        return at in self._waiting

    def commits(
        self, *, joins_partitions: bool, only: Collection[TopicPartition] | None = None
    ) -> list[dict[TopicPartition, Waiting]]:
        """What waits, of all partitions or of these alone, as one commit for all or one for each."""
        found = {at: waiting for at, waiting in self._waiting.items() if only is None or at in only}
        if not found:
            return []
        return [found] if joins_partitions else [{at: waiting} for at, waiting in found.items()]

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """These are in the table, or no longer ours."""
        for at in partitions:
            self._waiting.pop(at, None)
