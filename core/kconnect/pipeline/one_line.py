"""Texts of others, such as of exceptions, in one line that fits into a sentence."""

from __future__ import annotations

__all__ = ["cause_of", "one_line"]

_LONGEST = 500


def one_line(text: str) -> str:
    """A text in one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} .."


def cause_of(error: BaseException) -> str:
    """An error in one line: its type, its message, and the root cause where the message does not have it."""
    text = f"{type(error).__name__}: {error}"
    root = error
    while (earlier := root.__cause__) is not None:
        root = earlier
    if root is not error and str(root) not in text:
        text += f" (root cause: {type(root).__name__}: {root})"
    return one_line(text)
