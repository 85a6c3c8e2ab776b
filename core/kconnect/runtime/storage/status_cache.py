"""The statuses of a cluster as read from the status topic, and the rules of who may overwrite them. Pure: no topic.

A worker that was frozen, disconnected, or whose broker was away may write late: its record then follows that of the
worker that took over its work. Every record carries the generation of the worker group it was made in. The rules:

1. A tombstone cancels everything before it; that of a connector what was read of its tasks, too. Records of these stay
   in the topic where no tombstone of their own follows them, in another partition perhaps: whoever deletes has to know.
2. After it, the record of the newest generation is in effect, wherever it stands; within one generation the last one,
   unless it is UNASSIGNED from one worker and follows RUNNING from another (KAFKA-12525).
3. A group counts from 1 again once all workers have left it and the broker has forgotten it. A worker knows that: what
   it had read before it joined, of a generation beyond that of the group, is of a former life of the group, and older
   than all that follows. Who only reads the topic takes it from the records: a worker never goes back by itself, so
   when it says of a connector or task that it runs, in an older generation than it did before, that is a new life.
   Where workers have other names since, the one that has the work assigned is in force.

Source: KafkaStatusBackingStore, its CacheEntry, #onStatusRead (Kafka 4.3).
Differs: Java takes the last record, and applies the exception in rule 2 to tasks only. So the current owner also
rewrites its status when a late one follows it (`ClusterStatus`): then all readers agree, Java workers included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.status_topic import (
    Ignored,
    StatusEvent,
    StatusRead,
    StoredStatus,
    Subject,
    TopicRead,
    TopicUse,
)


class _Entry:
    """One connector or task: what was read about it, and the number of our writes."""

    __slots__ = ("is_deleted", "records", "writes")

    def __init__(self) -> None:
        self.records = StatusRecords()
        self.writes = 0
        self.is_deleted = False  # a tombstone was read; another entry may have replaced this one


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A permitted write; after a failure `StatusCache.may_retry` tells whether it is still worth making."""

    subject: Subject
    status: StoredStatus
    is_safe: bool
    number: int
    entry: _Entry


