"""Topics a task tells its host: each once, again when they were forgotten, none when nobody tracks them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts

TASK = TaskId("orders", 0)


def control(reported: list[tuple[TaskId, str]], **worker: str) -> TaskControl:
    ports = TaskPorts(
        report=lambda *_: None,
        offsets=cast("Any", None),
        reconfigure=lambda name: None,
        housekeeping=cast("Any", None),
        plugins=cast("Any", None),
        topic_used=lambda task, topic: reported.append((task, topic)),
    )
    settings = {key.replace("_", "."): value for key, value in worker.items()}
    return TaskControl(TaskSpec(TASK, 1, ConnectorType.SOURCE, {}, {}, settings), ports)


def test_a_topic_is_reported_once_until_it_is_forgotten() -> None:
    reported: list[tuple[TaskId, str]] = []
    task = control(reported)
    task.used_topics(["a", "b"])
    task.used_topics(("a",))
    assert reported == [(TASK, "a"), (TASK, "b")]
    task.forget_topics()
    task.used_topics(("a",))
    assert reported[2:] == [(TASK, "a")]


@pytest.mark.parametrize(("tracking", "count"), [("true", 1), ("TRUE", 1), (" false ", 0), ("False", 0)])
def test_a_worker_that_tracks_no_topics_is_reported_none(tracking: str, count: int) -> None:
    reported: list[tuple[TaskId, str]] = []
    control(reported, topic_tracking_enable=tracking).used_topics(["a"])
    assert len(reported) == count


def test_a_task_that_was_fenced_off_tells_nothing() -> None:
    reported: list[tuple[TaskId, str]] = []
    task = control(reported)
    task.cancel()
    task.used_topics(["a"])
    assert reported == []


def test_a_record_without_topic_that_is_tolerated_names_none() -> None:
    """The worker refuses such a message of its slot, and ends it with all its tasks."""
    reported: list[tuple[TaskId, str]] = []
    control(reported).used_topics(cast("Any", [None, "", 5, "a"]))
    assert reported == [(TASK, "a")]
