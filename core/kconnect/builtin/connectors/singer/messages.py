"""What a tap writes, a message a line: schemas are kept, records become records of Connect, states are given."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from kconnect.api import DataError, Date, Schema, SchemaBuilder, SourceRecord, Struct, Timestamp

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


Convert = Callable[[Any], Any]


def stream_type(node: Mapping[str, Any], name: str) -> tuple[Schema, Convert]:
    """The schema of a stream's records, and what makes a Struct of one. Errors: DataError; of the latter, too."""
    schema, convert = _struct(node.get("properties") or {}, name)
    return schema, convert


def _struct(properties: Mapping[str, Any], name: str | None = None) -> tuple[Schema, Convert]:
    """All fields are optional: taps leave out what they did not get."""
    builder = SchemaBuilder.struct()
    if name is not None:
        builder.name(name)
    converts: dict[str, Convert] = {}
    for field, node in properties.items():
        kind, converts[field] = _type(node if isinstance(node, Mapping) else {})
        builder.field(field, kind)
    schema = builder.build() if name is not None else builder.optional().build()

    def convert(value: Any) -> Struct:
        if not isinstance(value, dict):
            raise DataError(f"{_shown(value)} is not an object")
        made = Struct(schema)
        for field, inner in converts.items():
            part = value.get(field)
            if part is not None:
                try:
                    made.put(field, inner(part))
                except DataError as err:
                    raise DataError(f"{field}: {err}") from err
        return made

    return schema, convert


def _type(node: Mapping[str, Any]) -> tuple[Schema, Convert]:
    """An optional schema for values that are described so; those that may be of several kinds become JSON text."""
    for word in ("anyOf", "oneOf"):
        if isinstance(node.get(word), list):
            others = [part for part in node[word] if isinstance(part, Mapping) and part.get("type") != "null"]
            return _type(others[0]) if len(others) == 1 else _TEXT
    given = node.get("type")
    kinds = {given} if isinstance(given, str) else set(given or ())
    kinds.discard("null")
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) != 1:
        return _TEXT
    (kind,) = kinds
    if kind == "string":
        return _STRINGS.get(str(node.get("format")), _STRING)
    if kind == "object" and node.get("properties"):
        return _struct(node["properties"])
    if kind == "array" and isinstance(node.get("items"), Mapping) and node["items"]:
        items, inner = _type(node["items"])
        return SchemaBuilder.array(items).optional().build(), lambda value: _list(value, inner)
    return _SIMPLE.get(kind, _TEXT)


def _list(value: Any, inner: Convert) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"{_shown(value)} is not a list")
    return [None if part is None else inner(part) for part in value]


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        raise DataError(f"{_shown(value)} is not an integer")
    if not -(2**63) <= value < 2**63:
        raise DataError(f"{_shown(value)} has more than 64 bits")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise DataError(f"{_shown(value)} is not a number")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DataError(f"{_shown(value)} is not a number") from None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DataError(f"{_shown(value)} is neither true nor false")
    return value


def _string(value: Any) -> str:
    """Taps are generous: a number where a text is described becomes its text."""
    return value if isinstance(value, str) else _json(value)


def _timestamp(value: Any) -> datetime:
    found: datetime = _iso(value, datetime.fromisoformat, "a time in ISO 8601")
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _date(value: Any) -> date:
    found: date = _iso(value[:10] if isinstance(value, str) else value, date.fromisoformat, "a date in ISO 8601")
    return found


def _iso(value: Any, read: Callable[[str], Any], wanted: str) -> Any:
    try:
        return read(value)
    except (TypeError, ValueError):
        raise DataError(f"{_shown(value)} is not {wanted}") from None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + ".."


_STRING = (Schema.OPTIONAL_STRING_SCHEMA, _string)
_TEXT = (Schema.OPTIONAL_STRING_SCHEMA, _string)
_SIMPLE: dict[str, tuple[Schema, Convert]] = {
    "integer": (Schema.OPTIONAL_INT64_SCHEMA, _integer),
    "number": (Schema.OPTIONAL_FLOAT64_SCHEMA, _number),
    "boolean": (Schema.OPTIONAL_BOOLEAN_SCHEMA, _boolean),
}
_STRINGS: dict[str, tuple[Schema, Convert]] = {
    "date-time": (Timestamp.builder().optional().build(), _timestamp),
    "date": (Date.builder().optional().build(), _date),
}
