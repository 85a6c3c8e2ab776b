"""Topics that connectors were seen to use, kept in memory.

Source: AbstractHerder#connectorActiveTopics, TopicStatus, StatusBackingStore (KIP-558; Kafka 4.3).
"""

from __future__ import annotations

import threading

from kconnect.errors import ForbiddenError


class ActiveTopics:
    """Topics by connector. They outlive restarts and other configs of it; a reset and a deletion end them.

    Threads: any. Errors: ForbiddenError where the worker's settings say so.
    """

    def __init__(self, *, is_tracking: bool, allows_reset: bool) -> None:
        self._is_tracking = is_tracking
        self._allows_reset = allows_reset
        self._lock = threading.Lock()
        self._topics: dict[str, set[str]] = {}  # guarded by _lock

    def used(self, connector: str, topic: str) -> None:
        if self._is_tracking:
            with self._lock:
                self._topics.setdefault(connector, set()).add(topic)

    def of(self, connector: str) -> list[str]:
        """The topics of a connector, sorted. Differs: Java's are in the order of its hash set."""
        self._require_tracking()
        with self._lock:
            return sorted(self._topics.get(connector, ()))

    def reset(self, connector: str) -> None:
        """Reset them at a user's request."""
        self._require_tracking()
        if not self._allows_reset:
            raise ForbiddenError(
                "Topic tracking reset is disabled.", hint="Set topic.tracking.allow.reset=true for the worker."
            )
        self.forget(connector)

    def forget(self, connector: str) -> None:
        """Forget them, because the connector is gone."""
        with self._lock:
            self._topics.pop(connector, None)

    def _require_tracking(self) -> None:
        if not self._is_tracking:
            raise ForbiddenError("Topic tracking is disabled.", hint="Set topic.tracking.enable=true for the worker.")
