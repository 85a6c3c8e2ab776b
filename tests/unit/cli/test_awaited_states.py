"""What `connectors wait` and `apply --wait` make of a status."""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError
from kconnect.model import (
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Mend,
    Restarts,
    RunState,
    TaskState,
)
from kconnect_cli.admin.awaited_states import is_reached, raise_if_hopeless, state_text


def failed(*mends: Mend | None) -> ConnectorStatus:
    """A connector with a FAILED task for each."""
    tasks = tuple(
        TaskState(number, RunState.FAILED, "w:8083", "Boom", restarts=None if mend is None else Restarts(mend, 1, 5))
        for number, mend in enumerate(mends)
    )
    return ConnectorStatus("a", ConnectorState(RunState.RUNNING, "w:8083"), tasks, ConnectorType.SINK)


def test_a_failure_is_waited_out_while_a_restart_is_due_for_all_that_failed():
    raise_if_hopeless([failed(Mend.WAITING, Mend.WAITING)], "RUNNING")
    assert not is_reached(failed(Mend.WAITING), "RUNNING")
    assert state_text("a", failed(Mend.WAITING)) == "a is RUNNING, task 0 FAILED (restart 2 of 5 follows: Boom)"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (failed(None), "a task 0 FAILED: Boom"),
        (failed(Mend.WAITING, Mend.GIVEN_UP), "a task 1 FAILED: given up after 1 restart: Boom"),
        (failed(Mend.NOT_RESTARTED), "a task 0 FAILED: Boom"),
    ],
)
def test_a_failure_that_no_restart_follows_ends_the_wait(found, sentence):
    with pytest.raises(ConnectError) as raised:
        raise_if_hopeless([failed(Mend.WAITING), found], "RUNNING")
    assert str(raised.value) == sentence
    raise_if_hopeless([found], "STOPPED")
