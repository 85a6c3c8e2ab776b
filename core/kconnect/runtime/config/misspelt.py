"""Misspelt settings: unknown names, each with the known name that was probably meant.

Pure. Many connectors read settings that their tables do not list, so a name counts as misspelt only if it resembles
a listed one part by part; other unknown names are not reported.
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
