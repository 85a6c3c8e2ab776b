"""What a tap writes, a message a line: schemas are kept, records become records of Connect, states are given."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kconnect.api import DataError, Schema, SourceRecord, Struct
from kconnect.api.schema_builder import SchemaBuilder
from kconnect.builtin.connectors.singer.json_types import Convert, stream_type

log = logging.getLogger(__name__)

_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class State:
    """How far the tap has got, as it wants to be told at its next start; `text` is JSON."""

    text: str


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that does not fit its stream's schema. `record` has what it holds, without a schema."""

    record: SourceRecord
    error: DataError


@dataclass(frozen=True, slots=True)
class _Stream:
    described: str
    schema: Schema
    convert: Convert
    key_schema: Schema | None
    keys: tuple[str, ...]


class Messages:
    """Reads the lines of one tap. `partition` is the source partition of its records.

    Errors: DataError for a line that is no message, with its number and text.
    """

    def __init__(self, name: str, topic_prefix: str, partition: Mapping[str, str]) -> None:
        self._name, self._prefix, self._partition = name, topic_prefix, dict(partition)
        self._streams: dict[str, _Stream] = {}
        self._unknown: set[str] = set()
        self._lines = 0

    def read(self, line: bytes) -> SourceRecord | BadRecord | State | None:
        """What a line says; None for one that says nothing to us."""
        self._lines += 1
        if not line.strip():
            return None
        message = self._parsed(line)
        kind = message.get("type")
        if kind == "RECORD":
            return self._record(message, line)
        if kind == "STATE":
            return State(json.dumps(message.get("value"), separators=(",", ":")))
        if kind == "SCHEMA":
            self._schema(message, line)
        elif kind == "BATCH":
            raise DataError(
                f"{self._name} writes batches to files (line {self._lines}), which cannot be read",
                hint="Take batch_config out of singer.config.",
            )
        elif kind not in ("ACTIVATE_VERSION", *self._unknown):
            self._unknown.add(str(kind))
            log.warning("%s writes messages of type %s, which have no effect", self._name, kind)
        return None

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            message = json.loads(line)
        except ValueError as err:
            raise self._no_message(line, "it is not JSON") from err
        if not isinstance(message, dict) or "type" not in message:
            raise self._no_message(line, "it has no type")
        return message

    def _schema(self, message: Mapping[str, Any], line: bytes) -> None:
        name, node = message.get("stream"), message.get("schema")
        if not isinstance(name, str) or not isinstance(node, dict):
            raise self._no_message(line, "a SCHEMA has a stream and a schema")
        described = json.dumps([node, message.get("key_properties")], sort_keys=True)
        known = self._streams.get(name)
        if known is not None and known.described == described:
            return
        if known is not None:
            log.info("The schema of stream %s of %s has changed", name, self._name)
        schema, convert = stream_type(node, name)
        keys = tuple(key for key in message.get("key_properties") or () if schema.field(key) is not None)
        builder = SchemaBuilder.struct().name(f"{name}.Key")
        for key in keys:
            field = schema.field(key)
            assert field is not None
            builder.field(key, field.schema)
        self._streams[name] = _Stream(described, schema, convert, builder.build() if keys else None, keys)

    def _record(self, message: Mapping[str, Any], line: bytes) -> SourceRecord | BadRecord:
        name, held = message.get("stream"), message.get("record")
        stream = self._streams.get(str(name))
        if stream is None:
            raise self._no_message(line, f"no SCHEMA of stream {name} came before it")
        topic = f"{self._prefix}{name}"
        try:
            value = stream.convert(held)
        except DataError as err:
            told = DataError(f"A record of stream {name} (line {self._lines} of {self._name}) does not fit: {err}")
            told.__cause__ = err
            return BadRecord(SourceRecord(self._partition, None, topic, held), told)
        return SourceRecord(
            self._partition,
            None,
            topic,
            value,
            value_schema=stream.schema,
            key=_key(stream, value),
            key_schema=stream.key_schema,
            timestamp=_extracted_ms(message.get("time_extracted")),
        )

    def _no_message(self, line: bytes, why: str) -> DataError:
        text = line.decode(errors="replace").strip()
        shown = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + ".."
        return DataError(
            f"Line {self._lines} of {self._name} is not a message of Singer, {why}: {shown}",
            hint="A tap writes messages to its standard output, and what it has to say to stderr.",
        )


def _key(stream: _Stream, value: Struct) -> Struct | None:
    if stream.key_schema is None:
        return None
    key = Struct(stream.key_schema)
    for name in stream.keys:
        key.put(name, value.get(name))
    return key


def _extracted_ms(text: Any) -> int | None:
    if not isinstance(text, str):
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
