"""MemoryConsumer: the consumer of a sink loop without a broker; its owner says when partitions come and go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from kconnect.errors import ConnectError, TimedOutError
from kconnect.model import TopicPartition
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import Behind, ConsumedRun, RebalanceListener

__all__ = ["CommitMode", "MemoryConsumer", "MemoryPartitions"]

CommitMode = str
"""What becomes of commits: `ok`, `refused` (as the answer), `raised` (at once), `silent` (no answer until reported)."""


@dataclass
class MemoryPartitions:
    """What a broker keeps while consumers come and go: the records, and the group's offsets."""

    logs: dict[TopicPartition, list[bytes]]
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    on_commit: Callable[[Mapping[TopicPartition, int]], None] = lambda offsets: None
    """Called with each commit when it is sent; for what a test wants to hold true then."""


@dataclass
class _Commit:
    offsets: dict[TopicPartition, int]
    done: Callable[[ConnectError | None], None]
    mode: CommitMode


class MemoryConsumer:
    """Implements SinkConsumer. `step` is called in each fetch, before records are given: there rebalances happen.

    `moved` is reported where a partition is read from after it was assigned, or sought.
    """

    def __init__(
        self,
        kafka: MemoryPartitions,
        step: Callable[[], None],
        *,
        moved: Callable[[TopicPartition, int, bool], None] = lambda partition, offset, is_seek: None,
        passes: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._kafka = kafka
        self._step = step
        self._moved = moved
        self._passes = passes
        self.commit_mode: CommitMode = "ok"
        self.paused: set[TopicPartition] = set()
        self.is_closed = False
        self.come_at_the_end: list[TopicPartition] = []
        """The group gave these while nothing was fetched: close() meets them, and gives them back."""
        self.waits: list[float] = []
        """How long each fetch was to wait."""
        self._positions: dict[TopicPartition, int] = {}
        self._listener: RebalanceListener | None = None
        self._lost: set[TopicPartition] = set()
        self._raised: BaseException | None = None
        self._pending: list[_Commit] = []

    # --- what the owner does, from within `step` ---

    def assign(self, *partitions: TopicPartition) -> None:
        new = [partition for partition in partitions if partition not in self._positions]
        begin: Mapping[TopicPartition, int] = {}
        try:
            begin = self._listening.assigned(new)
        except Exception as error:  # as the real one: fetch() raises it
            self._raised = self._raised or error
        for partition in new:
            self._positions[partition] = begin.get(partition, self._kafka.committed.get(partition, 0))
            self._moved(partition, self._positions[partition], False)
        self.paused.difference_update(new)
        self.paused.update(self._listening.to_pause(new))

    def revoke(self, *partitions: TopicPartition) -> None:
        self._take(partitions, self._listening.revoked)

    def lose(self, *partitions: TopicPartition) -> None:
        """Somebody else has them already."""
        self._lost.update(partitions)
        self._take(partitions, self._listening.lost)
        self._lost.clear()

    def answer(self) -> None:
        """Commits without an answer get theirs."""
        while self._pending:
            self.answer_first()

    def answer_first(self) -> None:
        """The oldest commit without an answer gets its own."""
        if self._pending:
            commit = self._pending.pop(0)
            if commit.mode == "refused":
                commit.done(ConnectError("refused"))
            else:
                self._kafka.committed.update(commit.offsets)
                commit.done(None)

    # --- SinkConsumer ---

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self._positions)

    def subscribe(self, topics: Sequence[str] | TopicPattern, listener: RebalanceListener) -> None:
        self._listener = listener

    def fetch(self, max_records: int, timeout_s: float) -> list[ConsumedRun]:
        assert not self.is_closed
        self.waits.append(timeout_s)
        self._step()
        if any(commit.mode != "silent" for commit in self._pending):
            self.answer()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        first: list[ConsumedRun] = []
        second: list[ConsumedRun] = []
        room = max_records
        for partition in sorted(self.assignment - self.paused, key=str):
            start, log = self._positions[partition], self._kafka.logs[partition]
            values = log[start : start + room]
            room -= len(values)
            self._positions[partition] = start + len(values)
            half = (len(values) + 1) // 2  # as the client gives a partition's records: in blocks
            first += _runs(partition, start, values[:half])
            second += _runs(partition, start + half, values[half:])
        runs = first + second
        if not runs:
            self._passes(timeout_s)
        return runs

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert partition in self._positions, "librdkafka refuses this"
        self._positions[partition] = offset
        self._moved(partition, offset, True)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.update(self.assignment.intersection(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.difference_update(partitions)

    def behind(self, positions: Mapping[TopicPartition, int]) -> Behind:
        lags = [len(self._kafka.logs[partition]) - offset for partition, offset in positions.items()]
        return Behind(sum(lags), max(lags, default=0))

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self._look_at(offsets)
        if self.commit_mode == "silent":
            raise TimedOutError("not committed in time")
        if self.commit_mode != "ok":
            raise ConnectError(self.commit_mode)
        self._kafka.committed.update(offsets)

    def commit_async(self, offsets: Mapping[TopicPartition, int], done: Callable[[ConnectError | None], None]) -> None:
        self._look_at(offsets)
        if self.commit_mode == "raised":
            raise ConnectError("raised")
        self._pending.append(_Commit(dict(offsets), done, self.commit_mode))

    def close(self) -> None:
        if not self.is_closed and self.come_at_the_end:
            self.assign(*self.come_at_the_end)
        if not self.is_closed and self._positions and self._listener is not None:
            self.revoke(*self._positions)
        self.is_closed = True

    # --- inside ---

    def _look_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert offsets.keys() <= self.assignment - self._lost, "the broker fences commits of what is not ours"
        self._kafka.on_commit(offsets)

    @property
    def _listening(self) -> RebalanceListener:
        assert self._listener is not None, "subscribe() comes first"
        return self._listener

    def _take(
        self, partitions: Collection[TopicPartition], reported: Callable[[Sequence[TopicPartition]], None]
    ) -> None:
        ours = [partition for partition in partitions if partition in self._positions]
        try:
            reported(ours)
        except Exception as error:  # as in assign
            self._raised = self._raised or error
        for partition in ours:
            del self._positions[partition]
            for commit in self._pending:  # the broker does not take it any more
                commit.offsets.pop(partition, None)
        self.paused.difference_update(ours)


def _runs(partition: TopicPartition, start: int, values: Sequence[bytes]) -> list[ConsumedRun]:
    messages = [
        Message(
            topic=partition.topic, partition=partition.partition, offset=start + index, value=value, timestamp=(1, 0)
        )
        for index, value in enumerate(values)
    ]
    return [ConsumedRun(partition.topic, partition.partition, messages)] if messages else []
