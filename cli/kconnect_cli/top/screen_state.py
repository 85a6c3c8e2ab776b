"""TopState: what the screen is about, and what follows from it at once: banners, room for rows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kconnect_cli.top.events import Action, Fetched, Part
from kconnect_cli.top.facts import ClusterFacts
from kconnect_cli.top.lines import wrapped
from kconnect_cli.top.rows import Row, View

# Lines of the screen that are not rows: two of summary, tabs, heads, the last line with keys
FRAME_LINES = 5

VIEWS = tuple(View)
PARTS = tuple(Part)


@dataclass(frozen=True, slots=True)
class Listing:
    """How one list is looked at. `cursor` None: the first row, whichever it is."""

    sort: str | None = None
    """Column that it is sorted by; None: the worst first."""
    is_reversed: bool = False
    cursor: str | None = None
    """Id of the row: the cursor stays with it when rows move."""
    index: int = 0
    """Where it was last, for when the row is gone."""
    top: int = 0
    """First row on the screen."""
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """One connector, looked at closely."""

    connector: str
    part: Part = Part.TASKS
    task: int = 0
    """Which of its tasks the cursor is on, counted from the top."""
    scroll: int = 0
    is_at_end: bool = False
    """The last lines are shown, also when more come: of a log."""
    asked: frozenset[Part] = frozenset()
    """Parts whose answer is on its way."""
    bodies: Mapping[Part, Fetched] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Menu:
    """Which restart?"""

    title: str
    choices: tuple[tuple[str, Action], ...]
    """Key and what it asks for."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Shall this be done? `is_ready`: what it will write is known."""

    action: Action
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_ready: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why it was not done: it stays until it was read."""

    action: Action
    sentence: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Help:
    pass


Dialog: TypeAlias = Menu | Confirm | Refusal | Help


@dataclass(frozen=True, slots=True)
class Message:
    """A line at the bottom of the screen."""

    text: str
    is_bad: bool = False
    since_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopState:
    """All of the screen's state. `rows`: those of the view, filtered and sorted."""

    facts: ClusterFacts
    now_s: float = 0.0
    columns: int = 80
    lines: int = 24
    view: View = View.CONNECTORS
    listings: Mapping[View, Listing] = field(default_factory=lambda: {view: Listing() for view in View})
    is_typing: bool = False
    """Keys go into the filter."""
    detail: Detail | None = None
    dialog: Dialog | None = None
    message: Message | None = None
    rows: tuple[Row, ...] = ()

    @property
    def listing(self) -> Listing:
        return self.listings[self.view]

    @property
    def cursor(self) -> int:
        """Index of the row under the cursor; -1 when there are no rows."""
        listing = self.listing
        if listing.cursor is not None:
            for index, row in enumerate(self.rows):
                if row.id == listing.cursor:
                    return index
        return min(listing.index, len(self.rows) - 1)

    @property
    def room(self) -> int:
        """Lines for rows."""
        return max(1, self.lines - FRAME_LINES - len(banner_lines(self)))


def banner_lines(state: TopState) -> list[tuple[int, str]]:
    """The banners as lines of the screen, each with the number of its banner; a quarter of the screen at most."""
    found = [(number, text) for number, each in enumerate(banners(state)) for text in wrapped(each, state.columns)]
    return found[: max(1, state.lines // 4)]


def banners(state: TopState) -> list[str]:
    """What must not be missed, above the list: nobody answers, Kafka is away, a worker starts."""
    from kconnect.logs.wording import length_text

    facts, found = state.facts, []
    if facts.problem:
        age = (
            "" if facts.answered_s is None else f" What is shown is {length_text(state.now_s - facts.answered_s)} old."
        )
        found.append(f"{facts.problem}.{age}" if not facts.problem.endswith(".") else f"{facts.problem}{age}")
        if facts.answered_s is None and facts.hint:
            found.append(facts.hint)
    if facts.outage is not None:
        found.append(facts.outage.banner())
    for _, worker in sorted(facts.workers.items()):
        if worker.problem and not facts.problem:
            last = worker.answered_s
            since = "it never answered" if last is None else f"last answer {length_text(state.now_s - last)} ago"
            found.append(f"Worker {worker.id} does not answer ({since}): {worker.problem}")
        elif worker.unwell and not facts.problem and facts.outage is None:
            found.append(f"Worker {worker.id} is unhealthy: {worker.unwell}")
        elif not worker.problem:
            found += [f"Worker {worker.id} says: {notice}." for notice in worker.notices]
    if facts.note:
        found.append(facts.note)
    return found


def detail_lines(state: TopState) -> int:
    """Lines for the body of a connector's page."""
    return max(1, state.lines - FRAME_LINES - len(banner_lines(state)))
