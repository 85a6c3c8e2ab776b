"""A connector's offsets: shown, changed by partition, reset, moved by time, and the last change taken back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kconnect.console.html import segment
from kconnect.console.pages.connector import header
from kconnect.console.visit import Fragment, Page, Redirect, Reply, Route, Visit
from kconnect.direct.access import ClusterAccess
from kconnect.direct.offsets.sink_targets import AtTime, Chosen, Edge, ShiftBy, SinkTarget, sink_offsets_at
from kconnect.errors import BadRequestError, ConflictError, ConnectError, NotFoundError
from kconnect.model import ConnectorOffset, ConnectorType, RunState, offsets_from_json, offsets_to_json
from kconnect.offset_history import MovedOffset, OffsetEntry, OffsetHistory, moved_offsets, offset_text

_MOST_SHIFTED: Final = 10**15


@dataclass(frozen=True, slots=True)
class _Row:
    """One partition in the form: `value` is the offset as it is written there."""

    partition: str
    shown: str
    value: str


def show(visit: Visit) -> Reply:
    """The offsets, with the form when the connector is stopped."""
    name = visit.path["name"]
    status, info = visit.cluster.connector_status(name), visit.cluster.connector(name)
    now = visit.cluster.connector_offsets(name)
    is_sink = info.type is ConnectorType.SINK
    values = {
        **header(visit, status, info.config, "offsets"),
        "rows": [_row(item, is_sink) for item in now],
        "is_sink": is_sink,
        "is_stopped": status.connector.state is RunState.STOPPED,
        "can_move": is_sink and visit.cluster.brokers is not None,
        "entries": [_told(entry) for entry in reversed(_history(visit).entries(name))],
    }
    return Page("offsets.html", f"Offsets of {name}", values, tab="connectors")


def review(visit: Visit) -> Reply:
    """What will change, partition by partition, and the question."""
    name = visit.path["name"]
    now = visit.cluster.connector_offsets(name)
    action = visit.field("action", "alter")
    wanted = _wanted(visit, name, now, action)
    moved = moved_offsets(now, wanted)
    change = visit.cluster.changes.reset_offsets(name) if action == "reset" else None
    if change is None and moved:
        change = visit.cluster.changes.alter_offsets(name, _changed(moved))
    values = {
        "name": name,
        "url": f"/ui/connectors/{segment(name)}/offsets",
        "action": action,
        "moved": [(offset_text(m.partition), offset_text(m.old), offset_text(m.new)) for m in moved],
        "records": () if change is None else change.records,
        "wanted": json.dumps(offsets_to_json(_changed(moved))),
        "seen": _fingerprint(now),
    }
    return Fragment("offsets_review.html", values)


def save(visit: Visit) -> Reply:
    """Change them, unless they have changed since; what they were is kept for the undo."""
    name, action = visit.path["name"], visit.field("action")
    now = visit.cluster.connector_offsets(name)
    if visit.field("seen") != _fingerprint(now):
        raise ConflictError(f"The offsets of {name} have changed since you looked at them", hint="Look again.")
    wanted = offsets_from_json(_json(visit.field("wanted"), "wanted"))
    changes = visit.cluster.changes
    change = changes.reset_offsets(name) if action == "reset" else changes.alter_offsets(name, wanted)
    done = change.make()
    if moved := moved_offsets(now, wanted):
        entry = OffsetEntry(time.time_ns() // 1_000_000, f"console {action}", visit.cluster.place, moved)
        try:
            _history(visit).add(name, entry)
        except ConnectError as err:  # the offsets are changed: only taking them back is not possible
            done += f" It cannot be taken back here: {err}."
    return Redirect(f"/ui/connectors/{segment(name)}/offsets", done)


def _wanted(visit: Visit, name: str, now: Sequence[ConnectorOffset], action: str) -> list[ConnectorOffset]:
    """Errors: BadRequestError, ConflictError for an undo after somebody else's change."""
    match action:
        case "alter":
            return _of_form(visit.form, {offset_text(item.partition): item for item in now})
        case "reset":
            return [ConnectorOffset(item.partition, None) for item in now]
        case "undo":
            return _undone(_history(visit).entries(name), now, name)
        case "move":
            if visit.cluster.brokers is None:
                raise BadRequestError("This console does not know the brokers, which are asked for offsets by time")
            return _moved_to(visit, visit.cluster.brokers, name)
        case _:
            raise BadRequestError(f"Unknown action: {action}")


