"""Spark's Python daemon begun before Spark asks for it: it imports what slots need while the JVM starts.

Spark runs a small script as its Python. That hands its standard streams and its environment over a socket to the
daemon that waits, and becomes `cat`, which ends with the daemon. Where none waits it becomes the Python that was asked
for, as for a second daemon.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from kconnect.spark.preload import WAIT

MODULE: Final = "kconnect.spark.preload"
"""What is run as Spark's daemon."""

# Linux reads no longer first line of a script
_LONGEST_LINE: Final = 127
_END_S: Final = 2.0


class WaitingDaemon:
    """One daemon that waits for Spark. Lifecycle: constructed -> start -> (Spark takes it) -> stop."""

    def __init__(self, folder: Path) -> None:
        """`folder`: ours alone, for the socket and the script."""
        self._script = folder / "python"
        self._socket = folder / "daemon"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def python(self) -> str:
        """What Spark has to run as its Python."""
        return str(self._script)

    def start(self) -> bool:
        """Begin to import; returns at once. False where the system cannot run the script: then nothing waits."""
        first = f"#!{sys.executable} -IS\n"
        if len(first) > _LONGEST_LINE or " " in sys.executable or sys.platform == "win32":
            return False
        self._script.write_text(first + _SCRIPT.format(socket=str(self._socket), module=MODULE))
        self._script.chmod(0o700)
        if not os.access(self._script, os.X_OK):  # nothing is run from a file system that is mounted noexec
            return False
        # Its input ends with this process, however that ends; a group of its own keeps Ctrl-C from it
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE, WAIT, str(self._socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,  # pyspark makes one, which the leader of a session may not
        )
        return True

    def stop(self) -> None:
        """End it if nobody took it, and see to its end: without a JVM it ends. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):  # it may be gone
            assert process.stdin is not None
            process.stdin.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket)  # who comes now starts its own
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        with contextlib.suppress(ProcessLookupError):  # as it should be: it takes those along that were forked from it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_END_S)


# Runs without site: 15 ms instead of 60
_SCRIPT: Final = """\
import json, os, socket, sys
if sys.argv[1:3] == ["-m", "{module}"]:
    try:
        link = socket.socket(socket.AF_UNIX)
        link.connect({socket!r})
        about = {{"environment": dict(os.environ), "folder": os.getcwd(), "arguments": sys.argv[3:]}}
        about = json.dumps(about).encode()
        socket.send_fds(link, [len(about).to_bytes(4, "big")], [0, 1, 2])
        link.sendall(about)
        taken = link.recv(1)
    except OSError:
        taken = b""
    if taken:
        os.dup2(link.fileno(), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execvp("cat", ["cat"])
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
