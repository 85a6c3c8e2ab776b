"""FirstFrame: the screen before Textual can draw it.

Importing Textual takes a quarter of a second (0.28 s of processor time on two cores of 2024, `connect` itself 0.1 s).
What is known is drawn before, by plain escape sequences, and keys are left for Textual to read.
"""

from __future__ import annotations

import sys
import termios
from types import TracebackType
from typing import Any, Final, Self

from kconnect_cli.top.styles import STYLES
from kconnect_cli.top.view import Drawn

# Textual begins and ends with the same: a second time changes nothing
_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[<u\x1b[?2004l\x1b[?1004l\x1b[?1049l\x1b[?25h"
_CODES: Final = {
    "red": "31", "green": "32", "yellow": "33", "cyan": "36",
    "bold": "1", "dim": "2", "underline": "4", "reverse": "7",
}  # fmt: skip


class FirstFrame:
    """The alternate screen, and keys kept as they are for Textual. A context manager around all of its life:

    at the end the terminal is as it was, also when a signal came while Textual was starting.
    """

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._before: list[Any] | None = None  # as termios types it

    def show(self, drawn: Drawn) -> None:
        """Threads: one at a time."""
        rows = []
        for number, line in enumerate(drawn.lines):
            cursor = ("7",) if number == drawn.cursor else ()
            rows.append("".join(_painted(text, self._codes(style, cursor)) for text, style in line))
        self._write("\x1b[H" + "\r\n".join(f"{row}\x1b[K" for row in rows))

    def __enter__(self) -> Self:
        stdin = sys.__stdin__
        assert stdin is not None
        self._before = termios.tcgetattr(stdin)
        raw = list(self._before)
        raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        termios.tcsetattr(stdin, termios.TCSANOW, raw)
        self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._write(_LEAVE)
        if sys.__stdin__ is not None and self._before is not None:
            termios.tcsetattr(sys.__stdin__, termios.TCSANOW, self._before)

    def _codes(self, style: str, more: tuple[str, ...]) -> tuple[str, ...]:
        look = STYLES[style]
        colour = (_CODES[look.colour],) if look.colour is not None and self._colours else ()
        return (*colour, *(_CODES[attribute] for attribute in look.attributes), *more)

    def _write(self, text: str) -> None:
        assert sys.__stderr__ is not None
        sys.__stderr__.write(text)
        sys.__stderr__.flush()


def _painted(text: str, codes: tuple[str, ...]) -> str:
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text
