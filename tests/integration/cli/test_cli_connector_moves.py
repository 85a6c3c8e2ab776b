"""`connect connectors rename`, `copy` and `delete --with-offsets`: all of it, or as it was before."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from kconnect.errors import ConnectError, NotFoundError
from kconnect.model import ConnectorOffset, ConnectorState, RunState, TargetState, TaskState
from kconnect.runtime.rest import RestServer
from kconnect_cli.admin import connector_move
from kconnect_cli.app import run
from kit.memory_herder import MemoryHerder, file_source

AT_14 = [ConnectorOffset({"filename": "/in"}, {"position": 14})]


class RefusingHerder(MemoryHerder):
    """Refuses what a test names: `alter NAME`, `reset NAME`, `delete NAME`; may store other offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.shift = 0
        self.unseen = {"new", "twin"}
        self.hangs = False
        """Whether the task of `old` does not end."""

    def _refuse(self, what: str) -> None:
        if what in self.refused:
            raise ConnectError(f"no {what}")

    def alter_connector_offsets(self, name, offsets, **more):
        self._refuse(f"alter {name}")
        moved = [
            ConnectorOffset(item.partition, {"position": item.offset["position"] + self.shift}) for item in offsets
        ]
        return super().alter_connector_offsets(name, moved, **more)

    def reset_connector_offsets(self, name, **more):
        self._refuse(f"reset {name}")
        return super().reset_connector_offsets(name, **more)

    def connector_status(self, name):
        if name in self.unseen:
            self.unseen.remove(name)
            raise NotFoundError(f"No status found for connector {name}")
        status = super().connector_status(name)
        if self.hangs and name == "old" and not status.tasks:
            return replace(status, tasks=(TaskState(0, RunState.RUNNING, self.worker_id),))
        return status

    def delete_connector(self, name, **more):
        self._refuse(f"delete {name}")
        return super().delete_connector(name, **more)


@pytest.fixture
def herder():
    herder = RefusingHerder()
    herder.put_connector("old", file_source(name="old"), replace=False)
    herder.set_target_state("old", TargetState.STOPPED)
    herder.alter_connector_offsets("old", AT_14)
    herder.set_target_state("old", TargetState.STARTED)
    return herder


@pytest.fixture
def connect(herder, monkeypatch, capsys, tmp_path):
    with RestServer(herder, ["http://127.0.0.1:0"]) as server:
        monkeypatch.setenv("KCONNECT_URL", server.urls[0])
        for folder in ("CONFIG", "STATE"):
            monkeypatch.setenv(f"XDG_{folder}_HOME", str(tmp_path / folder))
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))

        def call(*args):
            code = run(("connectors", *args))
            out, err = capsys.readouterr()
            return code, out, err

        yield call


def state(herder, name: str) -> RunState:
    return herder.connector_status(name).connector.state


@pytest.mark.parametrize("target", [TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED])
def test_a_renamed_connector_goes_on_where_it_was_in_the_state_it_was_in(connect, herder, target) -> None:
    herder.set_target_state("old", target)
    before, config = state(herder, "old"), dict(herder.connector_config("old"))
    code, _, err = connect("rename", "old", "new", "--yes")
    assert (code, err.splitlines()[-1]) == (0, "renamed old to new")
    assert herder.connectors() == ["new"]
    assert herder.connector_offsets("new") == AT_14
    assert state(herder, "new") is before
    assert dict(herder.connector_config("new")) == {**config, "name": "new"}


@pytest.mark.parametrize("refused", ["alter new", "delete old", "verify"])
def test_when_a_step_of_a_rename_fails_all_is_as_before(connect, herder, refused) -> None:
    herder.refused = {refused}
    herder.shift = 5 if refused == "verify" else 0
    code, _, err = connect("rename", "old", "new", "--yes")
    assert code in (1, 4), err
    assert herder.connectors() == ["old"]
    assert herder.connector_offsets("old") == AT_14
    assert state(herder, "old") is RunState.RUNNING


