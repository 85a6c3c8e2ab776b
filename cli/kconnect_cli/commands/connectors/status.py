"""`connect connectors status [--watch]` and `wait`: the states of connectors and tasks, until they are as desired."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import urlsplit

import typer

from kconnect.errors import ConnectError, TimedOutError, UnreachableError
from kconnect_cli.admin.awaited_states import is_reached, raise_if_hopeless, state_text
from kconnect_cli.admin.live_workers import say_who_lives
from kconnect_cli.admin.worker_start import has_unassigned, reporting_start, unassigned_text
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.looks import Regexp, interval_s
from kconnect_cli.options.selection import STATES, LabelOption, Selection, chosen_names, find_names, nothing_chosen
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Column, Format, Row, table_text, write_object, write_rows, write_text
from kconnect_cli.screen.status_rows import GONE, as_known, condition_name, part_of, status_rows, why, with_reason
from kconnect_cli.session import CliSession, session_of

if TYPE_CHECKING:
    from kconnect.client.outage import Outage
    from kconnect.model import ConnectorStatus


_COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("TASK", lambda row: "" if row["task"] is None else str(row["task"])),
    Column("STATE", lambda row: row["state"]),
    Column("CONDITION", lambda row: condition_name(row)),
    Column("WORKER", lambda row: row["worker_id"]),
    Column("WHY", lambda row: why(row)),
)
# Title, blank line, header, and the line with the number of omitted rows
_SCREEN_HEAD_LINES = 4
_SECONDS = re.compile(r" \([0-9]+ s\)")
# While waiting: soon enough that a start of 10 ms is not rounded up, rare enough not to load a worker
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.05, 0.5


def status(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these connectors.", show_default=False)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep watching until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option("--interval", metavar="TIME", help="Between updates of --watch.")] = "1s",
    regexp: Regexp = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only those that are FAILED, or have a FAILED task.")
    ] = False,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only those in this state.")
    ] = None,
    labels: LabelOption = None,
) -> None:
    """Show every connector and task with its state, worker, and why it failed."""
    session = session_of(ctx)
    selection = Selection.of(names, regexp, False, failed, state, labels=labels)
    pause_s = interval_s(interval)
    if not watch:
        with reporting_start(session):
            seen = _look(session, selection)
        start = unassigned_text(session, seen)
        rows = as_known(status_rows(seen), session.outage)
        write_rows(_explained_rows(session, rows, start), _COLUMNS, session.output)
        if start:
            session.say(f"{session.url} is {start}")
        if selection.labels and not seen and session.output is Format.TABLE:
            session.say(nothing_chosen(selection, session.url))
        say_who_lives(session, [found.name for found in seen])
        return
    screen = _Screen(session)
    with signals_raise(), screen:
        for found, note in _looks(session, selection, pause_s):
            screen.show(found, note)


def wait(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Connector names.")] = None,
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help="What to wait for; GONE: deleted.")
    ] = "RUNNING",
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "60s",
    regexp: Regexp = False,
    all_: Annotated[bool, typer.Option("--all", help="All connectors.")] = False,
    labels: LabelOption = None,
) -> None:
    """Wait until connectors and all their tasks are in a state.

    For example: wait NAME --state RUNNING --timeout 60s. It also waits for a worker that does not listen yet, or is
    still starting.
    Exit code: 0 when they are; 7 as soon as one that should run is FAILED and no automatic restart follows; 6 on
    timeout.
    """
    session = session_of(ctx)
    wished = state.upper()
    if wished not in (*STATES, "GONE"):
        raise UsageProblem(f"Unknown state: {state}", hint=f"Valid values: {', '.join(STATES[:5])}, GONE.")
    selection = Selection.of(names, regexp, all_, False, None, labels=labels)
    deadline = time.monotonic() + seconds_of(timeout, "--timeout")
    if selection.names or selection.needs_looking:
        _await_worker(session, deadline, f"Not {wished} within {timeout}")
    names = chosen_names(session, selection)
    pause_s, pause = _FIRST_LOOK_S, threading.Event()
    while True:
        statuses = session.reader.connector_statuses()
        if wished != "GONE":
            for name in names:
                session.known(name, statuses)
        open_ones = [name for name in names if not is_reached(statuses.get(name), wished)]
        if not open_ones:
            if names:
                session.say("\n".join(f"{name} is {wished}" for name in names))
            return
        raise_if_hopeless([statuses[name] for name in open_ones if name in statuses], wished)
        if time.monotonic() + pause_s > deadline:
            states = "; ".join(state_text(name, statuses.get(name)) for name in open_ones)
            raise TimedOutError(
                f"Not {wished} within {timeout}: {states}",
                hint="--timeout gives them more time; connect connectors status --watch shows what they are doing.",
            )
        pause.wait(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_LOOK_S)


def _look(session: CliSession, selection: Selection) -> list[ConnectorStatus]:
    statuses = session.reader.connector_statuses()
    return [session.known(name, statuses) for name in sorted(find_names(session, selection, statuses))]


def _looks(session: CliSession, selection: Selection, pause_s: float) -> Iterator[tuple[list[ConnectorStatus], str]]:
    """Yields statuses forever, each with what a starting worker waits for.

    A lost worker is reported, and the connection retried.
    """
    pause, answers = threading.Event(), True
    found: list[ConnectorStatus] = []
    has_started = False
    while True:
        try:
            start = None if has_started else session.reader.health().start
            if start is None or start.answers_requests:
                found = _look(session, selection)
            if start is None and has_unassigned(found):
                start = session.reader.health().start
            has_started = start is None
            yield found, "" if start is None else start.text
            answers = True
        except ConnectError as err:
            if answers:
                session.complain(err)
            answers = has_started = False
        pause.wait(pause_s)


class _Screen:
    """Shows each update: redrawn in place on a terminal; elsewhere only changes, one per line."""

    def __init__(self, session: CliSession) -> None:
        self._session = session
        self._last: dict[tuple[str, int | None], Mapping[str, Any]] = {}
        self._is_away = False
        self._last_note = ""
        self._draws = session.output is Format.TABLE and sys.stdout.isatty()

    def __enter__(self) -> Self:
        if self._draws:
            write_text("\x1b[?1049h\x1b[?25l")  # the alternate screen, as in `less`, and no cursor
        return self

    def __exit__(self, *_error: object) -> None:
        if self._draws:
            write_text("\x1b[?25h\x1b[?1049l")
            sys.stdout.flush()

    def show(self, statuses: Sequence[ConnectorStatus], note: str = "") -> None:
        """`note`: what a starting worker waits for."""
        outage = self._session.outage
        rows = status_rows(statuses)
        if self._draws:
            self._draw(_explained_rows(self._session, rows, note), note)
        else:
            self._say_outage_change(outage)
            self._append(rows if self._session.output is Format.TABLE else as_known(rows, outage), note)
            self._say_note(note)
        sys.stdout.flush()

    def _say_note(self, note: str) -> None:
        """Once, though its seconds grow."""
        what = _SECONDS.sub("", note)
        if what and what != self._last_note:
            self._session.say(f"{self._session.url} is {note}")
        self._last_note = what

    def _draw(self, rows: Sequence[Row], note: str) -> None:
        """Redraws the screen, one line per row, no more than fit: the worst first."""
        size = shutil.get_terminal_size()
        worst_first = sorted(rows, key=lambda row: part_of(row).place)
        outage = self._session.outage
        head = [f"{self._session.url}  {time.strftime('%H:%M:%S')}  Ctrl-C ends"]
        head += [f"The worker is {note}"[: size.columns]] if note else []
        head.append("" if outage is None else outage.banner()[: size.columns])
        room = max(1, size.lines - _SCREEN_HEAD_LINES - bool(note))
        text = table_text(_COLUMNS, worst_first[:room], wrap=False).rstrip("\n") if rows else ""
        lines = [*head, *(text or ("" if note else "No connectors.")).splitlines()]
        if len(rows) > room:
            lines.append(f".. and {len(rows) - room} more")
        # Home, each line to its end, then everything below
        write_text("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")

    def _say_outage_change(self, outage: Outage | None) -> None:
        """The loss of Kafka and its return, a line each."""
        if outage is not None and not self._is_away:
            self._session.tell_outage()
        elif outage is None and self._is_away:
            self._session.say(f"{time.strftime('%H:%M:%S')} Kafka answers again.")
        self._is_away = outage is not None

    def _append(self, rows: Sequence[Row], note: str) -> None:
        now = {(row["name"], row["task"]): row for row in rows}
        changed = [row for key, row in now.items() if _news(self._last.get(key)) != _news(row)]
        gone = [{**row, "state": GONE} for key, row in self._last.items() if key not in now]
        self._last = dict(now)
        for row in _explained_rows(self._session, [*changed, *gone], note):
            if self._session.output is Format.TABLE:
                task = "" if row["task"] is None else f" task {row['task']}"
                word = f" {condition}" if (condition := _condition_text(row)) else ""
                because = f": {text}" if (text := why(row)) else ""
                write_text(f"{time.strftime('%H:%M:%S')} {row['name']}{task} {row['state']}{word}{because}\n")
            elif self._session.output is Format.JSON:
                import orjson

                write_text(orjson.dumps(row).decode() + "\n")
            elif self._session.output is Format.YAML:
                write_object([dict(row)], Format.YAML)
            else:
                write_text(f"{row['name']}\n")


def _explained_rows(session: CliSession, rows: Sequence[Row], start: str) -> Sequence[Row]:
    """In tables, which are for people, UNASSIGNED also shows its reason, if known."""
    if session.output is not Format.TABLE or session.direct is not None:
        return rows
    problem = None if session.outage is None else session.outage.problem
    return with_reason(rows, urlsplit(session.url).netloc, start, problem)


def _news(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The part of a row that deserves a new line: a growing count does not."""
    if row is None:
        return None
    return {**row, "condition": _condition_text(row)}


def _condition_text(row: Mapping[str, Any]) -> str:
    """The condition, if it is not healthy."""
    found = None if row["state"] == GONE else part_of(row).trouble
    return "" if found is None else str(found.condition)


def _await_worker(session: CliSession, deadline: float, failed: str) -> None:
    """Wait until the worker has started. Errors: TimedOutError prefixed by `failed`; at once if it can never start."""
    pause, why = threading.Event(), None
    while True:
        try:
            if session.reader.health().start is None:
                return
            now = ConnectError(f"{session.url} is still starting", hint="Its log says what it is waiting for.")
        except UnreachableError as err:
            if not isinstance(err.__cause__, ConnectionRefusedError):
                raise
            now = err
        if time.monotonic() + _LONGEST_LOOK_S > deadline:
            raise TimedOutError(f"{failed}: {now}", hint=now.hint)
        if str(now) != why:
            session.say(f"{now}; waiting")
            why = str(now)
        pause.wait(_LONGEST_LOOK_S)
