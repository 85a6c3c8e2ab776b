"""Where a thread is: its stack from the plugin call on, and the line of the plugin author's code in it."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from traceback import FrameSummary
from typing import Final, TypeAlias

# Frames that lead to a plugin call: ours, and those between them
_OURS = frozenset(Path(__file__).parents[1] / "runtime" / room for room in ("pipeline", "herder"))
# Included plugins that only call functions of their users
_CALLERS = Path(__file__).parents[1] / "builtin" / "connectors" / "python", Path(__file__).parents[1] / "builtin"
# Of Java itself: libraries, with and without the name of their module
_JAVAS = ("java.", "jdk.", "sun.")
_BETWEEN = frozenset({"threading.py", "contextlib.py"})
# Java answers within a millisecond, unless it is frozen
_ANSWERED_S: Final = 0.1

JavaStack: TypeAlias = Callable[[], list[str] | None]
"""Where a plugin was in Java when this was asked before, innermost call first; None where it has nothing there."""


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """`line`: `/plugins/orders.py:41 in poll: sock.recv(4096)`; `stack`: in Python's format, outermost call first."""

    line: str
    stack: str


def place_of_thread(ident: int | None) -> ThreadPlace | None:
    """Where a thread of this process is; None if it has ended. Threads: any."""
    frame = sys._current_frames().get(ident or 0)
    if frame is None:
        return None
    frames = list(traceback.extract_stack(frame))
    inner = next((index for index, each in enumerate(frames) if not _leads_to_the_call(each)), 0)
    called = frames[inner:]
    return ThreadPlace(_line(_of_author(called)), "".join(traceback.format_list(called)))


def place_of_call(ident: int | None, java_stack: JavaStack) -> ThreadPlace | None:
    """The same of a thread that calls a plugin: in Java, if it waits for that. Takes a moment then."""
    place = place_of_thread(ident)
    if place is None or java_stack() is None:
        return place
    threading.Event().wait(_ANSWERED_S)
    frames = java_stack()
    return place_in_java(frames) if frames else place


def _calls_users_code(frame: FrameSummary) -> bool:
    """Whether it is of PythonSource, PythonSink, PythonTransform and the like, or of what stands between."""
    file = Path(frame.filename)
    callers, builtin = _CALLERS
    return file.parent == callers or (file.parent == builtin and file.name == "python_function.py")


def place_in_java(frames: list[str]) -> ThreadPlace:
    """The same of a thread of Java's: frames as Java spells them, innermost first. Shape: one or more."""
    line = next((frame for frame in frames if not frame.startswith(_JAVAS)), frames[0])
    return ThreadPlace(line, "".join(f"\tat {frame}\n" for frame in frames))


def _leads_to_the_call(frame: FrameSummary) -> bool:
    file = Path(frame.filename)
    return not _OURS.isdisjoint(file.parents) or file.name in _BETWEEN


def _of_author(frames: list[FrameSummary]) -> FrameSummary:
    """The innermost line in the folder of the plugin's file: calls into libraries tell its author less.

    Of a plugin that calls functions of its users: in the folder of the function.
    """
    if _calls_users_code(frames[0]):
        users = next((index for index, each in enumerate(frames) if not _calls_users_code(each)), 0)
        frames = frames[users:]
    folder = Path(frames[0].filename).parent
    return next((frame for frame in reversed(frames) if Path(frame.filename).parent == folder), frames[0])


def _line(frame: FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno} in {frame.name}" + (f": {frame.line}" if frame.line else "")
