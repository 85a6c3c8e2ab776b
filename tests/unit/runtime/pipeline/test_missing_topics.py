"""What is reported of topics that nobody but the broker makes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import cast

import pytest

from kconnect.errors import TimedOutError
from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.topics import MissingTopics


def missing_topics(names: Callable[[float], Collection[str]], *, may_be_made: bool = True) -> MissingTopics:
    spec = TaskSpec(TaskId("orders", 0), 1, ConnectorType.SOURCE, {}, {}, {})
    return MissingTopics(TaskControl(spec, cast("TaskPorts", None)), names, may_be_made=may_be_made)


def test_the_cluster_is_asked_once_for_all_that_is_there_and_again_for_each_that_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[float] = []

    def names(timeout_s: float) -> Collection[str]:
        asked.append(timeout_s)
        return {"a", "c"} | ({"late"} if len(asked) > 2 else set())

    topics = missing_topics(names)
    assert all(topics.ensure(unit) for unit in (["a"], ["a", "c"]))
    assert len(asked) == 1
    assert all(topics.ensure(unit) for unit in (["b", "a"], ["b"], ["late"], []))
    assert len(asked) == 3
    (reported,) = caplog.messages
    assert reported.startswith("Topic 'b' does not exist: the broker creates it")


def test_a_broker_that_does_not_answer_holds_nothing_up_and_is_reported_of_elsewhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def names(timeout_s: float) -> Collection[str]:
        raise TimedOutError("no answer")

    assert missing_topics(names).ensure(["a"])
    assert caplog.messages == []
