"""What tasks move: of several together, and rates out of totals."""

from __future__ import annotations

import pytest

from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskId, TaskState
from kconnect.runtime.standing.figures import Figures, Rates, figures_of, most, summed

TASK = TaskId("lines", 0)


def test_figures_add_up_and_what_nobody_tells_stays_unknown():
    tasks = {TASK: Figures(5.0, 10, 1), TaskId("lines", 1): Figures(None, 20, None), TaskId("other", 0): Figures(7.0)}
    states = tuple(TaskState(number, RunState.RUNNING, "w") for number in range(3))
    status = ConnectorStatus("lines", ConnectorState(RunState.RUNNING, "w"), states, ConnectorType.SINK)
    assert figures_of(status, tasks, 7) == Figures(5.0, 30, 1, 7)
    assert figures_of(status, {}) == summed([]) == Figures()
    assert most([{"a": 7, "b": 1}, {"a": 9}]) == {"a": 9, "b": 1}


def test_rates_go_over_the_last_seconds_and_never_below_zero():
    rates: Rates[TaskId] = Rates()
    assert rates.add(0.0, {TASK: 0}) == {}
    assert rates.add(1.0, {TASK: 100})[TASK] == pytest.approx(100)
    for second in range(2, 20):
        seen = rates.add(float(second), {TASK: 100})
    assert seen[TASK] == 0
    assert rates.add(20.0, {TASK: 3})[TASK] == 0, "a new run counts from zero"
