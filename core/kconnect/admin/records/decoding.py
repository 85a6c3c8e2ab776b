"""A fetched record in a form that people can read: key, value and headers, each with what decoded it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kconnect.api import ConnectHeaders, ConsumerRecord, Schema, SinkRecord
from kconnect.api.plain_values import plain
from kconnect.clock import moment


@dataclass(frozen=True, slots=True)
class Decoded:
    """A key, a value or a header's value.

    `value` is Connect's form, with `schema` where there is one; bytes where nothing could read them. `how` names what
    decoded it: `json`, `text`, `avro, schema 12`, `JsonConverter`, `null`. `problem` is a sentence: why that which
    was asked for could not read it; then `value` is a guess.
    """

    value: Any  # Connect data: Struct, dict, str ..
    how: str
    schema: Schema | None = None
    problem: str | None = None

    @property
    def plain(self) -> Any:  # data of JSON
        """Data of JSON."""
        return plain(self.value)


class FieldDecoder(Protocol):
    """Decodes one kind of field: keys, values, or headers."""

    def decode(self, topic: str, data: bytes | None, header: str | None = None) -> Decoded:
        """Never raises for what is in `data`. `header` is the name of the header whose value it is."""
        ...


class ShownRecord(Protocol):
    """A decoded record as it is shown, whoever has decoded it."""

    @property
    def key(self) -> Decoded: ...

    @property
    def value(self) -> Decoded: ...

    @property
    def headers(self) -> Sequence[tuple[str, Decoded]]: ...

    @property
    def raw_value(self) -> bytes | None:
        """The bytes of the value."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """Works as that of DecodedRecord."""
        ...


@dataclass(frozen=True, slots=True)
class ReportedRecord:
    """A record that a worker has read and decoded. Implements ShownRecord. `body`: as of DecodedRecord.to_json."""

    body: Mapping[str, Any]

    @property
    def key(self) -> Decoded:
        return _reported(self.body["key"], self.body["decoded"]["key"])

    @property
    def value(self) -> Decoded:
        return _reported(self.body["value"], self.body["decoded"]["value"])

    @property
    def headers(self) -> Sequence[tuple[str, Decoded]]:
        return [(header["key"], _reported(header["value"], "")) for header in self.body["headers"]]

    @property
    def raw_value(self) -> bytes | None:
        given = self.body.get("raw")
        return None if given is None else base64.b64decode(given)

    def to_json(self) -> Mapping[str, Any]:
        return {key: value for key, value in self.body.items() if key != "raw"}


def _reported(value: Any, how: str) -> Decoded:  # data of JSON
    """Bytes that nothing could read come as {"base64": ..}."""
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        return Decoded(base64.b64decode(value["base64"]), how)
    return Decoded(value, how)


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """One record, decoded. `raw` is what was fetched."""

    raw: ConsumerRecord = field(repr=False)
    key: Decoded
    value: Decoded
    headers: tuple[tuple[str, Decoded], ...] = ()

    @property
    def place(self) -> str:
        """`topic-partition@offset`."""
        return f"{self.raw.topic}-{self.raw.partition}@{self.raw.offset}"

    @property
    def problems(self) -> list[str]:
        """A sentence for each part that could not be read as asked for, with the place of the record."""
        parts = [("key", self.key), ("value", self.value)]
        parts += [(f"header {name}", decoded) for name, decoded in self.headers]
        return [f"{self.place}: {part}: {decoded.problem}" for part, decoded in parts if decoded.problem is not None]

    @property
    def raw_value(self) -> bytes | None:
        return self.raw.value

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.raw.key or b"") + len(self.raw.value or b"")

    def to_json(self) -> dict[str, Any]:
        """Topic, partition, offset, timestamp, timestamp_type, key, value, headers, size, decoded, errors if any.

        `timestamp` is ISO 8601 in UTC, or null. `decoded` says by what key and value were read.
        """
        body: dict[str, Any] = {
            "topic": self.raw.topic,
            "partition": self.raw.partition,
            "offset": self.raw.offset,
            "timestamp": moment(self.raw.timestamp),
            "timestamp_type": self.raw.timestamp_type.value,
            "key": self.key.plain,
            "value": self.value.plain,
            "headers": [{"key": name, "value": decoded.plain} for name, decoded in self.headers],
            "size": self.size,
            "decoded": {"key": self.key.how, "value": self.value.how},
        }
        problems = self.problems
        return body | {"errors": problems} if problems else body

    def to_sink_record(self) -> SinkRecord:
        """Gives the record as a sink's transformations and predicates get it."""
        headers = ConnectHeaders()
        for name, decoded in self.headers:
            headers.add(name, decoded.value, decoded.schema)
        return SinkRecord(
            self.raw.topic,
            self.raw.partition,
            self.key.schema,
            self.key.value,
            self.value.schema,
            self.value.value,
            self.raw.offset,
            timestamp=self.raw.timestamp,
            timestamp_type=self.raw.timestamp_type,
            headers=headers,
        )


class RecordDecoder:
    """Decodes records, part by part. Threads: one at a time. `close()` ends what its converters hold."""

    def __init__(self, key: FieldDecoder, value: FieldDecoder, headers: FieldDecoder) -> None:
        self._key = key
        self._value = value
        self._headers = headers

    def decode(self, record: ConsumerRecord) -> DecodedRecord:
        """Never raises for what is in the record: `problems` says what could not be read."""
        topic = record.topic
        return DecodedRecord(
            record,
            self._key.decode(topic, record.key),
            self._value.decode(topic, record.value),
            tuple((name, self._headers.decode(topic, data, name)) for name, data in record.headers),
        )

    def close(self) -> None:
        for part in (self._key, self._value, self._headers):
            close = getattr(part, "close", None)
            if close is not None:
                close()
