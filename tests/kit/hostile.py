"""A page of values that formats, databases and names cannot hold, or only just: for every sink, beside good records."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["GOOD", "HOSTILE", "page"]


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


HOSTILE: Final[Mapping[str, dict[str, Any]]] = {
    "empty struct": {"meta": {}},
    "empty struct in a struct": {"meta": {"a": {}}},
    "empty struct in a list": {"items": [{}]},
    "struct": {"a": {"b": 1}},
    "a struct where others have text": {"name": {"first": "a"}},
    "deep": {"deep": _deep(60)},
    "deeper than parsers go": {"deeper": _deep(600)},
    "megabyte of text": {"text": "ü" * 400_000},
    "not a number": {"number": math.nan},
    "infinite": {"number": math.inf},
    "beyond 64 bits": {"number": 2**70},
    "beyond 38 digits": {"number": 10**60},
    "a fraction where others are whole": {"count": 2.5},
    "text where others are numbers": {"count": "many"},
    "true where others are numbers": {"count": True},
    "id as text": {"id": "three"},
    "many members": {f"member_{number}": number for number in range(300)},
    "a name with a dot": {"a.b": 1},
    "a name with quotes": {'a"b': 1, "a'b": 2, "a`b": 3},
    "a name with a space": {"a b": 1, " ": 2},
    "a name with other letters": {"größe": 1, "数": 2, "😀": 3},
    "a name with signs": {"a,b;c{d}(e)\n\t=": 1},
    "a name of digits": {"1": 1, "1a": 2},
    "no name": {"": 1},
    "a name with a null sign": {"a\x00b": 1},
    "a long name": {"n" * 300: 1},
    "case twins": {"case": 1, "CASE": 2},
    "reserved words": {"select": 1, "order": 2, "group": 3, "table": 4},
    "names of ours": {"_change_type": 1, "__index_level_0__": 2, "_offset": 3},
    "text with a null sign": {"text": "a\x00b"},
    "half of a letter": {"text": "\ud800"},
    "mixed list": {"items": [1, "a", {"x": 1}]},
    "list of lists": {"items": [[1], [2, [3]]]},
    "list with null": {"items": [None, 1]},
    "empty list": {"items": []},
    "a list where others have text": {"name": ["a"]},
    "bytes": {"raw": b"\xff\x00"},
    "decimal": {"price": decimal.Decimal("12.340")},
    "time": {"at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)},
    "date beyond others": {"day": datetime.date(9999, 12, 31)},
    "year one": {"at": datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)},
}
"""What is wrong, and the members that a record has beside its id, or in place of it."""

GOOD: Final = {"name": "good", "count": 1}


def page(*, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Good records around each hostile one; ids are 0, 1, 2 .. in order, good ones even."""
    found: list[dict[str, Any]] = [{"id": 0, **GOOD}]
    for what, members in HOSTILE.items():
        if what not in without:
            found.append({"id": len(found), **members})
            found.append({"id": len(found), **GOOD})
    return found
