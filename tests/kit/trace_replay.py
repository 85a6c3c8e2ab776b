"""Replays what `connect cluster trace -o json` and a failed worker's file hold into a state machine of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from kconnect import errors, model
from kconnect.errors import ConnectError
from kconnect.runtime.config import restart_keys
from kconnect.runtime.herder import membership
from kconnect.runtime.herder.assignment import protocol
from kconnect.runtime.herder.decisions import (
    auto_restarts,
    events,
    facts,
    failures,
    instructions,
    membership_rules,
    mismatches,
    request_signatures,
    requests,
    writes,
)
from kconnect.runtime.herder.decisions.events import Tick
from kconnect.runtime.herder.decisions.machine import HerderState
from kconnect.runtime.herder.decisions.trace import TraceEncoder, without_configs
from kconnect.runtime.storage import config_topic, session_key, snapshot
from kconnect.runtime.storage.snapshot import AppliedConfig, ClusterSnapshot

_MODULES = (
    *(
        events,
        facts,
        failures,
        mismatches,
        instructions,
        auto_restarts,
        membership_rules,
        request_signatures,
        requests,
        writes,
    ),
    *(membership, protocol, model, config_topic, session_key, snapshot, errors, restart_keys),
)
_TYPES = {name: each for module in _MODULES for name, each in vars(module).items() if isinstance(each, type)}


def replay(document: Mapping[str, Any]) -> int:
    """Take the entries in one after the other; the number of them. Errors: AssertionError at the first that differs."""
    machine, known = _restored(document)
    encoder = TraceEncoder(lambda text: text, str)  # values are pseudonyms already
    for entry in document["entries"]:
        event = decoded(entry["event"])
        if "snapshot" in entry:
            known = _changed(known, entry["snapshot"], event.snapshot.offset)
            object.__setattr__(event, "snapshot", known)
        if machine.facts.now_ms != entry["now_ms"]:
            machine.step(Tick(entry["now_ms"]))
        where = f"entry {entry['number']}: {entry['event']['type']}"
        if "error" in entry:
            with pytest.raises(Exception) as raised:  # noqa: PT011 # its type is what is compared
                machine.step(event)
            assert type(raised.value).__name__ == entry["error"], where
            continue
        reported = machine.step(event)
        assert [encoder.encoded(without_configs(each)) for each in reported] == entry["instructions"], where
    return len(document["entries"])


def decoded(value: Any) -> Any:
    """A value of a trace; what was hidden stays a pseudonym."""
    if isinstance(value, list):
        return [decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"enum": name, "name": member}:
            kind = _TYPES[name]
            assert issubclass(kind, Enum)
            return kind[member]
        case {"map": pairs}:
            return {decoded(key): decoded(each) for key, each in pairs}
        case {"tuple": items}:
            return tuple(decoded(each) for each in items)
        case {"set": items}:
            return {decoded(each) for each in items}
        case {"bytes": size}:
            return bytes(size)
        case {"error": name, "message": message}:
            return _error(name, message)
        case {"type": "AppliedConfig", "raw": raw}:
            return AppliedConfig(decoded(raw))
        case {"type": name}:
            return _object(name, value)
        case _:
            return {key: decoded(each) for key, each in value.items()}


def _object(name: str, value: Mapping[str, Any]) -> Any:
    kind = _TYPES.get(name) or getattr(membership_rules, name)
    assert is_dataclass(kind)
    made = object.__new__(kind)
    given = {key: decoded(each) for key, each in value.items() if key != "type"}
    for each in fields(kind):
        object.__setattr__(made, each.name, given.get(each.name))
    return made


def _error(name: str, message: str) -> ConnectError:
    kind = _TYPES[name]
    assert issubclass(kind, ConnectError)
    made = kind.__new__(kind, message)
    ConnectError.__init__(made, message)
    return made


def _restored(document: Mapping[str, Any]) -> tuple[HerderState, ClusterSnapshot]:
    settings = {name: decoded(value) for name, value in document["settings"].items()}
    machine = HerderState(settings["times"], settings["key_form"], settings["own"], settings["restarts"])
    parts = machine.parts()
    for part, values in document["checkpoint"]["parts"].items():
        for name, value in values.items():
            setattr(parts[part], name, decoded(value))
    return machine, decoded(document["checkpoint"]["snapshot"])


def _changed(known: ClusterSnapshot, changes: Mapping[str, Any], offset: int) -> ClusterSnapshot:
    values = {each.name: getattr(known, each.name) for each in fields(ClusterSnapshot)}
    for name, change in changes.items():
        values[name] = (
            _merged(values[name], change) if isinstance(change, dict) and "put" in change else decoded(change)
        )
    made = ClusterSnapshot(**values)
    assert made.offset == offset
    return made


def _merged(old: Mapping[Any, Any], change: Mapping[str, Any]) -> dict[Any, Any]:
    if change["whole"]:
        return decoded(change["put"])
    removed = set(decoded(change["removed"]))
    return {key: value for key, value in old.items() if key not in removed} | decoded(change["put"])
