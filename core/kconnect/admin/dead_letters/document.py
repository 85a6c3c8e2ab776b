"""A dead letter as a JSON document that can be edited, and back to bytes. No I/O but what a converter does.

    {"topic": "orders", "partition": 0, "timestamp": 1700000000123, "key": "k", "value": {..}, "headers": [..]}

Key and value as the connector's converters read them: with a schema the payload of JsonConverter's JSON, without one
the data itself. What a converter cannot read is JSON where the bytes are a JSON object or list, else text, else
{"base64": ..}. Headers are [{"key": .., "value": ..}] with text or {"base64": ..}. A part that an edit leaves as it is
keeps its bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from kconnect.admin.dead_letters.letter import NO_PARTITION, KafkaHeaders
from kconnect.admin.records import Decoded, DecodedRecord, RecordDecoder, plain
from kconnect.api import ConnectRecord, ConsumerRecord, Header, Headers, Schema, SinkRecord, TimestampType
from kconnect.api.schema_types import Type
from kconnect.errors import DataError
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.stages import StageError

PARTS: Final = ("topic", "partition", "timestamp", "key", "value", "headers")
_BASE64: Final = "base64"


class Form(Enum):
    """How a key or value is written in the document."""

    SCHEMA = "schema"
    """The payload of JsonConverter's JSON; the schema is kept beside."""
    DATA = "data"
    """Data without schema, as the converter gave it."""
    JSON = "json"
    """Bytes that the converter cannot read, and that are a JSON object or list."""
    BYTES = "bytes"
    """Text or base64."""


@dataclass(frozen=True, slots=True)
class Part:
    """A key or value in the document."""

    form: Form
    content: Any  # data of JSON
    schema: Any = None  # JsonConverter's, in JSON


@dataclass(frozen=True, slots=True)
class Document:
    """A record to edit: `body` is the JSON of it; key and value come in their forms."""

    body: Mapping[str, Any]
    key: Part
    value: Part


