"""TaskEvents: what tasks in this process report, given to a herder."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kconnect.model import ConnectorOffset, RunState, TaskId
from kconnect.runtime.herder.interface import LauncherEvents

log = logging.getLogger(__name__)


class TaskEvents:
    """Delivers events one at a time, in the order things happened, from one thread; offsets go straight through.

    Is the OffsetPort of a TaskHost. Lifecycle: constructed -> start -> stop. Threads: any.
    """

    def __init__(self, events: LauncherEvents, name: str) -> None:
        self._events = events
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._deliver_all, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """What was reported before is delivered still, within the timeout."""
        self._waiting.put(None)
        self._thread.join(timeout_s)

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        self._waiting.put(partial(self._events.task_status, task_id, run, state, trace))

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        self._waiting.put(partial(self._events.topic_used, task_id, topic))

    def reconfiguration_requested(self, connector: str) -> None:
        self._waiting.put(partial(self._events.reconfiguration_requested, connector))

    def read(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._events.read_offsets(connector, partitions)

    def commit(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        self._events.commit_offsets(connector, offsets)

    def _deliver_all(self) -> None:
        while (deliver := self._waiting.get()) is not None:
            try:
                deliver()
            except Exception:  # a callback that fails must not stop the ones after it
                log.exception("Delivering %s failed", deliver)
