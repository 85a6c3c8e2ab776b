"""What a restart request chooses of a connector, and the status that it answers."""

from __future__ import annotations

import pytest

from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskId, TaskState
from kconnect.runtime.herder.decisions.restart_plan import restart_plan

FAILED, RUNNING, PAUSED, RESTARTING = RunState.FAILED, RunState.RUNNING, RunState.PAUSED, RunState.RESTARTING


def status(connector: RunState, *tasks: RunState) -> ConnectorStatus:
    shown = [TaskState(number, state, "w:8083") for number, state in enumerate(tasks)]
    return ConnectorStatus("c", ConnectorState(connector, "w:8083"), tuple(shown), ConnectorType.SOURCE)


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "connector", "tasks"),
    [
        (False, False, True, []),
        (True, False, True, [0, 1, 2]),
        (False, True, False, []),
        (True, True, False, [1]),
    ],
)
def test_what_is_chosen_of_a_running_connector_with_one_failed_task(include_tasks, only_failed, connector, tasks):
    plan = restart_plan(status(RUNNING, RUNNING, FAILED, PAUSED), include_tasks=include_tasks, only_failed=only_failed)
    assert plan.restart_connector is connector
    assert list(plan.tasks) == [TaskId("c", number) for number in tasks]
    shown = [plan.status.connector.state, *(task.state for task in plan.status.tasks)]
    before = [RUNNING, RUNNING, FAILED, PAUSED]
    chosen = [connector, *(number in tasks for number in range(3))]
    assert shown == [RESTARTING if is_chosen else state for is_chosen, state in zip(chosen, before, strict=True)]


def test_a_failed_connector_is_restarted_alone_when_its_tasks_are_fine():
    plan = restart_plan(status(FAILED, RUNNING, RUNNING), include_tasks=True, only_failed=True)
    assert plan.restart_connector
    assert plan.tasks == ()


def test_nothing_is_chosen_where_nothing_failed():
    plan = restart_plan(status(RUNNING, RUNNING), include_tasks=True, only_failed=True)
    assert not plan.restart_connector
    assert plan.tasks == ()
    assert plan.status == status(RUNNING, RUNNING)