class StatusCache:
    """Folds events of the status topic and decides about writes. Threads: one at a time; the owner locks.

    A write becomes visible only when it is read back.
    """

    def __init__(self) -> None:
        self._connectors: dict[str, _Entry] = {}
        self._tasks: dict[str, dict[int, _Entry]] = {}
        self._left: dict[str, dict[TaskId, StoredStatus]] = {}  # in the topic, of tasks whose connector was deleted
        self._topics: dict[str, dict[str, TopicUse]] = {}
        self._generation: int | None = None  # of the last requested write
        self._taken: int | None = None  # of the group that this worker has joined; None for mere readers
        self._owners: Mapping[Subject, str] = {}

    def take_generation(self, generation: int) -> None:
        """Note that the worker has joined its group in this generation. See rule 3 above."""
        self._taken = generation
        for entry in self._entries():
            entry.records.take_generation(generation)

    def set_owners(self, owners: Mapping[Subject, str]) -> None:
        """Set who owns which connector and task, by worker id, as the broker reports it to mere readers."""
        self._owners = dict(owners)

    def apply(self, event: StatusEvent) -> None:
        """Apply one event."""
        match event:
            case StatusRead(subject, None):
                self._remove(subject)
            case StatusRead(subject, StoredStatus() as status):
                self._forget_left(subject)
                self._entry(subject).records.add(status)
            case TopicRead(connector, topic, None):
                uses = self._topics.get(connector, {})
                uses.pop(topic, None)
                if not uses:
                    self._topics.pop(connector, None)
            case TopicRead(connector, topic, TopicUse() as use):
                self._topics.setdefault(connector, {})[topic] = use
            case Ignored():
                pass

    def begin_write(self, subject: Subject, status: StoredStatus, *, is_safe: bool) -> StatusWrite | None:
        """Permission to write a status; None if it must yield to what another worker has written.

        A safe write is made by a worker that is about to lose the connector or task, and so may be late. Other writes
        also yield once this worker is in a group, which may have gone on without it.
        Differs: in Java only safe writes yield.
        """
        entry = self._entry(subject)
        self._generation = status.generation
        if (is_safe or self._taken is not None) and entry.records.newer_of_another(status) is not None:
            return None
        entry.writes += 1
        return StatusWrite(subject, status, is_safe, entry.writes, entry)

    def may_retry(self, write: StatusWrite) -> bool:
        """Whether to retry a failed write: nothing newer was written, read or deleted since."""
        wanted = self._generation if self._taken is None or write.is_safe else self._taken
        if write.entry.is_deleted or write.status.generation != wanted:
            return False
        if write.is_safe or self._taken is not None:
            is_last = write.entry.writes == write.number
            return is_last and write.entry.records.newer_of_another(write.status) is None
        return True

    def status(self, subject: Subject) -> StoredStatus | None:
        """The status in effect."""
        return self._in_force(subject, self._find(subject))

    def last(self, subject: Subject) -> StoredStatus | None:
        """The last status in the topic, in effect or not."""
        entry = self._find(subject)
        if entry is not None and entry.records.last is not None:
            return entry.records.last
        return self._left.get(subject.connector, {}).get(subject) if isinstance(subject, TaskId) else None

    def left(self, connector: str) -> set[TaskId]:
        """Tasks that have a status in the topic still, which the tombstone of their connector has cancelled."""
        return set(self._left.get(connector, ()))

    @property
    def is_doubtful(self) -> bool:
        """Whether for any subject a record of an older generation follows one of a newer generation."""
        return any(entry.records.is_doubtful for entry in self._entries())

    def is_beyond(self, subject: Subject, generation: int) -> bool:
        """Whether a newer generation has written since, within the current incarnation of the group."""
        entry = self._find(subject)
        return entry is not None and entry.records.is_beyond(generation)

    def tasks(self, connector: str) -> dict[TaskId, StoredStatus]:
        """The statuses of a connector's tasks, by number."""
        found = {}
        for number, entry in sorted(self._tasks.get(connector, {}).items()):
            task_id = TaskId(connector, number)
            if (status := self._in_force(task_id, entry)) is not None:
                found[task_id] = status
        return found

    def connectors(self) -> set[str]:
        """Connectors that have a status, or one being written."""
        return set(self._connectors)

    def named(self) -> set[str]:
        """Connectors that have a status, or whose tasks have one, cancelled or not."""
        return {*self._connectors, *self._tasks, *self._left}

    def statuses(self) -> dict[Subject, StoredStatus]:
        """Everything read: connectors, then tasks, including tasks whose connector has no status."""
        found: dict[Subject, StoredStatus] = {}
        for name, entry in self._connectors.items():
            if (own := self._in_force(name, entry)) is not None:
                found[name] = own
        for name in self._tasks:
            for task, status in self.tasks(name).items():
                found[task] = status
        return found

    def uses(self) -> dict[tuple[str, str], TopicUse]:
        """All uses of topics, by connector and topic."""
        return {(name, topic): use for name, uses in self._topics.items() for topic, use in uses.items()}

    def topic(self, connector: str, topic: str) -> TopicUse | None:
        return self._topics.get(connector, {}).get(topic)

    def topics(self, connector: str) -> dict[str, TopicUse]:
        """The topics a connector uses, in the order first seen."""
        return dict(self._topics.get(connector, {}))

    def _in_force(self, subject: Subject, entry: _Entry | None) -> StoredStatus | None:
        return None if entry is None else entry.records.in_force(self._owners.get(subject))

    def _find(self, subject: Subject) -> _Entry | None:
        if isinstance(subject, TaskId):
            return self._tasks.get(subject.connector, {}).get(subject.task)
        return self._connectors.get(subject)

    def _entries(self) -> Iterator[_Entry]:
        yield from self._connectors.values()
        for tasks in self._tasks.values():
            yield from tasks.values()

    def _entry(self, subject: Subject) -> _Entry:
        if isinstance(subject, TaskId):
            return self._tasks.setdefault(subject.connector, {}).setdefault(subject.task, _Entry())
        return self._connectors.setdefault(subject, _Entry())

    def _remove(self, subject: Subject) -> None:
        """Forget a task, or a connector with its tasks."""
        self._forget_left(subject)
        if isinstance(subject, TaskId):
            tasks = self._tasks.get(subject.connector, {})
            removed = [tasks.pop(subject.task, None)]
            if not tasks:
                self._tasks.pop(subject.connector, None)
        else:
            cancelled = self._tasks.pop(subject, {})
            left = {TaskId(subject, number): last for number, e in cancelled.items() if (last := e.records.last)}
            if left:
                self._left.setdefault(subject, {}).update(left)
            removed = [self._connectors.pop(subject, None), *cancelled.values()]
        for entry in removed:
            if entry is not None:
                entry.is_deleted = True

    def _forget_left(self, subject: Subject) -> None:
        """Another record of a task, or its own tombstone, was read."""
        if isinstance(subject, TaskId) and subject.connector in self._left:
            left = self._left[subject.connector]
            left.pop(subject, None)
            if not left:
                del self._left[subject.connector]


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
