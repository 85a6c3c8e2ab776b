"""Keys and values of source offsets as bytes: `["connector",{partition}]` and `{offset}`, spelled as Java spells them.

Source: OffsetStorageWriter, OffsetStorageReaderImpl, OffsetUtils with JsonConverter(schemas.enable=false) (Kafka 4.3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from kconnect.errors import DataError
from kconnect.java.compat.jackson import jackson_text
from kconnect.model import Unstorable

_DECODER: Final = json.JSONDecoder()


def encode_key(connector: str, partition: Mapping[str, Any] | None) -> bytes:
    """The key of one source partition; field order is kept. Errors: DataError as `check_format`."""
    check_format(partition)
    return jackson_text([connector, None if partition is None else dict(partition)]).encode()


def encode_value(offset: Mapping[str, Any] | None) -> bytes | None:
    """The value of an offset; None is a tombstone. Errors: DataError as `check_format`."""
    if offset is None:
        return None
    check_format(offset)
    return jackson_text(dict(offset)).encode()


def decode_key(key: bytes) -> tuple[str, dict[str, Any]] | None:
    """Connector and partition of a key; None for any other key, which belongs to no connector but is kept."""
    try:
        parsed = _parsed(key)
    except (ValueError, RecursionError):
        return None
    match parsed:
        case [str() as connector, dict() as partition]:
            return connector, partition
    return None


def decode_value(value: bytes | None) -> dict[str, Any] | None:
    """The offset in a value, None for a tombstone. Errors: DataError if it is not a JSON object."""
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError) as err:
        raise DataError(f"An offset is not JSON: {value[:100]!r}") from err
    if parsed is None:
        return None
    if not isinstance(parsed, dict):
        raise DataError(f"An offset is not a JSON object: {value[:100]!r}")
    return parsed


@lru_cache(maxsize=8192)  # commits repeat the same keys; 8192 keys of 200 B are 3 MB
def canonical_key(key: bytes) -> str | bytes:
    """A canonical form: equal for keys with equal values, whatever their field order and number format.

    Differs: Java compares bytes, and so keeps two entries for a partition whose fields come in another order.
    """
    decoded = decode_key(key)
    if decoded is None:
        return key
    connector, partition = decoded
    if not any(isinstance(value, dict | list) for value in partition.values()):
        return repr((connector, sorted(partition.items())))  # a third of the time that sorted JSON takes
    try:
        return json.dumps(decoded, sort_keys=True)
    except RecursionError:  # nested too deeply
        return key


def _parsed(key: bytes) -> Any:
    """The JSON of a key. Errors: ValueError, RecursionError."""
    try:
        return _DECODER.decode(key.decode())
    except ValueError:
        return json.loads(key)  # finds out its encoding first, which takes as long as all the rest


def check_format(data: Mapping[str, Any] | None) -> None:
    """Refuse names that are no strings, and nested values. Source: OffsetUtils#validateFormat."""
    if data is None:
        return
    if not isinstance(data, Mapping):
        raise DataError("Offsets must be specified as a Map")
    for name, value in data.items():
        if not isinstance(name, str):
            raise DataError("Offsets may only use String keys")
        if isinstance(value, Unstorable):
            raise DataError(value.reason)
        if value is None or isinstance(value, str | bool | int | float | bytes | bytearray):
            continue
        kind = "MAP" if isinstance(value, Mapping) else "ARRAY" if isinstance(value, list | tuple) else str(type(value))
        raise DataError(f"Offsets may only contain primitive types as values, but field {name} contains {kind}")
