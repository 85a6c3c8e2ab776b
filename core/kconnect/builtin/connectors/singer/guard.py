"""A program that runs a tap and ends with whoever started it: python guard.py FOLDER PARENT COMMAND..

FOLDER has the tap's settings, with passwords, and goes with it. When the process PARENT is killed, the kernel says so
with a SIGTERM; the tap and whatever it has started then end as well. Imports the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from types import FrameType

_PR_SET_PDEATHSIG = 1
_GRACE_S = 2.0


def main(folder: str, parent: int, command: list[str]) -> int:
    """The tap's exit code; 127 if there is no such program, 143 after a SIGTERM."""
    _die_with_parent(signal.SIGTERM)
    tap: subprocess.Popen[bytes] | None = None

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    try:
        if os.getppid() != parent:
            return 128 + signal.SIGTERM
        try:
            tap = subprocess.Popen(command, start_new_session=True)
        except OSError as err:
            sys.stderr.write(f"{command[0]} cannot be run: {err.strerror}\n")
            return 127
        code = tap.wait()
        return code if code >= 0 else 128 - code
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if tap is not None:
            _end(tap)
        shutil.rmtree(folder, ignore_errors=True)


def _die_with_parent(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _end(tap: subprocess.Popen[bytes]) -> None:
    """The tap, and all that it started: they are one process group."""
    _signal(tap.pid, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while tap.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    _signal(tap.pid, signal.SIGKILL)
    tap.wait()


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
