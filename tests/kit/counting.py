"""How much work an action is, counted in Python instructions: the same on a loaded machine as on a quiet one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["instructions"]


def instructions(action: Callable[[], object]) -> int:
    """Instructions that the action executes on this thread; what runs in C counts as the one call it is."""
    count = 0

    def local(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "opcode":
            count += 1
        return local

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 reports opcodes only if a frame asked before settrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count
