"""One process at a time."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kconnect.files.file_turn import turn
from kit.pace import ended, now
from kit.waiting import eventually

_HOLDS = """
import sys, time
from pathlib import Path
from kconnect.files.file_turn import turn
with turn(Path(sys.argv[1]), 5.0) as is_ours:
    print(is_ours, flush=True)
    time.sleep(600)
"""


@contextmanager
def another_holds(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock until it is killed."""
    with subprocess.Popen([sys.executable, "-c", _HOLDS, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"True\n"
            yield process
        finally:
            process.kill()


def test_a_free_lock_is_taken_at_once_and_given_back(tmp_path: Path) -> None:
    reported: list[str] = []
    for _ in range(2):
        with turn(tmp_path / "lock", 0.0, when_taken=lambda: reported.append("taken")) as is_ours:
            assert is_ours
    assert not reported


def test_a_taken_one_is_not_ours_at_the_deadline(tmp_path: Path) -> None:
    reported: list[str] = []
    with another_holds(tmp_path / "lock"):
        with turn(tmp_path / "lock", 0.0) as is_ours:
            assert not is_ours
        with turn(tmp_path / "lock", 0.5, when_taken=lambda: reported.append("taken")) as is_ours:
            assert not is_ours
    assert reported == ["taken"], "once, however often it looked"


def test_the_holder_is_killed_and_whoever_waits_has_it(tmp_path: Path) -> None:
    waiting = threading.Event()
    found: list[bool] = []

    def wait() -> None:
        with turn(tmp_path / "lock", 60.0, when_taken=waiting.set) as is_ours:
            found.append(is_ours)

    with another_holds(tmp_path / "lock") as holder:
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert waiting.wait(30)
        assert not found
        holder.send_signal(signal.SIGKILL)
        ended(holder, 10)
        eventually(lambda: found == [True], 10, "the lock")
        waiter.join()


def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    stopping = threading.Event()
    with another_holds(tmp_path / "lock"):
        began = now()
        with turn(tmp_path / "lock", 600.0, stopping=stopping, when_taken=stopping.set) as is_ours:
            assert not is_ours
        assert now() - began < 5
