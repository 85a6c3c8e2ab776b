"""Unknown settings: misspelt ones, each with the known name that was probably meant, and others that mean nothing.

Pure. Many connectors read settings that their tables do not list, so a name of theirs counts as misspelt only if it
resembles a listed one part by part. Steps, converters and clients read no more than they list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Final

Misspelt = Mapping[str, str]
"""Shape: name as written -> the name that was probably meant."""

# Followed by a client setting: the client warns about unknown ones
_CLIENTS: Final = re.compile(r"(?:admin|consumer|producer)\.override\.")
# Settings of a plugin in the config: only compared with those of the same plugin
_PLUGIN: Final = re.compile(
    r"(?:key\.converter|value\.converter|header\.converter|(?:transforms|predicates|topic\.creation)\.[^.]+)\."
)
_CONVERTER: Final = re.compile(r"((?:key|value|header)\.converter)\.")
_STEP: Final = re.compile(r"(transforms|predicates)\.([^.]+)\.")
_OF_ALL_STEPS: Final = frozenset({"type", "plugin.version", "predicate", "negate"})
# Settings of topics follow, whatever they are
_FREE: Final = ("topic.creation.",)
_OF_MIRRORS: Final = ("admin.", "consumer.", "producer.", "source.", "target.")
_SEPARATORS: Final = re.compile(r"[._-]")
# Unit suffixes, which are easily left out
_UNITS: Final = (".ms", ".bytes", ".seconds")
# Typos in words of five letters and more exceed it: feild, topc; date/data is 0.75, user/url 0.57
_LEAST_ALIKE: Final = 0.8


def misspelt_settings(config: Iterable[str], known: Collection[str]) -> Misspelt:
    """A connector's unknown settings that resemble a known one, with that one.

    `known`: every name that the worker's validation lists for this config.
    """
    names, found = set(known), dict[str, str]()
    for key in dict.fromkeys(config):
        if key in names or _CLIENTS.match(key):
            continue
        room = _room(key)
        near = [name for name in names if _room(name) == room and _is_slip(key, name, len(room))]
        if near:
            found[key] = max(near, key=lambda name: (SequenceMatcher(None, key, name).ratio(), name))
    return found


def unknown_settings(
    config: Mapping[str, str | None], known: Collection[str], *, of_clients: bool = False
) -> dict[str, str]:
    """Every name that means nothing, with a sentence on it; of a connector's own those too that nothing resembles.

    `of_clients`: `known` has the overrides that clients know.
    """
    names, meant = set(known), misspelt_settings(config, known)
    found = {}
    for key in config:
        if key in names or (_CLIENTS.match(key) and not of_clients):
            continue
        if key in meant:
            found[key] = misspelt_reported(key, meant[key])
        elif not key.startswith(_free_of(config)) and (text := _unused(key, config, names)) is not None:
            found[key] = text
    return found


def _free_of(config: Mapping[str, str | None]) -> tuple[str, ...]:
    """MirrorMaker's connectors read settings of the clients of both clusters besides their own."""
    return (*_FREE, *_OF_MIRRORS) if ".mirror." in (config.get("connector.class") or "") else _FREE


def is_surely_unknown(key: str) -> bool:
    """Whether what reads such settings lists all that it reads: a step, a predicate, a converter."""
    return re.match(r"(?:key|value|header)\.converter\.|(?:transforms|predicates)\.", key) is not None


def misspelt_reported(key: str, meant: str) -> str:
    return f"Unknown setting: {key}. Did you mean {meant}?"


def _unused(key: str, config: Mapping[str, str | None], known: Collection[str]) -> str | None:
    """Why a setting that is not listed has no effect; None for one of a converter that lists none."""
    if (converter := _CONVERTER.match(key)) is not None:
        if not config.get(converter[1]):
            return f"{key} has no effect without {converter[1]}: the worker's converter has the worker's settings"
        own = [name for name in known if name.startswith(converter[0]) and not name.endswith(".plugin.version")]
        return f"Unknown setting: {key}" if own else None
    if (step := _STEP.match(key)) is not None:
        listed = [alias.strip() for alias in (config.get(step[1]) or "").split(",")]
        if step[2] not in listed:
            return f"{key} has no effect: {step[1]} does not name {step[2]}"
        if f"{step[0]}type" not in config or not any(
            name.startswith(step[0]) and name.removeprefix(step[0]) not in _OF_ALL_STEPS for name in known
        ):
            return None  # its class says nothing, or is not there
    return f"Unknown setting: {key}"


def _room(name: str) -> str:
    found = _PLUGIN.match(name)
    return found[0] if found else ""


def _is_slip(key: str, name: str, start: int) -> bool:
    """Whether `key` is a typo of `name`: every part similar, or equal except for dots, dashes and case."""
    wrote, meant = key[start:].lower(), name[start:].lower()
    if wrote == meant:
        return True  # names are case-sensitive
    if any(wrote + unit == meant for unit in _UNITS):
        return True
    if re.sub(r"\d+", "", wrote) == re.sub(r"\d+", "", meant):
        return False  # one of a family: server.1, server.2
    if _SEPARATORS.sub("", wrote) == _SEPARATORS.sub("", meant):
        return True
    parts, others = wrote.split("."), meant.split(".")
    return len(parts) == len(others) and all(map(_is_like, parts, others))


def _is_like(part: str, other: str) -> bool:
    is_swapped = sorted(part) == sorted(other)  # flie is file
    return is_swapped or SequenceMatcher(None, part, other).ratio() >= _LEAST_ALIKE
