"""Wait for a condition with a deadline, or see that one lasts; the failure says what was awaited and last seen.

Deadlines are those of a quiet machine: on a slow one they last as much longer (kit.pace).
"""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TypeVar

import psutil

from kit.pace import now, pace

__all__ = ["eventually", "stays", "wait_http"]

T = TypeVar("T")
_PAUSE_S = 0.05


def eventually(check: Callable[[], T], within_s: float = 10.0, why: str = "", *, pause_s: float = _PAUSE_S) -> T:
    """The first true thing `check()` gives; AssertionErrors inside it count as "not yet", and so does a process that
    ends while it is looked at (psutil.NoSuchProcess).

    Errors: AssertionError after `within_s`, naming `why`, the last value or the last AssertionError.
    """
    began = time.monotonic()
    deadline = now() + within_s
    idle = threading.Event()
    while True:
        is_last = now() > deadline  # so that the last look is one behind the deadline, however long this thread stood
        problem: AssertionError | psutil.NoSuchProcess | None = None
        value: T | None = None
        try:
            value = check()
        except (AssertionError, psutil.NoSuchProcess) as err:
            problem = err
        if value:
            return value
        if is_last:
            seen = f"{problem}" if problem is not None else f"last seen: {value!r}"
            raise AssertionError(f"not within {bound_said(within_s, began)}: {why or check}; {seen}") from problem
        idle.wait(pause_s)


def stays(check: Callable[[], object], for_s: float, why: str) -> None:
    """Time passes, in which `check()` is true whenever it is looked at: for what must not happen meanwhile.

    Errors: AssertionError that names `why`.
    """
    deadline, left_s = time.monotonic() + for_s, for_s
    idle = threading.Event()
    while True:
        assert check(), f"did not last for {for_s:g} s: {why}"
        if left_s <= 0:
            return
        idle.wait(min(_PAUSE_S, left_s))
        left_s = deadline - time.monotonic()


def stand_still(for_s: float) -> None:
    """The calling thread does nothing, as one of a machine that is too busy: what others do meanwhile is the test."""
    time.sleep(for_s)


def bound_said(within_s: float, began: float) -> str:
    """A bound for a sentence, with the time that it took since `began` (monotonic) when the machine is slow."""
    took_s = time.monotonic() - began
    return f"{within_s:g} s" + (f" ({took_s:.0f} s on this busy machine)" if took_s > within_s * 1.5 else "")


def wait_http(url: str, within_s: float = 30.0, *, status: int = 200) -> bytes:
    """The body of a URL once it answers with `status`."""
    ask_s = 5 * pace.slowness

    def ask() -> tuple[bytes]:
        try:
            with urllib.request.urlopen(url, timeout=ask_s) as answer:
                assert answer.status == status, f"{url} answers {answer.status}"
                return (answer.read(),)
        except urllib.error.HTTPError as answer:
            body = answer.read()
            if answer.code != status:
                raise AssertionError(f"{url} answers {answer.code}: {body[:300]!r}") from answer
            return (body,)
        except OSError as err:
            raise AssertionError(f"{url}: {err}") from err

    return eventually(ask, within_s, f"{url} answers {status}")[0]
