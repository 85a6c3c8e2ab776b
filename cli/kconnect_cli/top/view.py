"""The screen as lines of styled text, out of the state alone. Only the rows that are seen are made. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kconnect.logs.wording import length_text, pluralize
from kconnect.runtime.health.flow_metrics import summed
from kconnect.runtime.health.views import connector_view
from kconnect_cli.top.events import Part
from kconnect_cli.top.lines import Line, Piece, fitted, line, padded, uncut, width_of, wrapped
from kconnect_cli.top.pages import STATE_STYLES, TASK_HEAD, page_lines
from kconnect_cli.top.rows import BAD, COLUMNS, WORRYING, Column, Row, View
from kconnect_cli.top.screen_state import (
    PARTS,
    VIEWS,
    Confirm,
    Detail,
    Help,
    Menu,
    Refusal,
    TopState,
    banner_lines,
    detail_lines,
)

_GAP = 2
# A name is never cut below this, and never takes more than half of the screen
_LEAST_NAME = 16
_LEAST_FLEXIBLE = 12
# Below this many columns not all of the summary has room
_NARROW = 80
_CUT: Final[Piece] = (" …", "dim")

# The lines of keys fit on a screen of 60 columns and 15 lines; what follows them need not
_HELP = """\
1 2 3 4 Tab   connectors, tasks, slots, workers
j k arrows    move; also PageUp, PageDown, Home, End
Enter         open it; of a worker or slot its tasks
Esc           back; clears the filter
/             filter: rows in which all words occur
< >  i  w     sort by a column, turn round, worst first
p r s         pause, resume, stop; each asks first
R             restart what failed, a task, or everything
Space         look again now
q             quit

A dash stands for what nobody tells: Java's workers tell neither rates nor slots.
Yellow and red rows need somebody; grey ones are of a worker that does not answer, as it was last known."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is on the screen. `cursor`: number of the line that is shown inverted, -1 for none."""

    lines: tuple[Line, ...]
    cursor: int = -1


