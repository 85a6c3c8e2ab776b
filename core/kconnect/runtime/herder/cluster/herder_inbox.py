"""The queue of the herder's thread: events, and changes of the config topic that were read."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from kconnect.clock import Clock
from kconnect.runtime.herder.decisions.events import ConfigsChanged, Event
from kconnect.runtime.storage.config_store import ConfigStore
from kconnect.runtime.storage.snapshot import Change

Item = TypeVar("Item")


class HerderInbox:
    """Threads: `post`, `note_change`, `wake` from any, the rest the herder's. `wakeup` ends a poll of the group."""

    def __init__(self, configs: ConfigStore, wakeup: Callable[[], None]) -> None:
        self._configs = configs
        self._wakeup = wakeup
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._changes: queue.SimpleQueue[tuple[Change, int]] = queue.SimpleQueue()
        self._awake = threading.Event()

    def post(self, event: Event) -> None:
        """Queue an event."""
        self._events.put(event)
        self.wake()

    def note_change(self, change: Change) -> None:
        """The config store's listener: changes are queued, and taken together."""
        self._changes.put((change, self._configs.snapshot().offset))
        self.wake()

    def changes(self) -> ConfigsChanged | None:
        """The queued changes, as one event."""
        changes = _drained(self._changes)
        return ConfigsChanged(tuple(changes), self._configs.snapshot(), self._configs.foreign) if changes else None

    def events(self) -> list[Event]:
        """The queued events, in order."""
        return _drained(self._events)

    def wait(self, clock: Clock, timeout_s: float) -> None:
        """Wait for an event or a change."""
        clock.wait(self._awake, timeout_s)

    def is_awake(self) -> bool:
        """Whether anything was queued since the last check."""
        was_awake = self._awake.is_set()
        self._awake.clear()
        return was_awake

    def wake(self) -> None:
        """End the wait of the herder's thread, or its next one."""
        self._awake.set()
        self._wakeup()


def _drained(source: queue.SimpleQueue[Item]) -> list[Item]:
    found: list[Item] = []
    while True:
        try:
            found.append(source.get_nowait())
        except queue.Empty:
            return found
