"""What `connectors wait` and `apply --wait` make of a status."""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError
from kconnect.model import (
    AutoRestart,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Restarts,
    RunState,
    TaskState,
)
from kconnect_cli.admin.awaited_states import is_reached, raise_if_hopeless, state_text


def failed(*states: AutoRestart | None) -> ConnectorStatus:
    """A connector with a FAILED task for each."""
    tasks = tuple(
        TaskState(number, RunState.FAILED, "w:8083", "Boom", restarts=None if state is None else Restarts(state, 1, 5))
        for number, state in enumerate(states)
    )
    return ConnectorStatus("a", ConnectorState(RunState.RUNNING, "w:8083"), tasks, ConnectorType.SINK)


def test_a_failure_is_waited_out_while_a_restart_is_due_for_all_that_failed():
    raise_if_hopeless([failed(AutoRestart.WAITING, AutoRestart.WAITING)], "RUNNING")
    assert not is_reached(failed(AutoRestart.WAITING), "RUNNING")
    assert state_text("a", failed(AutoRestart.WAITING)) == "a is RUNNING, task 0 FAILED (restart 2 of 5 follows: Boom)"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (failed(None), "a task 0 FAILED: Boom"),
        (failed(AutoRestart.WAITING, AutoRestart.GIVEN_UP), "a task 1 FAILED: given up after 1 restart: Boom"),
        (failed(AutoRestart.NOT_RESTARTED), "a task 0 FAILED: Boom"),
    ],
)
def test_a_failure_that_no_restart_follows_ends_the_wait(found, sentence):
    with pytest.raises(ConnectError) as raised:
        raise_if_hopeless([failed(AutoRestart.WAITING), found], "RUNNING")
    assert str(raised.value) == sentence
    raise_if_hopeless([found], "STOPPED")
