"""Source offsets of one connector as values, on top of an OffsetStore: read, commit, list.

Source: OffsetStorageReaderImpl, OffsetStorageWriter, ConnectorOffsetBackingStore#connectorPartitions (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kconnect.errors import DataError
from kconnect.model import ConnectorOffset
from kconnect.runtime.storage.offset_store import OffsetStore
from kconnect.runtime.storage.offset_topic import check_format, decode_key, decode_value, encode_key, encode_value

log = logging.getLogger(__name__)


def read_source_offsets(
    store: OffsetStore, connector: str, partitions: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any] | None]:
    """The committed offset of each partition; None if there is none, or it is invalid (logged).

    Source: OffsetStorageReaderImpl#offsets, which omits invalid partitions and invalid offsets.
    """
    keys = [_key_of(connector, partition) for partition in partitions]
    found = store.get([key for key in keys if key is not None])
    return [None if key is None else _offset_of(connector, found.get(key)) for key in keys]


def commit_source_offsets(store: OffsetStore, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
    """Make these offsets durable; the last one of a partition wins. Errors: DataError, ConnectError of the store."""
    store.set({encode_key(connector, item.partition): encode_value(item.offset) for item in offsets})


def connector_partitions(store: OffsetStore, connector: str) -> list[dict[str, Any]]:
    """The partitions for which a connector has an offset, in the order stored."""
    found = []
    for key, value in store.entries().items():
        decoded = decode_key(key)
        if decoded is not None and decoded[0] == connector and value is not None:
            found.append(decoded[1])
    return found


def list_source_offsets(
    store: OffsetStore, connector: str, *, awaits_open_transactions: bool = True
) -> list[ConnectorOffset]:
    """All partitions of a connector with their offsets, in the order stored, without tombstones.

    `awaits_open_transactions`: False for who only shows what is committed.
    """
    found = []
    for key, value in store.entries(awaits_open_transactions=awaits_open_transactions).items():
        decoded = decode_key(key)
        if decoded is None or decoded[0] != connector or value is None:
            continue
        found.append(ConnectorOffset(decoded[1], _offset_of(connector, value)))
    return [item for item in found if item.offset is not None]


class CommittedOffsets:
    """Committed offsets of one connector: an OffsetStorageReader."""

    def __init__(self, read: Callable[[Sequence[Mapping[str, Any]]], list[Mapping[str, Any] | None]]) -> None:
        """`read`: the offsets of these source partitions, None where there is none."""
        self._read = read

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._read([partition])[0]

    def offsets(self, partitions: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._read(list(partitions))


def _key_of(connector: str, partition: Mapping[str, Any]) -> bytes | None:
    try:
        return encode_key(connector, partition)
    except DataError as error:
        log.error(
            "A source partition of connector %s is not valid, so no offset is returned for it: %s", connector, error
        )
        return None


def _offset_of(connector: str, value: bytes | None) -> dict[str, Any] | None:
    try:
        offset = decode_value(value)
        check_format(offset)
        return offset
    except DataError:
        log.exception("An offset of connector %s cannot be read and is ignored: its data may be read again", connector)
        return None
