"""A run of the tests itself: limits, what is left running, signals, what is missing. Each is a pytest of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from kit.needs import missing_needs
from kit.pace import ample_s, ended
from kit.places import TESTS
from kit.processes import lives
from kit.waiting import eventually

CONFTEST = """
import pytest
from kit.leaks import Snapshot
from kit.limits import Limits
from kit.run_processes import Sweep, mark_run, use_own_state
from kit.run_signals import set_signals

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Sweep(mark_run()), "kit-sweep")
    config.pluginmanager.register(Limits(step_s=0.5), "kit-limits")
    set_signals()
    use_own_state(config)

@pytest.fixture(autouse=True)
def _nothing_left_behind(request):
    request.config.pluginmanager.get_plugin("kit-limits").fixtures_stand(Snapshot.now().processes)
"""
# It tells its pid, and sleeps for long: who ends well without it leaves it running
SLEEPER = """
import pathlib, signal, subprocess, sys, threading
def sleeper(**more):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], **more)
    pathlib.Path("pid").write_text(str(child.pid))
    return child
def test_before(): pass
"""
WAITS = (
    SLEEPER
    + """
def hold_the_door(): threading.Event().wait()
def test_waits():
    threading.Thread(target=hold_the_door, daemon=True, name="the-door").start()
    threading.Event().wait()
def test_behind(): pass
"""
)
WAITS_FOR_A_CHILD = (
    SLEEPER
    + """
def test_waits():
    child = sleeper()
    try:
        threading.Event().wait()
    finally:
        child.wait()
def test_behind(): pass
"""
)
HEARS_NOTHING = (
    SLEEPER
    + """
def test_waits():
    sleeper(start_new_session=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    threading.Event().wait()
def test_behind(): pass
"""
)
LEAVES_A_CHILD = (
    SLEEPER
    + """
from kit.cli import cli_env
def test_waits():
    sleeper(start_new_session=True, env=cli_env(pathlib.Path()))
    threading.Event().wait()
"""
)
DETACHES = (
    SLEEPER
    + """
def test_detaches():
    code = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], start_new_session=True).pid)"
    command = [sys.executable, "-c", code, sys.executable, "-c", "import time; time.sleep(1000)"]
    kept = subprocess.run(command, stdout=open("pid", "w"), check=True)
"""
)
TELLS_SIGNALS = (
    SLEEPER
    + """
def test_children_have_the_default_signals():
    code = "import signal; print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)"
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "default_int_handler" in reported and "True" in reported, reported
"""
)

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run pytest on one file of tests, whose limit is half a second; gives its exit code and what it printed."""

    def call(tests: str, *more: str, before: Sequence[str] = ()) -> tuple[int, str]:
        process = _started(tmp_path, tests, *more, before=before)
        output, _ = process.communicate(timeout=ample_s(120))
        return process.returncode, output

    return call


def _started(folder: Path, tests: str, *more: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(tests)
    options = "-p no:cacheprovider -p pytest_timeout -p xdist"
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = {options}\ntimeout = 0.5\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        [*before, sys.executable, "-m", "pytest", "-q", *more],
        cwd=folder,
        env={**env, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _is_gone(folder: Path) -> bool:
    pid = int((folder / "pid").read_text())
    return not psutil.pid_exists(pid) or not lives(psutil.Process(pid))


def test_a_test_that_outlives_its_limit_is_named_with_its_stacks_and_fails_alone(run: Run) -> None:
    code, output = run(WAITS)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 2 passed" in output
    assert "test_it.py::test_waits outlived its limit: 0.5 s" in output
    assert "thread the-door" in output
    assert "hold_the_door" in output


def test_what_it_started_and_waits_for_is_killed(run: Run, tmp_path: Path) -> None:
    code, output = run(WAITS_FOR_A_CHILD)
    assert (code, "1 failed, 2 passed" in output) == (pytest.ExitCode.TESTS_FAILED, True), output
    eventually(lambda: _is_gone(tmp_path), 10, "its process ends")


@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["alone", "side by side"])
def test_one_that_hears_nothing_ends_with_its_process_and_is_named(
    run: Run, tmp_path: Path, more: tuple[str, ...]
) -> None:
    code, output = run(HEARS_NOTHING, *more)
    assert code != 0
    assert "test_it.py::test_waits outlived its limit and did not end" in output
    if more:
        assert "1 failed, 2 passed" in output, "xdist goes on in another process"
        assert list(tmp_path.glob("kconnect-test-state-*")) == [], "the folder of the first one is gone, too"
    eventually(lambda: _is_gone(tmp_path), 10, "what it started in a session of its own ends with it")


def test_what_is_left_running_by_a_run_is_named_and_killed_and_the_run_fails(run: Run, tmp_path: Path) -> None:
    code, output = run(DETACHES)
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert f"left running by the tests, and killed: {(tmp_path / 'pid').read_text().strip()}" in output
    assert _is_gone(tmp_path)


@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["alone", "side by side"])
def test_children_of_tests_have_the_default_signals_whatever_the_run_was_started_with(
    run: Run, more: tuple[str, ...]
) -> None:
    code = "import os, signal, sys; [signal.signal(each, signal.SIG_IGN) for each in (1, 2, 3)]; "
    code += "os.execv(sys.argv[1], sys.argv[1:])"
    exit_code, output = run(TELLS_SIGNALS, *more, before=[sys.executable, "-c", code])
    assert exit_code == 0, output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["alone", "side by side"])
def test_a_run_that_is_asked_to_end_leaves_nothing_running(
    tmp_path: Path, more: tuple[str, ...], number: signal.Signals
) -> None:
    with _started(tmp_path, LEAVES_A_CHILD, "--timeout", "1000", *more) as process:
        try:
            eventually((tmp_path / "pid").exists, 60, "the test runs")
            eventually(lambda: (tmp_path / "pid").read_text().isdigit(), 60, "its child runs")
            process.send_signal(number)
            ended(process, 20)
        finally:
            process.kill()
    eventually(lambda: _is_gone(tmp_path), 10, "what the test started ends")


def test_what_the_machine_lacks_is_a_sentence_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kit.needs._ROOM_BYTES", 1 << 60)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = missing_needs({"java", "browser"}, tmp_path)
    assert [text.split(";")[0].split(",")[0] for text in found[:2]] == [
        "Java 17 or newer is needed for the tests",
        "There is no Chromium",
    ]
    assert f"{tmp_path} has " in found[2]
    assert len(found) == 3
