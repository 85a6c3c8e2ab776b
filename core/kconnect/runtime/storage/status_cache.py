"""The statuses of a cluster as read from the status topic, and the rules of who may overwrite them. Pure: no topic.

Which of several records of a connector or task is in force: see `status_order`.
Source: KafkaStatusBackingStore and its CacheEntry (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kconnect.model import TaskId
from kconnect.runtime.storage.status_order import StatusRecords
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
        self._topics: dict[str, dict[str, TopicUse]] = {}
        self._generation: int | None = None  # of the last requested write
        self._taken: int | None = None  # of the group that this worker has joined; None for mere readers
        self._owners: Mapping[Subject, str] = {}

    def take_generation(self, generation: int) -> None:
        """Note that the worker has joined its group in this generation. See `status_order`, rule 3."""
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
        return None if entry is None else entry.records.last

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
        if isinstance(subject, TaskId):
            tasks = self._tasks.get(subject.connector, {})
            removed = [tasks.pop(subject.task, None)]
            if not tasks:
                self._tasks.pop(subject.connector, None)
        else:
            removed = [self._connectors.pop(subject, None), *self._tasks.pop(subject, {}).values()]
        for entry in removed:
            if entry is not None:
                entry.is_deleted = True
