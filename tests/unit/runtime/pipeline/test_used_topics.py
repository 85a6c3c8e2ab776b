"""Topics a task tells its host: each once, again when they were forgotten, none when nobody tracks them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts

TASK = TaskId("orders", 0)


def control(told: list[tuple[TaskId, str]], **worker: str) -> TaskControl:
    ports = TaskPorts(
        report=lambda *_: None,
        offsets=cast("Any", None),
        reconfigure=lambda name: None,
        housekeeping=cast("Any", None),
        plugins=cast("Any", None),
        topic_used=lambda task, topic: told.append((task, topic)),
    )
    settings = {key.replace("_", "."): value for key, value in worker.items()}
    return TaskControl(TaskSpec(TASK, 1, ConnectorType.SOURCE, {}, {}, settings), ports)


def test_a_topic_is_told_once_until_it_is_forgotten() -> None:
    told: list[tuple[TaskId, str]] = []
    task = control(told)
    task.used_topics(["a", "b"])
    task.used_topics(("a",))
    assert told == [(TASK, "a"), (TASK, "b")]
    task.forget_topics()
    task.used_topics(("a",))
    assert told[2:] == [(TASK, "a")]


@pytest.mark.parametrize(("tracking", "count"), [("true", 1), ("TRUE", 1), (" false ", 0), ("False", 0)])
def test_a_worker_that_tracks_no_topics_is_told_none(tracking: str, count: int) -> None:
    told: list[tuple[TaskId, str]] = []
    control(told, topic_tracking_enable=tracking).used_topics(["a"])
    assert len(told) == count


def test_a_task_that_was_fenced_off_tells_nothing() -> None:
    told: list[tuple[TaskId, str]] = []
    task = control(told)
    task.cancel()
    task.used_topics(["a"])
    assert told == []
