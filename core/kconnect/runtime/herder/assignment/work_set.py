"""A set of connectors and tasks: configured, active, lost and so on are computed with `-`, `|` and `&`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kconnect.java.compat.hash_map import sort_key
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.storage.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class WorkSet:
    """Source: WorkerCoordinator.ConnectorsAndTasks."""

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()

    @staticmethod
    def configured(snapshot: ClusterSnapshot) -> WorkSet:
        """All work that should run; without tasks of connectors whose task configs are inconsistent."""
        connectors = snapshot.connectors
        return WorkSet(frozenset(connectors), frozenset(task for name in connectors for task in snapshot.tasks(name)))

    @staticmethod
    def of_all(works: Iterable[Work]) -> WorkSet:
        listed = list(works)
        return WorkSet(
            frozenset(name for work in listed for name in work.connectors),
            frozenset(task for work in listed for task in work.tasks),
        )

    @staticmethod
    def in_several(works: Iterable[Work]) -> WorkSet:
        """Work that more than one of them has."""
        listed = list(works)
        connectors = Counter(name for work in listed for name in set(work.connectors))
        tasks = Counter(task for work in listed for task in set(work.tasks))
        return WorkSet(
            frozenset(name for name, count in connectors.items() if count > 1),
            frozenset(task for task, count in tasks.items() if count > 1),
        )

    def sorted(self) -> Work:
        """Sorts it as Java does."""
        key_of = {name: sort_key(name) for name in {*self.connectors, *(task.connector for task in self.tasks)}}
        return Work(
            tuple(sorted(self.connectors, key=key_of.__getitem__)),
            tuple(sorted(self.tasks, key=lambda task: (key_of[task.connector], task.task))),
        )

    def __sub__(self, other: WorkSet) -> WorkSet:
        return WorkSet(self.connectors - other.connectors, self.tasks - other.tasks)

    def __or__(self, other: WorkSet) -> WorkSet:
        return WorkSet(self.connectors | other.connectors, self.tasks | other.tasks)

    def __and__(self, other: WorkSet) -> WorkSet:
        return WorkSet(self.connectors & other.connectors, self.tasks & other.tasks)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)
