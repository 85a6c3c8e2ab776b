"""A herder whose thread has died leaves a file with what its state machine saw, and its log line names that."""

from __future__ import annotations

import json
import logging
import re
import stat
from pathlib import Path

import pytest

from kconnect.errors import ConnectError
from kconnect.files.folders import state_folder
from kconnect.runtime.herder.cluster.herder_thread import save_trace
from kconnect.runtime.herder.decisions.events import Written
from kconnect.runtime.herder.decisions.writes import ForKey
from kit.distributed import memory_cluster
from kit.herder_state import Member
from kit.trace_replay import replay
from kit.waiting import eventually

SECRET = "s3cr3t-of-the-file"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return state_folder()


def traces(folder: Path) -> list[Path]:
    return sorted(folder.glob("herder-trace-*.json"))


def test_a_state_machine_that_raises_leaves_a_trace_that_raises_again(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with memory_cluster(1) as cluster, caplog.at_level(logging.ERROR):
        cluster.create("orders", password=SECRET)
        cluster.await_running("orders")
        cluster.nodes[0].herder.assembly.group.inbox.post(Written(ForKey(), None))  # type: ignore[arg-type] # the bug

        eventually(lambda: traces(folder), 5, "the thread has died")
        with pytest.raises(ConnectError):
            eventually(cluster.nodes[0].herder.raise_if_failed, 5, "it says so")

    (path,) = traces(folder)
    text = path.read_text("utf-8")
    document = json.loads(text)
    assert f"The trace of its last decisions is in {path}" in caplog.text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert re.fullmatch(r"herder-trace-w0_8083-\d{8}T\d{6}\.\d{3}Z\.json", path.name)
    assert SECRET not in text
    assert document["worker_id"] == "w0:8083"
    assert document["entries"][-1]["error"] == "AttributeError"
    assert replay(document) == len(document["entries"]) > 5


def test_only_the_last_few_files_are_kept(folder: Path) -> None:
    state = Member().settled().state

    for number in range(8):
        assert save_trace(state, "w:1", number * 1_000).startswith("The trace of its last decisions is in ")

    assert [path.name[-11:-5] for path in traces(folder)] == [f"{number:02}.000Z"[-6:] for number in range(3, 8)]


def test_a_folder_that_cannot_be_written_is_reported_and_hides_nothing_else(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file where the folder should be")

    reported = save_trace(Member().settled().state, "w:1", 1)

    assert reported.startswith("The trace of its last decisions could not be written: ")
