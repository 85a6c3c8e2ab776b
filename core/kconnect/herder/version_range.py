"""Which version of a plugin is asked for: `4.3.0`, `latest`, or a range such as `[4.0,5.0)`.

Source: PluginVersionUtils#connectorVersionRequirement, Maven's VersionRange (KIP-891).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kconnect.errors import BadRequestError

__all__ = ["VersionRange"]

_INTERVAL = re.compile(r"\s*([\[(])([^\[\]()]*)([\])])\s*(?:,|$)")
_PARTS = re.compile(r"\d+|[a-z]+")
# As Maven orders what may follow a number: releases come after all of these, other words after releases
_BEFORE_RELEASE = {
    "alpha": -5,
    "a": -5,
    "beta": -4,
    "b": -4,
    "milestone": -3,
    "m": -3,
    "rc": -2,
    "cr": -2,
    "snapshot": -1,
}
_RELEASE = {"ga", "final", "release"}


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions between two ends, each open or closed, absent for none; several such intervals are one range."""

    intervals: tuple[tuple[bool, str, str, bool], ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange | None:
        """Read a requirement; None when any version will do. A version alone means just that one.

        Errors: BadRequestError when it is neither.
        """
        wanted = text.strip()
        if not wanted or wanted.lower() == "latest":
            return None
        if wanted[0] not in "[(":
            return cls(((True, wanted, wanted, True),))
        intervals = []
        at = 0
        while at < len(wanted):
            found = _INTERVAL.match(wanted, at)
            ends = [end.strip() for end in found[2].split(",")] if found else []
            if found is None or not 1 <= len(ends) <= 2 or (len(ends) == 1 and not ends[0]):
                raise BadRequestError(
                    f"{text} is no range of versions", hint="Write 4.3.0, [4.3.0], [4.0,5.0) or latest."
                )
            intervals.append((found[1] == "[", ends[0], ends[-1], found[3] == "]"))
            at = found.end()
        return cls(tuple(intervals))

    def holds(self, version: str) -> bool:
        return any(_is_within(_order(version), *interval) for interval in self.intervals)

    def __str__(self) -> str:
        return ",".join(
            f"{'[' if is_from else '('}{low},{high}{']' if is_to else ')'}"
            for is_from, low, high, is_to in self.intervals
        )


def _is_within(version: list[tuple[int, int | str]], is_from: bool, low: str, high: str, is_to: bool) -> bool:
    if low and (version < _order(low) or (version == _order(low) and not is_from)):
        return False
    return not (high and (version > _order(high) or (version == _order(high) and not is_to)))


def _order(version: str) -> list[tuple[int, int | str]]:
    """What versions are sorted by: numbers as numbers, 4.3 the same as 4.3.0, rc before the release."""
    parts: list[tuple[int, int | str]] = []
    for part in [*_PARTS.findall(version.lower()), "final"]:
        if part.isdigit():
            parts.append((2, int(part)))
            continue
        while parts and parts[-1] == (2, 0):
            parts.pop()
        if part in _BEFORE_RELEASE:
            parts.append((0, _BEFORE_RELEASE[part]))
        elif part not in _RELEASE:
            parts.append((1, part))
    return [*parts, (1, "")]
