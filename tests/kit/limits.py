"""Time limits of tests: a test that outlives its own is named with the stacks of all threads, fails alone, and its
processes end.

The limit is one of a quiet machine (kit.pace). Behind it, in steps, each with some seconds for the test to end:
1. an exception in the main thread, whose message has the stacks: the test fails, and its fixtures are taken down;
2. what the test has started is killed: whoever waited for a process does not any more;
3. the exception comes again;
4. the process of the tests ends with all that it has started. xdist names the test, and goes on in another process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import psutil
import pytest
import pytest_timeout

from kit.pace import pace
from kit.run_processes import RUN, WORKER, end_all, processes_of

__all__ = ["Limits", "all_stacks"]

_SIGNAL: Final = signal.SIGUSR2
# For taking down what a test has: a worker ends within 20 s, a broker within 10
STEP_S: Final = 30.0
_EXIT_CODE: Final = 70  # EX_SOFTWARE


class OutlivedError(pytest.fail.Exception):
    """Raised in the main thread. No `Exception`: neither the product nor a test takes it for one of its own."""


class Limits:
    """The plugin; in place of pytest-timeout's own timer, which ends the whole process.

    Threads: `_late` is called on the clock's, all else on the main thread.
    """

    def __init__(self, *, step_s: float = STEP_S) -> None:
        self._step_s = step_s
        self._stderr = os.dup(2)  # pytest takes the other one while tests run
        self._what = ""
        self._cancel: Callable[[], None] = lambda: None
        self._older: frozenset[int] | None = None
        self._is_inside = False
        signal.signal(_SIGNAL, self._raise)

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
        self._older = None
        self._arm(item.nodeid, settings.timeout, 1)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool:
        self._cancel()
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        yield from self._inside()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        yield from self._inside()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        yield from self._inside()

    def _inside(self) -> Iterator[None]:
        """Where an exception is the test's: pytest's own work between these is not to be torn."""
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False

    def fixtures_stand(self, processes: frozenset[int]) -> None:
        """These belong to fixtures of the file or the session: they are not the test's."""
        self._older = processes

    def _arm(self, test: str, within_s: float, step: int) -> None:
        self._cancel = pace.alarm(within_s, lambda: self._late(test, within_s, step))

    def _late(self, test: str, limit_s: float, step: int) -> None:
        if step == 4:
            self._end_process(test)
        self._arm(test, self._step_s, step + 1)
        if step == 2:
            if self._older is not None:
                end_all([child for child in psutil.Process().children(True) if child.pid not in self._older])
            return
        message = f"{limit_s:g} s" if step == 1 else "what it may take to end, too"
        self._what = f"{test} outlived its limit: {message}.\n{all_stacks()}"
        signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_inside:
            raise OutlivedError(self._what, pytrace=True)

    def _end_process(self, test: str) -> None:
        text = f"\n{test} outlived its limit and did not end: its process ends with all that it has started.\n"
        os.write(self._stderr, f"{text}{all_stacks()}\n".encode())
        mine = set(processes_of(os.environ[RUN], os.environ.get(WORKER)))
        end_all(list(mine | set(psutil.Process().children(recursive=True))))
        os._exit(_EXIT_CODE)


def all_stacks() -> str:
    """The stack of every thread but this one, the main thread's last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own, main = threading.get_ident(), threading.main_thread().ident
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident != own}
    reported = []
    for ident in sorted(frames, key=lambda each: each == main):
        lines = "".join(traceback.format_list(_shortened(traceback.extract_stack(frames[ident]))))
        reported.append(f"thread {names.get(ident, ident)}:\n{lines}")
    return "\n".join(reported)


def _shortened(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """From the test on: what is above it is pytest's, and the same each time."""
    tests = [number for number, frame in enumerate(stack) if Path(frame.filename).name.startswith("test_")]
    return list(stack)[tests[0] :] if tests else list(stack)
