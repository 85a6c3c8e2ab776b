"""Connectors of a standalone worker, kept in memory. Source: MemoryConfigBackingStore (Kafka 4.3)."""

from __future__ import annotations

import threading

from kconnect.errors import NotFoundError
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry


class MemoryConfig:
    """The entries by name. Threads: any; whoever changes an entry holds the connector's order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, ConnectorEntry] = {}  # guarded by _lock

    def find(self, name: str) -> ConnectorEntry | None:
        with self._lock:
            return self._entries.get(name)

    def get(self, name: str, message: str | None = None) -> ConnectorEntry:
        """Errors: NotFoundError with the message, by default Java's of most requests."""
        entry = self.find(name)
        if entry is None:
            raise NotFoundError(message or f"Connector {name} not found")
        return entry

    def all(self) -> list[ConnectorEntry]:
        with self._lock:
            return list(self._entries.values())

    def put(self, entry: ConnectorEntry) -> ConnectorEntry:
        with self._lock:
            self._entries[entry.name] = entry
        return entry

    def remove(self, name: str) -> None:
        with self._lock:
            self._entries.pop(name, None)
