"""Workers of flows that end, with small programs in their place."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.errors import ConnectError
from kconnect.worker.mirror import Flow
from kconnect.worker.mirror.flows import FlowProcesses
from kit.waiting import eventually

_FLOW = Flow("A", "B")
# Writes down what it is reported and that it runs; ends with its input, or by itself when a file says so
_PROGRAM = """
import json, os, signal, sys, pathlib, threading
folder = pathlib.Path(sys.argv[1])
reported = json.loads(sys.stdin.readline())
with (folder / "starts").open("a") as starts: starts.write(reported["worker"]["secret"] + "\\n")
print("a line", file=sys.stderr, flush=True)
if (folder / "broken").exists(): sys.exit(2)
print("http://127.0.0.1:1", flush=True)
if (folder / "dies").exists():
    (folder / "dies").unlink()
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def processes(tmp_path: Path, lines: list[str]) -> Iterator[FlowProcesses]:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    made = FlowProcesses(
        command, {_FLOW: {"worker": {"secret": "hush"}}}, lambda flow, line: lines.append(f"{flow} {line}")
    )
    yield made
    made.stop()


def starts(folder: Path) -> list[str]:
    path = folder / "starts"
    return path.read_text().splitlines() if path.exists() else []


def test_a_worker_that_dies_is_started_again_with_the_same_settings(
    processes: FlowProcesses, tmp_path: Path, lines: list[str]
) -> None:
    (tmp_path / "dies").touch()
    processes.start()
    waiter = threading.Thread(target=processes.wait)
    waiter.start()
    eventually(lambda: starts(tmp_path) == ["hush", "hush"] and len(lines) == 2, 20, "it was started twice")
    processes.request_stop()
    waiter.join()
    processes.stop()
    assert lines == ["A->B a line", "A->B a line"]


def test_a_worker_that_cannot_start_the_first_time_ends_all(processes: FlowProcesses, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    processes.start()
    with pytest.raises(ConnectError, match="The worker of A->B could not start: it ended with exit code 2"):
        processes.wait()
    assert starts(tmp_path) == ["hush"]
