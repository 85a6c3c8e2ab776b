"""Copies committed offsets to the worker's topic, for a connector with its own offsets topic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from kconnect.errors import ConnectError
from kconnect.logs.log_context import log_context
from kconnect.model import ConnectorOffset
from kconnect.runtime.pipeline.inflight import PartitionKey, partition_key
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts, Ticket

log = logging.getLogger(__name__)


class OffsetCopies:
    """Sends offsets to the worker, outside any transaction, on a timer and at the end. Threads: any.

    They matter only if the connector's own topic is deleted or no longer used, so a failure is only a warning.
    Source: ConnectorOffsetBackingStore (Kafka 4.3). Differs: Java copies after each transaction.
    """

    def __init__(self, control: TaskControl, ports: TaskPorts) -> None:
        self._control = control
        self._ports = ports
        self._lock = threading.Lock()  # guards _waiting
        self._waiting: dict[PartitionKey, ConnectorOffset] = {}
        self._one = threading.Lock()  # one copy at a time, so that none overtakes another
        self._ticket: Ticket | None = None

    def begin(self, interval_s: float) -> None:
        name = f"copies of offsets of {self._control.spec.id}"
        self._ticket = self._ports.housekeeping.every(interval_s, self.tick, name)

    def note(self, offsets: Mapping[PartitionKey, ConnectorOffset]) -> None:
        """These offsets were committed; copy them in time."""
        with self._lock:
            self._waiting.update({key: item for key, item in offsets.items() if item.offset is not None})

    def remove(self, offsets: Sequence[ConnectorOffset]) -> None:
        """Remove the copies of offsets that are about to be removed. Errors: ConnectError."""
        if not offsets:
            return
        with self._one:
            with self._lock:
                for item in offsets:
                    self._waiting.pop(partition_key(item.partition), None)
            self._ports.offsets.commit(self._control.spec.id.connector, offsets)

    def tick(self) -> None:
        """Copy what is pending. Never raises."""
        self._copy(0)

    def finish(self, wait_s: float) -> None:
        """Copy the rest, unless the task is fenced off."""
        if self._ticket is not None:
            self._ticket.cancel()
        self._copy(wait_s)

    def _copy(self, wait_s: float) -> None:
        if self._control.is_cancelled or not self._one.acquire(timeout=max(wait_s, 0)):
            return
        try:
            with self._lock:
                taken, self._waiting = self._waiting, {}
            if taken:
                self._ports.offsets.commit(self._control.spec.id.connector, list(taken.values()))
        except ConnectError as error:
            with self._lock:
                self._waiting = taken | self._waiting
            with log_context(self._control.spec.id.connector, self._control.spec.id.task, "offsets"):
                log.warning(
                    "Offsets of %s are stored in its connector's own topic but could not be copied to the worker's: %s",
                    self._control.spec.id,
                    error,
                )
        finally:
            self._one.release()
