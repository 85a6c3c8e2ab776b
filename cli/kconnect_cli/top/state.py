"""The only change of a TopState is `step`: an event in, the next state and requests out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from kconnect_cli.top.events import (
    FETCHED,
    LIVE,
    Action,
    Event,
    Fetch,
    Fetched,
    Key,
    LookNow,
    Made,
    Make,
    Part,
    Prepare,
    Prepared,
    Quit,
    Refused,
    Request,
    Resized,
    Ticked,
    Verb,
)
from kconnect_cli.top.facts import StatusLook, WorkerLook, with_look
from kconnect_cli.top.pages import page_lines
from kconnect_cli.top.rows import COLUMNS, View, arranged, rows_of
from kconnect_cli.top.screen_state import (
    PARTS,
    VIEWS,
    Confirm,
    Detail,
    Dialog,
    Help,
    Listing,
    Menu,
    Message,
    Refusal,
    TopState,
    detail_lines,
)

# A message stays until it was read; one of something that failed until it is cleared or replaced
_MESSAGE_S = 8.0


Stepped: TypeAlias = tuple[TopState, Sequence[Request]]


def step(state: TopState, event: Event, now_s: float) -> Stepped:
    """The next state, and what it takes from the program around it. `now_s`: this machine's monotonic clock."""
    state = replace(state, now_s=now_s)
    match event:
        case Key():
            state, requests = _key(state, event)
            return _settled(state), requests
        case Resized(columns, lines):
            return _settled(replace(state, columns=columns, lines=lines)), ()
        case Ticked():
            return _ticked(state), ()
        case StatusLook() | WorkerLook():
            state = _settled(_arranged(replace(state, facts=with_look(state.facts, event))))
            return _asked_again(state) if isinstance(event, StatusLook) else (state, ())
        case Fetched():
            return _settled(_fetched(state, event)), ()
        case Prepared(action, lines, warnings):
            if isinstance(state.dialog, Confirm) and state.dialog.action == action:
                dialog = Confirm(action, tuple(lines), tuple(warnings), is_ready=True)
                return replace(state, dialog=dialog, message=None), ()
            return state, ()
        case Made(_, lines):
            return _reported(state, "; ".join(lines)), (LookNow(),)
        case Refused(action, sentence, hint):
            refusal = Refusal(action, sentence, hint)
            is_free = state.dialog is None or (isinstance(state.dialog, Confirm) and state.dialog.action == action)
            if not is_free or state.is_typing:  # keys are about something else now
                return _reported(state, f"{action.words()}: {sentence}", is_bad=True), (LookNow(),)
            return replace(state, dialog=refusal, message=None), (LookNow(),)


def _key(state: TopState, key: Key) -> Stepped:
    if state.dialog is not None:
        return _key_in_dialog(state, state.dialog, key)
    if state.is_typing:
        return _key_in_filter(state, key), ()
    match key.character or key.name:
        case "q":
            return state, (Quit(),)
        case "?":
            return replace(state, dialog=Help()), ()
        case "p" | "r" | "s" as letter:
            return _asked(state, {"p": Verb.PAUSE, "r": Verb.RESUME, "s": Verb.STOP}[letter])
        case "R":
            return _restart_menu(state), ()
        case "ctrl+l" | " ":
            return state, (LookNow(),)
    if state.detail is not None:
        return _key_in_detail(state, state.detail, key)
    return _key_in_list(state, key)


def _key_in_dialog(state: TopState, dialog: Dialog, key: Key) -> Stepped:
    pressed = key.character or key.name
    closed = replace(state, dialog=None)
    match dialog:
        case Help() | Refusal():
            return closed, ()
        case Menu(_, choices):
            for letter, action in choices:
                if pressed == letter:
                    return replace(state, dialog=Confirm(action)), (Prepare(action),)
            return (closed, ()) if key.name in ("escape", "q", "n") or pressed in ("q", "n") else (state, ())
        case Confirm(action, is_ready=is_ready):
            if pressed in ("y", "Y") and is_ready:
                return _reported(closed, f"{action.words()} .."), (Make(action),)
            if pressed in ("n", "N", "q") or key.name in ("escape", "enter"):
                return _reported(closed, "Nothing was changed."), ()
    return state, ()


