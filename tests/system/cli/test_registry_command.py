"""`connect registry`: start, find, stop; schemas outlive a kill; its errors are a sentence and a hint."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from kit.cli import cli_env, cli_run, connect_command
from kit.pace import ample_s, ended
from kit.ports import free_port, is_listening
from kit.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def _ask(url: str, path: str, body: object = None) -> object:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url + path, data, {"Content-Type": "application/vnd.schemaregistry.v1+json"})
    with urlopen(request, timeout=ample_s(30)) as answer:
        return json.load(answer)


def test_a_detached_registry_is_shown_used_and_stopped_by_later_commands(home: Path) -> None:
    port = free_port()
    started = cli_run("registry", "start", "--detach", "--port", str(port), home=home, expect=0, timeout_s=200)
    try:
        assert f"schema.registry.url=http://127.0.0.1:{port}/apis/ccompat/v7" in started.stderr
        status = cli_run("registry", "status", "-o", "json", home=home, expect=0).json
        assert (status["state"], status["data_dir"].startswith(str(home))) == ("RUNNING", True)
        made = _ask(status["url"], "/subjects/t-value/versions", {"schema": '"string"'})
        again = cli_run("registry", "start", "--port", str(free_port()), home=home, expect=4)
        assert again.stderr.startswith("A schema registry already runs on the data folder")
        assert "connect registry stop" in again.stderr
    finally:
        stopped = cli_run("registry", "stop", home=home, expect=0)
    assert "stopped" in stopped.stderr
    assert not is_listening(port)
    assert cli_run("registry", "status", home=home, expect=3).stdout.splitlines()[1].startswith("STOPPED")
    assert "No schema registry runs" in cli_run("registry", "stop", home=home, expect=0).stderr
    cli_run("registry", "start", "--detach", "--port", str(port), home=home, expect=0, timeout_s=200)
    try:
        assert isinstance(made, dict)
        assert _ask(status["url"], f"/schemas/ids/{made['id']}")["schema"] == '"string"'  # type: ignore[index]
    finally:
        cli_run("registry", "stop", home=home, expect=0)


def test_a_registry_in_the_foreground_ends_with_its_command(home: Path) -> None:
    port = free_port()
    with (home / "out").open("wb") as out:
        command = subprocess.Popen(
            [*connect_command(), "registry", "start", "--port", str(port)],
            env=cli_env(home),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: "Ctrl-C stops it" in (home / "out").read_text(), 120, "the registry is ready")
        command.send_signal(signal.SIGINT)
        assert ended(command, 30) == 130
    finally:
        command.kill()
        ended(command, 10)
    assert not is_listening(port)


def test_a_folder_of_something_else_is_refused(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine.txt").write_text("x")
    refused = cli_run("registry", "start", "--data", str(folder), "--port", str(free_port()), home=home, expect=1)
    assert "is not empty and no data folder of this schema registry (it holds mine.txt)" in refused.stderr
    assert "--data" in refused.stderr
