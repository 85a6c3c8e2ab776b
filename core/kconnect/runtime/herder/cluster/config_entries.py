"""Connectors of a cluster as the herder's entries: read off a snapshot of the config topic."""

from __future__ import annotations

from collections.abc import Callable

from kconnect.errors import NotFoundError
from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.storage.snapshot import ClusterSnapshot


def entry_of(snapshot: ClusterSnapshot, name: str) -> ConnectorEntry | None:
    """A connector with its tasks, as written, with no references resolved. None if it does not exist."""
    config = snapshot.raw_config(name)
    if config is None:
        return None
    tasks = [snapshot.raw_task_config(TaskId(name, number)) or {} for number in range(len(snapshot.tasks(name)))]
    applied = snapshot.applied_configs.get(name)
    return ConnectorEntry(
        name,
        config,
        snapshot.target_state(name) or TargetState.STARTED,
        tuple(tasks),
        None if applied is None else applied.raw,
        snapshot.task_config_generation(name),
    )


class ClusterConfig:
    """The entries as they are in the config topic now. Threads: any."""

    def __init__(self, snapshot: Callable[[], ClusterSnapshot]) -> None:
        self._snapshot = snapshot

    def names(self) -> list[str]:
        return list(self._snapshot().connectors)

    def find(self, name: str) -> ConnectorEntry | None:
        return entry_of(self._snapshot(), name)

    def get(self, name: str, message: str | None = None) -> ConnectorEntry:
        """Errors: NotFoundError with the message, by default Java's of most requests."""
        entry = self.find(name)
        if entry is None:
            raise NotFoundError(message or f"Connector {name} not found")
        return entry

    def all(self) -> list[ConnectorEntry]:
        snapshot = self._snapshot()
        found = [entry_of(snapshot, name) for name in snapshot.connectors]
        return [entry for entry in found if entry is not None]