def _key_in_filter(state: TopState, key: Key) -> TopState:
    match key.name:
        case "enter":
            return replace(state, is_typing=False)
        case "escape":
            return _filtered(replace(state, is_typing=False), "")
        case "backspace":
            return _filtered(state, state.listing.filter[:-1])
        case "ctrl+u":
            return _filtered(state, "")
        case "up" | "down":
            return _moved(state, -1 if key.name == "up" else 1)
    if key.character is not None and key.character.isprintable():
        return _filtered(state, state.listing.filter + key.character)
    return state


def _key_in_list(state: TopState, key: Key) -> Stepped:
    letter = key.character or key.name
    if letter in ("1", "2", "3", "4"):
        return _viewed(state, VIEWS[int(letter) - 1]), ()
    match letter:
        case "tab" | "shift+tab":
            way = 1 if letter == "tab" else -1
            return _viewed(state, VIEWS[(VIEWS.index(state.view) + way) % len(VIEWS)]), ()
        case "/":
            return replace(state, is_typing=True), ()
        case "escape" | "backspace":
            return (_filtered(state, "") if state.listing.filter else replace(state, message=None)), ()
        case "<" | "left" | ">" | "right":
            return _sorted_by_next(state, 1 if letter in (">", "right") else -1), ()
        case "i":
            return _listed(state, replace(state.listing, is_reversed=not state.listing.is_reversed)), ()
        case "w":
            return _listed(state, replace(state.listing, sort=None, is_reversed=False)), ()
        case "enter":
            return _opened(state)
    steps = _steps(letter, state.room, len(state.rows))
    return (state if steps is None else _moved(state, steps)), ()


def _steps(letter: str, room: int, count: int) -> int | None:
    """How far a key moves; None for a key that does not."""
    return {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "pageup": -room,
        "pagedown": room,
        "home": -count,
        "g": -count,
        "end": count,
        "G": count,
    }.get(letter)


def _key_in_detail(state: TopState, detail: Detail, key: Key) -> Stepped:
    letter = key.character or key.name
    if letter in ("1", "2", "3", "4", "5"):
        return _turned(state, detail, PARTS[int(letter) - 1])
    match letter:
        case "escape" | "backspace":
            return replace(state, detail=None), ()
        case "tab" | "right" | "shift+tab" | "left":
            way = 1 if letter in ("tab", "right") else -1
            return _turned(state, detail, PARTS[(PARTS.index(detail.part) + way) % len(PARTS)])
        case "enter" if detail.part is Part.TASKS:
            return _turned(state, detail, Part.TRACE)
    status = state.facts.statuses.get(detail.connector)
    tasks = 0 if status is None else len(status.tasks)
    steps = _steps(letter, detail_lines(state), 1_000_000)
    if steps is None:
        return state, ()
    if detail.part is Part.TASKS:
        task = max(0, min(tasks - 1, detail.task + steps))
        return replace(state, detail=replace(detail, task=task)), ()
    most = max(0, len(page_lines(state, detail)) - detail_lines(state))
    scroll = max(0, min(most, (most if detail.is_at_end else detail.scroll) + steps))
    is_at_end = detail.part is Part.LOG and scroll == most
    return replace(state, detail=replace(detail, scroll=scroll, is_at_end=is_at_end)), ()


def _asked(state: TopState, verb: Verb) -> Stepped:
    name, _ = chosen(state)
    if name is None:
        return _reported(state, f"Choose a connector to {verb}: 1 lists them."), ()
    action = Action(verb, name)
    return replace(state, dialog=Confirm(action), message=None), (Prepare(action),)


def _restart_menu(state: TopState) -> TopState:
    name, task = chosen(state)
    if name is None:
        return _reported(state, "Choose a connector or a task to restart: 1 and 2 list them.")
    if state.facts.is_direct:
        return _reported(
            state, "A restart needs a worker: with --direct there is none to do it. Stop and resume write it."
        )
    choices = [("f", Action(Verb.RESTART_FAILED, name))]
    if task is not None:
        choices.append(("t", Action(Verb.RESTART_TASK, name, task)))
    choices += [("c", Action(Verb.RESTART_CONNECTOR, name)), ("a", Action(Verb.RESTART_ALL, name))]
    return replace(state, dialog=Menu(f"Restart what of {name}?", tuple(choices)), message=None)


def chosen(state: TopState) -> tuple[str | None, int | None]:
    """The connector that keys are about, and the task if one is."""
    if state.detail is not None:
        status = state.facts.statuses.get(state.detail.connector)
        tasks = () if status is None else status.tasks
        task = tasks[min(state.detail.task, len(tasks) - 1)].id if tasks and state.detail.part is Part.TASKS else None
        return state.detail.connector, task
    if state.cursor < 0:
        return None, None
    row = state.rows[state.cursor]
    return row.connector, row.task


