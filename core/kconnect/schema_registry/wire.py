"""Confluent's wire format: magic byte 0, the schema's id in four bytes, then the data."""

from __future__ import annotations

import struct
from typing import Final

from kconnect.api import DataError

_HEAD = struct.Struct(">bI")
HEAD_SIZE: Final = _HEAD.size


def head_of(schema_id: int) -> bytes:
    """What stands before the data."""
    return _HEAD.pack(0, schema_id)


def id_in(data: bytes) -> int:
    """The id in front of the data. Errors: DataError for bytes that have none."""
    if len(data) < _HEAD.size:
        raise DataError(
            f"{len(data)} bytes are too few for a schema id: the record was not written with a schema registry.",
            hint="Check key.converter or value.converter against what wrote the topic.",
        )
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != 0:
        raise DataError(
            f"Unknown magic byte! The record starts with {data[0]}, not 0: it was written without a schema registry.",
            hint="Check key.converter or value.converter against what wrote the topic.",
        )
    return int(schema_id)
