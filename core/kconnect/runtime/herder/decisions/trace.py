"""The last events and decisions of a herder's state machine, which can be read, and replayed into another one.

Values of configs are never shown: equal values have equal pseudonyms, so that a replay decides the same. An entry
contains only the changes since the previous snapshot; a checkpoint of the machine precedes the oldest entry.
Differs: Java has log lines only.
"""

from __future__ import annotations

import copy
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar, cast

from kconnect.runtime.config.restart_keys import RESTART_KEYS
from kconnect.runtime.herder.decisions.events import Event
from kconnect.runtime.herder.decisions.instructions import Instruction
from kconnect.runtime.storage.snapshot import AppliedConfig, ClusterSnapshot

FORMAT: Final = 1
# Some minutes of a busy cluster; a checkpoint before each half, so that half of them at least can be replayed
_ENTRIES_PER_SEGMENT: Final = 250
# Long enough that no two values of a cluster meet
_PSEUDONYM_CHARS: Final = 12
_MISSING: Final = object()
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _MappingChange:
    """`whole`: the order changed too, so that `put` is all of it."""

    put: Mapping[Any, Any]
    removed: tuple[Any, ...] = ()
    whole: bool = False


@dataclass(slots=True)
class _Entry:
    number: int
    now_ms: int
    """The machine's time before the event."""
    event: Event
    snapshot: Mapping[str, object] | None
    """The changes of the snapshot that came with it; None without a snapshot."""
    instructions: tuple[Instruction, ...] = ()
    error: str | None = None
    """The machine raised this."""


@dataclass(frozen=True, slots=True)
class _Segment:
    checkpoint: Mapping[str, Mapping[str, object]]
    snapshot: ClusterSnapshot
    """To which the first change is relative."""
    entries: list[_Entry] = field(default_factory=list)


