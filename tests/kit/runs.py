"""Runs of `connect standalone` on files as they are: what it reported, how it ended, and what it left running."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from kit.cli import cli_env, connect_command
from kit.pace import ended, now
from kit.waiting import eventually

__all__ = ["Ended", "Run"]

_LOG_LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (DEBUG|INFO|WARNING|ERROR) ")
_MARK = "KIT_RUN"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, and after how many seconds of the machine's pace.

    `cpu_s` is the processor's time, of it and of what it waited for.
    `stderr` is the whole of it, log and all.
    """

    code: int
    seconds: float
    cpu_s: float
    stderr: str

    @property
    def reported(self) -> list[str]:
        """What is no line of the log: the sentence and its hint when it was refused. Traces would be in here."""
        return [line for line in self.stderr.splitlines() if not _LOG_LINE.match(line)]


class Run:
    """One `connect standalone ARGS` in a folder; whatever it starts inherits a mark by which it is found again.

    `env` None for a key takes it out of the environment.
    """

    def __init__(self, folder: Path, args: Sequence[str], env: Mapping[str, str | None] | None = None) -> None:
        home = folder / "home"
        home.mkdir(exist_ok=True)
        self._mark = uuid.uuid4().hex
        changed = cli_env(home, {_MARK: self._mark}) | dict(env or {})
        self._log = folder / f"run-{self._mark[:6]}.log"
        self._began, self._cpu_before_s = now(), _cpu_of_children_s()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*connect_command(), "standalone", *args],
                cwd=folder,
                env={key: value for key, value in changed.items() if value is not None},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # a Ctrl-C of the test's goes where the test sends it
            )

    @property
    def stderr(self) -> str:
        return self._log.read_text("utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self, within_s: float = 60.0) -> Ended:
        """Wait until it ends by itself or by the signal sent."""
        try:
            code = ended(self.process, within_s)
        except subprocess.TimeoutExpired as err:
            raise AssertionError(f"it still runs after {within_s:g} s\n{self.stderr[-4000:]}") from err
        return Ended(code, now() - self._began, _cpu_of_children_s() - self._cpu_before_s, self.stderr)

    def left_running(self) -> list[str]:
        """Processes that it started, directly or not, and that live."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
            except psutil.Error:
                continue
        return found

    def log_has(self, text: str, within_s: float = 30.0) -> None:
        """Wait until the log has this text."""

        def seen() -> bool:
            if text in self.stderr:
                return True
            assert self.process.poll() is None, f"it ended with {self.process.returncode}\n{self.stderr[-4000:]}"
            return False

        eventually(seen, within_s, f"the log says {text!r}", pause_s=0.02)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            ended(self.process, 10)
        for line in self.left_running():
            if kind is not None:  # the test failed already: only clean up
                os.kill(int(line.partition(":")[0]), signal.SIGKILL)


def _cpu_of_children_s() -> float:
    """Processor time of the children that ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
