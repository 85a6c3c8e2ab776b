"""The progress of a worker's start or stop, for those who answer requests meanwhile."""

from __future__ import annotations

import threading


class StartState:
    """States: new -> open -> begun -> ready -> stopping. Threads: any."""

    def __init__(self) -> None:
        self.kafka_cluster_id: str | None = None
        """It is None until Kafka has reported it."""
        self.is_open = False
        """Queries can be answered."""
        self.is_ready = False
        """Start-up is complete."""
        self.is_stopping = False
        self._begun = threading.Event()

    @property
    def has_begun(self) -> bool:
        """Whether requests that change something are, or were, accepted."""
        return self._begun.is_set()

    def open(self, kafka_cluster_id: str | None) -> None:
        self.kafka_cluster_id = kafka_cluster_id
        self.is_open = True

    def begin(self) -> None:
        """Requests that change something are accepted from now on."""
        self._begun.set()

    def refuse_waiting(self) -> None:
        """A stop was requested: no one need wait for the start any longer. Threads: any."""
        self.is_stopping = True
        self._begun.set()

    def await_begin(self, timeout_s: float) -> bool:
        """Wait until it has begun, or is stopping."""
        return self._begun.wait(timeout_s)