def test_what_cannot_be_renamed_is_refused_before_anything_is_stopped(connect, herder) -> None:
    herder.put_connector("new", file_source(name="new"), replace=False)
    assert connect("rename", "old", "new", "--yes")[0] == 4
    assert connect("rename", "old", "old", "--yes")[0] == 2
    assert connect("rename", "nobody", "x", "--yes")[0] == 3
    assert connect("rename", "old", "x")[0] == 2, "nobody says yes"
    assert state(herder, "old") is RunState.RUNNING
    assert herder.connectors() == ["new", "old"]


def test_a_copy_is_stopped_at_the_same_offsets_and_the_old_one_is_not_touched(connect, herder) -> None:
    code, _, err = connect("copy", "old", "twin", "--yes")
    assert (code, err.splitlines()[-1]) == (0, "copied old to twin, which is STOPPED")
    assert (state(herder, "old"), state(herder, "twin")) == (RunState.RUNNING, RunState.STOPPED)
    assert herder.connector_offsets("twin") == herder.connector_offsets("old") == AT_14
    assert connect("copy", "old", "third", "--yes", "--start")[0] == 0
    assert state(herder, "third") is RunState.RUNNING
    herder.put_connector("fourth", file_source(name="fourth"), replace=False)
    herder.set_target_state("fourth", TargetState.STOPPED)
    herder.alter_connector_offsets("fourth", [ConnectorOffset({"filename": "/former"}, {"position": 1})])
    herder.delete_connector("fourth")
    assert connect("copy", "old", "fourth", "--yes")[0] == 0
    assert herder.connector_offsets("fourth") == AT_14, "what a former one left is gone"
    herder.delete_connector("fourth")
    herder.refused = {"alter fourth"}
    assert connect("copy", "old", "fourth", "--yes")[0] == 1
    assert "fourth" not in herder.connectors()


def test_a_connector_is_deleted_with_its_offsets_or_runs_on(connect, herder) -> None:
    herder.refused = {"reset old"}
    assert connect("delete", "old", "--with-offsets", "--yes")[0] == 1
    assert state(herder, "old") is RunState.RUNNING
    herder.refused = set()
    code, _, err = connect("delete", "old", "--with-offsets", "--yes")
    assert (code, err.splitlines()[-1]) == (0, "deleted old")
    with pytest.raises(NotFoundError):
        herder.connector_status("old")
    herder.put_connector("old", file_source(name="old"), replace=False)
    assert herder.connector_offsets("old") == []


@pytest.mark.parametrize("command", [("rename", "old", "new"), ("delete", "old", "--with-offsets")])
def test_a_connector_whose_task_does_not_end_runs_on(connect, herder, monkeypatch, command) -> None:
    monkeypatch.setattr(connector_move, "_STOP_S", 0.0)
    herder.hangs = True
    code, _, err = connect(*command, "--yes")
    assert code != 0
    assert "did not stop within" in err
    assert herder.connectors() == ["old"]
    assert herder.connector_offsets("old") == AT_14
    assert state(herder, "old") is RunState.RUNNING


@pytest.mark.parametrize("command", [("rename", "old", "new"), ("delete", "old", "--with-offsets")])
def test_a_connector_that_no_worker_has_is_left_alone_as_its_state_is_not_known(
    connect, herder, monkeypatch, command
) -> None:
    herder.set_target_state("old", TargetState.PAUSED)
    there, nowhere = herder.connector_status, ConnectorState(RunState.UNASSIGNED, herder.worker_id)
    with monkeypatch.context() as patched:
        patched.setattr(herder, "connector_status", lambda name: replace(there(name), connector=nowhere))
        code, _, err = connect(*command, "--yes")
    assert (code, "old is UNASSIGNED: no worker has it" in err) == (4, True), err
    assert herder.connectors() == ["old"]
    assert state(herder, "old") is RunState.PAUSED
