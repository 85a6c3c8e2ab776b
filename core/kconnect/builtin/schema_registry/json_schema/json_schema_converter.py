"""JsonSchemaConverter: JSON in Confluent's wire format, with JSON Schemas in a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema.protocols import Validator

from kconnect.api import (
    ConfigDef,
    ConfigError,
    Converter,
    DataError,
    Headers,
    Schema,
    SchemaAndValue,
    SchemaBuilderError,
)
from kconnect.builtin.schema_registry.json_schema.json_document import JsonDocument, require_valid
from kconnect.builtin.schema_registry.json_schema.json_names import JsonOptions
from kconnect.builtin.schema_registry.json_schema.json_schema_mapping import connect_of, json_schema_of
from kconnect.builtin.schema_registry.json_schema.values_from_json import Reader, has_decimals, reader_of
from kconnect.builtin.schema_registry.json_schema.values_to_json import Writer, writer_of
from kconnect.builtin.schema_registry.registry.registration import (
    CACHE_SIZE,
    define_registration,
    define_rows,
    latest_misfit,
    registration_of,
)
from kconnect.builtin.schema_registry.registry.registry_client import BoundedCache
from kconnect.builtin.schema_registry.registry.registry_http import RegistryTransport
from kconnect.builtin.schema_registry.registry.wire import HEAD_SIZE, head_of, id_in
from kconnect.java.compat.jackson import MISSING, jackson_text, parse, parse_exact
from kconnect.model import CONNECT_VERSION

_DECIMAL_FORMAT: Final = "decimal.format"
_GENERAL: Final = "Map unions and enums in the form that all of Confluent's converters share."
_ADDITIONAL: Final = "Whether schemas that are registered allow properties that they do not name."
_OPTIONAL: Final = "Read properties that are not required as optional fields."
_FORMAT: Final = "How decimals are written: BASE64 or NUMERIC."
_BOOLEAN, _MEDIUM, _LOW = ConfigDef.Type.BOOLEAN, ConfigDef.Importance.MEDIUM, ConfigDef.Importance.LOW

CONFIG: Final = define_rows(
    define_registration(),
    (
        ("object.additional.properties", _BOOLEAN, True, _MEDIUM, _ADDITIONAL),
        ("use.optional.for.nonrequired", _BOOLEAN, False, _MEDIUM, _OPTIONAL),
        ("generalized.sum.type.support", _BOOLEAN, False, _MEDIUM, _GENERAL),
        (_DECIMAL_FORMAT, ConfigDef.Type.STRING, "BASE64", _LOW, _FORMAT),
        ("json.fail.invalid.schema", _BOOLEAN, False, _MEDIUM, "Refuse values that break their schema."),
        ("flatten.singleton.unions", _BOOLEAN, True, _LOW, "Take a union of one schema for that schema."),
        ("ignore.default.for.nullables", _BOOLEAN, False, _LOW, "Write null in spite of a default."),
    ),
)


@dataclass(frozen=True, slots=True)
class _Writing:
    """How records of one Connect schema are written to one topic."""

    head: bytes
    write: Writer
    validator: Validator | None


@dataclass(frozen=True, slots=True)
class _Reading:
    """How records of one id are read from one topic."""

    schema: Schema
    parse: Callable[[bytes], Any]
    read: Reader
    validator: Validator | None


class JsonSchemaConverter(Converter):
    """Source: io.confluent.connect.json.JsonSchemaConverter (8.x): magic byte 0, the schema's id in four bytes, JSON.

    Differs: JSON of another type than its schema's is an error, where Java's reads 0, false or null. A schema that
    refers to itself, and one that allows anything, are refused.
    """

    def __init__(self, transport: RegistryTransport | None = None) -> None:
        """`transport` stands in for the network."""
        self._transport = transport

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        config = CONFIG.parse(configs)
        decimals = config[_DECIMAL_FORMAT].upper()
        if decimals not in ("BASE64", "NUMERIC"):
            raise ConfigError.invalid(_DECIMAL_FORMAT, config[_DECIMAL_FORMAT], "expected BASE64 or NUMERIC")
        self._options = JsonOptions(
            additional_properties=config["object.additional.properties"],
            optional_for_nonrequired=config["use.optional.for.nonrequired"],
            generalized=config["generalized.sum.type.support"],
            numeric_decimals=decimals == "NUMERIC",
            flatten_singleton_unions=config["flatten.singleton.unions"],
            ignore_default_for_nullables=config["ignore.default.for.nullables"],
        )
        self._validates: bool = config["json.fail.invalid.schema"]
        self._registration = registration_of(
            config, configs, is_key=is_key, schema_type="JSON", transport=self._transport
        )
        self._writings: BoundedCache[tuple[str, Schema], _Writing] = BoundedCache(config[CACHE_SIZE])
        self._readings: BoundedCache[tuple[str, int], _Reading] = BoundedCache(config[CACHE_SIZE])

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        if schema is None:
            if value is None:
                return None
            raise DataError(
                f"Data without a schema cannot be written with a JSON Schema (topic {topic}).",
                hint="Give the record a schema, or use a converter that needs none, such as JsonConverter.",
            )
        if value is None and not schema.is_optional and schema.default is None:
            return None
        try:
            writing = self._writings.found((topic, schema), lambda: self._writing(topic, schema))
            text = writing.write(value)
            if text is None:
                return None
            data = text.encode()
            if writing.validator is not None:
                require_valid(writing.validator, parse(data))
        except (DataError, AttributeError, TypeError, ValueError, RecursionError) as error:
            raise DataError(
                f"Converting Kafka Connect data to byte[] failed due to serialization error of topic {topic}: {error}",
                hint=getattr(error, "hint", None),
            ) from error
        return writing.head + data

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if value is None:
            return SchemaAndValue.NULL
        schema_id = id_in(value)
        try:
            reading = self._readings.found((topic, schema_id), lambda: self._reading(topic, schema_id))
            node = reading.parse(value[HEAD_SIZE:])
            if node is MISSING:
                raise DataError("There is no JSON")
            if reading.validator is not None:
                require_valid(reading.validator, node)
            return SchemaAndValue(reading.schema, reading.read(node))
        except (DataError, SchemaBuilderError, ValueError, RecursionError) as error:
            raise DataError(
                f"Converting byte[] to Kafka Connect data failed due to serialization error of topic {topic} (schema id"
                f" {schema_id}): {error}",
                hint=getattr(error, "hint", None),
            ) from error

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return CONNECT_VERSION

    def _writing(self, topic: str, schema: Schema) -> _Writing:
        own, write = json_schema_of(schema, self._options), writer_of(schema, self._options)
        registration = self._registration
        subject = registration.subjects.subject(topic, own.get("title"))
        if not registration.takes_latest:
            text = jackson_text(own)
            validator = self._validator(JsonDocument(text))
            return _Writing(head_of(registration.id_of(subject, text)), write, validator)
        latest = registration.registry.latest(subject)
        newest = JsonDocument(latest.text, latest.references)
        if registration.is_strict:
            known = dict(newest.root().properties())
            lost = [name for name in own.get("properties", ()) if name not in known]
            if lost:
                raise latest_misfit(subject, latest.id, DataError(f"it has no property {lost[0]}"))
        return _Writing(head_of(latest.id), write, self._validator(newest))

    def _reading(self, topic: str, schema_id: int) -> _Reading:
        registration = self._registration
        registered = registration.registry.schema(schema_id)
        document = JsonDocument(registered.text, registered.references)
        root = document.root()
        subject = registration.subjects.subject(topic, root.prop("title"))
        schema = connect_of(root, registration.registry.version_of(subject, registered), self._options)
        digits = parse_exact if has_decimals(schema) else parse
        return _Reading(schema, digits, reader_of(schema, self._options), self._validator(document))

    def _validator(self, document: JsonDocument) -> Validator | None:
        return document.validator() if self._validates else None
