"""A signal asks a worker to stop, whatever the main thread is doing."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kit.pace import ample_s

_HELD = """
import os, signal, sys, threading
from kconnect_cli.processes.worker_run import StopSignals

lock, stopped = threading.Lock(), threading.Event()

class Worker:
    def request_stop(self):
        assert lock.acquire(timeout=60), "the main thread holds it"
        stopped.set()

with StopSignals() as signals:
    signals.stop_on_signal(Worker())
    with lock:
        os.kill(os.getpid(), int(sys.argv[1]))
        assert signals.received == int(sys.argv[1])
    assert stopped.wait(60)
sys.exit(signals.exit_code())
"""
_EARLY = """
import os, sys
from kconnect_cli.processes.worker_run import StopSignals

with StopSignals() as signals:
    os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", [_HELD, _EARLY], ids=["in the midst of a lock", "before there is a worker"])
def test_the_first_signal_ends_a_worker_with_its_code(program: str, number: int) -> None:
    ended = subprocess.run([sys.executable, "-c", program, str(number)], timeout=ample_s(30), stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (128 + number, b"")
