"""AvroConverter: Avro in Confluent's wire format, with schemas in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigDef, Converter, DataError, Headers, Schema, SchemaAndValue
from kconnect.api.columns import column_of, values_of
from kconnect.builtin.schema_registry.avro.avro_codec import AvroCodec
from kconnect.builtin.schema_registry.avro.avro_names import AvroOptions
from kconnect.builtin.schema_registry.avro.avro_schema import AvroType, avro_text, parse_avro
from kconnect.builtin.schema_registry.avro.avro_values import Reader, Writer, reader_of, schemaless_value, writer_of
from kconnect.builtin.schema_registry.avro.schema_from_avro import connect_of
from kconnect.builtin.schema_registry.avro.schema_to_avro import ANYTHING, avro_of
from kconnect.builtin.schema_registry.registry.registration import (
    CACHE_SIZE,
    define_registration,
    define_rows,
    latest_misfit,
    registration_of,
)
from kconnect.builtin.schema_registry.registry.registry_client import BoundedCache, RegisteredSchema
from kconnect.builtin.schema_registry.registry.registry_http import RegistryTransport
from kconnect.builtin.schema_registry.registry.wire import head_of, id_in
from kconnect.model import CONNECT_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.builtin.schema_registry.avro.columns_from_avro import ColumnReader
    from kconnect.builtin.schema_registry.avro.columns_to_avro import ColumnWriter

_ANYTHING_TEXT: Final = avro_text(ANYTHING)

FEW_ROWS, FEW_BYTES = 32, 8192
"""Batches up to both go record by record. Measured on rows of six fields, in us for each row to be
written and read: one row takes 55 and 73 by records, 548 and 693 in columns; ten rows 16 and 14, 58 and 71; a hundred
11 and 8, 6 and 8. Rows of long arrays are worth columns from ten on, hence the bytes.
"""

_META: Final = "Write what Avro has no place for (name, version, parameters, default) into the schema."
_GENERAL: Final = "Map unions and enums in the form that all of Confluent's converters share."


def define_mapping(table: ConfigDef) -> ConfigDef:
    """Add what shapes the mapping to a table, which is given back. Source: AvroDataConfig."""
    kind, medium, low = ConfigDef.Type, ConfigDef.Importance.MEDIUM, ConfigDef.Importance.LOW
    rows: tuple[tuple[str, Any, Any, Any, str], ...] = (
        ("enhanced.avro.schema.support", kind.BOOLEAN, False, medium, "Keep enums and packages."),
        ("scrub.invalid.names", kind.BOOLEAN, False, medium, "Replace characters of names that Avro does not allow."),
        ("connect.meta.data", kind.BOOLEAN, True, low, _META),
        ("generalized.sum.type.support", kind.BOOLEAN, False, medium, _GENERAL),
        ("discard.type.doc.default", kind.BOOLEAN, False, low, "Keep only the documentation and defaults of fields."),
        ("allow.optional.map.keys", kind.BOOLEAN, False, low, "Write maps whose text keys are optional as Avro maps."),
        ("flatten.singleton.unions", kind.BOOLEAN, True, low, "Take a union of one schema for that schema."),
        ("ignore.default.for.nullables", kind.BOOLEAN, False, low, "Write null in spite of a default."),
    )  # fmt: skip
    return define_rows(table, rows)


CONFIG = define_mapping(define_registration())


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
        self._registration = registration_of(
            config, configs, is_key=is_key, schema_type="AVRO", transport=self._transport
        )
        most = config[CACHE_SIZE]
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

        from kconnect.builtin.schema_registry.avro.column_rules import NotInColumns

        if schema is None:
            return NotImplemented
        if schema.is_optional and column.null_count == len(column):
            return pa.nulls(len(column), pa.binary())  # tombstones, for which no schema is asked for
        if _is_few(column) and (few := self._few_to_bytes(topic, schema, column)) is not None:
            return few
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
        from kconnect.builtin.schema_registry.avro.column_rules import NotInColumns
        from kconnect.builtin.schema_registry.avro.columns_from_avro import head_of_all

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
        if _is_few(column) and (few := self._few_to_column(topic, schema, column)) is not None:
            return schema, few
        try:
            reader = self._column_readers.found((topic, schema_id), lambda: _column_reader(schema, reading.avro))
            return schema, reader.read(column)
        except NotInColumns:
            return NotImplemented

    def _few_to_bytes(self, topic: str, schema: Schema, column: pa.Array) -> pa.BinaryArray | None:
        """What columns would give, by records; None where a record fails, as columns say what to do then."""
        import pyarrow as pa

        try:
            values = values_of(schema, column, len(column))
            return pa.array([self.from_connect_data(topic, schema, value) for value in values], pa.binary())
        except _RECORD_ERRORS:
            return None

    def _few_to_column(self, topic: str, schema: Schema, column: pa.BinaryArray) -> pa.Array | None:
        """Works as above, for reading."""
        try:
            return column_of(schema, [self.to_connect_data(topic, data).value for data in column.to_pylist()])
        except _RECORD_ERRORS:
            return None

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return CONNECT_VERSION

    def _writing(self, topic: str, schema: Schema | None) -> _Writing:
        own = avro_of(schema, self._options)
        text = _ANYTHING_TEXT if schema is None else avro_text(own)
        AvroCodec(own)  # names that Avro forbids are refused before the registry has them
        registration = self._registration
        subject = registration.subjects.subject(topic, own.name)
        if not registration.takes_latest:
            head = head_of(registration.id_of(subject, text))
            return _Writing(head, own, AvroCodec(own), writer_of(schema, own, self._options))
        latest = registration.registry.latest(subject)
        avro = _parsed(latest)
        try:
            write = writer_of(schema, avro, self._options)
            if registration.is_strict:
                _require_fields(own, avro)
        except DataError as error:
            raise latest_misfit(subject, latest.id, error) from error
        return _Writing(head_of(latest.id), avro, AvroCodec(avro), write)

    def _reading(self, topic: str, schema_id: int) -> _Reading:
        registration = self._registration
        registered = registration.registry.schema(schema_id)
        avro = _parsed(registered)
        codec = AvroCodec(avro)
        if avro_text(avro) == _ANYTHING_TEXT:
            return _Reading(None, codec, schemaless_value, avro)
        version = registration.registry.version_of(registration.subjects.subject(topic, avro.name), registered)
        schema = connect_of(avro, version, self._options)
        return _Reading(schema, codec, reader_of(schema, avro), avro)


# Of values that a column has and a record has not, or the other way round; a registry that is away is none of them
_RECORD_ERRORS: Final = (DataError, TypeError, ValueError, OverflowError, AttributeError)


def _is_few(column: pa.Array) -> bool:
    return len(column) <= FEW_ROWS and column.nbytes <= FEW_BYTES


def _column_writer(schema: Schema, avro: AvroType, options: AvroOptions) -> ColumnWriter:
    from kconnect.builtin.schema_registry.avro.columns_to_avro import ColumnWriter

    return ColumnWriter(schema, avro, options)


def _column_reader(schema: Schema, avro: AvroType) -> ColumnReader:
    from kconnect.builtin.schema_registry.avro.columns_from_avro import ColumnReader

    return ColumnReader(schema, avro)


def _parsed(schema: RegisteredSchema) -> AvroType:
    return parse_avro(schema.text, dict.fromkeys(schema.references.values()))


def _require_fields(own: AvroType, newest: AvroType) -> None:
    """Errors: DataError for a field of the record that the newest schema has no place for."""
    lost = [entry.name for entry in own.fields if newest.field_named(entry.name) is None]
    if own.kind == newest.kind == "record" and lost:
        raise DataError(f"it has no field {lost[0]}")
