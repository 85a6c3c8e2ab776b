"""Date patterns of Spark as those of DuckDB's strftime and strptime, as far as both mean the same."""

from __future__ import annotations

import itertools
import re
from typing import Final

_BOTH: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%g"}
_WRITTEN: Final = _BOTH | {"yy": "%y", "MMM": "%b", "EEE": "%a", "d": "%-d", "M": "%-m", "H": "%-H", "DDD": "%j"}
_PARTS: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")


def strftime_pattern(pattern: str) -> tuple[str, str]:
    """The pattern for writing, and what is wrong with the given one; empty when nothing is."""
    return _translated(pattern, _WRITTEN)


def strptime_pattern(pattern: str) -> tuple[str, str]:
    """The pattern for reading, likewise."""
    return _translated(pattern, _BOTH)


def _translated(pattern: str, letters: dict[str, str]) -> tuple[str, str]:
    made = []
    for match in _PARTS.finditer(pattern):
        part = match.group()
        if match.group(2):
            if part not in letters:
                return "", f"has {part}, which cannot be used here; there are {', '.join(letters)}"
            made.append(letters[part])
        elif part == "'":
            return "", "has a quote that is not closed"
        else:
            plain = part if match.group(1) is None else match.group(1).replace("''", "'") or "'"
            made.append(plain.replace("%", "%%"))
    is_digits = [text[:1] == "%" and text != "%%" for text in made]
    if letters is _BOTH and any(one and other for one, other in itertools.pairwise(is_digits)):
        return "", "needs something between its numbers, so that each can be told from the next"
    return "".join(made), ""
