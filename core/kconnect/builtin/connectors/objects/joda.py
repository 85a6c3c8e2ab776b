"""Patterns of Joda-Time, such as 'year'=YYYY/'month'=MM, as a function of a time. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from kconnect.api import ConfigError

Format = Callable[[datetime], str]

_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)", re.DOTALL)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_NUMBERS: dict[str, Callable[[datetime], int]] = {
    "C": lambda at: at.year // 100,
    "w": lambda at: at.isocalendar().week,
    "e": lambda at: at.isoweekday(),
    "D": lambda at: at.timetuple().tm_yday,
    "d": lambda at: at.day,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
}
_YEARS: dict[str, Callable[[datetime], int]] = {
    "Y": lambda at: at.year,
    "y": lambda at: at.year,
    "x": lambda at: at.isocalendar().year,
}
_TEXTS = "GEa"


def joda_format(pattern: str, locale: str, setting: str) -> Format:
    """Errors: ConfigError for a letter that Joda has not, a quote that is not closed, and texts not in English.

    Source: org.joda.time.format.DateTimeFormat (2.12).
    """
    parts: list[Format] = []
    at = 0
    while at < len(pattern):
        found = _PART.match(pattern, at)
        if found is None:
            raise ConfigError.invalid(setting, pattern, f"The quote at {at + 1} is not closed")
        quoted, letter, other = found.groups()
        if letter is not None:
            parts.append(_component(letter, len(found[0]), pattern, locale, setting))
        else:
            text = other if quoted is None else (quoted.replace("''", "'") or "'")
            parts.append(lambda _, text=text: text)  # type: ignore[misc]
        at = found.end()
    return lambda when: "".join(part(when) for part in parts)


def _component(letter: str, count: int, pattern: str, locale: str, setting: str) -> Format:
    if letter in _YEARS:
        year = _YEARS[letter]
        return lambda at: f"{year(at) % 100:02d}" if count == 2 else f"{year(at):0{count}d}"
    if letter in _NUMBERS:
        number = _NUMBERS[letter]
        return lambda at: f"{number(at):0{count}d}"
    if letter == "S":
        return lambda at: f"{at.microsecond:06d}"[:count].ljust(count, "0")
    if letter == "M" and count < 3:
        return lambda at: f"{at.month:0{count}d}"
    if letter in "Zz":
        return _zone(letter, count)
    if letter not in "ME" and letter not in _TEXTS:
        raise ConfigError.invalid(setting, pattern, f"Illegal pattern component: {letter}")
    if not locale.lower().startswith("en"):
        raise ConfigError.invalid(setting, pattern, f"{letter * count} is text, which is there for locale=en alone")
    if letter == "M":
        return lambda at: _MONTHS[at.month - 1] if count > 3 else _MONTHS[at.month - 1][:3]
    if letter == "E":
        return lambda at: _DAYS[at.weekday()] if count > 3 else _DAYS[at.weekday()][:3]
    return (lambda at: "AD") if letter == "G" else (lambda at: "AM" if at.hour < 12 else "PM")


def _zone(letter: str, count: int) -> Format:
    def offset(at: datetime) -> str:
        minutes = int((at.utcoffset() or at - at).total_seconds() // 60)
        sign, colon = "-" if minutes < 0 else "+", ":" if count == 2 else ""
        return f"{sign}{abs(minutes) // 60:02d}{colon}{abs(minutes) % 60:02d}"

    if letter == "z":
        return lambda at: at.tzname() or ""
    return (lambda at: str(at.tzinfo)) if count > 2 else offset
