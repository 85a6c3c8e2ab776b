"""A worker as a service manager runs it: a process that is started again whenever it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from kit.cli import cli_env, connect_command
from kit.pace import ended, now
from kit.ports import free_port
from kit.processes import below, living
from kit.standalone import write_properties
from kit.waiting import wait_http

__all__ = ["Service", "slots_below"]

# As RestartSec of a systemd unit
_RESTART_S = 1.0
# Spark's processes after the worker that started them
_FAMILY_ENDS_S = 15.0
_GENERATION = re.compile(r"Joined the group in generation (\d+)")


class Service:
    """One worker. Its files are below `folder`; the port of its REST server stays the same over restarts.

    With connectors, by name, it is a standalone worker that runs them; else one of a cluster.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        settings: Mapping[str, str],
        connectors: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.name = f"worker-{number}" if connectors is None else "standalone"
        self.folder = folder / self.name
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.worker_id = f"127.0.0.1:{settings.get('rest.advertised.port', self.port)}"
        """As statuses name it."""
        self.log = self.folder / "worker.log"
        self.file = write_properties(
            self.folder / "worker.properties",
            {**settings, "listeners": self.url, "rest.advertised.host.name": "127.0.0.1"},
        )
        files = [
            write_properties(self.folder / f"{name}.properties", {"name": name, **config})
            for name, config in (connectors or {}).items()
        ]
        self._command = [*connect_command(), "distributed" if connectors is None else "standalone"]
        self._command += [str(self.file), *map(str, files), "--no-live"]
        self.restarts = 0
        self.exits: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_at: float | None = None
        self._frozen: list[psutil.Process] = []

    def start(self) -> None:
        home, temporary = self.folder / "home", self.folder / "tmp"
        for folder in (home, temporary):  # of its own: what a killed worker leaves is removed by the next one there
            folder.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=cli_env(home, {"TMPDIR": str(temporary)}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._ended_at = None

    def keep_up(self) -> None:
        """What the service manager does: start it again a while after it ended. Call this often."""
        if self._process is None or (code := self._process.poll()) is None:
            return
        if self._ended_at is None:
            self._ended_at = time.monotonic()
            self.exits.append(code)
        elif time.monotonic() - self._ended_at >= _RESTART_S:
            self.restarts += 1
            self.start()

    def await_healthy(self, within_s: float) -> None:
        """Wait until it answers that it is ready; it is kept up meanwhile."""
        deadline = now() + within_s
        while True:
            self.keep_up()
            try:
                wait_http(f"{self.url}/health", 0.5)
                return
            except AssertionError as err:
                if now() > deadline:
                    raise AssertionError(
                        f"{self.name} is not healthy within {within_s:g} s: {err}\n{self.tail()}"
                    ) from err

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_frozen(self) -> bool:
        return bool(self._frozen)

    def kill(self) -> bool:
        """SIGKILL to the worker alone: what it started has to notice by itself. False: there was nothing to kill."""
        if self._process is None or self._process.poll() is not None:
            return False
        self._process.kill()
        return True

    def kill_slot(self, choose: int) -> bool:
        """SIGKILL to one of the Python processes in which tasks run."""
        slots = self.slots()
        if not slots:
            return False
        try:
            slots[choose % len(slots)].kill()
        except psutil.NoSuchProcess:
            return False
        return True

    def terminate(self) -> bool:
        """SIGTERM: it ends in good order, in its own time."""
        if not self.is_running:
            return False
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return True

    def freeze(self, *, whole: bool) -> bool:
        """SIGSTOP to the worker, or with all that is below it, slots included."""
        if not self.is_running:
            return False
        assert self._process is not None
        family = [psutil.Process(self._process.pid), *(self.family() if whole else ())]
        self._frozen = [process for process in family if _sent(process, signal.SIGSTOP)]
        return True

    def thaw(self) -> None:
        frozen, self._frozen = self._frozen, []
        for process in frozen:
            _sent(process, signal.SIGCONT)

    def family(self) -> list[psutil.Process]:
        """Every process below the worker: the JVM, Spark's Python daemon, the slots."""
        assert self._process is not None
        return below(self._process.pid)

    def slots(self) -> list[psutil.Process]:
        """Python processes whose parent is Spark's Python daemon, itself a child of the JVM."""
        assert self._process is not None
        return slots_below(self._process.pid)

    def generations(self) -> set[int]:
        """Of the group, as its log tells."""
        return {int(number) for number in _GENERATION.findall(self.log.read_text(errors="replace"))}

    def tail(self, size: int = 3000) -> str:
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    def stop(self, within_s: float = 30.0) -> int | None:
        """SIGTERM and its exit code; what does not end is killed. None: it was not running."""
        self.thaw()
        if not self.is_running:
            return None
        assert self._process is not None
        family = self.family()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = ended(self._process, within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = ended(self._process, 10)
        for process in _left(family, _FAMILY_ENDS_S):
            _sent(process, signal.SIGKILL)
        return code


def slots_below(root: int) -> list[psutil.Process]:
    """Python processes below a worker or an executor whose parent is Spark's Python daemon."""
    found = []
    for process in below(root):
        try:
            parent = process.parent()
            if parent is None or "python" not in process.name() or "python" not in parent.name():
                continue
            if parent.pid != root:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _left(processes: Sequence[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Those that still run then. psutil's own wait fails when one ends just as it looks (7.2, pidfd_open: ENOENT)."""
    pause, deadline = threading.Event(), now() + within_s
    while (left := living(processes)) and now() < deadline:
        pause.wait(0.1)
    return left


def _sent(process: psutil.Process, number: signal.Signals) -> bool:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True
