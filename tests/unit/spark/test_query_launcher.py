"""QueryLauncher, asked by several threads at once how its tasks do, as REST, the sampler and the herder ask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from kconnect.model import Condition, ConnectorType, TaskCondition, TaskId, TaskSpec
from kconnect.runtime.metrics import TaskCounters
from kconnect.spark.settings import SparkSettings
from kconnect.spark.worker_launcher import QueryLauncher
from kit.pace import ample_s

TASK = TaskSpec(TaskId("lake", 0), 1, ConnectorType.SINK, {}, {}, {})
# How long a second thread may take to come in where nobody keeps it out. It bounds what is missed, not what is found
_COMES_IN_S = 0.3


class Host:
    """A TaskHost whose first answer is late: it takes until a second thread has been answered, if that can be."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.overtaken = threading.Event()
        self._asked = 0

    def _next(self) -> int:
        self._asked += 1
        number = self._asked
        if number == 1:
            self.entered.set()
            self.overtaken.wait(_COMES_IN_S)
        return number

    def counters_by_run(self) -> Mapping[tuple[TaskId, int], TaskCounters]:
        return {(TASK.id, TASK.run): TaskCounters(commits=self._next())}

    def conditions(self) -> Mapping[tuple[TaskId, int], TaskCondition]:
        return {(TASK.id, TASK.run): TaskCondition(Condition.RETRYING, 0, self._next())}


def _counters(launcher: QueryLauncher) -> int:
    return launcher.task_counters()[TASK.id].commits


def _meters(launcher: QueryLauncher) -> int:
    return launcher.task_meters()[TASK.id].latest.commits


def _conditions(launcher: QueryLauncher) -> int:
    return launcher.task_conditions()[TASK.id].count


@pytest.mark.parametrize("ask", [_counters, _meters, _conditions])
def test_what_was_reported_later_is_not_replaced_by_what_was_asked_for_earlier(
    ask: Callable[[QueryLauncher], int],
) -> None:
    launcher, host = QueryLauncher(SparkSettings(), cast("Any", None), lambda timeout_s: None), Host()
    launcher._specs[TASK.id] = TASK  # as started, without a Spark
    launcher._host = host
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, launcher)
        assert host.entered.wait(ample_s(10))
        second = pool.submit(ask, launcher)
        second.add_done_callback(lambda _: host.overtaken.set())
        reported = [first.result(ample_s(10)), second.result(ample_s(10))]
    launcher._host = None

    assert ask(launcher) == reported[1] == 2
