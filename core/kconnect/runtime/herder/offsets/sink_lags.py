"""SinkLags: the lag of sinks as it was found last, for `/metrics`, the history and webhooks."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Protocol

from kconnect.model import SinkLag
from kconnect.runtime.metrics import Reading, lag_readings


class Lags(Protocol):
    """Looks up the lag of sinks, by name, from their configs. Raises nothing."""

    def read(self, sinks: Mapping[str, Mapping[str, str]]) -> dict[str, SinkLag]: ...
    def close(self) -> None: ...


class SinkLags:
    """What was found last. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the field below
        self._found: Mapping[str, SinkLag] = {}
        self._at_ms: int | None = None

    def set(self, found: Mapping[str, SinkLag], at_ms: int | None = None) -> None:
        """`at_ms`: when they were asked for, since the epoch."""
        with self._lock:
            self._found, self._at_ms = found, at_ms

    def at_ms(self) -> int | None:
        """When the brokers were asked for what is known, since the epoch."""
        with self._lock:
            return self._at_ms

    def most(self) -> dict[str, int]:
        """The lag of each sink in the partition where it is the most. One whose lag could not be found is left out."""
        with self._lock:
            found = self._found
        return {
            name: max((item.lag for item in lag.partitions), default=0)
            for name, lag in found.items()
            if lag.problem is None
        }

    def totals(self) -> dict[str, int]:
        """How many records each sink is behind. One whose lag could not be found is left out."""
        with self._lock:
            found = self._found
        return {name: lag.total for name, lag in found.items() if lag.total is not None}

    def readings(self, names: Collection[str]) -> list[Reading]:
        """For `/metrics`, of the sinks that are still here. One whose lag could not be found has none."""
        with self._lock:
            found = self._found
        return list(lag_readings({name: lag for name, lag in sorted(found.items()) if name in names}))
