"""Keys and headers of records in objects of their own beside those of values, line by line, as Confluent's sink has.

Source: io.confluent.connect.s3.format.KeyValueHeaderRecordWriterProvider, RecordViews.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kconnect.api import DataError, RecordBatch, Schema, SchemaBuilder, SinkRecord, Struct
from kconnect.api.values import convert_to_string
from kconnect.builtin.connectors.objects.object_writers import Content, Encoder

KEYS, HEADERS = ".keys", ".headers"
_HEADER: Final = SchemaBuilder.struct().field("key", Schema.STRING_SCHEMA).field("value", Schema.OPTIONAL_STRING_SCHEMA)
_HEADERS: Final = SchemaBuilder.struct().field("headers", SchemaBuilder.array(_HEADER.build()).build()).build()


@dataclass(frozen=True, slots=True)
class Part:
    """`infix` stands before the extension of its objects' names; `view` gives a record that has the part as value."""

    infix: str
    extension: str
    encoder: Encoder
    view: Callable[[SinkRecord], SinkRecord]


def key_of(record: SinkRecord) -> SinkRecord:
    """Errors: DataError for a record without key."""
    if record.key is None:
        raise DataError("It has no key", hint="store.kafka.keys=false writes values alone.")
    return record.new_record(value=record.key, value_schema=record.key_schema)


def enveloped_key_of(record: SinkRecord) -> SinkRecord:
    """The key as the field `key`, as Parquet has it. Errors: DataError for a record without key."""
    bare = key_of(record)
    if bare.value_schema is None:
        return bare.new_record(value={"key": bare.value})
    schema = SchemaBuilder.struct().field("key", bare.value_schema).build()
    return bare.new_record(value=Struct(schema, {"key": bare.value}), value_schema=schema)


def headers_of(record: SinkRecord) -> SinkRecord:
    """Errors: DataError for a record without headers."""
    if not record.has_headers:
        raise DataError("It has no headers", hint="store.kafka.headers=false writes values alone.")
    item = _HEADERS.fields[0].schema.value_schema
    assert item is not None
    found = [
        Struct(item, {"key": header.key, "value": convert_to_string(header.schema, header.value)})
        for header in record.headers
    ]
    return record.new_record(value=Struct(_HEADERS, {"headers": found}), value_schema=_HEADERS)


class EncoderWithParts(Encoder):
    """Makes pieces of values, keys and headers. A record without value is in the other objects alone."""

    def __init__(self, values: Encoder, parts: Sequence[Part]) -> None:
        self._values, self._parts = values, parts

    def content(self) -> Content:
        return ContentWithParts(self._values.content(), [(part, part.encoder.content()) for part in self._parts])

    def piece(self, records: Sequence[SinkRecord]) -> Any:
        views = [part.encoder.piece([part.view(record) for record in records]) for part in self._parts]
        return [self._values.piece(records), *views]

    def piece_of_batch(self, batch: RecordBatch) -> Any:
        return self.piece(batch.to_records())  # type: ignore[arg-type]  # a sink's batch gives sink records


class ContentWithParts:
    """Contents of the same rows, one an object."""

    def __init__(self, values: Content, parts: Sequence[tuple[Part, Content]]) -> None:
        self._values, self._parts = values, parts
        self._all = [values, *(content for _, content in parts)]
        self.size = 0

    @property
    def is_empty(self) -> bool:
        return all(content.is_empty for content in self._all)

    def fits(self, piece: Any) -> bool:
        return all(content.fits(part) for content, part in zip(self._all, piece, strict=True))

    def add(self, piece: Any) -> None:
        for content, part in zip(self._all, piece, strict=True):
            content.add(part)
        self.size = sum(content.size for content in self._all)

    def body(self) -> bytes:
        return self._values.body()

    def objects(self, name: str, extension: str) -> Iterator[tuple[str, Content]]:
        """Contents with the names of their objects, given that of the values' object and how it ends."""
        yield name, self._values
        for part, content in self._parts:
            yield name.removesuffix(extension) + part.infix + part.extension, content
