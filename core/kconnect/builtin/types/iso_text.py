"""Times as ISO 8601 writes them, and RFC 3339, databases and Java after it. Pure.

Python's own reader takes any character between a day and its time: of 1312052310230, which are milliseconds, it makes
the year 1312, and of the zone of 2025-11-27+01:00 a time of day.
"""

from __future__ import annotations

import datetime
import re
from typing import Final


def moment_of_iso(text: str) -> datetime.datetime:
    """The time of a text, naive if the text has no zone; what is finer than a microsecond is cut off.

    A day alone is its midnight, in its zone if it has one. The name of a zone that Java adds counts for nothing.
    Errors: ValueError.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is not a time in ISO 8601")
    day, clock, zone = found.groups()
    return datetime.datetime.fromisoformat(f"{day}T{clock or '00:00'}{_zone(zone)}")


def clock_of_iso(text: str) -> datetime.time:
    """The time of day of a text, as `moment_of_iso` reads it. Errors: ValueError."""
    found = _CLOCK_ALONE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is not a time of day in ISO 8601")
    return datetime.time.fromisoformat(f"{found[1]}{_zone(found[2])}")


def _zone(zone: str | None) -> str:
    return "Z" if zone and zone.isalpha() else zone or ""


_DAY: Final = r"\d{4}-\d\d-\d\d|\d{8}|\d{4}-W\d\d-\d|\d{4}W\d{3}"
_CLOCK: Final = r"\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?"
_ZONE: Final = r"(?: *([Zz]|UTC|GMT|[+-]\d\d(?::?\d\d(?::?\d\d)?)?))?"
_MOMENT: Final = re.compile(rf"\s*({_DAY})(?:(?:[Tt]| +)({_CLOCK}))?{_ZONE}(?:\[[\w/+-]+\])?\s*", re.ASCII)
_CLOCK_ALONE: Final = re.compile(rf"\s*[Tt]?({_CLOCK}){_ZONE}\s*", re.ASCII)
