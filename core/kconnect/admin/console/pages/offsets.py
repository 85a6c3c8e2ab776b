"""A connector's offsets: shown, changed by partition, reset, moved, and the last change taken back.

Those of a stopped connector are changed as they are. One that runs is stopped for it, and runs on: see `OffsetMove`.

In the form each partition has a field; where a person wants offsets moved to is read off it by pure functions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from kconnect.admin.cluster.kept_change import KeptChange
from kconnect.admin.cluster.port import PreparedChange
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Redirect, Reply, Route, note_of, shown
from kconnect.admin.console.pages.connector import header
from kconnect.admin.console.seen import SeenOffsets
from kconnect.admin.direct.history.offset_changes import topic_offsets
from kconnect.admin.direct.offsets.changes import check_readable
from kconnect.admin.direct.offsets.sink_targets import Chosen, ShiftBy, SinkTarget, sink_offsets_at
from kconnect.admin.direct.offsets.source_targets import source_offsets_at
from kconnect.builtin.types.iso_text import moment_of_iso
from kconnect.client.exchange import segment
from kconnect.client.offset_history import (
    MovedOffset,
    OffsetEntries,
    OffsetEntry,
    OffsetHistory,
    last_of,
    moved_offsets,
    offset_text,
)
from kconnect.client.offset_move import OffsetMove
from kconnect.client.shared_offsets import SharedOffsets
from kconnect.errors import BadRequestError, ConnectError, PreconditionFailedError
from kconnect.model import AtTime, ConnectorOffset, ConnectorType, Edge, RunState, offsets_from_json, offsets_to_json

# A page ends within 120 s, and the change itself takes its time too
_MOST_STOPPING_S: Final = 45.0


def show(request: PageRequest) -> Reply:
    """The offsets, with the form wherever they can be changed."""
    name = request.path["name"]
    status, info = request.cluster.connector_status(name), request.cluster.connector(name)
    offsets, tag = request.cluster.tagged_offsets(name)
    state = status.connector.state
    values = {
        **header(request, status, info.config, "offsets"),
        "rows": [row_of(item) for item in offsets],
        "seen": SeenOffsets(tag, offsets).fields,
        "is_sink": info.type is ConnectorType.SINK,
        "state": str(state),
        "is_stopped": state is RunState.STOPPED,
        "can_change": state is RunState.STOPPED or request.cluster.rest is not None,
        "can_move": request.cluster.brokers is not None,
        "entries": [_reported(entry) for entry in reversed(_history(request).entries(name))],
    }
    return Page("offsets.html", f"Offsets of {name}", values, tab="connectors")


def review(request: PageRequest) -> Reply:
    """What will change, partition by partition, and the question."""
    return _review(request, "")


def save(request: PageRequest) -> Reply:
    """Change them; or ask again, with what has changed, once they or the state are not as they were asked about.

    What they were is kept for the undo. Errors: PreconditionFailedError, where no dialog is open to show that.
    """
    name = request.path["name"]
    state = request.cluster.connector_status(name).connector.state
    asked = request.field("state", str(RunState.STOPPED))
    problem = ""
    if str(state) != asked:
        problem = f"{name} is {state} now, and was {asked} when you were asked."
    elif state is not RunState.STOPPED:
        return Redirect(f"/ui/connectors/{segment(name)}/offsets", _move(request, state))
    else:
        change = _Change(request)
        try:
            wanted = change.wanted()
            if change.tag != request.field("based"):
                raise PreconditionFailedError(
                    f"The offsets of {name} have changed since you looked at them", hint="Look again."
                )
            return Redirect(f"/ui/connectors/{segment(name)}/offsets", change.make(wanted))
        except PreconditionFailedError as err:
            problem = str(err)
    if not request.is_fragment:
        raise PreconditionFailedError(problem, hint="Look again.")
    return _review(request, problem)


def _review(request: PageRequest, problem: str) -> Fragment:
    name, action = request.path["name"], request.field("action", "alter")
    state = request.cluster.connector_status(name).connector.state
    change = _Change(request)
    wanted = change.wanted()
    now = SeenOffsets(change.tag, change.now)
    moved = moved_offsets(change.now, wanted)
    is_stopped = state is RunState.STOPPED
    if not is_stopped and request.cluster.rest is None:
        raise BadRequestError(f"{name} is {state}: stop it first", hint="Only a worker can stop it and see it stopped.")
    seen = SeenOffsets.of_form(request.field)
    values = {
        "name": name,
        "url": f"/ui/connectors/{segment(name)}/offsets",
        "action": action,
        "moved": [(offset_text(m.partition), offset_text(m.old), offset_text(m.new)) for m in moved],
        "records": change.records(wanted) if moved and is_stopped else (),
        "fields": {
            "action": action,
            "state": str(state),
            "wanted": json.dumps(offsets_to_json(_changed(moved))) if action == "alter" else "",
            "to": request.field("to"),
            "amount": request.field("amount"),
            **now.fields,
        },
        "state": str(state),
        "is_stopped": is_stopped,
        "problem_text": problem,
        # Those of a connector that runs change all the time
        "meanwhile": seen.changed_to(now) if is_stopped and seen.tag != now.tag else [],
    }
    return Fragment("offsets_review.html", values)


def _move(request: PageRequest, state: RunState) -> str:
    """Stop, change, verify, run on. Errors: ConnectError with what was done about it."""
    client, name = request.cluster.rest, request.path["name"]
    if client is None:
        raise BadRequestError(f"{name} is {state}: stop it first")
    change, said = _Change(request), list[str]()
    move = OffsetMove(client, name, change.wanted, lambda wanted: said.append(change.make(wanted)), said.append)
    try:
        move.make(stop_s=_MOST_STOPPING_S)
    except ConnectError as err:
        steps = "".join(f" {text.rstrip('.')}." for text in said)
        err.hint = f"{err.hint or ''}{steps}".strip()
        raise
    undo = next((text for text in said if "cannot be taken back" in text), "")
    return f"{name} was stopped, its offsets were changed and read back, and it is {state} again. {undo}".rstrip()


class _Change:
    """The change of offsets that a form asks for. `now`, `tag`: as they were when `wanted` was last asked."""

    def __init__(self, request: PageRequest) -> None:
        self._request = request
        self._name = request.path["name"]
        self._action = request.field("action", "alter")
        self.now: Sequence[ConnectorOffset] = ()
        self.tag = ""

    def wanted(self) -> list[ConnectorOffset]:
        """Errors: BadRequestError; ConflictError for an undo after somebody else's change."""
        request = self._request
        self.now, self.tag = request.cluster.tagged_offsets(self._name)
        match self._action:
            case "alter" if text := request.field("wanted"):
                return offsets_from_json(_json(text))
            case "alter":
                return typed_offsets(request.form, SeenOffsets.of_form(request.field).offsets)
            case "reset":
                return [ConnectorOffset(item.partition, None) for item in self.now]
            case "undo":
                entry = last_of(_history(request).entries(self._name), self._name)
                entry.check(self._name, self.now, otherwise="Set the offsets yourself if you want the old ones.")
                return entry.undone
            case "move":
                return _moved_to(request, self._name, self.now)
            case _:
                raise BadRequestError(f"Unknown action: {self._action}")

    def make(self, wanted: Sequence[ConnectorOffset]) -> str:
        """Gives a sentence. Errors: PreconditionFailedError if they are no longer as `wanted` found them."""
        request, changes, moved = self._request, self._request.cluster.changes, moved_offsets(self.now, wanted)
        if not moved:
            return f"{self._name}: the offsets were there already."
        if self._action == "reset":
            change: PreparedChange = changes.reset_offsets(self._name, self.tag)
        else:
            change = changes.alter_offsets(self._name, _changed(moved), self.tag, f"console {self._action}")
        action, place = f"console {self._action}", request.cluster.place
        return note_of(KeptChange(change, _history(request), self._name, action, place, moved))

    def records(self, wanted: Sequence[ConnectorOffset]) -> Sequence[str]:
        """What is written on the topics, a line each; none of a worker."""
        changes = self._request.cluster.changes
        if self._request.cluster.rest is not None:
            return ()
        if self._action == "reset":
            return shown(changes.reset_offsets(self._name))
        return shown(changes.alter_offsets(self._name, _changed(moved_offsets(self.now, wanted))))


