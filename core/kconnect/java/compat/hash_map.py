"""The iteration order of Java's HashMap, visible in what Java writes from one, and Java's sort order of strings.

Source: java.util.HashMap (Java 17: another Java may size a copy of 12, 24, ..
entries one power lower), java.lang.String#hashCode, java.lang.String#compareTo.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

V = TypeVar("V")

_LOAD_FACTOR = 0.75
_FEWEST_BUCKETS = 16  # of a map that was created empty
_INT_BITS = 0xFFFFFFFF


def hash_map_order(entries: Mapping[str, V], *, copied: int | None = None) -> dict[str, V]:
    """The entries in the order of a HashMap; those in one bucket keep their insertion order.

    `copied`: how many entries the map was created with as a copy; the others were put later. All by default
    (`new HashMap<>(entries)`); see also `grown_map_order`.
    """
    last_bucket = _buckets(len(entries), len(entries) if copied is None else copied) - 1
    return {key: entries[key] for key in sorted(entries, key=lambda key: _spread_hash(key) & last_bucket)}


def grown_map_order(entries: Mapping[str, V]) -> dict[str, V]:
    """The entries in the order of a HashMap that was filled one by one, as JSON parsers do."""
    return hash_map_order(entries, copied=0)


def sort_key(text: str) -> bytes:
    """Sorts as Java's String does: by UTF-16 units, so that an emoji comes before U+E000."""
    return text.encode("utf-16-be", "surrogatepass")


def _buckets(count: int, copied: int) -> int:
    """The size of the table: a copy starts with the power of two at or above count / 0.75 + 1, and may be small."""
    buckets = 1 << (int(copied / _LOAD_FACTOR + 1) - 1).bit_length() if copied else _FEWEST_BUCKETS
    while count > buckets * _LOAD_FACTOR:
        buckets *= 2
    return buckets


@lru_cache(maxsize=4096)  # setting names repeat across connectors and tasks
def _spread_hash(key: str) -> int:
    code = 0
    utf16 = key.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", utf16):
        code = (31 * code + unit) & _INT_BITS
    return code ^ code >> 16
