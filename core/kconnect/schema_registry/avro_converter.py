"""AvroConverter: Avro in Confluent's wire format, with schemas in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigDef, Converter, DataError, Headers, Schema, SchemaAndValue
from kconnect.model import CONNECT_VERSION
from kconnect.schema_registry.avro_codec import AvroCodec
from kconnect.schema_registry.avro_names import AvroOptions
from kconnect.schema_registry.avro_schema import AvroType, avro_text, parse_avro
from kconnect.schema_registry.registry_client import BoundedCache, RegisteredSchema, RegistryClient
from kconnect.schema_registry.registry_http import RegistryHttp, RegistryTransport
from kconnect.schema_registry.registry_settings import define_registry, registry_settings
from kconnect.schema_registry.schema_from_avro import connect_of
from kconnect.schema_registry.schema_to_avro import ANYTHING, avro_of
from kconnect.schema_registry.subjects import TOPIC, SubjectNames
from kconnect.schema_registry.values_from_avro import Reader, reader_of, schemaless_value
from kconnect.schema_registry.values_to_avro import Writer, writer_of
from kconnect.schema_registry.wire import head_of, id_in

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.schema_registry.columns_from_avro import ColumnReader
    from kconnect.schema_registry.columns_to_avro import ColumnWriter

_ANYTHING_TEXT: Final = avro_text(ANYTHING)

_STRATEGY: Final = "How subjects are named: TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy."
_META: Final = "Write what Avro has no place for (name, version, parameters, default) into the schema."
_GENERAL: Final = "Map unions and enums in the form that all of Confluent's converters share."


def _config() -> ConfigDef:
    kind, medium, low = ConfigDef.Type, ConfigDef.Importance.MEDIUM, ConfigDef.Importance.LOW
    table = define_registry(ConfigDef())
    rows: tuple[tuple[str, Any, Any, Any, str], ...] = (
        ("auto.register.schemas", kind.BOOLEAN, True, medium, "Whether new schemas are registered."),
        ("use.latest.version", kind.BOOLEAN, False, low, "Write with the newest schema of the subject."),
        (
            "latest.compatibility.strict", kind.BOOLEAN, True, low,
            "With use.latest.version: refuse records whose own schema the newest cannot stand for.",
        ),
        ("normalize.schemas", kind.BOOLEAN, False, medium, "Whether schemas are compared in normal form."),
        ("key.subject.name.strategy", kind.STRING, TOPIC, medium, _STRATEGY),
        ("value.subject.name.strategy", kind.STRING, TOPIC, medium, _STRATEGY),
        ("schemas.cache.config", kind.INT, 1000, low, "How many schemas to remember."),
        ("enhanced.avro.schema.support", kind.BOOLEAN, False, medium, "Keep enums and packages."),
        ("scrub.invalid.names", kind.BOOLEAN, False, medium, "Replace characters of names that Avro does not allow."),
        ("connect.meta.data", kind.BOOLEAN, True, low, _META),
        ("generalized.sum.type.support", kind.BOOLEAN, False, medium, _GENERAL),
        ("discard.type.doc.default", kind.BOOLEAN, False, low, "Keep only the documentation and defaults of fields."),
        ("allow.optional.map.keys", kind.BOOLEAN, False, low, "Write maps whose text keys are optional as Avro maps."),
        ("flatten.singleton.unions", kind.BOOLEAN, True, low, "Take a union of one schema for that schema."),
        ("ignore.default.for.nullables", kind.BOOLEAN, False, low, "Write null in spite of a default."),
    )  # fmt: skip
    for name, type_, default, importance, doc in rows:
        table.define(name, type_, default, None, importance, doc)
    return table


CONFIG = _config()


@dataclass(frozen=True, slots=True)
class _Writing:
    """How records of one Connect schema are written to one topic."""

    head: bytes
    avro: AvroType
    codec: AvroCodec
    write: Writer


@dataclass(frozen=True, slots=True)
class _Reading:
    """How records of one id are read from one topic."""

    schema: Schema | None
    codec: AvroCodec
    read: Reader
    avro: AvroType


class AvroConverter(Converter):
    """Source: io.confluent.connect.avro.AvroConverter (8.x): magic byte 0, the schema's id in four bytes, Avro's bytes.

    Differs: a registry that answers 5xx or not at all is retried (errors.retry.timeout), where Java's fails on 5xx; a
    schema that is not among those of the topic's subject is read all the same, without a version.
    """

    def __init__(self, transport: RegistryTransport | None = None) -> None:
        """`transport` stands in for the network."""
        self._transport = transport

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        config = CONFIG.parse(configs)
        self._options = AvroOptions(
            enhanced=config["enhanced.avro.schema.support"],
            meta_data=config["connect.meta.data"],
            scrub=config["scrub.invalid.names"],
            generalized=config["generalized.sum.type.support"],
            discard_type_doc_default=config["discard.type.doc.default"],
            allow_optional_map_keys=config["allow.optional.map.keys"],
            flatten_singleton_unions=config["flatten.singleton.unions"],
            ignore_default_for_nullables=config["ignore.default.for.nullables"],
        )
        most = config["schemas.cache.config"]
        transport = self._transport or RegistryHttp(registry_settings(config, configs))
        self._registry = RegistryClient(transport, cache_size=most)
        self._subjects = SubjectNames(
            config["key.subject.name.strategy" if is_key else "value.subject.name.strategy"], is_key=is_key
        )
        self._registers: bool = config["auto.register.schemas"]
        self._uses_latest: bool = config["use.latest.version"]
        self._is_strict: bool = config["latest.compatibility.strict"]
        self._normalizes: bool = config["normalize.schemas"]
        self._writings: BoundedCache[tuple[str, Schema | None], _Writing] = BoundedCache(most)
        self._readings: BoundedCache[tuple[str, int], _Reading] = BoundedCache(most)
        self._column_writers: BoundedCache[tuple[str, Schema], ColumnWriter] = BoundedCache(most)
        self._column_readers: BoundedCache[tuple[str, int], ColumnReader] = BoundedCache(most)

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        if value is None and (schema is None or schema.is_optional):
            return None
        writing = self._writings.found((topic, schema), lambda: self._writing(topic, schema))
        try:
            return writing.codec.encode(writing.write(value), writing.head)
        except DataError as error:
            raise DataError(f"Failed to serialize Avro data from topic {topic}: {error}") from error
        except (TypeError, ValueError, OverflowError, KeyError, AttributeError, RecursionError) as error:
            if schema is not None:
                schema.validate_value(value)  # says which field
            raise DataError(f"Failed to serialize Avro data from topic {topic}: {error}") from error

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if value is None:
            return SchemaAndValue.NULL
        schema_id = id_in(value)
        reading = self._readings.found((topic, schema_id), lambda: self._reading(topic, schema_id))
        try:
            return SchemaAndValue(reading.schema, reading.read(reading.codec.decode(value, len(head_of(0)))))
        except DataError as error:
            raise DataError(
                f"Failed to deserialize data for topic {topic} to Avro (schema id {schema_id}): {error}"
            ) from error

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        """Columnar for all but schemaless data, and what columns_to_avro.py leaves to records."""
        import pyarrow as pa

        from kconnect.schema_registry.column_rules import NotInColumns

        if schema is None:
            return NotImplemented
        if schema.is_optional and column.null_count == len(column):
            return pa.nulls(len(column), pa.binary())  # tombstones, for which no schema is asked for
        writing = self._writings.found((topic, schema), lambda: self._writing(topic, schema))
        try:
            writer = self._column_writers.found(
                (topic, schema), lambda: _column_writer(schema, writing.avro, self._options)
            )
            return writer.write(column, writing.head)
        except NotInColumns:
            return NotImplemented

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | Any:  # Any: mypy takes NotImplemented for it
        """Columnar where all rows have one schema, or all are null, but for what columns_from_avro.py cannot read."""
        from kconnect.schema_registry.column_rules import NotInColumns
        from kconnect.schema_registry.columns_from_avro import head_of_all

        if column.null_count == len(column):
            return None, column
        head = head_of_all(column)
        if head is None:
            return NotImplemented
        schema_id = id_in(head)
        reading = self._readings.found((topic, schema_id), lambda: self._reading(topic, schema_id))
        schema = reading.schema
        if schema is None:
            return NotImplemented
        try:
            reader = self._column_readers.found((topic, schema_id), lambda: _column_reader(schema, reading.avro))
            return schema, reader.read(column)
        except NotInColumns:
            return NotImplemented

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return CONNECT_VERSION

    def _writing(self, topic: str, schema: Schema | None) -> _Writing:
        own = avro_of(schema, self._options)
        text = _ANYTHING_TEXT if schema is None else avro_text(own)
        AvroCodec(own)  # names that Avro forbids are refused before the registry has them
        subject = self._subjects.subject(topic, own)
        if self._registers or not self._uses_latest:
            schema_id = self._registry.id_of(subject, text, register=self._registers, normalize=self._normalizes)
            return _Writing(head_of(schema_id), own, AvroCodec(own), writer_of(schema, own, self._options))
        latest = self._registry.latest(subject)
        avro = _parsed(latest)
        try:
            write = writer_of(schema, avro, self._options)
            if self._is_strict:
                _require_fields(own, avro)
        except DataError as error:
            raise DataError(
                f"The newest schema of subject {subject} (id {latest.id}) does not fit the record: {error}",
                hint="Register a schema that does, or set latest.compatibility.strict=false to leave fields out.",
            ) from error
        return _Writing(head_of(latest.id), avro, AvroCodec(avro), write)

    def _reading(self, topic: str, schema_id: int) -> _Reading:
        registered = self._registry.schema(schema_id)
        avro = _parsed(registered)
        codec = AvroCodec(avro)
        if avro_text(avro) == _ANYTHING_TEXT:
            return _Reading(None, codec, schemaless_value, avro)
        version = self._registry.version_of(self._subjects.subject(topic, avro), registered)
        schema = connect_of(avro, version, self._options)
        return _Reading(schema, codec, reader_of(schema, avro), avro)


def _column_writer(schema: Schema, avro: AvroType, options: AvroOptions) -> ColumnWriter:
    from kconnect.schema_registry.columns_to_avro import ColumnWriter

    return ColumnWriter(schema, avro, options)


def _column_reader(schema: Schema, avro: AvroType) -> ColumnReader:
    from kconnect.schema_registry.columns_from_avro import ColumnReader

    return ColumnReader(schema, avro)


def _parsed(schema: RegisteredSchema) -> AvroType:
    return parse_avro(schema.text, schema.references)


def _require_fields(own: AvroType, newest: AvroType) -> None:
    """Errors: DataError for a field of the record that the newest schema has no place for."""
    lost = [entry.name for entry in own.fields if newest.field_named(entry.name) is None]
    if own.kind == newest.kind == "record" and lost:
        raise DataError(f"it has no field {lost[0]}")
