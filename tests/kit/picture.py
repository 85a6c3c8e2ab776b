"""Picture: what a person sees of a command that draws on a whole terminal."""

from __future__ import annotations

from collections.abc import Callable

import pyte

from kit.screen import Terminal
from kit.waiting import eventually

__all__ = ["Picture"]


class Picture:
    """The screen of a terminal, as its escape sequences have drawn it."""

    def __init__(self, terminal: Terminal, columns: int = 100, lines: int = 24) -> None:
        self.terminal = terminal
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        self._stream.feed(self.terminal.taken())
        return "\n".join(self._screen.display)

    def until(self, seen: Callable[[str], bool] | str, within_s: float = 20.0) -> str:
        """The screen once it shows this."""

        def shown() -> str:
            found = self.text
            assert seen in found if isinstance(seen, str) else seen(found), f"{seen!r} is not on the screen:\n{found}"
            return found

        return eventually(shown, within_s)

    def press(self, keys: str) -> None:
        self.terminal.type(keys)

    def resize(self, columns: int, lines: int) -> None:
        self.terminal.resize(columns, lines)
        self._screen.resize(lines, columns)
