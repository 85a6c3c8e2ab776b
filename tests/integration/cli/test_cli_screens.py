"""What people see on a terminal: colours, the screen of `status --watch`, hidden passwords, bash's completion."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomli

from kconnect.model import Condition, TargetState, TaskCondition, TaskId
from kconnect.runtime.herder.health.reasons import Reason
from kit.cli import cli_env, connect_command
from kit.memory_herder import file_source
from kit.pace import ample_s, ended
from kit.screen import Terminal
from kit.waiting import eventually


@pytest.fixture
def terminal(home, url):
    """Run `connect ARGS` on a terminal."""
    running = []

    def run(*args, lines=24, columns=100):
        env = {key: value for key, value in cli_env(home, {"KCONNECT_URL": url}).items() if key != "NO_COLOR"}
        terminal = Terminal([*connect_command(), *args], env, cwd=str(home), lines=lines, columns=columns)
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
    assert screen.wait() == 7
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
    herder.traces["lines"] = "Boom"
    screen.until("Boom")
    screen.interrupt()
    assert screen.wait() == 130
    assert screen.text.endswith("\x1b[?25h\x1b[?1049l")


def all_of(screen):
    """What it has written so far."""
    screen.taken()
    return screen.text


def next_drawn(screen):
    """A whole screen that is drawn from now on."""
    screen.forget()
    eventually(lambda: all_of(screen).count("\x1b[J") >= 2, 20, "it draws")
    return screen.text.split("\x1b[J")[1]


def test_watch_says_what_a_starting_worker_waits_for_with_its_seconds(terminal, herder):
    herder.ready = herder.opened = False
    herder.reasons = [Reason("Spark is starting", time.time_ns() // 1_000_000 - 4_000, is_starting=True)]
    screen = terminal("connectors", "status", "--watch", "--interval", "100ms")
    first = re.search(r"The worker is starting: Spark is starting \((\d+) s\)\.", screen.until(" s)."))
    assert first is not None
    assert int(first[1]) >= 4
    # Not the very next second: a busy machine may draw none with it
    reported = re.compile(r"Spark is starting \((\d+) s\)\.")
    eventually(lambda: max(map(int, reported.findall(all_of(screen)))) > int(first[1]), 20, "its seconds go on")
    herder.opened = True
    screen.until("RUNNING")
    herder.ready, herder.reasons = True, []
    # One more look may have been taken before that
    eventually(lambda: "Spark is starting" not in next_drawn(screen), 20, "it is no longer reported")
    screen.interrupt()
    assert screen.wait() == 130


@pytest.mark.parametrize("command", ["list", "status"])
def test_a_command_that_waits_for_a_worker_to_start_says_so(home, url, herder, command):
    herder.ready = herder.opened = False
    herder.reasons = [Reason("Waiting for Kafka at b:1", time.time_ns() // 1_000_000, is_starting=True)]
    line = [*connect_command(), "connectors", command, "--url", url]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cli_env(home)
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        herder.opened = True
        out, _ = process.communicate(timeout=ample_s(20))
    assert re.fullmatch(re.escape(url) + r" is starting: Waiting for Kafka at b:1 \(\d+ s\)\. Waiting for it\.\n", said)
    assert "orders" in out


def test_unassigned_tasks_of_a_worker_that_starts_are_explained(connect, herder):
    herder.traces["orders"] = "x"
    herder.unassigned.add("lines")
    herder.reasons = [Reason("Spark is starting", time.time_ns() // 1_000_000 - 4_100, is_starting=True)]
    for command in ("list", "status"):
        assert re.search(r"is starting: Spark is starting \(\d+ s\)\.\n", connect("connectors", command)[2])
    table = connect("connectors", "status", "lines")[1]
    assert re.search(r"\nlines +0 +UNASSIGNED .* starting: Spark is starting \(\d+ s\)\n", table), table
    machine = connect("connectors", "status", "lines", "-o", "json")[1]
    assert "Spark is starting" not in machine, "fields of -o json stay as they are"
    herder.unassigned.clear()
    assert "starting" not in connect("connectors", "list")[2]
    assert "starting" not in connect("connectors", "status")[1]


def test_watch_shows_why_tasks_are_unassigned_in_their_rows(terminal, herder):
    herder.unassigned.add("lines")
    herder.reasons = [Reason("Spark is starting", time.time_ns() // 1_000_000 - 4_000, is_starting=True)]
    screen = terminal("connectors", "status", "lines", "--watch", "--interval", "100ms")
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", screen.until("\x1b[J"))
    assert re.search(r"\nlines +0 +UNASSIGNED [^\n]* starting: Spark is starting \(\d+ s\)", drawn), drawn
    screen.interrupt()
    assert screen.wait() == 130


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
        assert ended(process, 10) == 143


def test_watch_tells_when_a_task_does_not_get_on_and_not_each_attempt(home, url, herder):
    def retrying(count):
        since_ms = int(time.time() * 1000)
        herder.conditions[TaskId("lines", 0)] = TaskCondition(Condition.RETRYING, since_ms, count, "no route")

    command = [*connect_command(), "connectors", "status", "lines", "--watch", "--interval", "50ms", "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=cli_env(home)) as process:
        assert process.stdout is not None

        def line() -> str:
            return process.stdout.readline().split(" ", 1)[1]

        assert [line(), line()] == ["lines RUNNING\n", "lines task 0 RUNNING\n"]
        herder.conditions[TaskId("lines", 0)] = TaskCondition(Condition.HEALTHY, 0)  # no news
        herder.calls.clear()
        eventually(lambda: len([call for call in herder.calls if call[0] == "task_conditions"]) > 2, 10)
        retrying(1)
        assert line().startswith("lines task 0 RUNNING retrying: for ")
        for count in range(2, 5):
            retrying(count)
            herder.calls.clear()
            eventually(lambda: len([call for call in herder.calls if call[0] == "task_conditions"]) > 2, 10)
        del herder.conditions[TaskId("lines", 0)]
        assert line() == "lines task 0 RUNNING\n"
        process.terminate()
        assert ended(process, 10) == 143


def test_a_password_is_asked_for_and_not_echoed(terminal, home):
    screen = terminal("contexts", "add", "prod", "http://h:1", "--user", "ann", "--password")
    screen.until("Password of ann: ")
    screen.type("s3cret\n")
    assert screen.wait() == 0
    assert "s3cret" not in screen.text
    (file,) = home.rglob("contexts.toml")
    assert tomli.loads(file.read_text())["contexts"]["prod"]["password"] == "s3cret"


def test_delete_asks_on_a_terminal(terminal, herder):
    screen = terminal("connectors", "delete", "orders")
    screen.until("[y/N]")
    screen.type("n\n")
    assert screen.wait() == 1
    assert "orders" in herder.known


# How each shell is started, and set up so that `connect` prints what it was given; completion calls the real one
_SHELLS = {
    "bash": (["bash", "--norc"], "connect() { printf '<%s>' \"$@\"; }; source <(command connect completion bash)"),
    "zsh": (
        ["zsh", "-f"],
        "autoload -U compinit; compinit -u -D; connect() { printf '<%s>' \"$@\"; }; "
        "source <(command connect completion zsh)",
    ),
    "fish": (
        ["fish", "--no-config"],
        "function connect; printf '<%s>' $argv; end; command connect completion fish | source",
    ),
}


# A shell wants the terminal to be its own, as a login gives it
_LOGIN = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


# What a shell writes when it reads a line: pasted text is to come in brackets
_READS = "\x1b[?2004h"


def complete(terminal, typed, given):
    """Type this, Tab and Enter; again when nothing was offered in the half second that a shell may wait."""
    tries = itertools.count()

    def is_completed():
        if next(tries):
            terminal.forget()
            terminal.type("\x03")  # out of a line whose quotes are open
            terminal.until(_READS)
        terminal.forget()
        terminal.type(f"connect {typed}\t\n")
        return given in terminal.until(_READS)

    eventually(is_completed, 60, f"{typed} is completed to {given}")


@pytest.mark.parametrize("shell", [name for name in _SHELLS if shutil.which(name)])
def test_a_shell_completes_live_names_also_between_quotes(home, url, herder, shell):
    """The shells that this machine has; bash is everywhere."""
    for name in ("or der", "a/b", "50%", "-dash"):
        herder.put_connector(name, file_source(), replace=False)
    command, setup = _SHELLS[shell]
    env = cli_env(home, {"KCONNECT_URL": url})
    env["PATH"] = f"{Path(connect_command()[0]).parent}{os.pathsep}{env['PATH']}"
    with Terminal([sys.executable, "-c", _LOGIN, *command], env, cwd=str(home), columns=120) as terminal:
        terminal.type(f"{setup}; printf 're%s\\n' ady\n")
        terminal.until("ready")
        terminal.until(_READS)
        for typed, given in (
            ("connectors pause or\\ d", "<connectors><pause><or der>"),
            ('connectors pause "or d', "<connectors><pause><or der>"),
            ("connectors pause a", "<connectors><pause><a/b>"),
            ("connectors pause 50", "<connectors><pause><50%>"),
            ("connectors pause -- -d", "<connectors><pause><--><-dash>"),
            ('config get "or der" to', "<config><get><or der><topic>"),
        ):
            complete(terminal, typed, given)
        terminal.type("exit\n")
        terminal.wait()


def test_names_stay_whole_on_a_narrow_terminal(terminal):
    screen = terminal("plugins", "show", "FileStreamSource", columns=60)
    assert screen.wait() == 0
    lines = screen.text.splitlines()
    below = lines.index(next(line for line in lines if line.startswith("topic "))) + 1
    assert lines[below] == "    Topic to write to."
    assert max(len(line) for line in lines) <= 60


@pytest.mark.parametrize("columns", [60, 80])
def test_no_word_is_broken_on_a_narrow_terminal(terminal, herder, columns):
    """Lines end between words; only a word that is longer than a line is left to the terminal."""
    name = "orders-of-the-warehouse-in-town-into-files"
    herder.put_connector(name, file_source(), replace=False)
    herder.traces[name] = "org.apache.kafka.connect.errors.DataException: the value of a field does not fit, and why"
    commands = [
        ["status"],
        ["connectors", "list"],
        ["connectors", "status"],
        ["connectors", "show", name],
        ["tasks", "list", name],
        ["describe", name],
        ["config", "get", name],
        ["offsets", "show", name],
        ["plugins", "list"],
        ["plugins", "show", "FileStreamSource"],
        ["connectors", "pause", f"{name}-that-is-not-there"],
        ["connectors", "list", "--url", "http://127.0.0.1:1"],
    ]
    screens = [terminal(*words, columns=columns) for words in commands]
    for words, screen in zip(commands, screens, strict=True):
        screen.wait()
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in screen.text.splitlines()]
        broken = [line for line in lines if len(line.rstrip()) > columns and " " in line.strip()]
        assert (words, broken) == (words, [])
        assert lines, words