class HerderTrace:
    """Threads: `begin` and `end` from the herder's; `document` from any."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)  # so that guessing a value does not reveal it
        self._number = 0
        self._last = ClusterSnapshot()
        self._segments: tuple[_Segment, ...] = ()

    def begin(self, event: Event, now_ms: int, machine: Callable[[], Mapping[str, object]]) -> _Entry:
        """An event is about to be processed. `machine`: the parts of the machine by name, for a checkpoint."""
        if not self._segments or len(self._segments[-1].entries) >= _ENTRIES_PER_SEGMENT:
            self._segments = (*self._segments[-1:], _Segment(_checkpoint(machine()), self._last))
        return _Entry(self._number + 1, now_ms, event, None)

    def end(self, entry: _Entry, instructions: Iterable[Instruction], error: BaseException | None = None) -> None:
        """It was processed, or (`error`) broke the machine."""
        snapshot = getattr(entry.event, "snapshot", None)
        if snapshot is not None:
            entry.snapshot, self._last = _snapshot_change(self._last, snapshot), snapshot
        entry.event = without_configs(entry.event)
        entry.instructions = tuple(without_configs(each) for each in instructions)
        entry.error = None if error is None else type(error).__name__
        self._number = entry.number
        self._segments[-1].entries.append(entry)

    def document(
        self, since: int | None, settings: Mapping[str, object], clean: Callable[[str], str]
    ) -> dict[str, Any]:
        """The trace as JSON. With `since`, only the entries after that one, which cannot be replayed.

        `settings`: those of the machine. `clean` removes known secrets from messages.
        """
        encoder = TraceEncoder(self._pseudonym, clean)
        segments = [(segment, segment.entries[:]) for segment in self._segments]
        entries = [entry for _, known in segments for entry in known if entry.number > (since or 0)]
        body: dict[str, Any] = {"format": FORMAT, "last": self._number}
        if since is None and segments:
            first = segments[0][0]
            body["settings"] = {name: encoder.encoded(value) for name, value in settings.items()}
            body["checkpoint"] = {
                "snapshot": encoder.encoded(first.snapshot),
                "parts": {
                    part: {name: encoder.encoded(value) for name, value in values.items()}
                    for part, values in first.checkpoint.items()
                },
            }
        body["entries"] = [encoder.entry(entry) for entry in entries]
        return body

    def _pseudonym(self, text: str) -> str:
        return "#" + hmac.digest(self._key, text.encode(errors="surrogatepass"), "sha256").hex()[:_PSEUDONYM_CHARS]


class TraceEncoder:
    """Events, instructions and the machine's own values as JSON.

    `hide` makes pseudonyms of secret values: those that a dataclass omits from its repr.
    """

    def __init__(self, hide: Callable[[str], str], clean: Callable[[str], str]) -> None:
        self._hide = hide
        self._clean = clean

    def entry(self, entry: _Entry) -> dict[str, Any]:
        body: dict[str, Any] = {
            "number": entry.number,
            "now_ms": entry.now_ms,
            "event": self.encoded(entry.event),
            "instructions": [self.encoded(each) for each in entry.instructions],
        }
        if entry.snapshot is not None:
            body["snapshot"] = {
                name: self.encoded(value, hidden=name in _HIDDEN_OF_SNAPSHOTS) for name, value in entry.snapshot.items()
            }
        if entry.error is not None:
            body["error"] = entry.error
        return body

    def encoded(self, value: Any, *, hidden: bool = False) -> Any:
        match value:
            case None:
                return None
            case Enum():
                return {"enum": type(value).__name__, "name": value.name}
            case str():
                return self._hide(value) if hidden else self._clean(value)
            case bool() | int() | float():
                return self._hide(str(value)) if hidden else value
            case bytes():
                return {"bytes": len(value)}
            case BaseException():
                return {"error": type(value).__name__, "message": self._clean(str(value))}
            case AppliedConfig():
                return {"type": "AppliedConfig", "raw": self.encoded(value.raw, hidden=True)}
            case _MappingChange():
                put = self.encoded(value.put, hidden=hidden)
                return {"put": put, "removed": self.encoded(value.removed), "whole": value.whole}
            case _ if is_dataclass(value):
                return self._object(value, hidden)
            case _:
                return self._collection(value, hidden)

    def _object(self, value: Any, hidden: bool) -> dict[str, Any]:
        # A snapshot is left out of reprs for its size alone: its own fields say what must be hidden
        hidden = hidden and not isinstance(value, ClusterSnapshot)
        shown = [each for each in fields(value) if each.name != "transform"]
        body = {each.name: self.encoded(getattr(value, each.name), hidden=hidden or not each.repr) for each in shown}
        return {"type": type(value).__name__, **body}

    def _collection(self, value: Any, hidden: bool) -> Any:
        match value:
            case Mapping():
                return {
                    "map": [
                        [self.encoded(key), self.encoded(each, hidden=hidden and not _is_decided_by(key, each))]
                        for key, each in value.items()
                    ]
                }
            case tuple():
                return {"tuple": [self.encoded(each, hidden=hidden) for each in value]}
            case set() | frozenset():
                return {"set": [self.encoded(each, hidden=hidden) for each in sorted(value, key=str)]}
            case list():
                return [self.encoded(each, hidden=hidden) for each in value]
            case _:
                raise TypeError(f"A {type(value).__name__} has no form in a trace")


def _is_decided_by(key: object, value: object) -> bool:
    """Whether it is a setting whose number the machine itself acts on: no secret, and a replay needs it."""
    return key in RESTART_KEYS and isinstance(value, str) and value.strip().isdigit()


_HIDDEN_OF_SNAPSHOTS = frozenset(each.name for each in fields(ClusterSnapshot) if not each.repr)


def without_configs(value: Value) -> Value:
    """An event or instruction with the offset alone of its snapshot: hundreds of large clusters' would be 100 MB."""
    snapshot = getattr(value, "snapshot", None)
    if snapshot is None:
        return value
    dataclass: Any = value  # they all are
    return cast(Value, replace(dataclass, snapshot=ClusterSnapshot(offset=snapshot.offset)))


def own_values(part: object, parts: Iterable[object]) -> dict[str, object]:
    """The attributes of one part of the machine, without those that are other parts of it."""
    known = {id(each) for each in parts}
    names = [each.name for each in fields(part)] if is_dataclass(part) else list(vars(part))
    return {name: getattr(part, name) for name in names if id(getattr(part, name)) not in known}


def _checkpoint(parts: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Values are frozen, but for the collections that hold them."""
    return {
        name: {
            key: copy.copy(value) if isinstance(value, dict | list | set) else value
            for key, value in own_values(part, parts.values()).items()
        }
        for name, part in parts.items()
    }


def _snapshot_change(old: ClusterSnapshot, new: ClusterSnapshot) -> dict[str, object]:
    changed: dict[str, object] = {}
    if old is new:
        return changed
    for each in fields(ClusterSnapshot):
        before, now = getattr(old, each.name), getattr(new, each.name)
        if each.name == "transform" or before is now:
            continue
        if not isinstance(now, Mapping):
            changed.update({} if before == now else {each.name: now})
        elif (change := _mapping_change(before, now)) is not None:
            changed[each.name] = change
    return changed


def _mapping_change(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> _MappingChange | None:
    put = {key: value for key, value in new.items() if old.get(key, _MISSING) is not value}
    if list(old) == list(new):  # most changes are of values: 0.6 ms instead of 1.0 with a thousand connectors
        return _MappingChange(put) if put else None
    removed = tuple(key for key in old if key not in new)
    if [*(key for key in old if key in new), *(key for key in new if key not in old)] != list(new):
        return _MappingChange(dict(new), whole=True)
    return _MappingChange(put, removed) if put or removed else None
