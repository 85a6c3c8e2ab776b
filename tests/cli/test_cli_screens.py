"""What people see on a terminal: colours, the screen of `status --watch`, hidden passwords, bash's completion."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from kconnect.model import TargetState
from kit.cli import cli_env, cli_run, connect_command
from kit.memory_herder import file_source
from kit.screen import Terminal


@pytest.fixture
def terminal(home, url):
    """Run `connect ARGS` on a terminal."""
    running = []

    def run(*args, lines=24):
        env = {key: value for key, value in cli_env(home, {"KCONNECT_URL": url}).items() if key != "NO_COLOR"}
        terminal = Terminal([*connect_command(), *args], env, cwd=str(home), lines=lines)
        running.append(terminal)
        return terminal

    yield run
    for terminal in running:
        terminal.__exit__(None, None, None)


def test_states_are_coloured_on_a_terminal(terminal, herder):
    herder.traces["orders"] = "boom"
    screen = terminal("connectors", "list")
    assert screen.wait() == 0
    assert "\x1b[32mRUNNING\x1b[0m" in screen.text
    assert "\x1b[1;31mFAILED\x1b[0m" in screen.text


def test_a_diff_is_coloured_on_a_terminal(terminal, home):
    (home / "orders.toml").write_text('name = "orders"\n"connector.class" = "FileStreamSource"\ntopic = "new"\n')
    screen = terminal("connectors", "apply", "-f", "orders.toml", "--dry-run")
    assert screen.wait() == 1
    assert "\x1b[31m  - topic = t\x1b[0m" in screen.text
    assert "\x1b[32m  + topic = new\x1b[0m" in screen.text


def test_watch_draws_over_itself_keeps_to_the_screen_and_gives_it_back(terminal, herder):
    for number in range(30):
        herder.put_connector(f"more-{number}", file_source(), replace=False)
    herder.traces["orders"] = "java.io.IOException: " + "x" * 500
    screen = terminal("connectors", "status", "--watch", "--interval", "200ms", lines=10)
    drawn = screen.until(".. and 58 more").partition("\x1b[J")[0]
    assert "\x1b[?1049h" in drawn
    assert drawn.count("\r\n") == 9
    assert "FAILED" in drawn.split("\r\n")[3]
    screen.forget()
    herder.traces.clear()
    herder.set_target_state("lines", TargetState.PAUSED)
    screen.until("PAUSED")
    screen.interrupt()
    assert screen.wait() == 130
    assert screen.text.endswith("\x1b[?25h\x1b[?1049l")


def test_watch_without_a_terminal_prints_what_changed(home, url, herder):
    command = [*connect_command(), "connectors", "status", "lines", "--watch", "--interval", "100ms", "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=cli_env(home)) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().split(" ", 1)[1] for _ in range(2)] == [
            "lines RUNNING\n",
            "lines task 0 RUNNING\n",
        ]
        herder.set_target_state("lines", TargetState.PAUSED)
        assert process.stdout.readline().split(" ", 1)[1] == "lines PAUSED\n"
        process.terminate()
        assert process.wait(10) == 143


def test_a_password_is_asked_for_and_not_echoed(terminal, home):
    screen = terminal("contexts", "add", "prod", "http://h:1", "--user", "ann", "--password")
    screen.until("Password of ann: ")
    screen.type("s3cret\n")
    assert screen.wait() == 0
    assert "s3cret" not in screen.text
    (file,) = home.rglob("contexts.toml")
    assert tomllib.loads(file.read_text())["contexts"]["prod"]["password"] == "s3cret"


def test_delete_asks_on_a_terminal(terminal, herder):
    screen = terminal("connectors", "delete", "orders")
    screen.until("[y/N]")
    screen.type("n\n")
    assert screen.wait() == 1
    assert "orders" in herder.known


def test_bash_completes_live_names(home, url, herder):
    herder.put_connector("or der", file_source(), replace=False)
    script = cli_run("completion", "bash", home=home, expect=0).stdout
    lines = (("connect", "connectors", "pause", "or"), ("connect", "connectors", "ap"))
    asked = script
    for words in lines:
        asked += f"\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _connect_completion"
        asked += '; printf "%s\\n" "${COMPREPLY[@]}"'
    env = cli_env(home, {"KCONNECT_URL": url})
    env["PATH"] = f"{Path(connect_command()[0]).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, env=env, timeout=20, check=True)
    assert done.stdout.splitlines() == ["or\\ der", "orders", "apply"]
    assert done.stderr == ""