def _of_form(form: Sequence[tuple[str, str]], now: Mapping[str, ConnectorOffset]) -> list[ConnectorOffset]:
    """Fields `o:PARTITION`; an empty one resets that partition. Of a sink it is the number alone."""
    found = []
    for field, text in form:
        key = field.removeprefix("o:")
        if key == field or key not in now:
            continue
        old, text = now[key], text.strip()
        if not text:
            offset: Any = None
        elif text.lstrip("-").isdecimal() and old.offset is not None and old.offset.keys() == {"kafka_offset"}:
            offset = {"kafka_offset": int(text)}
        else:
            offset = _json(text, key)
            if not isinstance(offset, dict):
                raise BadRequestError(f"The offset of {key} must be a JSON object, such as {offset_text(old.offset)}")
        found.append(ConnectorOffset(old.partition, offset))
    return found


def _undone(entries: Sequence[OffsetEntry], now: Sequence[ConnectorOffset], name: str) -> list[ConnectorOffset]:
    if not entries:
        raise NotFoundError(f"No change of {name}'s offsets was made from here")
    if differences := entries[-1].differences(now):
        raise ConflictError(
            f"The offsets of {name} have changed since: {'; '.join(differences)}",
            hint="Its tasks ran, or somebody else changed them. Set the offsets yourself if you want the old ones.",
        )
    return entries[-1].undone


def _moved_to(visit: Visit, brokers: ClusterAccess, name: str) -> list[ConnectorOffset]:
    return sink_offsets_at(brokers, visit.cluster.connector(name), _target(visit), Chosen())


def _target(visit: Visit) -> SinkTarget:
    """Errors: BadRequestError."""
    to, text = visit.field("to"), visit.field("amount").strip()
    if to in ("earliest", "latest"):
        return Edge(to)
    if to == "time":
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise BadRequestError(f"{text or 'Nothing'} is not a time; write it as 2026-11-22T03:00, in UTC") from None
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return AtTime(round(at.timestamp() * 1000))
    if to == "shift" and text.lstrip("+-").isdecimal() and abs(int(text)) < _MOST_SHIFTED:
        return ShiftBy(int(text))
    raise BadRequestError("Say how many records on, or back with a minus: -1000")


def _row(item: ConnectorOffset, is_sink: bool) -> _Row:
    value = offset_text(item.offset) if item.offset is not None else ""
    if is_sink and item.offset is not None and item.offset.keys() == {"kafka_offset"}:
        value = str(item.offset["kafka_offset"])
    shown = offset_text(item.partition)
    if is_sink and item.partition.keys() == {"kafka_topic", "kafka_partition"}:
        shown = f"{item.partition['kafka_topic']}-{item.partition['kafka_partition']}"
    return _Row(offset_text(item.partition), shown, value)


def _told(entry: OffsetEntry) -> dict[str, Any]:
    moved = [(offset_text(m.partition), offset_text(m.old), offset_text(m.new)) for m in entry.moved]
    return {"time_ms": entry.time_ms, "action": entry.action, "place": entry.place, "moved": moved}


def _changed(moved: Sequence[MovedOffset]) -> list[ConnectorOffset]:
    return [ConnectorOffset(m.partition, m.new) for m in moved]


def _history(visit: Visit) -> OffsetHistory:
    """Of the machine that serves the console; `connect offsets undo` there knows it too."""
    return OffsetHistory(str(visit.cluster.server_info().get("kafka_cluster_id") or ""))


def _fingerprint(now: Sequence[ConnectorOffset]) -> str:
    return json.dumps(sorted([offset_text(item.partition), offset_text(item.offset)] for item in now))


def _json(text: str, what: str) -> Any:  # any JSON value
    try:
        return json.loads(text)
    except ValueError as err:
        raise BadRequestError(f"{what}: {text} is not JSON: {err}") from None


ROUTES: Final = (
    Route("/connectors/{name}/offsets", {"GET": show, "POST": save}),
    Route("/connectors/{name}/offsets/review", {"POST": review}),
)
