"""The statuses of a cluster as read from the status topic, and the rules of who may overwrite them. Pure: no topic.

Source: KafkaStatusBackingStore and its CacheEntry (Kafka 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass

from kconnect.model import RunState, TaskId
from kconnect.storage.status_topic import Ignored, StatusEvent, StatusRead, StoredStatus, Subject, TopicRead, TopicUse

__all__ = ["StatusCache", "StatusWrite"]


class _Entry:
    """One connector or task: the status read last, and a count of our writes."""

    __slots__ = ("is_deleted", "status", "writes")

    def __init__(self) -> None:
        self.status: StoredStatus | None = None
        self.writes = 0
        self.is_deleted = False  # a tombstone was read: another entry stands in its place, if any


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A write that was allowed; `StatusCache.may_retry` tells whether it still makes sense after a failure."""

    subject: Subject
    status: StoredStatus
    is_safe: bool
    number: int
    entry: _Entry


class StatusCache:
    """Folds events of the status topic; decides about writes. Threads: one at a time, the owner locks.

    A write is seen here only when it is read back.
    """

    def __init__(self) -> None:
        self._connectors: dict[str, _Entry] = {}
        self._tasks: dict[str, dict[int, _Entry]] = {}
        self._topics: dict[str, dict[str, TopicUse]] = {}
        self._generation: int | None = None  # of the last write asked for

    def apply(self, event: StatusEvent) -> None:
        """Take in what a record says."""
        match event:
            case StatusRead(subject, None):
                self._remove(subject)
            case StatusRead(subject, StoredStatus() as status):
                entry = self._entry(subject)
                if not (isinstance(subject, TaskId) and _is_outdated(entry.status, status)):
                    entry.status = status
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
        """The leave to write a status, or None when a safe write has to yield to what another worker has written.

        A safe write is one of a worker that is about to lose the connector or task, and so may be late.
        """
        entry = self._entry(subject)
        self._generation = status.generation
        if is_safe and not _may_overwrite(entry.status, status):
            return None
        entry.writes += 1
        return StatusWrite(subject, status, is_safe, entry.writes, entry)

    def may_retry(self, write: StatusWrite) -> bool:
        """Whether a write that failed is still to be made: nothing newer was written, read or deleted since."""
        if write.entry.is_deleted or write.status.generation != self._generation:
            return False
        if not write.is_safe:
            return True
        return write.entry.writes == write.number and _may_overwrite(write.entry.status, write.status)

    def status(self, subject: Subject) -> StoredStatus | None:
        if isinstance(subject, TaskId):
            entry = self._tasks.get(subject.connector, {}).get(subject.task)
        else:
            entry = self._connectors.get(subject)
        return None if entry is None else entry.status

    def tasks(self, connector: str) -> dict[TaskId, StoredStatus]:
        """The statuses of a connector's tasks, by number."""
        found = sorted(self._tasks.get(connector, {}).items())
        return {TaskId(connector, number): entry.status for number, entry in found if entry.status is not None}

    def connectors(self) -> set[str]:
        """Connectors with a status, read or about to be."""
        return set(self._connectors)

    def statuses(self) -> dict[Subject, StoredStatus]:
        """All that was read: connectors, then tasks, also such whose connector has no status."""
        found: dict[Subject, StoredStatus] = {}
        for name, entry in self._connectors.items():
            if entry.status is not None:
                found[name] = entry.status
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


def _may_overwrite(old: StoredStatus | None, new: StoredStatus) -> bool:
    """Nothing is there, or ours, or of a generation that is not newer."""
    return old is None or old.worker_id == new.worker_id or old.generation <= new.generation


def _is_outdated(old: StoredStatus | None, new: StoredStatus) -> bool:
    """A worker that gave a task up before it read that another one runs it: the task runs (KAFKA-12525)."""
    return (
        new.state is RunState.UNASSIGNED
        and old is not None
        and old.state is RunState.RUNNING
        and old.generation >= new.generation
    )