class Documents:
    """Makes documents of records and bytes of edited documents, with a connector's converters. Threads: one.

    `letters`: the converters of JSON with schemas (`pipeline.source_dead_letters.make_letter_converters`).
    """

    def __init__(self, decoder: RecordDecoder, converters: Converters, letters: Converters) -> None:
        self._decoder = decoder
        self._converters = converters
        self._letters = letters

    def decoded(self, record: ConsumerRecord) -> DecodedRecord:
        """The dead letter as the connector's converters read it. Never raises for what is in the record."""
        return self._decoder.decode(record)

    def document(self, record: ConsumerRecord) -> Document:
        """Never raises for what is in the record."""
        found = self._decoder.decode(record)
        key, value = (
            self._part(record.topic, record.key, found.key),
            self._part(record.topic, record.value, found.value),
        )
        body = {
            "topic": record.topic,
            "partition": None if record.partition == NO_PARTITION else record.partition,
            "timestamp": record.timestamp,
            "key": key.content,
            "value": value.content,
            "headers": [{"key": name, "value": text_or_base64(raw)} for name, raw in record.headers],
        }
        return Document(body, key, value)

    def edited(self, record: ConsumerRecord, before: Document, after: Any) -> ConsumerRecord:
        """The record with what `after`, an edited body, changes. Errors: DataError that names the part."""
        if not isinstance(after, dict):
            raise DataError(f"The edited record is not a JSON object: {after!r}")
        unknown = sorted(after.keys() - set(PARTS))
        if unknown:
            raise DataError(
                f"The edited record has unknown parts: {', '.join(unknown)}. It may have {', '.join(PARTS)}."
            )
        changed = {name: after.get(name) for name in PARTS if not _same(after.get(name), before.body.get(name))}
        record = replace(record, **_places(changed))
        if "headers" in changed:
            record = replace(record, headers=_headers(changed["headers"]))
        if "key" in changed:
            record = replace(record, key=self._bytes("key", record.topic, before.key, changed["key"]))
        if "value" in changed:
            record = replace(record, value=self._bytes("value", record.topic, before.value, changed["value"]))
        return record

    def of_connect(self, record: ConsumerRecord, after: ConnectRecord) -> ConsumerRecord:
        """The record with what a transformation changed in Connect's form. Errors: DataError that names the part."""
        read = self._decoder.decode(record)  # again, as what the transformation was given it may have changed in place
        before = read.to_sink_record()
        made = replace(
            record,
            topic=after.topic,
            partition=record.partition if after.kafka_partition is None else after.kafka_partition,
            timestamp=after.timestamp,
        )
        if not _same_data(before.key_schema, before.key, after.key_schema, after.key):
            made = replace(made, key=self._connect_bytes("key", made.topic, read.key, after.key_schema, after.key))
        if not _same_data(before.value_schema, before.value, after.value_schema, after.value):
            value = self._connect_bytes("value", made.topic, read.value, after.value_schema, after.value)
            made = replace(made, value=value)
        return replace(made, headers=self._connect_headers(record.headers, before.headers, after))

    # --- one key or value ---

    def _part(self, topic: str, raw: bytes | None, found: Decoded) -> Part:
        if raw is None:
            return Part(Form.BYTES, None)
        if found.problem is not None or (found.schema is not None and found.schema.type is Type.BYTES):
            return raw_part(raw)
        if found.schema is None:
            content = plain(found.value)
            return raw_part(raw) if isinstance(found.value, bytes) else Part(Form.DATA, content)
        holder = SinkRecord(topic, 0, None, None, found.schema, found.value, 0)
        try:
            made = self._letters.to_kafka_record(holder)
        except StageError:
            return Part(Form.DATA, plain(found.value))
        envelope = json.loads((made.value if made is not None else None) or b"null")
        return Part(Form.SCHEMA, envelope["payload"], envelope["schema"])

    def _bytes(self, part: str, topic: str, before: Part, content: Any) -> bytes | None:
        if before.form is Form.JSON and not _is_base64(content):
            return None if content is None else json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        if before.form in (Form.JSON, Form.BYTES):
            return raw_bytes(content, part)
        if before.form is Form.DATA:
            return self._connect_bytes(part, topic, None, None, content)
        envelope = json.dumps({"schema": before.schema, "payload": content}).encode()
        fetched = FetchedRecord(topic, 0, 0, None, envelope, None, TimestampType.NO_TIMESTAMP_TYPE, None)
        try:
            read = self._letters.to_connect_record(fetched)
        except StageError as error:
            raise DataError(f"The edited {part} does not fit its schema: {error.error}") from error
        assert read is not None, "converters without a policy drop nothing"
        again = self._part(topic, envelope, Decoded(read.value, "", read.value_schema)).content
        where = _difference(content, again)
        if where is not None:  # JsonConverter, like Java's, reads "two" as the number 0 and skips unknown fields
            raise DataError(f"The edited {part} does not fit its schema{where}")
        return self._connect_bytes(part, topic, None, read.value_schema, read.value)

    def _connect_bytes(
        self, part: str, topic: str, found: Decoded | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        """By the connector's converter; as they are where it could not read the part and the edit gives no schema."""
        if found is not None and found.problem is not None and schema is None:
            return raw_bytes(plain(value), part)
        is_key = part == "key"
        holder = SinkRecord(
            topic,
            0,
            schema if is_key else None,
            value if is_key else None,
            None if is_key else schema,
            None if is_key else value,
            0,
        )
        made = self._converted(part, holder)
        found_bytes: bytes | None = made.key if is_key else made.value
        return found_bytes

    def _connect_headers(
        self, raw: KafkaHeaders, before: Iterable[Header], after: ConnectRecord
    ) -> list[tuple[str, bytes | None]]:
        """Each as it came, if it is one of those before; else by the connector's converter."""
        came = list(zip(before, raw, strict=True))
        made: list[tuple[str, bytes | None]] = []
        for header in after.headers:
            place = next((at for at, (old, _) in enumerate(came) if _is_same_header(old, header)), None)
            if place is not None:
                made.append(came.pop(place)[1])
                continue
            alone = SinkRecord(after.topic, 0, None, None, None, None, 0, headers=Headers([header]))
            made += self._converted(f"header {header.key}", alone).headers
        return made

    def _converted(self, part: str, record: ConnectRecord) -> Any:  # KafkaRecord
        try:
            made = self._converters.to_kafka_record(record)
        except StageError as error:
            raise DataError(f"The edited {part} cannot be written by its converter: {error.error}") from error
        if made is None:
            raise DataError(f"The edited {part} was dropped by its converter")
        return made


def raw_part(raw: bytes) -> Part:
    """Bytes that no converter reads, as JSON, text or base64."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Part(Form.BYTES, {_BASE64: base64.b64encode(raw).decode()})
    if text.lstrip()[:1] in ("{", "["):
        try:
            return Part(Form.JSON, json.loads(text))
        except (ValueError, RecursionError):
            pass
    return Part(Form.BYTES, text)


def text_or_base64(raw: bytes | None) -> Any:
    """Text, {"base64": ..}, or None."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(raw).decode()}


def raw_bytes(content: Any, part: str) -> bytes | None:
    """Text as UTF-8, {"base64": ..} decoded, other data as JSON. Errors: DataError for wrong base64."""
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    if _is_base64(content):
        try:
            return base64.b64decode(content[_BASE64], validate=True)
        except (ValueError, TypeError) as error:
            raise DataError(f"The edited {part} is not base64: {error}") from error
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _is_base64(content: Any) -> bool:
    return isinstance(content, dict) and content.keys() == {_BASE64}


def _places(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Topic, partition and timestamp, checked. Errors: DataError."""
    found = {name: changed[name] for name in ("topic", "partition", "timestamp") if name in changed}
    if "topic" in found and not (isinstance(found["topic"], str) and found["topic"]):
        raise DataError(f"The edited topic is not the name of a topic: {found['topic']!r}")
    for name in ("partition", "timestamp"):
        value = found.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise DataError(f"The edited {name} is not a number from 0 up: {value!r}")
    if found.get("partition", 0) is None:
        found["partition"] = NO_PARTITION
    return found


def _headers(content: Any) -> list[tuple[str, bytes | None]]:
    if not isinstance(content, list):
        raise DataError("The edited headers are not a list")
    made = []
    for item in content:
        if not isinstance(item, dict) or not isinstance(item.get("key"), str) or item.keys() - {"key", "value"}:
            raise DataError(f'A header is {{"key": .., "value": ..}}, not {json.dumps(item)}')
        made.append((item["key"], raw_bytes(item.get("value"), f"header {item['key']}")))
    return made


def _same(first: Any, second: Any) -> bool:
    """Equal as JSON: True is not 1."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def _difference(given: Any, read: Any, path: str = "") -> str | None:
    """Where what was read differs from what was given, beyond nulls that are not written out; None: nowhere."""
    if isinstance(given, dict) and isinstance(read, dict):
        for name in {**given, **read}:
            if (found := _difference(given.get(name), read.get(name), f"{path}/{name}")) is not None:
                return found
        return None
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        inner = (_difference(*pair, f"{path}/{index}") for index, pair in enumerate(zip(given, read, strict=True)))
        return next((each for each in inner if each is not None), None)
    is_same = given == read and isinstance(given, bool) == isinstance(read, bool)
    if is_same:
        return None
    return f", at {path or '/'}: {json.dumps(given)} would be {json.dumps(read)}"


def _is_same_header(first: Header, second: Header) -> bool:
    return first.key == second.key and _same_data(first.schema, first.value, second.schema, second.value)


def _same_data(schema: Schema | None, value: Any, other_schema: Schema | None, other: Any) -> bool:
    return schema == other_schema and _same_value(value, other)


def _same_value(value: Any, other: Any) -> bool:
    """Equal as data, at any depth: True is not 1."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(_same_value(value[key], other[key]) for key in value)
    if isinstance(value, list):
        return len(value) == len(other) and all(map(_same_value, value, other))
    return bool(value == other)
