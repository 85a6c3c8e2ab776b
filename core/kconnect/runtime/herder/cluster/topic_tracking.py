"""Topics that connectors of a cluster were seen to use, in the status topic (KIP-558).

Source: AbstractHerder#connectorActiveTopics, #resetConnectorActiveTopics, Worker#recordActiveTopic (Kafka 4.3).
"""

from __future__ import annotations

from kconnect.errors import ForbiddenError
from kconnect.model import TaskId
from kconnect.runtime.storage.status_store import StatusStore
from kconnect.runtime.storage.status_topic import TopicUse


class ClusterTopics:
    """Topics by connector. Threads: any. Errors: ForbiddenError where the worker's settings say so."""

    def __init__(self, store: StatusStore, *, is_tracking: bool, allows_reset: bool) -> None:
        self._store = store
        self._is_tracking = is_tracking
        self._allows_reset = allows_reset

    def used(self, task_id: TaskId, topic: str, now_ms: int) -> None:
        """Once written, a use is not written again."""
        if self._is_tracking and topic not in self._store.topics(task_id.connector):
            self._store.put_topic(TopicUse(topic, task_id.connector, task_id.task, now_ms))

    def of(self, connector: str) -> list[str]:
        """The topics of a connector, sorted. Differs: Java's are in the order of its hash set."""
        self._require_tracking()
        return sorted(self._store.topics(connector))

    def reset(self, connector: str) -> None:
        """Reset them at a user's request."""
        self._require_tracking()
        if not self._allows_reset:
            raise ForbiddenError(
                "Topic tracking reset is disabled.", hint="Set topic.tracking.allow.reset=true for the worker."
            )
        for topic in self._store.topics(connector):
            self._store.delete_topic(connector, topic)

    def _require_tracking(self) -> None:
        if not self._is_tracking:
            raise ForbiddenError("Topic tracking is disabled.", hint="Set topic.tracking.enable=true for the worker.")
