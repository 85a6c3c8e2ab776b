"""SinkOffsets and CommitTimer: which offsets of a sink may be committed, and when. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kconnect.model import TopicPartition


class SinkOffsets:
    """How far each partition of a sink task has been put, and how far it is committed.

    Offsets are those of the next record, as in Kafka. Nothing beyond what put() took is ever committed.
    Source: currentOffsets and lastCommittedOffsets of o.a.k.connect.runtime.WorkerSinkTask (Kafka 4.3).
    Differs: the answer to a commit is ignored for partitions that were revoked or rewound after it was sent; in
    Java a later rewind to the last commit can then skip records.
    """

    def __init__(self) -> None:
        self._taken: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._in_commit: dict[TopicPartition, int] = {}
        self._unknown: set[TopicPartition] = set()
        """Partitions that the task itself moved: the group does not know where they are."""

    def fetched(self, partition: TopicPartition, offset: int) -> None:
        """Records from `offset` on were fetched; for a new partition this is where a rewind returns to."""
        self._committed.setdefault(partition, offset)
        self._taken.setdefault(partition, offset)

    def put_done(self, after: Mapping[TopicPartition, int]) -> None:
        """put() took all records before these offsets."""
        self._taken.update(after)

    def moved_to(self, places: Mapping[TopicPartition, int], *, by_task: bool = False) -> None:
        """These partitions are now read from these offsets. `by_task`: it keeps them itself, and the group follows."""
        self.forget(places)
        if by_task:
            self._unknown.update(places)
        self._committed.update(places)
        self._taken.update(places)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are no longer ours."""
        for partition in partitions:
            self._taken.pop(partition, None)
            self._committed.pop(partition, None)
            self._in_commit.pop(partition, None)
            self._unknown.discard(partition)

    @property
    def taken(self) -> Mapping[TopicPartition, int]:
        """How far put() took each partition that had records. Not to be changed."""
        return self._taken

    def taken_of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._taken[partition] for partition in partitions if partition in self._taken}

    def committable(
        self, given: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], list[str]]:
        """The offsets from pre_commit() that may be committed, and a sentence for each that may not.

        Only partitions it was given, only offsets up to those it was given, and only news.
        """
        found, refused = {}, []
        for partition, offset in wanted.items():
            if partition not in given:
                refused.append(f"Ignoring the offset that the task returned for {partition}: it was not asked for")
            elif offset > given[partition]:
                refused.append(f"Ignoring offset {offset} of {partition}: only {given[partition]} was reached")
            elif offset != self._committed.get(partition) or partition in self._unknown:
                found[partition] = offset
        return found, refused

    def sent(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit of these offsets has been sent."""
        self._in_commit = dict(offsets)

    def answered(self, *, is_committed: bool) -> None:
        """The commit that was sent has been answered."""
        if is_committed:
            self.committed(self._in_commit)
        self._in_commit = {}

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group has these offsets."""
        self._committed.update(offsets)
        self._unknown.difference_update(offsets)

    def last_committed(self) -> dict[TopicPartition, int]:
        """Where all partitions rewind to when the task could not flush."""
        return dict(self._committed)

    def active(self) -> int:
        """The number of records put and not committed yet, counted by offsets."""
        return sum(taken - self._committed.get(place, taken) for place, taken in self._taken.items())


class CommitTimer:
    """When the next timed commit is due, and whether one is pending. Times are seconds of a monotonic clock."""

    def __init__(self, now_s: float, interval_s: float, timeout_s: float) -> None:
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._due_at_s = now_s + interval_s
        self._sent_at_s: float | None = None
        self.sequence = 0
        """The number of the last commit sent."""

    @property
    def is_waiting(self) -> bool:
        """A commit has been sent and not answered."""
        return self._sent_at_s is not None

    def until_due_s(self, now_s: float) -> float:
        """The time until a commit is due, or until the pending one times out."""
        if self._sent_at_s is not None:
            return max(self._sent_at_s + self._timeout_s - now_s, 0.0)
        return max(self._due_at_s - now_s, 0.0)

    def is_due(self, now_s: float) -> bool:
        return now_s >= self._due_at_s

    def restart(self, now_s: float) -> None:
        """A commit is attempted now; the next one is due an interval later."""
        self._due_at_s = now_s + self._interval_s

    def sent(self, now_s: float) -> int:
        """A commit has been sent; returns its number."""
        self._sent_at_s = now_s
        self.sequence += 1
        return self.sequence

    def gives_up(self, now_s: float) -> bool:
        """Whether the pending commit has timed out; it is no longer waited for. True once."""
        if self._sent_at_s is None or now_s - self._sent_at_s < self._timeout_s:
            return False
        self._sent_at_s = None
        return True

    def answered(self, number: int) -> bool:
        """The commit with this number was answered; False when a newer one has been sent since."""
        if number != self.sequence:
            return False
        self._sent_at_s = None
        return True
