"""`connect connectors watch`: lines of changes, what is reported of failures, and a worker that goes away meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TargetState, TaskState
from kconnect.runtime.rest import RestServer
from kconnect_cli.commands.connectors.watch import StateChanges
from kit.cli import cli_env, connect_command
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import ended
from kit.ports import free_port
from kit.waiting import eventually
from kit.webhook_target import webhook_target

TRACE = "java.io.IOException: disk is full\n\tat X"


def seen(*states: RunState) -> list[ConnectorStatus]:
    tasks = tuple(
        TaskState(number, state, "w:1", "RuntimeError: gone" if state is RunState.FAILED else None)
        for number, state in enumerate(states)
    )
    return [ConnectorStatus("c", ConnectorState(RunState.RUNNING, "w:1"), tasks, ConnectorType.SOURCE)]


def test_changes_are_events_and_the_first_look_tells_what_has_failed() -> None:
    changes = StateChanges()

    def look(*states: RunState) -> list[tuple[str, int | None, str]]:
        return [(event["event"], event["task"], event["state"]) for event in changes.look(seen(*states))]

    assert look(RunState.RUNNING, RunState.FAILED) == [("failed", 1, "FAILED")]
    assert look(RunState.RUNNING, RunState.FAILED) == []
    assert look(RunState.PAUSED, RunState.RESTARTING) == [("changed", 0, "PAUSED"), ("changed", 1, "RESTARTING")]
    assert look(RunState.RUNNING, RunState.RUNNING) == [("changed", 0, "RUNNING"), ("recovered", 1, "RUNNING")]
    assert look(RunState.RUNNING) == [("gone", 1, "GONE")]
    assert look(RunState.RUNNING, RunState.RUNNING) == [("new", 1, "RUNNING")]
    assert changes.look([])[0]["was"] == "RUNNING"


def test_one_look_tells_a_command_without_a_shell_and_ends_with_7(connect, herder, tmp_path: Path) -> None:
    message = tmp_path / "reported; rm -rf $HOME"
    script = tmp_path / "tell me.py"
    script.write_text(
        "import json, os, sys\n"
        "event = json.load(sys.stdin)\n"
        "names = [key for key in os.environ if key.startswith('KCONNECT_') and 'URL' not in key]\n"
        "reported = {key: os.environ[key] for key in names}\n"
        "with open(sys.argv[1], 'a') as file: file.write(json.dumps([event, reported]) + '\\n')\n"
        "print('a word of the command')\n"
    )
    command = f"{sys.executable} '{script}' '{message}'"
    assert connect("connectors", "watch", "--once", "--on-failure", command)[0] == 0
    assert not message.exists()
    herder.traces["orders"] = TRACE
    code, out, err = connect("connectors", "watch", "--once", "--on-failure", command, "-o", "json")
    assert (code, err.splitlines()[0]) == (7, "FAILED: orders task 0")
    event, environment = json.loads(message.read_text())
    assert json.loads(out) == event
    assert {key: event[key] for key in ("event", "name", "task", "state", "was", "cause")} == {
        "event": "failed",
        "name": "orders",
        "task": 0,
        "state": "FAILED",
        "was": None,
        "cause": "java.io.IOException: disk is full",
    }
    assert environment["KCONNECT_EVENT"] == "failed"
    assert environment["KCONNECT_CONNECTOR"] == "orders"
    assert environment["KCONNECT_CAUSE"] == "java.io.IOException: disk is full"
    assert connect("connectors", "watch", "lines", "--once")[:2] == (0, "")


def test_a_hook_that_cannot_work_is_refused_and_one_that_fails_is_reported(connect, herder) -> None:
    for wrong in ("", "'open", "no-such-command --x", "http://", "http://user@host/"):
        code, _, err = connect("connectors", "watch", "--once", "--on-failure", wrong)
        assert (code, "--on-failure" in err) == (2, True), wrong
    herder.traces["orders"] = TRACE
    code, out, err = connect("connectors", "watch", "--once", "--on-failure", "false")
    assert code == 7
    assert "orders task 0 FAILED: java.io.IOException: disk is full" in out
    assert "false ended with exit code 1" in err
    with webhook_target() as target:
        target.answers = [503, 204]
        assert connect("connectors", "watch", "--once", "--on-failure", target.url)[0] == 7
        target.answers = [404]
        _, _, err = connect("connectors", "watch", "--once", "--on-failure", target.url)
    assert [body["name"] for body in target.bodies] == ["orders"] * 3
    assert "answered 404" in err
    assert "t0ken" not in err


@contextmanager
def watching(url: str, home: Path, *options: str):
    """A `connectors watch` in another process, and its lines so far."""
    lines: dict[str, list[str]] = {"out": [], "err": []}
    process = subprocess.Popen(
        [*connect_command(), "connectors", "watch", "--interval", "100ms", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cli_env(home, {"KCONNECT_URL": url}),
    )

    def read(name: str, stream) -> None:
        for line in stream:
            lines[name].append(line.rstrip("\n"))

    readers = [
        threading.Thread(target=read, args=("out", process.stdout)),
        threading.Thread(target=read, args=("err", process.stderr)),
    ]
    for reader in readers:
        reader.start()
    try:
        yield process, lines
    finally:
        process.terminate()
        ended(process, 20)
        for reader in readers:
            reader.join()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.timeout(120)
def test_it_goes_on_when_the_worker_was_away(tmp_path: Path) -> None:
    herder, port = MemoryHerder(), free_port()
    herder.put_connector("orders", file_source(name="orders"), replace=False)
    url = f"http://127.0.0.1:{port}"
    message = tmp_path / "reported"
    code = 'import os,sys; open(sys.argv[1],"a").write(os.environ["KCONNECT_EVENT"]+" ")'
    hook = f"{sys.executable} -c '{code}' {message}"
    with watching(url, tmp_path, "--on-failure", hook) as (process, lines):
        eventually(lambda: any("127.0.0.1" in line for line in lines["err"]), 20, "nobody is there")
        with RestServer(herder, [url]):
            eventually(lambda: any("answers again" in line for line in lines["err"]), 20, "it is back")
            herder.set_target_state("orders", TargetState.PAUSED)
            eventually(lambda: any(line.endswith("orders task 0 PAUSED") for line in lines["out"]), 20, "")
            herder.traces["orders"] = TRACE
            eventually(lambda: any("orders task 0 FAILED: java.io" in line for line in lines["out"]), 20, "")
            eventually(lambda: message.exists() and message.read_text() == "failed ", 20, "")
        eventually(lambda: len([line for line in lines["err"] if "127.0.0.1" in line]) >= 3, 20, "away again, once")
        del herder.traces["orders"]
        herder.set_target_state("orders", TargetState.STARTED)
        with RestServer(herder, [url]):
            eventually(lambda: any(line.endswith("orders task 0 RUNNING again") for line in lines["out"]), 20, "")
            eventually(lambda: message.read_text() == "failed recovered ", 20, "")
        assert process.poll() is None
    assert process.returncode == 143
