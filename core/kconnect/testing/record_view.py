"""Records as plain data that JSON can hold, for people to look at."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.api import ConnectRecord, Schema, SinkRecord, SourceRecord, Struct


def record_view(record: ConnectRecord) -> dict[str, Any]:
    """A record in Connect's form; what is not set is left out, but for key and value."""
    view: dict[str, Any] = {"topic": record.topic, "partition": record.kafka_partition}
    if isinstance(record, SinkRecord):
        view["offset"] = record.kafka_offset
    view |= {
        "key": plain(record.key),
        "key_schema": _schema(record.key_schema),
        "value": plain(record.value),
        "value_schema": _schema(record.value_schema),
        "timestamp": plain(record.timestamp),
    }
    if record.has_headers:
        view["headers"] = [{"key": header.key, "value": plain(header.value)} for header in record.headers]
    if isinstance(record, SourceRecord):
        view["source_partition"] = plain(record.source_partition)
        view["source_offset"] = plain(record.source_offset)
    return {name: value for name, value in view.items() if value is not None or name in ("key", "value")}


def bytes_view(
    topic: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> dict[str, Any]:
    """A record as Kafka holds it; what `connect try --format records` takes."""
    view: dict[str, Any] = {"topic": topic, "partition": partition}
    view |= {"key": text_or_base64(key), "value": text_or_base64(value)}
    if headers:
        view["headers"] = [{"key": name, "value": text_or_base64(raw)} for name, raw in headers]
    return {name: item for name, item in view.items() if item is not None or name in ("key", "value")}


def text_or_base64(raw: bytes | None) -> str | dict[str, str] | None:
    """Bytes as text where they are UTF-8, else {"base64": ..}."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def plain(value: Any) -> Any:
    """A Connect value as data of JSON; decimals and times as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return text_or_base64(bytes(value))
    if isinstance(value, Struct):
        return {field.name: plain(value.get(field)) for field in value.schema.fields}
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def _schema(schema: Schema | None) -> str | None:
    """A schema in a word or two: `int64`, `struct`, `org...Date (int32)?`; ? is optional."""
    if schema is None:
        return None
    text = f"{schema.name} ({schema.type.value})" if schema.name else schema.type.value
    return f"{text}?" if schema.is_optional else text