def _opened(state: TopState) -> Stepped:
    """Enter: a connector's page; of a slot or worker the tasks that it runs."""
    if state.cursor < 0:
        return state, ()
    row = state.rows[state.cursor]
    if row.connector is None:
        worker = str(row.values["WORKER"])
        # Behind a forwarded port statuses name the worker otherwise; then it is the only one
        is_named = any(task.worker_id == worker for each in state.facts.statuses.values() for task in each.tasks)
        return _filtered(_viewed(state, View.TASKS), worker if is_named else ""), ()
    status = state.facts.statuses.get(row.connector)
    tasks = () if status is None else status.tasks
    at = next((index for index, task in enumerate(tasks) if task.id == row.task), 0)
    return replace(state, detail=Detail(row.connector, task=at), message=None), ()


def _turned(state: TopState, detail: Detail, part: Part) -> Stepped:
    state = replace(state, detail=replace(detail, part=part, scroll=0, is_at_end=part is Part.LOG))
    return _asked_for(state, FETCHED)


def _asked_again(state: TopState) -> Stepped:
    """With each look, what moves."""
    return _asked_for(state, LIVE)


def _asked_for(state: TopState, parts: frozenset[Part]) -> Stepped:
    """The part that is looked at, if it is one of these and no answer is on its way."""
    detail = state.detail
    if detail is None or detail.part not in parts or detail.part in detail.asked:
        return state, ()
    return replace(state, detail=replace(detail, asked=detail.asked | {detail.part})), (
        Fetch(detail.connector, detail.part),
    )


def _fetched(state: TopState, event: Fetched) -> TopState:
    if state.detail is None or state.detail.connector != event.connector:
        return state
    bodies = {**state.detail.bodies, event.part: event}
    return replace(state, detail=replace(state.detail, bodies=bodies, asked=state.detail.asked - {event.part}))


def _viewed(state: TopState, view: View) -> TopState:
    return _arranged(replace(state, view=view, message=None))


def _filtered(state: TopState, text: str) -> TopState:
    listing = replace(state.listing, filter=text)
    return _arranged(replace(state, listings={**state.listings, state.view: listing}))


def _sorted_by_next(state: TopState, way: int) -> TopState:
    """The next column, in the direction that one wants of it: numbers from the largest, names from A."""
    columns: list[str | None] = [None, *(column.title for column in COLUMNS[state.view])]
    sort = columns[(columns.index(state.listing.sort) + way) % len(columns)]
    is_number = any(column.title == sort and column.is_number for column in COLUMNS[state.view])
    return _listed(state, replace(state.listing, sort=sort, is_reversed=is_number))


def _listed(state: TopState, listing: Listing) -> TopState:
    """In a new order: what comes first then is what one wants to see."""
    listing = replace(listing, cursor=None, index=0, top=0)
    return _arranged(replace(state, listings={**state.listings, state.view: listing}))


def _moved(state: TopState, steps: int) -> TopState:
    if not state.rows:
        return state
    index = max(0, min(len(state.rows) - 1, state.cursor + steps))
    listing = replace(state.listing, cursor=state.rows[index].id, index=index)
    return replace(state, listings={**state.listings, state.view: listing})


def _arranged(state: TopState) -> TopState:
    listing = state.listing
    rows = rows_of(state.view, state.facts, state.now_s)
    found = arranged(rows, state.listing.filter, listing.sort, is_reversed=listing.is_reversed)
    return replace(state, rows=tuple(found))


def _settled(state: TopState) -> TopState:
    """The list scrolled so that the cursor is on the screen."""
    listing, cursor, room = state.listing, max(0, state.cursor), state.room
    top = min(listing.top, cursor, max(0, len(state.rows) - room))
    top = max(top, cursor - room + 1)
    if listing.cursor is not None:
        listing = replace(listing, index=cursor)
    if top != listing.top or listing is not state.listing:
        return replace(state, listings={**state.listings, state.view: replace(listing, top=top)})
    return state


def _ticked(state: TopState) -> TopState:
    message = state.message
    if message is not None and not message.is_bad and state.now_s - message.since_s > _MESSAGE_S:
        state = replace(state, message=None)
    return _arranged(state) if state.view is View.WORKERS else state


def _reported(state: TopState, text: str, *, is_bad: bool = False) -> TopState:
    return replace(state, message=Message(text, is_bad, state.now_s))
