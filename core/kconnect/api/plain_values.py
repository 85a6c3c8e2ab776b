"""Connect's values as data that JSON can hold. Pure."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Mapping
from typing import Any, Final

from kconnect.api import Struct

SIMPLE: Final = frozenset((str, int, bool, type(None)))
LEAST_SHORT, MOST_SHORT = 1e-3, 1e7


def plain(value: Any, *, is_data: bool = False) -> Any:
    """Data of JSON: bytes as {"base64": ..}, times as ISO 8601 in UTC, decimals and numbers that JSON lacks as text.

    `is_data`: bytes are their base64 alone, as Connect's JSON has them, for who reads a column and not for people.
    """
    if type(value) in SIMPLE or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        text = base64.b64encode(bytes(value)).decode()
        return text if is_data else {"base64": text}
    if isinstance(value, Struct):
        return {field.name: plain(value.get(field), is_data=is_data) for field in value.schema.fields}
    if isinstance(value, Mapping):
        return {
            key if type(key) is str else _key(key, is_data): item
            if type(item) in SIMPLE
            else plain(item, is_data=is_data)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [item if type(item) in SIMPLE else plain(item, is_data=is_data) for item in value]
    if isinstance(value, datetime.datetime):
        unit = "microseconds" if value.microsecond % 1000 else "milliseconds"
        return value.isoformat(timespec=unit).replace("+00:00", "Z")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _key(key: Any, is_data: bool) -> str:
    import json

    found = plain(key, is_data=is_data)
    return found if isinstance(found, str) else json.dumps(found)


def is_plain(value: Any) -> bool:
    """Whether all that writes JSON (Jackson, orjson, Python) spells its types and its floats alike."""
    kind = type(value)
    if kind is dict:
        for name in value:
            if type(name) is not str:
                return False
        items = value.values()
    elif kind is list:
        items = value
    else:
        return kind in SIMPLE or (kind is float and is_short(value))
    for item in items:
        kind = type(item)
        if kind not in SIMPLE and not (is_short(item) if kind is float else is_plain(item)):
            return False
    return True


def is_short(value: float) -> bool:
    """Java writes these without exponent, with the fewest digits that tell them apart, as orjson does."""
    return LEAST_SHORT <= value < MOST_SHORT or -MOST_SHORT < value <= -LEAST_SHORT or value == 0.0
