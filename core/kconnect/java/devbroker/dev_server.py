"""A development server: a JVM on a data folder, started, found by its lock, stopped by whoever wants."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Final, Self

from kconnect.errors import ConnectError, EnvironmentProblemError, TimedOutError
from kconnect.java.devbroker.server_folder import RunningServer, ServerFolder

HOST: Final = "127.0.0.1"
STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.02
_LOOK_S: Final = 1.0
# For who only asks: a start is not waited for
_ANSWER_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What runs on a data folder."""

    state: str
    """RUNNING: it answers; STARTING: a process has the folder, and does not answer yet; STOPPED."""
    data_dir: Path
    address: str | None = None
    pid: int | None = None


class DevServer(ABC):
    """One server on one data folder. States: stopped -> start() -> ready -> stop() -> stopped; restartable.

    The JVM runs in a session of its own, so a Ctrl-C at the terminal reaches only the owner, who stops the server last.
    A server that is left running (`detach()`) is found by any object on the same folder: `status()` and `stop()`
    work.
    Threads: one at a time.
    """

    WHAT: ClassVar[str]
    """What it is, in a sentence: `Kafka broker`."""
    _READY_S: ClassVar[float]
    """Within this time it is ready, also on a machine under load."""

    def __init__(self, port: int, folder: ServerFolder) -> None:
        self.port = port
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = threading.Event()

    @property
    @abstractmethod
    def address(self) -> str:
        """What clients are given."""

    @abstractmethod
    def is_ready(self, port: int, within_s: float) -> bool:
        """Whether such a server answers at a port of this host, and does its work."""

    @abstractmethod
    def _fetched(self) -> Callable[[], Sequence[str]]:
        """Fetch what it runs; gives what writes the settings and makes the command line, once the folder is held.

        Errors: EnvironmentProblemError (no Java), UnreachableError (not cached and no network). What it gives may raise
        OSError.
        """

    @property
    def pid(self) -> int | None:
        """Process id of the running server, None if it is stopped."""
        running = self.folder.running()
        return running.pid if running else None

    def start(self, timeout_s: float | None = None) -> None:
        """Start and wait until it does its work.

        Errors: EnvironmentProblemError (no Java, port taken, folder broken, it ended), ConflictError (a server runs on
        this folder), UnreachableError (not cached and no network), TimedOutError. An error leaves nothing running.
        """
        timeout_s = self._READY_S if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        command = self._fetched()
        self.folder.prepare()
        self._check_port()
        with self.folder.hold() as lock:
            try:
                self._run(command(), lock)
            except OSError as err:
                raise self.folder.not_writable(err) from err
        try:
            self._await_ready(
                deadline, f"The {self.folder.title} on port {self.port} was not ready after {timeout_s:.0f} s."
            )
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop the server that runs on the folder, whoever started it; says whether there was one.

        SIGTERM, and SIGKILL after the deadline.
        """
        running = self.folder.running()
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
        running = self.folder.running()
        if running is not None:
            _signal(running.pid, signal.SIGKILL)
            if not self._await_end(running, timeout_s):
                raise TimedOutError(
                    f"The {self.folder.title} (pid {running.pid}) did not end {timeout_s:.0f} s after SIGKILL."
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
                f"No {self.folder.title} was started on {self.folder.path} by this process: nothing to wait for."
            )
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def restart(self) -> None:
        """Stop, then start on the same port and data."""
        self.stop()
        self.start()

    def status(self) -> ServerStatus:
        running = self.folder.running()
        if running is None:
            return ServerStatus("STARTING" if self.folder.is_held() else "STOPPED", self.folder.path)
        state = "RUNNING" if self.is_ready(running.port, _ANSWER_S) else "STARTING"
        return ServerStatus(state, self.folder.path, running.bootstrap, running.pid)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, command: Sequence[str], lock: IO[str]) -> None:
        """Start it; it holds the folder's lock from now on. Errors: OSError."""
        with self.folder.new_log() as output:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder.path,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
            )
        self.folder.write_running(lock, RunningServer(self._process.pid, self.port, self.address))

    def _await_ready(self, deadline: float, late: str) -> None:
        """Errors: EnvironmentProblemError (it ended), TimedOutError with the sentence `late`. It may still run then."""
        assert self._process is not None
        while True:
            if self._process.poll() is not None:
                tail = "\n".join(f"  {line}" for line in self.folder.log_tail())
                raise EnvironmentProblemError(
                    f"The {self.folder.title} exited while it started (exit code {self._process.returncode}); "
                    f"its last lines of output:\n{tail}",
                    hint=f"The whole log is in {self.folder.log}.",
                )
            if self.is_ready(self.port, _LOOK_S):
                return
            if time.monotonic() > deadline:
                raise TimedOutError(late, hint=f"See its log: {self.folder.log}.")
            self._pause.wait(_POLL_S)

    def _check_port(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
                return
            except OverflowError as err:
                raise EnvironmentProblemError(f"{self.port} is not a port: use 1 to 65535.") from err
            except PermissionError as err:
                raise EnvironmentProblemError(
                    f"Port {self.port} may not be used by this user.", hint="Choose a port above 1023 with --port."
                ) from err
            except OSError as err:
                cause = err
        running = self.folder.running()
        if running is not None and running.port == self.port:
            return  # our own: hold() reports it, with the better message
        silent = f"what listens there did not answer as a {self.WHAT} within {_ANSWER_S:g} s"
        who = f"a {self.WHAT} answers there" if self.is_ready(self.port, _ANSWER_S) else silent
        raise EnvironmentProblemError(
            f"Port {self.port} on {HOST} is taken: {who}.",
            hint=f"Stop it, use it instead of a {self.folder.title} of your own, or choose another port with --port.",
        ) from cause

    def _await_end(self, running: RunningServer, timeout_s: float) -> bool:
        # A process that ends has no command line before it lets go of the lock, and lets go of that before it is over
        deadline = time.monotonic() + timeout_s
        while self.folder.holder() == running or _is_alive(running.pid):
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


def _is_alive(pid: int) -> bool:
    """Whether it runs; an orphan that ended stays a zombie where process 1 does not wait for its children."""
    import psutil  # here: only a server that is stopped is looked at

    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
