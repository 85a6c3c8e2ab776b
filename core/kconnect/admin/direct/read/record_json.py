"""Records of the internal topics as they are shown: text where bytes are text. Pure."""

from __future__ import annotations

import base64
from typing import Any, TypeAlias

from kconnect.admin.direct.access import InternalTopic
from kconnect.clock import moment
from kconnect.java.compat.utf8 import decode_as_java
from kconnect.model import LogRecord
from kconnect.runtime.storage.config_topic import LOGGER, SESSION_KEY, TASK, read_key
from kconnect.runtime.storage.offset_topic import decode_key
from kconnect.runtime.storage.status_topic import StatusRead, TopicRead, decode_record

Shown: TypeAlias = str | dict[str, str] | None
"""Bytes as they are shown: their text; `{"base64": ".."}` when they are not UTF-8; None for none."""

_BASE64 = "base64"


def shown_record(record: LogRecord, value: bytes | None) -> dict[str, Any]:
    """A record for people and for JSON. `value` is what of its value may be shown (`SecretMasks.value`).

    Shape: partition, offset, timestamp (ISO 8601 in UTC, or None), key, value, size (bytes of key and value). A value
    None is a tombstone.
    """
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": moment(record.timestamp_ms),
        "key": shown_bytes(record.key),
        "value": shown_bytes(value),
        "size": len(record.key or b"") + len(record.value or b""),
    }


def shown_bytes(data: bytes | None) -> Shown:
    """See `Shown`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(data).decode()}


def bytes_of(text: str) -> bytes:
    """The bytes of a key as written on a command line: UTF-8, or `base64:..`. Errors: ValueError."""
    lead, colon, rest = text.partition(":")
    if lead == _BASE64 and colon:
        return base64.b64decode(rest, validate=True)
    return text.encode(errors="replace")


def connector_of(which: InternalTopic, key: bytes | None) -> str | None:
    """The connector that a record is about; None when it is about none, or is of no known kind."""
    data = key or b""
    if which is InternalTopic.OFFSET:
        decoded = decode_key(data)
        return None if decoded is None else decoded[0]
    if which is InternalTopic.STATUS:
        match decode_record(data, None):
            case StatusRead(subject, _):
                return subject if isinstance(subject, str) else subject.connector
            case TopicRead(connector, _, _):
                return connector
        return None
    kind = read_key(decode_as_java(data))
    if kind is None or kind[0] in _OF_NO_CONNECTOR:
        return None
    # `task-X-N`
    return kind[1].rstrip("-").rpartition("-")[0] if kind[0] == TASK else kind[1]


def kind_of(key: bytes | None) -> InternalTopic | None:
    """The topic that has keys of this form; None when none has."""
    data = key or b""
    if data.startswith(_STATUS):
        return InternalTopic.STATUS
    if data[:1] == b"[":
        return None if decode_key(data) is None else InternalTopic.OFFSET
    return None if read_key(decode_as_java(data)) is None else InternalTopic.CONFIG


_STATUS = (b"status-connector-", b"status-task-", b"status-topic-")
_OF_NO_CONNECTOR = (SESSION_KEY, LOGGER)
