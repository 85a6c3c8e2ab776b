"""Which record of the status topic is in force for one connector or task, whatever their order in the topic. Pure.

A worker that was frozen, cut off, or whose broker was away may write late: its record stands behind that of the worker
which has taken its work over. Every record carries the generation of the worker group in which it was made. The rule:

1. A tombstone ends all that stands before it.
2. Of what stands behind it, the record of the newest generation is in force, wherever it stands; of one generation the
   last one, unless it is UNASSIGNED of one worker and covers RUNNING of another (KAFKA-12525).
3. A group counts from 1 again once all workers have left it and the broker has forgotten it. A worker knows that: what
   it had read before it joined, of a generation beyond that of the group, is of a former life of the group, and older
   than all that follows. Who only reads the topic takes it from the records: a worker never goes back by itself, so
   when it says of a connector or task that it runs, in an older generation than it did before, that is a new life.
   Where workers have other names since, the one that has the work assigned is in force.

Source: KafkaStatusBackingStore#onStatusRead (Kafka 4.3). Differs: Java takes the last record, and has the exception of
rule 2 for tasks alone. So the worker in force also writes its status again when a late one covers it (`ClusterStatus`):
then all readers agree, and workers before it are right as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from kconnect.model import RunState
from kconnect.storage.status_topic import StoredStatus

# Records of generations that go down: one for each worker that wrote late. More are of lives of the group long ago
_MOST_KEPT = 8


@dataclass(slots=True)
class _Kept:
    status: StoredStatus
    is_former: bool = False
    """Of a former life of the group."""


class StatusRecords:
    """The records of one connector or task since its last tombstone. Threads: one at a time."""

    __slots__ = ("_kept", "last")

    def __init__(self) -> None:
        self.last: StoredStatus | None = None
        """The last one in the topic, in force or not: what other readers may take for true."""
        self._kept: list[_Kept] = []  # in the order of the topic; generations go down, else it would not be kept

    def add(self, status: StoredStatus) -> None:
        """Take in what stands next in the topic."""
        self.last = status
        if any(_is_kept_from(kept.status, status) for kept in self._kept if not kept.is_former):
            return
        self._kept = [kept for kept in self._kept if _outlasts(kept.status, status)][-_MOST_KEPT:]
        self._kept.append(_Kept(status))

    def take_generation(self, generation: int) -> None:
        """The reader has joined the group in this generation: what it knows of later ones is of a former life."""
        for kept in self._kept:
            kept.is_former = kept.status.generation > generation

    def in_force(self, owner: str | None = None) -> StoredStatus | None:
        """What is true, None before the first record. `owner`: the worker that is known to have the work now."""
        if not self._kept:
            return None
        if owner is not None:
            of_owner = [kept.status for kept in self._kept if kept.status.worker_id == owner]
            if of_owner:
                return of_owner[-1]
        return next((kept.status for kept in self._kept if not kept.is_former), self._kept[0].status)

    @property
    def is_doubtful(self) -> bool:
        """Whether a record of an older generation stands behind one of a newer generation."""
        return len(self._kept) > 1

    def is_beyond(self, generation: int) -> bool:
        """Whether something was written in a newer generation than this one, in this life of the group."""
        return any(kept.status.generation > generation and not kept.is_former for kept in self._kept)

    def newer_of_another(self, status: StoredStatus) -> StoredStatus | None:
        """What another worker has written in a newer generation than this status has, in this life of the group."""
        for kept in self._kept:
            is_newer = kept.status.generation > status.generation and not kept.is_former
            if is_newer and kept.status.worker_id != status.worker_id:
                return kept.status
        return None


def _outlasts(old: StoredStatus, new: StoredStatus) -> bool:
    """Whether a record stays beside one that stands behind it."""
    if old.generation <= new.generation:
        return False
    return old.worker_id != new.worker_id or new.state is RunState.UNASSIGNED


def _is_kept_from(old: StoredStatus, new: StoredStatus) -> bool:
    """A worker that gave work up before it read that another one runs it: it runs (KAFKA-12525)."""
    return (
        new.state is RunState.UNASSIGNED
        and old.state is RunState.RUNNING
        and old.generation == new.generation
        and old.worker_id != new.worker_id
    )
