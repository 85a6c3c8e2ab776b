"""The live view of a worker on a terminal: connectors, tasks, states, records/s, errors, last log lines.

`page` draws facts and decides nothing else; `LiveView` is the thread that gathers facts and shows the page.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kconnect.clock import now_ms
from kconnect.errors import ConnectError
from kconnect.logs.wording import pluralize
from kconnect.runtime.health.views import ConnectorHealth, PartView, connector_view
from kconnect_cli.screen.output import STATE_STYLES, state_counts

if TYPE_CHECKING:
    from kconnect.client.outage import Outage
    from kconnect.model import ConnectorStatus, TaskId
    from kconnect.runtime.herder.health.reasons import Health
    from kconnect.runtime.metrics import Moves


log = logging.getLogger(__name__)

# Twice a second is as often as an eye reads numbers; it costs 0.5 % of a core with ten connectors
_REDRAW_S = 0.5
_STOP_S = 2.0
_MOST_LOG_ENTRIES = 100
_DATE = re.compile(r"^\[\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d),\d{3}\]")
_LOGGER = re.compile(r" \(\S+:\d+\)$")
# Title, blank, table head, blank, log head
_OTHER_LINES = 6
_LEAST_LOG_LINES = 4


class ShownWorker(Protocol):
    """What the view asks of a worker."""

    @property
    def rest_url(self) -> str: ...
    @property
    def health(self) -> Health: ...
    def statuses(self) -> Sequence[ConnectorStatus]: ...
    def moves(self) -> Mapping[TaskId, Moves]: ...
    def outage(self) -> Outage | None:
        """Kafka does not answer the worker; None while it does."""
        ...


@dataclass(frozen=True, slots=True)
class PageContent:
    """What the page shows. A task that is not in `moves` has not reported any counters yet."""

    where: str
    up_s: float
    statuses: Sequence[ConnectorStatus] = ()
    moves: Mapping[TaskId, Moves] = field(default_factory=dict)
    log_lines: Sequence[str] = ()
    outage: Outage | None = None
    """Kafka does not answer the worker."""
    waits_for: str = ""
    """What a worker that starts waits for, in sentences."""


def page(facts: PageContent, height: int) -> RenderableType:
    """The whole screen: a title, a row for each connector and task, and log lines in what is left of the height."""
    states = [str(task.state) for status in facts.statuses for task in status.tasks]
    title = Text.assemble(
        (facts.where, "bold"),
        f"  up {_length(facts.up_s)}  {pluralize(len(facts.statuses), 'connector')}, tasks: {state_counts(states)}",
        ("  Ctrl-C stops", "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )
    rows = [row for status in facts.statuses for row in _rows(status, facts)]
    banner = [] if facts.outage is None else [_banner(facts.outage)]
    if facts.waits_for:
        banner.append(Text(f"Starting: {facts.waits_for}", style="yellow", no_wrap=True, overflow="ellipsis"))
    other_lines = _OTHER_LINES + len(banner)
    room = max(1, height - other_lines - _LEAST_LOG_LINES)
    left_out = len(rows) - room
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), expand=True)
    for heading in ("CONNECTOR", "TASK", "STATE"):
        table.add_column(heading, no_wrap=True)
    for heading in ("RECORDS/S", "RECORDS", "ERRORS"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("WHY", no_wrap=True, overflow="ellipsis", ratio=1, min_width=10)
    for _, cells in sorted(rows, key=lambda row: row[0].place)[:room]:  # what is wrong is never below the screen's end
        table.add_row(*cells)
    parts: list[RenderableType] = [title, *banner, Text(""), table]
    if not rows and not facts.waits_for:
        parts.append(Text("No connectors yet: connect connectors create FILE", style="dim"))
    if left_out > 0:
        parts.append(Text(f".. and {left_out} more: connect connectors status", style="dim"))
    free = max(_LEAST_LOG_LINES, height - other_lines - min(len(rows), room) - (left_out > 0))
    parts.append(Text(""))
    parts += [
        Text(_short(line), no_wrap=True, overflow="ellipsis", style=_log_style(line))
        for line in facts.log_lines[-free:]
    ]
    return Group(*parts)


class LiveView:
    """Draws the page until it is left, and takes the log meanwhile. A context manager; its thread is its own.

    On leaving, the last lines of the log are written plainly, so that they stay when the view is gone.
    """

    def __init__(self, handler: logging.Handler, stream: TextIO, where: str) -> None:
        self._worker: ShownWorker | None = None
        self._handler = handler
        self._stream = stream
        self._where = where
        self._lines = _LastLines(handler)
        self._began_s = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-view", daemon=True)

    def show(self, worker: ShownWorker) -> None:
        """Show this worker from now on; until then its code is loading, which takes a busy machine seconds."""
        self._worker = worker

    def __enter__(self) -> Self:
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.addHandler(self._lines)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(_STOP_S)
        root = logging.getLogger()
        root.removeHandler(self._lines)
        root.addHandler(self._handler)
        for line in self._lines.last():
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def _run(self) -> None:
        """Top of the thread: a view that fails must not take the worker with it."""
        console = Console(file=self._stream)
        try:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                while not self._over.is_set():
                    live.update(page(self.facts(), console.height), refresh=True)
                    self._over.wait(_REDRAW_S)
        except Exception:
            log.exception("The live view failed; the worker keeps running")

    def facts(self) -> PageContent:
        """What the page shows now."""
        now_s, worker = time.monotonic(), self._worker
        up_s = now_s - self._began_s
        loading = PageContent(f"{self._where} starting", up_s, waits_for=f"The worker is loading ({up_s:.0f} s).")
        if worker is None:
            return loading
        waits_for = _waits_for(worker)
        try:
            statuses: Sequence[ConnectorStatus] = worker.statuses()
            where = worker.rest_url
        except ConnectError:  # not started yet, or a connector went away between two looks
            if not waits_for:
                return loading
            statuses, where = (), f"{self._where} starting"
        return PageContent(
            where=where,
            up_s=up_s,
            statuses=statuses,
            moves=worker.moves(),
            log_lines=self._lines.heads(),
            outage=worker.outage(),
            waits_for=waits_for,
        )


def _waits_for(worker: ShownWorker) -> str:
    from kconnect.runtime.herder.health.reasons import reasons_text

    starting = [reason for reason in worker.health.reasons() if reason.is_starting]
    return reasons_text(starting, time.time_ns() // 1_000_000)


class _LastLines(logging.Handler):
    """Keeps the last lines of the log as the handler that it stands for would write them."""

    def __init__(self, like: logging.Handler) -> None:
        super().__init__(like.level)
        self.setFormatter(like.formatter)
        for each in like.filters:
            self.addFilter(each)
        self._kept: deque[str] = deque(maxlen=_MOST_LOG_ENTRIES)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._kept.append(self.format(record))
        except Exception:  # a line that cannot be written is reported, as every handler does
            self.handleError(record)

    def last(self) -> list[str]:
        """Whole entries, with their traces."""
        return list(self._kept)

    def heads(self) -> list[str]:
        """Their first lines: traces would push everything else off the screen."""
        return [entry.partition("\n")[0] for entry in list(self._kept)]


def _rows(status: ConnectorStatus, facts: PageContent) -> list[tuple[PartView, tuple[Text, ...]]]:
    """A row for each task; one for the connector itself when it has none, or something is wrong with it."""
    from kconnect.model import TaskId

    view = connector_view(status)
    rows = []
    if not view.tasks or view.own.health in (ConnectorHealth.FAILED, ConnectorHealth.DEGRADED):
        rows.append((view.own, _row(view.name, "", str(view.own.state), "", "", "", _why(view.own, facts))))
    for part in view.tasks:
        id_ = TaskId(view.name, part.task or 0)
        found = facts.moves.get(id_)
        cells = _row(
            view.name,
            str(part.task),
            str(part.state),
            "-" if found is None else f"{found.per_s:,.0f}",
            "-" if found is None else f"{found.records:,}",
            "-" if found is None else str(found.errors),
            _why(part, facts),
        )
        rows.append((part, cells))
    return rows


def _why(part: PartView, facts: PageContent) -> str:
    """An outage of Kafka explains what has not failed."""
    if facts.outage is not None and part.health is not ConnectorHealth.FAILED:
        return "waits for Kafka"
    return part.why(now_ms())


def _row(*cells: str) -> tuple[Text, ...]:
    state_style = STATE_STYLES.get(cells[2], "")
    errors_style = "bold red" if cells[5] not in ("", "-", "0") else ""
    styles = ("", "", state_style, "", "", errors_style, "red")
    return tuple(Text(cell, style=style) for cell, style in zip(cells, styles, strict=True))


def _banner(outage: Outage) -> Text:
    return Text(outage.banner(), style="bold red", no_wrap=True, overflow="ellipsis")


def _short(line: str) -> str:
    """A log line without its date, milliseconds and logger."""
    return _LOGGER.sub("", _DATE.sub(r"\1", line))


def _log_style(line: str) -> str:
    if "] ERROR " in line[:40]:
        return "red"
    return "yellow" if "] WARNING " in line[:40] else "dim"


def _length(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
