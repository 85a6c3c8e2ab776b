"""Inbox: events of the threads around the screen, in the order in which they came."""

from __future__ import annotations

import queue
from collections.abc import Callable

from kconnect_cli.top.events import Event


class Inbox:
    """Events, kept until the screen takes them. Threads: any puts; the screen's takes."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.wake: Callable[[], object] = lambda: None
        """Called with each event that was put; must not block."""

    def put(self, event: Event) -> None:
        self._queue.put(event)
        self.wake()

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    def taken(self) -> list[Event]:
        found = []
        while True:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                return found
