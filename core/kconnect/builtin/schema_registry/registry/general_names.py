"""Names that all of Confluent's converters give meaning to, by generalized.sum.type.support, and names made valid."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote_plus

GENERAL_UNION: Final = "org.apache.kafka.connect.data.Union"
GENERAL_ENUM: Final = "org.apache.kafka.connect.data.Enum"
GENERAL_UNION_NAME: Final = "connect_union_"
GENERAL_UNION_FIELD: Final = "connect_union_field_"

_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


def scrubbed(name: str) -> str:
    """Source: AvroData.doScrubName, whose URLEncoder writes a space as + and leaves `*` as it is."""
    if not name or (set(name) <= _PLAIN and not name[0].isdigit()):
        return name
    encoded = quote_plus(name, safe="*").replace("~", "%7E")
    if encoded[0].isdigit():
        encoded = "x" + encoded
    return "".join(char if char in _PLAIN else "_" for char in encoded)