def draw(state: TopState) -> Drawn:
    """Draws as many lines as the screen has."""
    head = [_title(state), _summary(state)]
    head += [((text, "bad" if number == 0 else "warn"),) for number, text in banner_lines(state)]
    body, cursor = _detail(state, state.detail) if state.detail is not None else _list(state)
    lines = [*head, *body]
    foot = _footer(state)[: max(1, state.lines // 2)]
    room = state.lines - len(foot)
    lines = lines[:room] + [()] * (room - len(lines)) + foot
    cursor = cursor + len(head) if cursor >= 0 else -1
    if state.dialog is not None:
        lines, cursor = _with_dialog(state, lines), -1
    return Drawn(tuple(fitted(each, state.columns) for each in lines), cursor)


def _title(state: TopState) -> Line:
    """Where this is, and how old what is shown is."""
    facts = state.facts
    pieces: list[Piece] = [("connect top  ", "title"), (line(facts.place)[0][0], "bold")]
    if facts.cluster_id:
        pieces.append((f"  cluster {facts.cluster_id}", "dim"))
    if facts.answered_s is None:
        age, style = "no answer yet" if facts.problem else "asking ..", "warn"
    else:
        old_s = max(0.0, state.now_s - facts.answered_s)
        age, style = f"{length_text(old_s)} ago", "bad" if facts.problem else "dim"
    room = state.columns - width_of(age) - 1
    left = fitted(pieces, max(0, room))
    used = sum(width_of(text) for text, _ in left)
    return (*left, (" " * (room - used + 1), "plain"), (age, style))


def _summary(state: TopState) -> Line:
    """Workers, connectors and tasks by state, rate and lag of all."""
    facts = state.facts
    if facts.answered_s is None:
        return ()
    statuses = list(facts.statuses.values())
    workers: list[Piece] = []
    lost = 0
    if not facts.is_direct:
        lost = sum(bool(worker.problem) for worker in facts.workers.values())
        workers = [(pluralize(max(1, len(facts.workers)), "worker"), "plain")]
        workers += [(f" ({lost} unreachable)", "bad")] if lost else []
        workers.append(("   ", "plain"))
    note: list[Piece] = []
    moves: list[Piece] = []
    total = summed([each.metrics for each in facts.moves.values()])
    if total.rate is not None:
        moves.append((f"{total.rate:,.0f} records/s   ", "plain"))
    elif not facts.is_direct and facts.workers and not facts.has_metrics and _all_answered(state):
        note = [("no rates: Java's workers do not tell them   ", "dim")]
    if total.lag is not None:
        moves.append((f"lag {total.lag:,}   ", "plain"))
    counts = _counts("connector", [str(connector_view(status).state) for status in statuses])
    counts.append(("   ", "plain"))
    counts += _counts("task", [str(task.state) for status in statuses for task in status.tasks])
    # On a narrow screen states come before what moves, and both before how many workers there are that answer
    needed = workers if lost else []
    choices = [[*workers, *note, *moves, *counts], [*needed, *note, *moves, *counts]]
    choices += [[*workers, *moves, *counts], [*needed, *moves, *counts]] if note else []
    choices += [[*needed, *counts]] if state.columns < _NARROW or total.rate is None else []
    fit = (pieces for pieces in choices if sum(width_of(text) for text, _ in pieces) <= state.columns)
    return next((tuple(pieces) for pieces in fit), (*uncut([(each,) for each in choices[-1]], state.columns - 2), _CUT))


def _all_answered(state: TopState) -> bool:
    return all(worker.kind for worker in state.facts.workers.values())


def _counts(what: str, states: Sequence[str]) -> list[Piece]:
    """`3 connectors: 2 RUNNING 1 FAILED`."""
    pieces: list[Piece] = [(pluralize(len(states), what), "bold")]
    counts = Counter(states)
    for index, state in enumerate(sorted(counts, key=lambda each: (each != "FAILED", each != "UNASSIGNED", each))):
        pieces.append((f"{': ' if index == 0 else ' '}{counts[state]} {state}", STATE_STYLES.get(state, "plain")))
    return pieces


def _list(state: TopState) -> tuple[list[Line], int]:
    """Tabs, heads and the rows that are seen; and which of these lines is the cursor's."""
    tabs: list[Piece] = []
    for number, view in enumerate(VIEWS, 1):
        tabs.append((f" {number} {view} ", "tab" if view is state.view else "dim"))
    if state.listing.filter or state.is_typing:
        tabs.append((f"  filter: {state.listing.filter}{'_' if state.is_typing else ''}", "key"))
    top, room = state.listing.top, state.room
    seen = state.rows[top : top + room]
    count = f"{top + 1}-{top + len(seen)} of {len(state.rows)}" if len(state.rows) > len(seen) else str(len(state.rows))
    order = state.listing.sort or "worst first"
    note = f"{count}, by {order}{', turned round' if state.listing.is_reversed and state.listing.sort is None else ''}"
    left = max(0, state.columns - sum(width_of(text) for text, _ in tabs) - 1)
    note = next((text for text in (note, count) if width_of(text) <= left), "")
    tabs.append((padded(note, left, to_right=True), "dim"))
    if not state.rows:
        return [line(*tabs), (), line((_why_empty(state), "dim"))], -1
    columns, widths = _laid_out(COLUMNS[state.view], seen, state)
    lines = [line(*tabs), _heads(columns, widths, state)]
    lines += [_row(row, columns, widths) for row in seen]
    return lines, state.cursor - top + 2


def _why_empty(state: TopState) -> str:
    facts = state.facts
    if facts.answered_s is None and not facts.problem:
        return "Asking .."
    if state.listing.filter:
        return f"Nothing matches {state.listing.filter!r}: Esc clears the filter."
    if facts.answered_s is None:
        return ""
    match state.view:
        case View.CONNECTORS:
            return "No connectors yet: connect connectors create FILE"
        case View.TASKS:
            return "No tasks."
        case View.SLOTS if facts.is_direct:
            return "Slots belong to workers: with --direct none is asked."
        case View.SLOTS:
            return (
                "No slots yet." if facts.has_metrics else "No slots: Java's workers run tasks in threads of their own."
            )
        case _:
            return "Workers are not asked with --direct." if facts.is_direct else "No worker has answered yet."


def _laid_out(columns: Sequence[Column], rows: Sequence[Row], state: TopState) -> tuple[list[Column], list[int]]:
    """The columns that fit, the least important ones left out, and their widths."""
    widths = {
        column.title: max(
            width_of(column.title) + (state.listing.sort == column.title) * 2,
            *(width_of(_text(row, column)) for row in rows),
        )
        for column in columns
    }
    first = columns[0].title
    widths[first] = min(widths[first], max(_LEAST_NAME, state.columns // 2))
    kept = list(columns)

    def needed() -> int:
        return sum(_LEAST_FLEXIBLE if each.is_flexible else widths[each.title] for each in kept) + _GAP * len(kept)

    while needed() > state.columns and any(each.rank for each in kept):
        kept.remove(max(kept, key=lambda each: each.rank))
    left = state.columns - sum(widths[each.title] + _GAP for each in kept if not each.is_flexible)
    return kept, [max(1, left) if each.is_flexible else widths[each.title] for each in kept]


def _heads(columns: Sequence[Column], widths: Sequence[int], state: TopState) -> Line:
    pieces: list[Piece] = []
    for column, width in zip(columns, widths, strict=True):
        is_sorted = state.listing.sort == column.title
        title = f"{column.title} {'▼' if state.listing.is_reversed else '▲'}" if is_sorted else column.title
        pieces.append((padded(title, width, to_right=column.is_number), "sorted" if is_sorted else "head"))
        pieces.append((" " * _GAP, "plain"))
    return tuple(pieces)


def _row(row: Row, columns: Sequence[Column], widths: Sequence[int]) -> Line:
    pieces: list[Piece] = []
    for column, width in zip(columns, widths, strict=True):
        text = padded(_text(row, column), width, to_right=column.is_number)
        pieces.append((text, _style(row, column)))
        pieces.append((" " * _GAP, "plain"))
    return tuple(pieces)


def _text(row: Row, column: Column) -> str:
    value = row.values[column.title]
    return "-" if value is None else line(column.shown(value))[0][0]


def _style(row: Row, column: Column) -> str:
    if row.is_old:
        return "dim"
    value = row.values[column.title]
    if column.title == "STATE":
        return STATE_STYLES.get(str(value), "plain")
    if column.title in ("WHY", "CONDITION"):
        return "bad" if row.grade == BAD else "warn" if row.grade == WORRYING else "plain"
    if column.title == "ERRORS" and value:
        return "bad"
    return "bold" if column.title in ("NAME",) else "dim" if value is None else "plain"


def _detail(state: TopState, detail: Detail) -> tuple[list[Line], int]:
    """One connector: its name and state, the parts as tabs, and what is seen of one."""
    status = state.facts.statuses.get(detail.connector)
    pieces: list[Piece] = [(f" {detail.connector} ", "title")]
    if status is not None:
        own = str(connector_view(status).state)
        pieces += [(own, STATE_STYLES.get(own, "plain")), (f" {status.type} on {status.connector.worker_id}  ", "dim")]
    tabs = [(f" {number} {part} ", "tab" if part is detail.part else "dim") for number, part in enumerate(PARTS, 1)]
    if sum(width_of(text) for text, _ in [*pieces, *tabs]) > state.columns:
        pieces = [*pieces[:2], (" ", "plain")]
    lines, room = page_lines(state, detail), detail_lines(state)
    most = max(0, len(lines) - room)
    cursor, top = -1, most if detail.is_at_end else min(detail.scroll, most)
    head: Line = ()
    if detail.part is Part.TASKS and status is not None and status.tasks:
        head = line((TASK_HEAD, "head"))
        at = min(detail.task, len(lines) - 1)
        top = max(0, at - room + 1)
        cursor = at - top + 2
    elif len(lines) > room:
        head = line(
            (
                padded(f"{top + 1}-{min(len(lines), top + room)} of {len(lines)}", state.columns - 1, to_right=True),
                "dim",
            )
        )
    return [line(*pieces, *tabs), head, *lines[top : top + room]], cursor


def _footer(state: TopState) -> list[Line]:
    """What was reported last, else the keys."""
    if state.message is not None:
        style = "bad" if state.message.is_bad else "key"
        return [((text, style),) for text in wrapped(state.message.text, state.columns)]
    if state.is_typing:
        return [line(("/", "key"), state.listing.filter, ("_   Enter keeps it, Esc clears it", "dim"))]
    keys = [("p", "pause"), ("r", "resume"), ("s", "stop"), ("R", "restart")]
    if state.detail is None:
        keys = [("Enter", "open"), ("/", "filter"), ("<>", "sort"), *keys]
    else:
        keys = [("Esc", "back"), ("Tab", "next"), *keys]
    shown = enumerate([("?", "help"), ("q", "quit"), *keys])
    groups = [((f"{'  ' if number else ''}{key}", "key"), (f" {what}", "dim")) for number, (key, what) in shown]
    return [uncut(groups, state.columns)]


def _with_dialog(state: TopState, under: Sequence[Line]) -> list[Line]:
    """A box in the middle, over what is there."""
    inner = _dialog_lines(state)
    width = min(state.columns - 4, max(30, *(width_of(text) for text, _ in inner)))
    inner = [(text, style) for long, style in inner for text in wrapped(long, width, "  ")]
    most = max(1, state.lines - 2)
    if len(inner) > most:
        inner = [*inner[: most - 2], (f".. {pluralize(len(inner) - most + 1, 'line')} more", "dim"), inner[-1]]
    left = max(0, (state.columns - width - 4) // 2)
    top = max(0, (state.lines - len(inner) - 2) // 2)
    box = [line((" " * left + "┌" + "─" * (width + 2) + "┐", "key"))]
    box += [line((" " * left + "│ ", "key"), (padded(text, width), style), (" │", "key")) for text, style in inner]
    box.append(line((" " * left + "└" + "─" * (width + 2) + "┘", "key")))
    lines = list(under)
    lines[top : top + len(box)] = box
    return lines[: state.lines]


def _dialog_lines(state: TopState) -> list[Piece]:
    match state.dialog:
        case Menu(title, choices):
            return [
                (title, "bold"),
                *((f"  {letter}  {action.words()}", "plain") for letter, action in choices),
                ("Esc: nothing", "dim"),
            ]
        case Confirm(action, lines, warnings, is_ready):
            found: list[Piece] = [(f"{action.words()}?", "bold")]
            found += [(text, "plain") for each in lines for text in each.splitlines()]
            found += [(f"Warning: {text}", "warn") for text in warnings]
            found.append(("y: yes    n: no", "key") if is_ready else ("looking what it would change ..", "dim"))
            return found
        case Refusal(action, sentence, hint):
            more: list[Piece] = [(hint, "plain")] if hint else []
            return [(f"{action.words()}: no", "bold"), (sentence, "bad"), *more, ("Any key closes this.", "dim")]
        case Help():
            return [*((text, "plain") for text in _HELP.splitlines()), ("Any key closes this.", "dim")]
    return []
