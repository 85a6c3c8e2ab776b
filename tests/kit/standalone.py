"""`connect standalone` as users run it: a process, its files in a folder, and the processes below it to kill."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from kconnect.client import ConnectClient
from kconnect.errors import NotFoundError
from kconnect.model import RunState
from kit.cli import cli_env, connect_command
from kit.pace import ended
from kit.ports import free_port
from kit.processes import below, command, living
from kit.waiting import eventually, wait_http

__all__ = ["STRING_CONVERTERS", "Standalone", "write_properties"]

STRING_CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """A properties file of these settings; gives its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


class Standalone:
    """One worker process. `start()` may be called again after it ended: same files, same offsets, same port."""

    command = "standalone"

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        connectors: Mapping[str, Mapping[str, str]],
        worker: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "worker.log"
        self.offsets_file = folder / "connect.offsets"
        settings = {
            "bootstrap.servers": bootstrap,
            **STRING_CONVERTERS,
            "offset.storage.file.filename": str(self.offsets_file),
            "offset.flush.interval.ms": "500",
            "listeners": self.url,
            **(worker or {}),
        }
        self.files = [write_properties(folder / "worker.properties", settings)]
        for name, config in connectors.items():
            self.files.append(write_properties(folder / f"{name}.properties", {"name": name, **config}))
        self._names = list(connectors)
        self._env = dict(env or {})
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, within_s: float = 60.0, *, running: bool = True) -> Self:
        """Start, and wait until REST is healthy and every task is RUNNING."""
        self.launch()
        eventually(self._healthy, within_s, "the worker answers /health")
        if running:
            for name in self._names:
                self.await_task(name, RunState.RUNNING, within_s)
        return self

    def launch(self) -> None:
        """Start it, and wait for nothing."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*connect_command(), self.command, *map(str, self.files)],
                cwd=self.folder,
                env=cli_env(home, self._env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C of the test's goes where the test sends it
            )

    def _healthy(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"the worker ended with {self.process.returncode}\n{self.log_text()[-4000:]}")
        return bool(wait_http(f"{self.url}/health", 1.0))

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def await_log(self, text: str, within_s: float = 20.0, *, since: int = 0) -> None:
        """Wait until the log says it, behind its first `since` characters.

        Errors: AssertionError with the end of the log; RuntimeError if the worker has ended meanwhile.
        """

        def has_said() -> bool:
            assert self.process is not None
            ended_with = self.process.poll()
            found = text in (log := self.log_text())[since:]
            if ended_with is not None and not found:
                raise RuntimeError(f"the worker ended with {ended_with} and did not say {text!r}\n{log[-4000:]}")
            assert found, f"the log does not say {text!r}\n{log[-4000:]}"
            return True

        eventually(has_said, within_s, f"the log says {text!r}")

    def client(self) -> ConnectClient:
        return ConnectClient(self.url)

    def await_task(self, name: str, state: RunState, within_s: float = 30.0) -> str:
        """Wait until task 0 of a connector is in a state; gives its trace, empty without one."""

        def seen() -> tuple[str]:
            with self.client() as client:
                try:
                    status = client.connector_status(name)
                except NotFoundError as err:  # of a connector that was created just now
                    raise AssertionError(f"{err}") from err
            assert status.tasks, f"{name} has no task: {status}\n{self.log_text()[-2000:]}"
            assert status.tasks[0].state == state, f"{status}\n{self.log_text()[-2000:]}"
            return (status.tasks[0].trace or "",)

        return eventually(seen, within_s, f"task 0 of {name} is {state}")[0]

    def assert_no_connectors(self) -> None:
        """Of a worker that tests share, at the end of each: what one left does not meet the next.

        Errors: AssertionError that names them.
        """
        with self.client() as client:
            left = client.connectors()
            for name in left:
                client.delete_connector(name)
        assert not left, f"connectors left on the worker: {left}"

    def descendants(self) -> list[psutil.Process]:
        """Every process below the worker: the JVM, Spark's Python daemon, the slots."""
        return below(self.pid)

    def running(self, argument: str) -> list[psutil.Process]:
        """The processes below the worker that were started with this argument."""
        return [process for process in self.descendants() if argument in command(process)]

    def slots(self) -> list[psutil.Process]:
        """The slots: children of Spark's Python daemon, which is a Python child of the JVM."""
        found = []
        for process in self.descendants():
            try:
                parent = process.parent()
                if _is_python(process) and parent is not None and _is_python(parent) and parent.pid != self.pid:
                    above = parent.parent()
                    # A program that a slot starts is Python, too, until it is the program
                    if above is None or not _is_python(above):
                        found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, within_s: float = 30.0) -> int:
        """Its exit code, once it ended."""
        assert self.process is not None
        try:
            return ended(self.process, within_s)
        except subprocess.TimeoutExpired as err:
            raise AssertionError(f"the worker did not end in {within_s:g} s\n{self.log_text()[-4000:]}") from err

    def stop(self, within_s: float = 30.0) -> int:
        """SIGTERM, and its exit code; nothing of it may be left running."""
        family = self.descendants()
        self.signal(signal.SIGTERM)
        code = self.wait(within_s)
        self.assert_gone(family)
        return code

    def kill(self) -> None:
        """SIGKILL to the worker alone; what it started has to notice by itself."""
        family = self.descendants()
        self.signal(signal.SIGKILL)
        self.wait()
        self.assert_gone(family)

    def assert_gone(self, family: Sequence[psutil.Process], within_s: float = 15.0) -> None:
        eventually(
            lambda: not living(family),
            within_s,
            f"the worker's processes end with it: {family}",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            family = self.descendants()
            self.process.kill()
            ended(self.process, 10)
            with suppress(AssertionError):  # those that stand still are killed; others remove their temporary files
                eventually(lambda: not living(family), 5, "its processes end with it")
            for process in living(family):
                with suppress(psutil.NoSuchProcess):  # it ended just now
                    process.kill()


def _is_python(process: psutil.Process) -> bool:
    return "python" in process.name()
