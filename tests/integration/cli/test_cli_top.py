"""`connect top` on a real terminal: what it shows, what its keys do, and how it leaves."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from kconnect.model import TargetState
from kconnect.runtime.rest import RestServer
from kit.cli import cli_env, cli_run, connect_command
from kit.memory_herder import file_source
from kit.pace import ample_s
from kit.picture import Picture
from kit.ports import free_port
from kit.screen import Terminal


@pytest.fixture
def top(home, url):
    """Run `connect top ARGS`."""
    running = []

    def run(*args, columns=100, lines=24, colours=False):
        env = cli_env(home, {"KCONNECT_URL": url})
        if colours:
            del env["NO_COLOR"]
        terminal = Terminal(
            [*connect_command(), "top", "--interval", "200ms", *args], env, cwd=str(home), columns=columns, lines=lines
        )
        running.append(terminal)
        return Picture(terminal, columns, lines)

    yield run
    for terminal in running:
        terminal.__exit__(None, None, None)


def test_a_failed_task_is_seen_opened_restarted_and_the_terminal_given_back(top, herder):
    herder.traces["orders"] = "Task orders-0 failed: boom. Root cause: ValueError: no such topic\nTraceback ..\n"
    screen = top()
    text = screen.until("ValueError: no such topic")
    assert [line.split()[0] for line in text.splitlines()[4:6]] == ["orders", "lines"], "the worst first"
    screen.press("\r2")
    screen.until("Traceback ..")
    screen.press("3")
    screen.until("file = /in.txt")
    screen.press("\x1b")
    screen.until("2 tasks")
    screen.press("R")
    screen.until("Restart what of orders?")
    screen.press("f")
    screen.until("y: yes")
    screen.press("y")
    screen.until("restarted orders: task 0")
    assert ("restart_by_plan", "orders", True, True) in herder.calls
    screen.until(lambda text: "FAILED 1" not in text and "2 RUNNING" in text)
    screen.press("q")
    assert screen.terminal.wait() == 0
    assert screen.terminal.raw.rstrip().endswith(b"\x1b[?1049l") or b"\x1b[?1049l" in screen.terminal.raw[-200:]
    assert b"\x1b[?25h" in screen.terminal.raw[-300:], "the cursor is back"


def test_pause_asks_and_an_answer_of_no_changes_nothing(top, herder):
    screen = top("lin*")
    screen.until("lines")
    assert "orders" not in screen.text
    screen.press("p")
    screen.until("Pause lines?")
    screen.press("n")
    screen.until("Nothing was changed.")
    assert not [call for call in herder.calls if call[0] == "set_target_state"]
    screen.press("p")
    screen.until("y: yes")
    screen.press("y")
    screen.until("paused lines")
    screen.until(lambda text: "1 PAUSED" in text)
    assert herder.known["lines"].state is TargetState.PAUSED


def test_without_colours_there_is_no_colour_and_with_them_failed_is_red(top, herder):
    herder.traces["orders"] = "boom"
    coloured = re.compile(rb"\x1b\[[0-9;]*(?:3[0-7]|9[0-7]|38;|48;|4[0-7])[0-9;]*m")
    plain = top()
    plain.until("FAILED")
    assert not coloured.search(plain.terminal.raw)
    bright = top(colours=True)
    bright.until("FAILED")
    assert re.search(rb"\x1b\[[0-9;]*31[0-9;]*m *FAILED", bright.terminal.raw)


def test_a_small_terminal_and_a_new_size(top, herder):
    for number in range(30):
        herder.put_connector(f"more-{number:02}", file_source(), replace=False)
    screen = top(columns=60, lines=15)
    screen.until("1-10 of 32")
    screen.press("G")
    screen.until("orders")
    screen.resize(120, 40)
    text = screen.until(lambda text: "orders" in text and "lines" in text and "R restart" in text.splitlines()[-1])
    assert "WHY" in text


def test_a_worker_that_dies_while_it_is_watched_is_reported_and_found_again(home, herder):
    url = f"http://127.0.0.1:{free_port()}"  # which nobody takes while it does not listen
    with RestServer(herder, [url]) as server:
        terminal = Terminal(
            [*connect_command(), "top", "--interval", "200ms", "--url", url], cli_env(home), cwd=str(home)
        )
        screen = Picture(terminal)
        with terminal:
            screen.until("orders")
            server.stop(5)
            text = screen.until("What is shown is")
            assert f"Nobody answers at {url} (connection refused)" in text
            assert "orders" in text
            with RestServer(herder, [url]):
                screen.until(lambda text: "Nobody answers" not in text)
            terminal.type("q")
            assert terminal.wait() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_gives_the_terminal_back(top, number, code):
    screen = top()
    screen.until("orders")
    screen.terminal.process.send_signal(number)
    assert screen.terminal.wait() == code
    assert b"\x1b[?1049l" in screen.terminal.raw[-300:]


def test_ctrl_c_leaves_with_130(top):
    screen = top()
    screen.until("orders")
    screen.press("\x03")
    assert screen.terminal.wait() == 130


def test_without_a_terminal_it_is_refused_with_a_hint(home, url):
    result = cli_run("top", "--url", url, home=home)
    assert result.code == 2
    assert "connect top draws a screen, and this is not a terminal" in result.stderr
    assert "connect connectors status -o json" in result.stderr
    assert result.stdout == ""
    assert cli_run("top", "--url", url, "-o", "json", home=home).code == 2


def test_the_screen_is_there_within_half_a_second_of_processor_time(top):
    """Processor time: the clock on the wall tells of the machine's load as well."""
    screen = top()
    began = time.perf_counter()
    screen.until("orders")
    took = time.perf_counter() - began
    with open(f"/proc/{screen.terminal.process.pid}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    spent_s = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    assert spent_s < ample_s(0.6), f"{spent_s:.2f} s of processor time, {took:.2f} s on the clock"
