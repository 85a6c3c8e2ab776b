"""Confluent's wire format: magic byte 0, the schema's id in four bytes, then the data.

Protobuf's data has the path of its message in the schema's file before it: how many indexes, and each of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from kconnect.api import DataError
from kconnect.api.wording import pluralize

_HEAD = struct.Struct(">bI")
HEAD_SIZE: Final = _HEAD.size


def head_of(schema_id: int) -> bytes:
    """What stands before the data."""
    return _HEAD.pack(0, schema_id)


def id_in(data: bytes) -> int:
    """The id in front of the data. Errors: DataError for bytes that have none."""
    if len(data) < _HEAD.size:
        raise DataError(
            f"A schema id needs more than {pluralize(len(data), 'byte')}: "
            "the record was not written with a schema registry.",
            hint="Check key.converter or value.converter against what wrote the topic.",
        )
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != 0:
        raise DataError(
            f"Unknown magic byte! The record starts with {data[0]}, not 0: it was written without a schema registry.",
            hint="Check key.converter or value.converter against what wrote the topic.",
        )
    return int(schema_id)


def head_of_indexes(indexes: Sequence[int]) -> bytes:
    """The path of a message, before the data; the path [0], of most, is one zero byte. Source: MessageIndexes."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(_varint, (len(indexes), *indexes)))


def indexes_in(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The path of a message, and where its data starts. Errors: DataError for bytes that have none."""
    count, position = _varint_in(data, start)
    if count == 0:
        return (0,), position
    if not 0 < count <= len(data):
        raise DataError(f"The record says that its Protobuf message is {count} levels deep.")
    indexes = []
    for _ in range(count):
        index, position = _varint_in(data, position)
        indexes.append(index)
    return tuple(indexes), position


def _varint(number: int) -> bytes:
    """Zigzag, as Kafka's ByteUtils.writeVarint."""
    left = number << 1
    made = bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _varint_in(data: bytes, start: int) -> tuple[int, int]:
    found = 0
    for place, byte in enumerate(data[start : start + 5]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), start + place + 1
    raise DataError("The record ends in, or has no valid, path of its message after the schema id.")
