"""ProtobufConverter: Protobuf in Confluent's wire format, with schemas in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from kconnect.api import ConfigDef, Converter, DataError, Headers, Schema, SchemaAndValue
from kconnect.builtin.schema_registry.protobuf.proto_schema import ProtoSchema, proto_text, read_proto
from kconnect.builtin.schema_registry.protobuf.protobuf_names import ProtobufOptions
from kconnect.builtin.schema_registry.protobuf.schema_mapping import connect_of, file_of
from kconnect.builtin.schema_registry.protobuf.values_from_protobuf import Reader, reader_of
from kconnect.builtin.schema_registry.protobuf.values_to_protobuf import Writer, lost_fields, writer_of
from kconnect.builtin.schema_registry.registry.registration import (
    CACHE_SIZE,
    define_registration,
    define_rows,
    latest_misfit,
    registration_of,
)
from kconnect.builtin.schema_registry.registry.registry_client import BoundedCache
from kconnect.builtin.schema_registry.registry.registry_http import RegistryTransport
from kconnect.builtin.schema_registry.registry.wire import HEAD_SIZE, head_of, head_of_indexes, id_in, indexes_in
from kconnect.model import CONNECT_VERSION

_ENHANCED: Final = "Keep the packages of names."
_GENERAL: Final = "Map unions and enums in the form that all of Confluent's converters share."
_BOOLEAN, _MEDIUM, _LOW = ConfigDef.Type.BOOLEAN, ConfigDef.Importance.MEDIUM, ConfigDef.Importance.LOW

CONFIG: Final = define_rows(
    define_registration(),
    (
        ("enhanced.protobuf.schema.support", _BOOLEAN, False, _MEDIUM, _ENHANCED),
        ("scrub.invalid.names", _BOOLEAN, False, _MEDIUM, "Replace characters of names that Protobuf does not allow."),
        ("generalized.sum.type.support", _BOOLEAN, False, _MEDIUM, _GENERAL),
        ("int.for.enums", _BOOLEAN, False, _MEDIUM, "Read enums as numbers."),
        ("optional.for.nullables", _BOOLEAN, False, _MEDIUM, "Mark fields that may be null as optional."),
        ("optional.for.proto2", _BOOLEAN, True, _MEDIUM, "Read absent optional fields of proto2 as null."),
        ("wrapper.for.nullables", _BOOLEAN, False, _MEDIUM, "Write fields that may be null in wrapper messages."),
        ("wrapper.for.raw.primitives", _BOOLEAN, True, _MEDIUM, "Read a wrapper message as the value in it."),
        ("generate.struct.for.nulls", _BOOLEAN, False, _MEDIUM, "Read absent messages as structs of default values."),
        ("generate.index.for.unions", _BOOLEAN, True, _LOW, "Name the struct of a oneof with its index."),
        ("flatten.unions", _BOOLEAN, False, _LOW, "Read the members of a oneof as fields of its message."),
        ("ignore.default.for.nullables", _BOOLEAN, False, _LOW, "Write null in spite of a default."),
    ),
)


@dataclass(frozen=True, slots=True)
class _Writing:
    """How records of one Connect schema are written to one topic."""

    head: bytes
    write: Writer


@dataclass(frozen=True, slots=True)
class _Reading:
    """How records of one message of one id are read from one topic."""

    schema: Schema
    message: Any  # a class made at run time
    read: Reader


class ProtobufConverter(Converter):
    """Source: io.confluent.connect.protobuf.ProtobufConverter (8.x): magic byte 0, the schema's id in four bytes, the
    path of the message, Protobuf's bytes.

    Differs: with use.latest.version, fields are written with the numbers that the newest schema has for their names,
    where Java's writes those of its own. A message that contains itself is refused. A Variant is read as a struct.
    """

    def __init__(self, transport: RegistryTransport | None = None) -> None:
        """`transport` stands in for the network."""
        self._transport = transport

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        config = CONFIG.parse(configs)
        self._options = ProtobufOptions(
            enhanced=config["enhanced.protobuf.schema.support"],
            generalized=config["generalized.sum.type.support"],
            scrub=config["scrub.invalid.names"],
            int_for_enums=config["int.for.enums"],
            optional_for_nullables=config["optional.for.nullables"],
            optional_for_proto2=config["optional.for.proto2"],
            wrapper_for_nullables=config["wrapper.for.nullables"],
            wrapper_for_raw_primitives=config["wrapper.for.raw.primitives"],
            struct_for_nulls=config["generate.struct.for.nulls"],
            index_for_unions=config["generate.index.for.unions"],
            flatten_unions=config["flatten.unions"],
            ignore_default_for_nullables=config["ignore.default.for.nullables"],
        )
        self._registration = registration_of(
            config, configs, is_key=is_key, schema_type="PROTOBUF", transport=self._transport
        )
        self._writings: BoundedCache[tuple[str, Schema], _Writing] = BoundedCache(config[CACHE_SIZE])
        self._readings: BoundedCache[tuple[str, int, tuple[int, ...]], _Reading] = BoundedCache(config[CACHE_SIZE])

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            raise DataError(
                f"Data without a schema cannot be Protobuf (topic {topic}).",
                hint="Give the record a schema, or use a converter that needs none, such as JsonConverter.",
            )
        writing = self._writings.found((topic, schema), lambda: self._writing(topic, schema))
        try:
            return writing.head + writing.write(value).SerializeToString()
        except (DataError, TypeError, ValueError, OverflowError, EncodeError, RecursionError) as error:
            raise DataError(f"Failed to serialize Protobuf data from topic {topic}: {error}") from error

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if value is None:
            return SchemaAndValue.NULL
        schema_id = id_in(value)
        try:
            indexes, start = indexes_in(value, HEAD_SIZE)
            key = (topic, schema_id, indexes)
            reading = self._readings.found(key, lambda: self._reading(topic, schema_id, indexes))
            message = reading.message.FromString(value[start:])
            if not message.IsInitialized():
                raise DataError(f"The required field {message.FindInitializationErrors()[0]} is missing")
            return SchemaAndValue(reading.schema, reading.read(message))
        except (DataError, DecodeError) as error:
            raise DataError(
                f"Failed to deserialize data for topic {topic} to Protobuf (schema id {schema_id}): {error}",
                hint=getattr(error, "hint", None),
            ) from error

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return CONNECT_VERSION

    def _writing(self, topic: str, schema: Schema) -> _Writing:
        file, name = file_of(schema, self._options)
        text = proto_text(file)
        own = ProtoSchema(file)  # what Protobuf forbids is refused before the registry has it
        registration = self._registration
        subject = registration.subjects.subject(topic, name)
        if not registration.takes_latest:
            indexes = own.indexes_of(name) or [0]
            write = writer_of(schema, own.message(indexes), self._options)
            return _Writing(head_of(registration.id_of(subject, text)) + head_of_indexes(indexes), write)
        latest = registration.registry.latest(subject)
        newest = ProtoSchema(read_proto(latest.text), latest.references)
        indexes = newest.indexes_of(name) or [0]
        message = newest.message(indexes)
        try:
            lost = lost_fields(schema, message, self._options) if registration.is_strict else []
            if lost:
                raise DataError(f"it has no field {lost[0]}")
            write = writer_of(schema, message, self._options)
        except DataError as error:
            raise latest_misfit(subject, latest.id, error) from error
        return _Writing(head_of(latest.id) + head_of_indexes(indexes), write)

    def _reading(self, topic: str, schema_id: int, indexes: tuple[int, ...]) -> _Reading:
        registration = self._registration
        registered = registration.registry.schema(schema_id)
        message = ProtoSchema(read_proto(registered.text), registered.references).message(indexes)
        subject = registration.subjects.subject(topic, message.full_name)
        schema = connect_of(message, registration.registry.version_of(subject, registered), self._options)
        return _Reading(schema, GetMessageClass(message), reader_of(schema, message, self._options))
