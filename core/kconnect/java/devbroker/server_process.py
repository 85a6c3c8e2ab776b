"""The process of a development server: started on its folder, found by its lock, stopped by whoever wants."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

from kconnect.errors import ConnectError, EnvironmentProblemError, TimedOutError
from kconnect.java.devbroker.server_folder import RunningServer, ServerFolder

STOP_TIMEOUT_S = 20.0
_POLL_S = 0.02


class ServerProcess:
    """One server on one data folder, of this process or of another one's. Threads: one at a time.

    It runs in a session of its own, so a Ctrl-C at the terminal reaches the owner only, who stops the server last.
    """

    def __init__(self, folder: ServerFolder) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = threading.Event()

    @property
    def pid(self) -> int | None:
        """Process id of the running server, None when it is stopped."""
        running = self._folder.running()
        return running.pid if running else None

    def start(self, command: Sequence[str], lock: IO[str], port: int, address: str) -> None:
        """Start it; it holds the folder's lock from now on. Errors: OSError."""
        with self._folder.new_log() as output:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder.path,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
            )
        self._folder.write_running(lock, RunningServer(self._process.pid, port, address))

    def await_ready(self, is_ready: Callable[[], bool], deadline: float, late: str) -> None:
        """Errors: EnvironmentProblemError (it ended), TimedOutError with the sentence `late`. It may still run then."""
        assert self._process is not None
        while True:
            if self._process.poll() is not None:
                tail = "\n".join(f"  {line}" for line in self._folder.log_tail())
                raise EnvironmentProblemError(
                    f"The {self._folder.title} exited while it started (exit code {self._process.returncode}); "
                    f"its last lines of output:\n{tail}",
                    hint=f"The whole log is in {self._folder.log}.",
                )
            if is_ready():
                return
            if time.monotonic() > deadline:
                raise TimedOutError(late, hint=f"See its log: {self._folder.log}.")
            self._pause.wait(_POLL_S)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop the server that runs on the folder, whoever started it; says whether there was one.

        SIGTERM, and SIGKILL after the deadline.
        """
        running = self._folder.running()
        if running is None:
            self._reap(0.0)
            return False
        _signal(running.pid, signal.SIGTERM)
        if not self._await_end(running, timeout_s):
            self.kill()
        self._reap(timeout_s)
        return True

    def kill(self, timeout_s: float = 10.0) -> None:
        """Kill the server at once (SIGKILL); its data is what a power cut would leave."""
        running = self._folder.running()
        if running is not None:
            _signal(running.pid, signal.SIGKILL)
            if not self._await_end(running, timeout_s):
                raise TimedOutError(
                    f"The {self._folder.title} (pid {running.pid}) did not end {timeout_s:.0f} s after SIGKILL."
                )
        elif self._process is not None and self._process.poll() is None:
            self._process.kill()
        self._reap(timeout_s)

    def detach(self) -> None:
        """Leave the server running when this process ends; another object on the folder finds it."""
        if self._process is not None:
            self._process.returncode = 0  # else Popen warns at exit of a child that still runs
            self._process = None

    def wait(self, timeout_s: float) -> int | None:
        """Wait until the server that this object started ends; its exit code, None while it runs."""
        if self._process is None:
            raise ConnectError(
                f"No {self._folder.title} was started on {self._folder.path} by this process: nothing to wait for."
            )
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def _await_end(self, running: RunningServer, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self._folder.running() == running:
            if self._process is not None and self._process.pid == running.pid:
                self._process.poll()
            if time.monotonic() > deadline:
                return False
            self._pause.wait(_POLL_S)
        return True

    def _reap(self, timeout_s: float) -> None:
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return
            self._process = None


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended a moment ago: what we wanted
