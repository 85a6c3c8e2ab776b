"""TaskEvents: order, one thread, and a callback that fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kconnect.model import ConnectorOffset, RunState, TaskId
from kconnect.runtime.herder.task_events import TaskEvents


class Herder:
    """Keeps what it is reported, and on which thread."""

    def __init__(self) -> None:
        self.reported: list[object] = []
        self.threads: set[str] = set()

    def task_status(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        self._keep((str(task_id), run, state, trace))

    def topic_used(self, task_id: TaskId, topic: str) -> None:
        if topic == "bad":
            raise RuntimeError("no such topic")
        self._keep((str(task_id), topic))

    def reconfiguration_requested(self, connector: str) -> None:
        self._keep(connector)

    def read_offsets(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        self._keep(("read", connector))
        return [None for _ in partitions]

    def commit_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        self._keep(("commit", connector))

    def check_run(self, task_id: TaskId, run: int) -> None:
        raise AssertionError("it is not asked")

    def _keep(self, reported: object) -> None:
        self.reported.append(reported)
        self.threads.add(threading.current_thread().name)


def test_events_come_in_order_from_one_thread_also_after_one_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    herder, task = Herder(), TaskId("c", 0)
    events = TaskEvents(herder, "events")
    events.task_status(task, 1, RunState.RUNNING, None)
    events.start()
    events.topic_used(task, "good")
    events.topic_used(task, "bad")
    events.reconfiguration_requested("c")
    events.task_status(task, 1, RunState.FAILED, "why")
    with caplog.at_level(logging.ERROR):
        events.stop(5)
    assert herder.reported == [
        ("c-0", 1, RunState.RUNNING, None),
        ("c-0", "good"),
        "c",
        ("c-0", 1, RunState.FAILED, "why"),
    ]
    assert herder.threads == {"events"}
    assert "no such topic" in caplog.text


def test_offsets_go_straight_to_the_herder() -> None:
    herder = Herder()
    events = TaskEvents(herder, "events")
    assert events.read("c", [{"file": "a"}]) == [None]
    events.commit("c", [])
    assert herder.reported == [("read", "c"), ("commit", "c")]
    assert herder.threads == {threading.current_thread().name}
