"""What a tap writes, a message a line: schemas are kept, records become records of Connect, states are given."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kconnect.api import DataError, SchemaBuilder, SourceRecord, Struct
from kconnect.builtin.connectors.singer.shapes import StructShape, json_text, stream_shape
from kconnect.builtin.types.exact_numbers import exact_json

log = logging.getLogger(__name__)

_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class State:
    """How far the tap has got, as it wants to have it at its next start; `text` is JSON."""

    text: str


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that does not fit its stream's schema. `record` has what it holds, without a schema."""

    record: SourceRecord
    error: DataError


class _Stream:
    """What is known of a stream: its shape, and the schema of its keys, which are fields of it."""

    def __init__(self, name: str, described: str, shape: StructShape, keys: Sequence[str]) -> None:
        self.described, self.shape = described, shape
        self._name, self._keys = name, keys
        self._build()

    def learn(self, record: Any) -> None:
        """Take in fields that the tap did not describe."""
        if self.shape.learn(record):
            self._build()

    def key_of(self, value: Struct) -> Struct | None:
        if self.key_schema is None:
            return None
        key = Struct(self.key_schema)
        for field in self.key_schema.fields:
            key.put(field, value.get(field.name))
        return key

    def _build(self) -> None:
        fields = [field for name in self._keys if (field := self.shape.schema.field(name)) is not None]
        builder = SchemaBuilder.struct().name(f"{self._name}.Key")
        for field in fields:
            builder.field(field.name, field.schema)
        self.key_schema = builder.build() if fields else None


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
            return State(json_text(message.get("value")))
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
            message = exact_json(line)
        except ValueError as err:
            raise self._no_message(line, "it is not JSON") from err
        if not isinstance(message, dict) or "type" not in message:
            raise self._no_message(line, "it has no type")
        return message

    def _schema(self, message: Mapping[str, Any], line: bytes) -> None:
        name, node = message.get("stream"), message.get("schema")
        if not isinstance(name, str) or not isinstance(node, dict):
            raise self._no_message(line, "a SCHEMA has a stream and a schema")
        described = json.dumps([node, message.get("key_properties")], sort_keys=True, default=str)
        known = self._streams.get(name)
        if known is not None and known.described == described:
            return
        if known is not None:
            log.info("The schema of stream %s of %s has changed", name, self._name)
        shape = stream_shape(node, name)
        if known is not None:
            shape.add(known.shape.added)
        self._streams[name] = _Stream(name, described, shape, message.get("key_properties") or ())

    def _record(self, message: Mapping[str, Any], line: bytes) -> SourceRecord | BadRecord:
        name, held = message.get("stream"), message.get("record")
        stream = self._streams.get(str(name))
        if stream is None:
            raise self._no_message(line, f"no SCHEMA of stream {name} came before it")
        topic = f"{self._prefix}{name}"
        try:
            stream.learn(held)
            value = stream.shape.convert(held)
        except DataError as err:
            reported = DataError(f"A record of stream {name} (line {self._lines} of {self._name}) does not fit: {err}")
            reported.__cause__ = err
            return BadRecord(SourceRecord(self._partition, None, topic, held), reported)
        return SourceRecord(
            self._partition,
            None,
            topic,
            value,
            value_schema=stream.shape.schema,
            key=stream.key_of(value),
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


def _extracted_ms(text: Any) -> int | None:
    if not isinstance(text, str):
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
