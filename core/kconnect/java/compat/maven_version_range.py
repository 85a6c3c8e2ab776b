"""The plugin version that a setting requires: `4.3.0`, `latest`, or a range such as `[4.0,5.0)`.

Source: PluginVersionUtils#connectorVersionRequirement, Maven's VersionRange (KIP-891).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kconnect.errors import ConfigError

_PARTS = re.compile(r"\d+|[a-z]+")
# Maven's order of qualifiers: releases come after all of these, other words after releases
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
class Interval:
    """Versions between two bounds, each inclusive or not; an empty bound is open, unless it is a single version."""

    includes_low: bool
    low: str
    high: str
    includes_high: bool
    is_single: bool = False

    def holds(self, version: str) -> bool:
        at = version_order(version)
        if self.is_single:
            return at == version_order(self.low)
        if self.low and (at < version_order(self.low) or (at == version_order(self.low) and not self.includes_low)):
            return False
        return not (
            self.high and (at > version_order(self.high) or (at == version_order(self.high) and not self.includes_high))
        )

    def __str__(self) -> str:
        return f"{'[' if self.includes_low else '('}{self.low},{self.high}{']' if self.includes_high else ')'}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """One or several intervals of versions. `str` is Maven's spelling, as Java's messages show it."""

    intervals: tuple[Interval, ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange | None:
        """Parse a requirement; None if any version will do. A plain version means just that one.

        Errors: ConfigError with Maven's message for anything else.
        """
        if text == "latest":
            return None
        wanted = text.strip()
        return cls(tuple(_intervals(wanted if wanted[:1] in ("[", "(") else f"[{wanted}]")))

    def holds(self, version: str) -> bool:
        return any(interval.holds(version) for interval in self.intervals)

    def __str__(self) -> str:
        return ",".join(str(interval) for interval in self.intervals)


def _intervals(text: str) -> list[Interval]:
    """Source: VersionRange.createFromVersionSpec."""
    found: list[Interval] = []
    rest = text
    while rest[:1] in ("[", "("):
        ends = [at for at in (rest.find(")"), rest.find("]")) if at >= 0]
        if not ends:
            raise ConfigError(f"Unbounded range: {text}")
        interval = _interval(rest[: min(ends) + 1])
        if found and not _is_behind(interval, found[-1]):
            raise ConfigError(f"Ranges overlap: {text}")
        found.append(interval)
        rest = rest[min(ends) + 1 :].strip().removeprefix(",").strip()
    if rest:
        raise ConfigError(f"Only fully-qualified sets allowed in multiple set scenario: {text}")
    return found


def _interval(text: str) -> Interval:
    includes_low, includes_high = text.startswith("["), text.endswith("]")
    low, comma, high = (part.strip() for part in text[1:-1].partition(","))
    if not comma:
        if not (includes_low and includes_high):
            raise ConfigError(f"Single version must be surrounded by []: {text}")
        return Interval(True, low, low, True, is_single=True)
    if low and high:
        least, most = version_order(low), version_order(high)
        if most < least or (most == least and not (includes_low and includes_high)):
            raise ConfigError(f"Range defies version ordering: {text}")
    return Interval(includes_low, low, high, includes_high)


def _is_behind(interval: Interval, before: Interval) -> bool:
    """Whether an interval starts at the end of the previous one, or later."""
    if not before.high:
        return True  # as in Maven: a previous interval without upper bound is not checked
    return bool(interval.low) and version_order(interval.low) >= version_order(before.high)


def version_order(version: str) -> list[tuple[int, int | str]]:
    """The sort key of a version: numbers compare as numbers, 4.3 equals 4.3.0, rc precedes the release."""
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
