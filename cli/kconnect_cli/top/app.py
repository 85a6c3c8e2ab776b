"""The terminal: keys in, lines out. The only importer of Textual, and without a decision of its own."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kconnect_cli.exits import INTERRUPTED
from kconnect_cli.top.events import Event, Fetch, Key, LookNow, Make, Prepare, Quit, Request, Resized, Ticked
from kconnect_cli.top.inbox import Inbox
from kconnect_cli.top.lines import Line, width_of
from kconnect_cli.top.screen_state import TopState
from kconnect_cli.top.state import step
from kconnect_cli.top.styles import STYLES
from kconnect_cli.top.view import Drawn, draw

_TICK_S = 1.0
_STYLES: Final = {
    name: Style.parse(" ".join([*look.attributes, look.colour or ""]) or "none") for name, look in STYLES.items()
}
_CURSOR: Final = Style(reverse=True)


class _Woken(Message, bubble=False):
    """There is something in the inbox."""


class Canvas(Widget, can_focus=True):
    """Shows lines; only those that changed are painted again."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; background: ansi_default; color: ansi_default; }"

    def __init__(self, app_key: Callable[[Key], None]) -> None:
        super().__init__()
        self._drawn = Drawn(())
        self._key = app_key

    def show(self, drawn: Drawn) -> None:
        before, self._drawn = self._drawn, drawn
        if len(before.lines) != len(drawn.lines):
            self.refresh()
            return
        changed = [
            Region(0, y, self.size.width, 1)
            for y, (old, new) in enumerate(zip(before.lines, drawn.lines, strict=True))
            if old != new or (y in (before.cursor, drawn.cursor) and before.cursor != drawn.cursor)
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._drawn.lines):
            return Strip.blank(width, Style())
        return _strip(self._drawn.lines[y], y == self._drawn.cursor, width)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        self._key(Key(event.key, event.character if event.is_printable else None))


class TopApp(App[int]):
    """The screen of `connect top`. `carry_out` takes requests and returns at once; results come into the inbox."""

    ENABLE_COMMAND_PALETTE = False
    INLINE_PADDING = 0
    BINDINGS = [Binding("ctrl+c", "leave", show=False, priority=True)]  # noqa: RUF012 (as Textual declares it)
    CSS = "Screen { background: ansi_default; color: ansi_default; }"

    def __init__(
        self, state: TopState, inbox: Inbox, carry_out: Callable[[Fetch | Prepare | Make | LookNow], None]
    ) -> None:
        super().__init__(ansi_color=True)
        self.state = state
        self._inbox = inbox
        self._carry_out = carry_out
        self._canvas = Canvas(self._take)

    def compose(self) -> ComposeResult:
        yield self._canvas

    def on_mount(self) -> None:
        self._canvas.focus()
        self._inbox.wake = lambda: self.post_message(_Woken())
        self.set_interval(_TICK_S, lambda: self._take(Ticked()))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.exit, 128 + number)
        self.on__woken()

    def on_unmount(self) -> None:
        self._inbox.wake = lambda: None

    def on_resize(self, event: events.Resize) -> None:
        self._take(Resized(event.size.width, event.size.height))

    def on__woken(self) -> None:
        for event in self._inbox.taken():
            self._step(event)
        self._canvas.show(draw(self.state))

    def action_leave(self) -> None:
        self.exit(INTERRUPTED)

    def _take(self, event: Event) -> None:
        self._step(event)
        self._canvas.show(draw(self.state))

    def _step(self, event: Event) -> None:
        self.state, requests = step(self.state, event, time.monotonic())
        for request in requests:
            self._carry(request)

    def _carry(self, request: Request) -> None:
        if isinstance(request, Quit):
            self.exit(0)
        else:
            self._carry_out(request)


@lru_cache(maxsize=512)
def _strip(line: Line, is_cursor: bool, width: int) -> Strip:
    segments = [Segment(text, _STYLES[style] + _CURSOR if is_cursor else _STYLES[style]) for text, style in line]
    used = sum(width_of(text) for text, _ in line)
    if used < width:
        segments.append(Segment(" " * (width - used), _CURSOR if is_cursor else Style()))
    return Strip(segments, max(width, used))