def _moved_to(request: PageRequest, name: str, now: Sequence[ConnectorOffset]) -> list[ConnectorOffset]:
    """Errors: BadRequestError, also for brokers of another cluster than the worker's."""
    brokers, target = request.cluster.brokers, target_of(request.field("to"), request.field("amount"))
    if brokers is None:
        raise BadRequestError(
            "This console does not know the brokers, which are asked where that is",
            hint="Start it with `connect ui --worker FILE`, with the worker's file.",
        )
    info = request.cluster.connector(name)
    if info.type is ConnectorType.SOURCE and isinstance(target, AtTime):
        return source_offsets_at(brokers.worker, info, now, target.time_ms)
    wanted = sink_offsets_at(brokers, info, target, Chosen())
    cluster_id = request.cluster.server_info().get("kafka_cluster_id")
    if (why := check_readable(brokers, info, wanted, cluster_id)) is not None:
        raise BadRequestError(why, hint="Start the console with the brokers of the worker.")
    return wanted


def _reported(entry: OffsetEntry) -> dict[str, Any]:
    moved = [(offset_text(m.partition), offset_text(m.old), offset_text(m.new)) for m in entry.moved]
    return {"time_ms": entry.time_ms, "action": entry.action, "place": entry.place, "who": entry.who, "moved": moved}


