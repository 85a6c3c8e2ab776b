"""Isolation: connectors of a JVM that ends again and again are parted, until the one that ends it is alone in its own.

Pure: times come in, as those of a clock that never goes back.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

# Once may be an accident, or the kernel's doing when memory ran out, which more JVMs would make worse.
_AGAIN_WITHIN_S: Final = 600.0
# With four at a time one of 64 is alone after four ends, and the fifth restart of the others (errors.restart.max) is
# left for what else may happen; 135 MB more are taken at first.
_PARTS: Final = 4
# After so long without an end they may share a JVM again.
_APART_S: Final = 3600.0
# Not a thread of a plugin's own, nor a plugin of no connector: then the one to blame is among all that were in it
_NAMED: Final = re.compile(
    r"The JVM that runs Java's plugins ended \([^(]*, as (?!the thread |a plugin of the worker )(?P<who>.+?) "
    r"called System\.exit at "
)


def named_in(text: str) -> str | None:
    """Who is named in what is said of a JVM's end, as `connector` or `connector-0`. Source: Ending.java."""
    found = _NAMED.search(text)
    return found and found["who"]


@dataclass(slots=True)
class Isolation:
    """In which JVM of a process the plugins of each connector run. Threads: one at a time."""

    _parts: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By connector, the part that it is in, and since when."""
    _ends: dict[str | None, tuple[float, frozenset[str]]] = field(default_factory=dict)
    """By part, when its JVM has ended last, and who was in it; None: the one for all others."""
    _made: int = 0

    def part_of(self, connector: str | None, now_s: float) -> str | None:
        """A name for the JVM of a connector; None: the one that all share."""
        part, since_s = self._parts.get(connector or "", (None, 0.0))
        if part is None or now_s - since_s < _APART_S:
            return part
        self._parts.pop(connector or "")
        return None

    def note(self, part: str | None, connectors: Collection[str], culprit: str | None, now_s: float) -> str | None:
        """A JVM has ended by itself, with these connectors in it. Returns a sentence if any of them moves.

        `culprit`: the one that is known to have ended it.
        """
        if part is not None and len(connectors) == 1:
            (alone,) = connectors
            self._parts[alone] = part, now_s
            return None
        if culprit is not None:
            self._move([culprit], now_s)
            return f"{culprit} ended the JVM that it shared, and gets one of its own"
        last_s, before = self._ends.get(part, (0.0, frozenset()))
        self._ends[part] = now_s, frozenset(connectors)
        # Who ends each of a part's is in it from the first one on; of the others, who was there at two ends
        names = sorted(connectors if part is not None else before & set(connectors))
        if not names or (part is None and now_s - last_s > _AGAIN_WITHIN_S):
            return None
        groups = [group for first in range(_PARTS) if (group := names[first::_PARTS])]
        for group in groups:
            self._move(group, now_s)
        who = ", ".join(names)
        if len(names) == 1:
            return f"The JVM of Java's plugins ended again: {who} gets one of its own"
        lead = "The JVM of Java's plugins ended again, and does not say by whose plugin"
        return f"{lead}: {who} get {len(groups)} JVMs, until the connector that ends its JVM is alone in one"

    def _move(self, connectors: Collection[str], now_s: float) -> None:
        self._made += 1
        for connector in connectors:
            self._parts[connector] = f"part {self._made}", now_s
