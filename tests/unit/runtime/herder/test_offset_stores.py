"""The offsets of a cluster's connectors: topics of their own, which are opened when they are needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from kconnect.errors import ConflictError, ConnectError
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.cluster.offset_stores import ClusterOffsets
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.offset_store import MemoryOffsetStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic, OnRecord
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit.herders import MemoryGroups
from kit.pace import ample_s, now
from kit.waiting import eventually


class SlowLog(MemoryRecordLog):
    """Reads its topic when the gate opens."""

    def __init__(self, name: str, gate: threading.Event, *, is_broken: bool) -> None:
        super().__init__(MemoryTopic(name))
        self._gate = gate
        self._is_broken = is_broken
        self.has_begun = self.is_open = self.is_stopped = False

    def start(self, on_record: OnRecord) -> None:
        self.has_begun = True
        self._gate.wait(ample_s(5))
        if self._is_broken:
            raise ConnectError("the broker is away")
        super().start(on_record)
        self.is_open = True

    def stop(self) -> None:
        self.is_stopped = True
        super().stop()


@dataclass
class Shelf:
    """ClusterOffsets over two connectors, a and b, with a topic of their own each."""

    gates: dict[str, threading.Event] = field(default_factory=lambda: {"a": threading.Event(), "b": threading.Event()})
    logs: list[SlowLog] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    broken: bool = False
    """Topics cannot be opened."""
    configs: TopicConfigStore = field(default_factory=lambda: TopicConfigStore(MemoryRecordLog(MemoryTopic("configs"))))

    def __post_init__(self) -> None:
        @contextmanager
        def groups(_: object) -> Iterator[MemoryGroups]:
            yield MemoryGroups()

        self.configs.start()
        for name in self.gates:
            self.configs.put_connector_config(name, {"name": name, "offsets.storage.topic": name})
        self.offsets = ClusterOffsets(MemoryOffsetStore(), ClusterConfig(self.configs.snapshot), groups, self._open)

    def request(self, connector: str) -> threading.Thread:
        """Request its store on another thread, which waits while the topic is opened."""

        def run() -> None:
            with suppress(ConflictError):  # the worker has stopped first
                self.offsets.store_of(connector)

        thread = threading.Thread(target=run)
        self.threads.append(thread)
        thread.start()
        return thread

    def begun(self, *names: str) -> None:
        eventually(lambda: [log.topic for log in self.logs if log.has_begun] == list(names), 5, "they are being opened")

    def _open(self, topic: str) -> TopicOffsetStore:
        log = SlowLog(topic, self.gates[topic], is_broken=self.broken)
        self.logs.append(log)
        return TopicOffsetStore(log)


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    made = Shelf()
    yield made
    for gate in made.gates.values():
        gate.set()
    for thread in made.threads:
        thread.join(ample_s(5))
    made.offsets.close()
    made.configs.stop()


def test_the_end_of_a_worker_does_not_wait_for_topics_that_are_being_opened_and_all_of_them_are_stopped(shelf):
    shelf.request("a")
    shelf.begun("a")
    shelf.request("b")
    shelf.request("b")
    began = now()
    shelf.offsets.close()
    assert now() - began < 1
    with pytest.raises(ConflictError, match="The worker is shutting down"):
        shelf.offsets.store_of("a")
    for gate in shelf.gates.values():
        gate.set()
    for thread in shelf.threads:
        thread.join(ample_s(5))
    assert shelf.logs
    assert all(log.is_open and log.is_stopped for log in shelf.logs)


def test_a_topic_that_is_being_opened_does_not_hold_up_another_one(shelf):
    shelf.request("a")
    shelf.begun("a")
    shelf.gates["b"].set()
    other = shelf.request("b")
    eventually(lambda: not other.is_alive(), 2, "it has its store")
    shelf.offsets.close()
    assert [(log.topic, log.is_stopped) for log in shelf.logs] == [("a", False), ("b", True)]


def test_a_topic_that_could_not_be_opened_is_opened_with_the_next_request_and_then_stays(shelf):
    shelf.gates["a"].set()
    shelf.broken = True
    with pytest.raises(ConnectError, match="the broker is away"):
        shelf.offsets.store_of("a")
    shelf.broken = False
    for _ in range(2):
        shelf.offsets.store_of("a")
    assert [log.is_open for log in shelf.logs] == [False, True]
