"""Connectors and tasks as the tests of the config store have them, their records, and stores that look at them."""

from __future__ import annotations

from typing import Any

from kconnect.model import TaskId
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic

C1, C2 = "connector1", "connector2"
CONFIGS = ({"config-key-one": "1"}, {"config-key-two": "2"}, {"config-key-three": "3"})
TASKS = (TaskId(C1, 0), TaskId(C1, 1))
CONNECTOR = [("connector-connector1", '{"properties":{"config-key-one":"1"}}')]
TWO_TASKS = [
    ("task-connector1-0", '{"properties":{"config-key-one":"1"}}'),
    ("task-connector1-1", '{"properties":{"config-key-two":"2"}}'),
    ("commit-connector1", '{"tasks":2}'),
]


def started(topic: MemoryTopic, **more: Any) -> tuple[TopicConfigStore, list[Any]]:
    """A store that was started, and the list of its news."""
    store, news = TopicConfigStore(MemoryRecordLog(topic), **more), []
    store.set_listener(news.append)
    store.start()
    return store, news


def has(topic: MemoryTopic, *entries: tuple[str, str | None]) -> None:
    """Somebody else has written these records."""
    for key, value in entries:
        topic.append(key.encode(), None if value is None else value.encode())
