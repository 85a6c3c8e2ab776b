"""signals_raise: a command ends by the signal also where Python or a library puts an error of its own in its place."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal
from kconnect_cli.processes.signals import signals_raise

class Struck:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIG{signal})

def hidden():
    try:
        os.kill(os.getpid(), signal.SIG{signal})
    except SystemExit as err:
        raise SystemError("returned a result with an exception set") from None

def named():
    class Made:
        struck = Struck()

with signals_raise():
    {what}()
"""


@pytest.mark.parametrize("what", ["hidden", "named"])
@pytest.mark.parametrize(("signal", "code"), [("TERM", 143), ("HUP", 129)])
def test_the_exit_code_is_that_of_the_signal(what: str, signal: str, code: int) -> None:
    program = PROGRAM.format(signal=signal, what=what)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (code, "")


def test_an_error_without_a_signal_stays_what_it_is() -> None:
    program = PROGRAM.partition("class Struck")[0] + "with signals_raise():\n    1 / 0\n"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr
