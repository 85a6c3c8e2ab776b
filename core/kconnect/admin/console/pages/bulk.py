"""`/ui/do/{verb}`: several connectors paused, resumed, stopped or restarted: the question, and then the changes.

Those to which it does not apply are left out by name. What fails keeps nothing else back, unless nobody answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kconnect.admin.cluster.port import Changes
from kconnect.admin.console.connector_filter import Filter
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Redirect, Reply, Route, note_of, shown
from kconnect.admin.console.pages.actions import Action, action_of, before_and_after, change_of
from kconnect.admin.console.pages.connector import verbs_of
from kconnect.errors import BadRequestError, ConnectError, NotFoundError, TimedOutError, UnreachableError
from kconnect.logs.redaction import redact
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorStatus

_EFFECTS: Final = {
    "pause": "Their tasks keep their slots and process no records until they are resumed.",
    "resume": "Their tasks continue from their committed offsets.",
    "restart": "The connectors and all of their tasks stop and start again.",
    "restart-failed": "What is FAILED starts again; the rest keeps running.",
    "stop": "Their tasks end and give up their slots. The configs and the offsets are kept.",
}
# A page ends within 120 s
_MOST_S: Final = 90.0
_MOST_IN_A_NOTE: Final = 5
_SEEN: Final = "seen:"


def bulk_verbs(*, has_workers: bool) -> list[tuple[str, str]]:
    """Ends of paths, and the words of the buttons."""
    verbs = [verb for verb in _EFFECTS if has_workers or not verb.startswith("restart")]
    return [(verb, _button(action_of(verb))) for verb in verbs]


def review(request: PageRequest) -> Reply:
    """The question, with each connector's state before and after. Errors: BadRequestError if there is nothing to do."""
    chosen = [value for key, value in request.form if key == "name"]
    return _question(request, chosen, request.cluster.connector_statuses(), "")


def carry_out(request: PageRequest) -> Reply:
    """The changes, one after the other; or the question again, if a connector is no longer as that said."""
    verb = _verb(request)
    seen = {key.removeprefix(_SEEN): value for key, value in request.form if key.startswith(_SEEN)}
    statuses = request.cluster.connector_statuses()
    others = [f"{name} is {now} now" for name, state in seen.items() if (now := _state(statuses.get(name))) != state]
    if others:
        return _question(request, list(seen), statuses, f"{', '.join(others)}: look again.")
    done, failed = make_all(request.cluster.changes, verb, seen)
    back = Filter.of(dict(request.form)).url()
    if not failed:
        more = len(done) - _MOST_IN_A_NOTE
        note = "; ".join(done[:_MOST_IN_A_NOTE]) + (f"; and {pluralize(more, 'other')}" if more > 0 else "")
        if request.cluster.rest is None:
            note += ". A worker carries it out when it starts"
        return Redirect(back, note)
    heading = f"{_button(action_of(verb))}: {len(failed)} of {pluralize(len(seen), 'connector')} failed"
    values = {"heading": heading, "failed": failed, "done": done, "back": back}
    if request.is_fragment:
        return Fragment("bulk_done.html", values)
    return Page("confirm.html", heading, {**values, "body": "bulk_done.html"}, tab="connectors", status=409)


def _question(
    request: PageRequest, chosen: Sequence[str], statuses: Mapping[str, ConnectorStatus], problem: str
) -> Reply:
    verb = _verb(request)
    action = action_of(verb)
    found = [(name, statuses.get(name)) for name in dict.fromkeys(chosen)]
    has_workers = request.cluster.rest is not None
    meant = [status for _, status in found if status is not None and _applies(verb, status, has_workers=has_workers)]
    names = {status.name for status in meant}
    left = ", ".join(f"{name} ({_state(status)})" for name, status in found if name not in names)
    if not meant:
        raise BadRequestError(f"{_button(action)} does not apply to {left or 'no connector: none was chosen'}")
    changes = request.cluster.changes
    heading = f"{action.title} {pluralize(len(meant), 'connector')}?"
    values = {
        "heading": heading,
        "reported": _EFFECTS[verb] + (f" Left out, as it does not apply: {left}." if left else ""),
        "rows": [(status.name, *_before_and_after(status, action, verb)) for status in meant],
        "records": [line for status in meant for line in shown(change_of(changes, verb, status.name))],
        "url": f"/ui/do/{verb}",
        "back": Filter.of(dict(request.form)).url(),
        "fields": {
            **Filter.of(dict(request.form)).given,
            **{f"{_SEEN}{status.name}": _state(status) for status in meant},
        },
        "button": _button(action),
        "is_dangerous": action.is_dangerous,
        "problem_text": problem,
        "is_stale": False,
        "meanwhile": [],
        "both": (),
    }
    if request.is_fragment:
        return Fragment("confirm_body.html", values)
    return Page("confirm.html", heading, values, tab="connectors", status=409 if problem else 200)


def make_all(changes: Changes, verb: str, names: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """What was done, a sentence each; and the names of the others with why not."""
    done, failed, why_not = list[str](), list[tuple[str, str]](), ""
    began = time.monotonic()
    for name in names:
        if not why_not and time.monotonic() - began > _MOST_S:
            why_not = f"Not tried: the others took {_MOST_S:.0f} s."
        if why_not:
            failed.append((name, why_not))
            continue
        try:
            done.append(note_of(change_of(changes, verb, name)))
        except ConnectError as err:
            failed.append((name, redact(str(err))))
            if isinstance(err, TimedOutError | UnreachableError):
                why_not = "Not tried, as the cluster does not answer."
    return done, failed


def _before_and_after(status: ConnectorStatus, action: Action, verb: str) -> tuple[str, str]:
    connector, tasks = before_and_after(status, action, verb)
    return f"{connector[1]}, tasks: {tasks[1]}", f"{connector[2]}, tasks: {tasks[2]}"


def _applies(verb: str, status: ConnectorStatus, *, has_workers: bool) -> bool:
    return verb in (offered for offered, _ in verbs_of(status, has_workers=has_workers))


def _state(status: ConnectorStatus | None) -> str:
    return "gone" if status is None else str(status.connector.state)


def _button(action: Action) -> str:
    return action.title.removesuffix(" of")


def _verb(request: PageRequest) -> str:
    verb = request.path["verb"]
    if verb not in _EFFECTS:
        raise NotFoundError("The page does not exist")
    return verb


ROUTES: Final = (
    Route("/do/{verb}/review", {"POST": review}),
    Route("/do/{verb}", {"POST": carry_out}),
)
