"""Which record of the status topic is in effect for a connector or task, whatever their order in the topic. Pure.

A worker that was frozen, disconnected, or whose broker was away may write late: its record then follows that of the
worker that took over its work. Every record carries the generation of the worker group it was made in. The rules:

1. A tombstone cancels everything before it.
2. After it, the record of the newest generation is in effect, wherever it stands; within one generation the last one,
   unless it is UNASSIGNED from one worker and follows RUNNING from another (KAFKA-12525).
3. A group counts from 1 again once all workers have left it and the broker has forgotten it. A worker knows that: what
   it had read before it joined, of a generation beyond that of the group, is of a former life of the group, and older
   than all that follows. Who only reads the topic takes it from the records: a worker never goes back by itself, so
   when it says of a connector or task that it runs, in an older generation than it did before, that is a new life.
   Where workers have other names since, the one that has the work assigned is in force.

Source: KafkaStatusBackingStore#onStatusRead (Kafka 4.3). Differs: Java takes the last record, and applies the
exception in rule 2 to tasks only. So the current owner also rewrites its status when a late one follows it
(`ClusterStatus`): then all readers agree, Java workers included.
"""

from __future__ import annotations

from dataclasses import dataclass

from kconnect.model import RunState
from kconnect.runtime.storage.status_topic import StoredStatus

# Records of decreasing generations: one per worker that wrote late. More come from earlier incarnations of the group
_MOST_KEPT = 8


@dataclass(slots=True)
class _Kept:
    status: StoredStatus
    is_former: bool = False
    """Written in an earlier incarnation of the group."""


class StatusRecords:
    """The records of one connector or task since its last tombstone. Threads: one at a time."""

    __slots__ = ("_kept", "last")

    def __init__(self) -> None:
        self.last: StoredStatus | None = None
        """The last one in the topic, in effect or not: what other readers may take as current."""
        self._kept: list[_Kept] = []  # in topic order, with decreasing generations: others are dropped

    def add(self, status: StoredStatus) -> None:
        """Add the next record of the topic."""
        self.last = status
        if any(_is_kept_from(kept.status, status) for kept in self._kept if not kept.is_former):
            return
        self._kept = [kept for kept in self._kept if _outlasts(kept.status, status)][-_MOST_KEPT:]
        self._kept.append(_Kept(status))

    def take_generation(self, generation: int) -> None:
        """Note that the reader joined the group in this generation: later ones belong to an earlier incarnation."""
        for kept in self._kept:
            kept.is_former = kept.status.generation > generation

    def in_force(self, owner: str | None = None) -> StoredStatus | None:
        """The status in effect, None before the first record. `owner`: the worker known to own it now."""
        if not self._kept:
            return None
        if owner is not None:
            of_owner = [kept.status for kept in self._kept if kept.status.worker_id == owner]
            if of_owner:
                return of_owner[-1]
        return next((kept.status for kept in self._kept if not kept.is_former), self._kept[0].status)

    @property
    def is_doubtful(self) -> bool:
        """Whether a record of an older generation follows one of a newer generation."""
        return len(self._kept) > 1

    def is_beyond(self, generation: int) -> bool:
        """Whether a newer generation has written since, within the current incarnation of the group."""
        return any(kept.status.generation > generation and not kept.is_former for kept in self._kept)

    def newer_of_another(self, status: StoredStatus) -> StoredStatus | None:
        """The status that another worker has written in a newer generation, within the current incarnation."""
        for kept in self._kept:
            is_newer = kept.status.generation > status.generation and not kept.is_former
            if is_newer and kept.status.worker_id != status.worker_id:
                return kept.status
        return None


def _outlasts(old: StoredStatus, new: StoredStatus) -> bool:
    """Whether to keep a record when another one follows it."""
    if old.generation <= new.generation:
        return False
    return old.worker_id != new.worker_id or new.state is RunState.UNASSIGNED


def _is_kept_from(old: StoredStatus, new: StoredStatus) -> bool:
    """Whether this is UNASSIGNED from a worker that had not yet read that another runs it (KAFKA-12525)."""
    return (
        new.state is RunState.UNASSIGNED
        and old.state is RunState.RUNNING
        and old.generation == new.generation
        and old.worker_id != new.worker_id
    )
