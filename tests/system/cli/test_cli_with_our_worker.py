"""`connect connectors` and `connect offsets` beside our own `connect standalone`: the same steps as beside Java's."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.admin_flow import Operator, sink_from_create_to_delete, source_from_create_to_delete, what_is_not_there
from kit.cli import cli_env, connect_command
from kit.pace import ample_text, ended
from kit.standalone import Standalone
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def worker(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("worker"), broker.bootstrap, {}) as running:
        running.start()
        yield running
        assert running.stop() == 143


@pytest.fixture
def operator(worker: Standalone, home: Path) -> Operator:
    return Operator(worker.url, home)


def test_what_is_not_there_has_an_exit_code_of_its_own(operator: Operator) -> None:
    what_is_not_there(operator)


def test_a_source_is_managed_from_create_to_delete(
    operator: Operator, broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    source_from_create_to_delete(operator, broker.bootstrap, topic, tmp_path, "a b")


def test_a_sink_is_managed_from_create_to_delete(
    operator: Operator, broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    sink_from_create_to_delete(operator, broker.bootstrap, topic, tmp_path, f"out-{uuid.uuid4().hex[:6]}")


ODD_NAMES = ("a/b 50%", "-dash", "a%2Fb", "ü\\q")


def test_names_of_any_kind_are_selected_waited_for_completed_and_moved(
    operator: Operator, topic: str, tmp_path: Path
) -> None:
    """A slash, per cents, a blank, a leading dash, a backslash: all the way through shell, command and REST."""
    connect = operator.connect
    data = tmp_path / "in.txt"
    data.write_text("one\n")
    config = {"connector.class": "FileStreamSource", "file": str(data), "topic": topic}
    file = tmp_path / "connectors.json"
    file.write_text(json.dumps([{"name": name, "config": config} for name in ODD_NAMES]))
    connect("connectors", "apply", "-f", str(file))
    connect("connectors", "wait", "--timeout", ample_text(30), "--", *ODD_NAMES)

    def offered() -> set[str]:
        """Nothing when the worker does not answer in the time that a shell may wait."""
        lines = connect("complete", "--", "connectors", "pause", "--", "").splitlines()
        return {line.partition("\t")[0] for line in lines}

    eventually(lambda: offered() >= set(ODD_NAMES), 30, "all names are offered")

    def offsets() -> str:
        return connect("offsets", "show", "-o", "json", "--", *ODD_NAMES)

    eventually(lambda: offsets().count('"position": 4') == len(ODD_NAMES), 30, "every source commits its line")
    connect("connectors", "stop", "--regexp", "--", *(re.escape(name) for name in ODD_NAMES))
    connect("connectors", "wait", "--state", "STOPPED", "--", *ODD_NAMES)
    shown = offsets()
    assert [item["name"] for item in json.loads(shown)] == list(ODD_NAMES)
    connect("offsets", "reset", "--yes", "--", *ODD_NAMES)
    assert '"position"' not in offsets()
    connect("offsets", "alter", "-f", "-", "--yes", stdin=shown)
    assert offsets() == shown
    connect("connectors", "delete", "--yes", "--", *ODD_NAMES)
    connect("connectors", "wait", "--state", "GONE", "--", *ODD_NAMES)


def test_apply_by_labels_ends_when_it_runs_and_at_once_when_it_cannot(
    operator: Operator, topic: str, tmp_path: Path
) -> None:
    """An update that breaks a connector, and the one that repairs it: neither is taken for the state before it."""
    run, name, team = operator.run, f"out-{uuid.uuid4().hex[:6]}", f"team-{uuid.uuid4().hex[:6]}"
    files = tmp_path / "files"
    files.mkdir()

    def write(name: str, team: str, folder: Path) -> None:
        sink = {"connector.class": "FileStreamSink", "file": str(folder / f"{name}.txt"), "topics": topic}
        config = {**sink, "errors.restart.max": "0", "kconnect.labels": f"team={team}"}
        (files / f"{name}.json").write_text(json.dumps({"name": name, "config": config}))

    write(name, team, tmp_path)
    write(f"{name}-old", team, tmp_path)
    write(f"{name}-theirs", f"{team}.other", tmp_path)
    apply = ("connectors", "apply", "-f", str(files), "--yes", "--wait", "--timeout", ample_text(60), "--prune", "-l")
    assert f"{name}-theirs is RUNNING\n" in run(*apply, f"team={team}.other", expect=0).stderr
    reported = run(*apply, f"team={team}", expect=0).stderr.splitlines()
    assert {f"{name}-old is RUNNING", f"{name} is RUNNING"} <= set(reported), "in the order in which they came to run"
    (files / f"{name}-old.json").unlink()
    (files / f"{name}-theirs.json").unlink()
    write(name, team, tmp_path / "missing")
    broken = run(*apply, f"team={team}", expect=7).stderr
    assert f"deleted {name}-old\n" in broken
    assert f"{name} task 0 FAILED: FileNotFoundError" in broken
    write(name, team, tmp_path)
    assert run(*apply, f"team={team}", expect=0).stderr.endswith(f"\n{name} is RUNNING\n")
    assert operator.connect("connectors", "list", "-l", f"team,team!={team}", "-o", "name") == f"{name}-theirs\n"
    refused = run("config", "set", name, "kconnect.labels=team", expect=1).stderr
    assert "kconnect.labels: team is not key=value" in refused
    operator.connect("connectors", "delete", "--yes", "--prefix", name)


def test_only_what_failed_is_restarted_and_watch_tells_it(
    operator: Operator, worker: Standalone, home: Path, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "later"
    sink = {
        "connector.class": "FileStreamSink",
        "file": str(folder / "out"),
        "topics": topic,
        "errors.restart.max": "0",
    }
    name = f"late-{uuid.uuid4().hex[:6]}"
    file = tmp_path / "late.json"
    file.write_text(json.dumps({"name": name, "config": sink}))
    operator.connect("connectors", "create", str(file))
    operator.connect("connectors", "wait", name, "--state", "FAILED", "--timeout", ample_text(30))
    assert "No such file or directory" in operator.run("connectors", "wait", name, expect=7).stderr
    command = [
        *connect_command(),
        "connectors",
        "status",
        name,
        "--watch",
        "--interval",
        "100ms",
        "--url",
        worker.url,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=cli_env(home)) as watching:
        try:
            assert watching.stdout is not None
            first = watching.stdout.readline() + watching.stdout.readline()
            assert f"{name} task 0 FAILED: FileNotFoundError" in first
            folder.mkdir()
            assert (
                operator.run("connectors", "restart", "--failed", "--all", expect=0).stderr
                == f"restarted {name}: task 0\n"
            )
            operator.connect("connectors", "wait", name, "--timeout", ample_text(30))
            while f"{name} task 0 RUNNING" not in (line := watching.stdout.readline()):
                assert line, "the watch ended without telling that the task runs"
        finally:  # else the end of this block waits for a watch that does not end
            watching.terminate()
        assert ended(watching, 10) == 143
    assert operator.run("connectors", "restart", "--failed", "--all", expect=0).stderr == "No connector is FAILED.\n"
    operator.connect("connectors", "delete", name, "--yes")
