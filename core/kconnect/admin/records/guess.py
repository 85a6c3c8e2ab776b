"""Guesses what bytes are, when nobody says: JSON, text, numbers of Kafka's serializers. Pure.

A guess that fits is not proof: `how` always says what was guessed.
"""

from __future__ import annotations

import json
import struct
import unicodedata
from typing import Any, Final

from kconnect.admin.records.decoding import Decoded

_MAGIC = 0
_HEAD_BYTES: Final = 5
# Eight bytes may be either. Registries count their ids from 1; read as one, a time in ms is beyond 100,000, and so are
# longs above 1.1e12, while those below 1.7e7 give 0
_HIGHEST_ID_IN_A_LONG: Final = 65_535
_LONG, _INT = struct.Struct(">q"), struct.Struct(">i")
_WHITE: Final = "\t\r\n"
# Text with colours for a terminal has a few control characters; bytes that happen to be UTF-8 are full of them
_MOST_CONTROLS: Final = 1 / 3
_ENVELOPE: Final = frozenset({"schema", "payload"})


class GuessDecoder:
    """Guesses each field by itself."""

    def decode(self, topic: str, data: bytes | None, header: str | None = None) -> Decoded:
        return guess(data)


def guess(data: bytes | None) -> Decoded:
    """What the bytes look like.

    In this order: null, JSON (an object, a list or a quoted text; with `schema` and `payload` its payload), text,
    an id of a schema registry, a number of 8 or 4 bytes, bytes.
    """
    if data is None:
        return Decoded(None, "null")
    text = _text_of(data)
    if text is not None:
        return _of_text(text)
    schema_id = wire_schema_id(data)
    if schema_id is not None:
        return Decoded(data, f"bytes with schema id {schema_id}; --registry URL decodes them")
    if data[:1] in (b"\x00", b"\xff"):  # numbers that are not huge
        if len(data) == _LONG.size:
            return Decoded(_LONG.unpack(data)[0], "long")
        if len(data) == _INT.size:
            return Decoded(_INT.unpack(data)[0], "int")
    return Decoded(data, "bytes")


def wire_schema_id(data: bytes | None) -> int | None:
    """The id of the schema in front of the data, in Confluent's form: byte 0, then four bytes. None for other bytes."""
    if data is None or len(data) < _HEAD_BYTES or data[0] != _MAGIC:
        return None
    found = int.from_bytes(data[1:_HEAD_BYTES], "big")
    if found == 0 or (len(data) == _LONG.size and found > _HIGHEST_ID_IN_A_LONG):
        return None
    return found


def _of_text(text: str) -> Decoded:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return Decoded(text, "text")
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Decoded(text, "text")
    if isinstance(found, dict) and found.keys() == _ENVELOPE and isinstance(found["schema"], dict):
        return Decoded(found["payload"], "json with schema")
    return Decoded(found, "json")


def _text_of(data: bytes) -> str | None:
    """The text, if it is UTF-8 with few control characters; none with NUL."""
    if b"\0" in data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if text.isprintable():
        return text
    controls = sum(char not in _WHITE and unicodedata.category(char) == "Cc" for char in text)
    return text if controls <= len(text) * _MOST_CONTROLS else None