def _changed(moved: Sequence[MovedOffset]) -> list[ConnectorOffset]:
    return [ConnectorOffset(m.partition, m.new) for m in moved]


def _history(request: PageRequest) -> OffsetEntries:
    """Gives the history of the cluster, or of the machine that serves the console; `offsets undo` has it too."""
    own, rest = OffsetHistory(str(request.cluster.server_info().get("kafka_cluster_id") or "")), request.cluster.rest
    if rest is not None:
        return SharedOffsets(rest.changes, own)
    return own if request.cluster.direct is None else topic_offsets(request.cluster.direct.access, own)


def _json(text: str) -> Any:  # any JSON value
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as err:
        raise BadRequestError(f"The form's offsets are not JSON: {err}") from None


PREFIX: Final = "o:"
"""Before the partition in a field's name."""
_MOST_SHIFTED: Final = 10**15
# As many digits as an offset of Kafka can have
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Row:
    """One partition in the form: `value` is the offset as it is written there."""

    partition: str
    shown: str
    value: str


def row_of(item: ConnectorOffset) -> Row:
    value, at = "" if item.offset is None else offset_text(item.offset), item.partition
    if _is_number(item):
        value = str(item.offset["kafka_offset"]) if item.offset is not None else ""
    is_topics = at.keys() == {"kafka_topic", "kafka_partition"}
    shown = f"{at['kafka_topic']}-{at['kafka_partition']}" if is_topics else offset_text(at)
    return Row(offset_text(at), shown, value)


def typed_offsets(form: Sequence[tuple[str, str]], base: Sequence[ConnectorOffset]) -> list[ConnectorOffset]:
    """What the form changes of `base`, from which it was made; an empty field resets its partition.

    Errors: BadRequestError for what is no offset.
    """
    known = {offset_text(item.partition): item for item in base}
    found = []
    for name, text in form:
        key = name.removeprefix(PREFIX)
        if key == name or key not in known or (text := text.strip()) == row_of(known[key]).value:
            continue
        found.append(ConnectorOffset(known[key].partition, _offset(key, text, known[key])))
    return found


def target_of(to: str, text: str) -> SinkTarget:
    """Errors: BadRequestError."""
    text = text.strip()
    if to in ("earliest", "latest"):
        return Edge(to)
    if to == "time":
        try:
            at = moment_of_iso(text)
        except ValueError:
            raise BadRequestError(f"{text or 'Nothing'} is not a time; write it as 2026-11-22T03:00, in UTC") from None
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return AtTime(round(at.timestamp() * 1000))
    if to == "shift" and _NUMBER.fullmatch(text) and abs(int(text)) < _MOST_SHIFTED:
        return ShiftBy(int(text))
    raise BadRequestError("Say how many records on, or back with a minus: -1000")


def _offset(key: str, text: str, old: ConnectorOffset) -> Any:  # data of JSON
    if not text:
        return None
    if _NUMBER.fullmatch(text) and _is_number(old):
        return {"kafka_offset": int(text)}
    try:
        offset = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise BadRequestError(f"{key}: {text} is not JSON: {err}") from None
    if not isinstance(offset, dict):
        raise BadRequestError(f"The offset of {key} must be a JSON object, such as {offset_text(old.offset)}")
    return offset


def _is_number(item: ConnectorOffset) -> bool:
    """A sink's: the number alone is enough."""
    return item.offset is not None and item.offset.keys() == {"kafka_offset"}


ROUTES: Final = (
    Route("/connectors/{name}/offsets", {"GET": show, "POST": save}),
    Route("/connectors/{name}/offsets/review", {"POST": review}),
)
