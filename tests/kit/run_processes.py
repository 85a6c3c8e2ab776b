"""Processes of a test run, by the mark that each inherits in its environment; whoever started them, and whose children
they are now. What a run leaves is named and ended.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

__all__ = ["RUN", "WORKER", "Sweep", "end_all", "mark_run", "processes_of", "use_own_state"]

RUN: Final = "KCONNECT_TEST_RUN"
WORKER: Final = "PYTEST_XDIST_WORKER"
"""What xdist tells each of its processes: `gw0`."""
_END_S: Final = 10.0


def mark_run() -> str:
    """This run's mark, for all that is started from now on. A run within a run has a mark of its own."""
    os.environ[RUN] = uuid.uuid4().hex
    return os.environ[RUN]


def processes_of(run: str, worker: str | None = None) -> list[psutil.Process]:
    """What lives of a run, or of one of its processes; neither this process nor those above it, nor zombies."""
    wanted = {f"{RUN}={run}".encode()} | ({f"{WORKER}={worker}".encode()} if worker else set())
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid in own:
            continue
        with suppress(OSError, psutil.NoSuchProcess):  # it has ended, or is another user's
            if wanted <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")):
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found


def end_all(processes: list[psutil.Process]) -> list[str]:
    """Kill them (SIGKILL: some are frozen); gives what they were, a line each."""
    reported = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            reported.append(f"{process.pid}: {' '.join(process.cmdline())[:160]}")
            process.kill()
    psutil.wait_procs(processes, timeout=_END_S)
    return reported


class Sweep:
    """The plugin: nothing that a run has started outlives it, nor what a process of it that died has started.

    In the run's first process only. What is found at the end fails the run.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._left: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error is not None:
            end_all(processes_of(self._run, node.gateway.id))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._left = end_all(processes_of(self._run))
        if self._left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._left:
            terminalreporter.write_line(f"left running by the tests, and killed: {line}", red=True)


def use_own_state(config: pytest.Config) -> None:
    """Traces that broken workers leave go into a folder of the run's, not into that of who runs the tests.

    Those of xdist's processes are in that of the first, which is there to remove it when they are killed.
    """
    whole = os.environ.get("XDG_STATE_HOME") if hasattr(config, "workerinput") else None
    state = os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="kconnect-test-state-", dir=whole)
    config.add_cleanup(lambda: shutil.rmtree(state, ignore_errors=True))
