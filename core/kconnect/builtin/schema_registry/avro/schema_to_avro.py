"""Connect schema to Avro schema. Source: io.confluent.connect.avro.AvroData.fromConnectSchema."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilderError, Struct, Time, Timestamp, Type
from kconnect.builtin.schema_registry.avro.avro_names import (
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    INTERNAL_TYPE,
    MAP_ENTRY,
    NAMESPACE,
    PRECISION,
    RECORD_DOC,
    AvroOptions,
    is_enum,
    is_fixed,
    is_union,
)
from kconnect.builtin.schema_registry.avro.avro_schema import (
    NAMED,
    NO_DEFAULT,
    AvroField,
    AvroType,
    parse_avro,
    takes_default,
)
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_ENUM
from kconnect.java.compat.to_string import float_text

log = logging.getLogger(__name__)

_OPTIONAL: Final = ("boolean", "bytes", "double", "float", "int", "long", "string")
_PLAIN: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
}
_LOGICAL: Final = {
    Date.LOGICAL_NAME: "date",
    Time.LOGICAL_NAME: "time-millis",
    Timestamp.LOGICAL_NAME: "timestamp-millis",
}
TO_PLAIN: Final[Mapping[str, Callable[[Schema, Any], Any]]] = {
    Decimal.LOGICAL_NAME: Decimal.from_logical,
    Date.LOGICAL_NAME: Date.from_logical,
    Time.LOGICAL_NAME: Time.from_logical,
    Timestamp.LOGICAL_NAME: Timestamp.from_logical,
}


def _anything() -> AvroType:
    fields = ",".join(f'{{"name":"{name}","type":["null","{name}"],"default":null}}' for name in _OPTIONAL)
    entry = (
        '{"type":"record","name":"MapEntry","fields":[{"name":"key","type":"Anything"},'
        '{"name":"value","type":"Anything"}]}'
    )
    return parse_avro(
        f'{{"type":"record","name":"Anything","namespace":"{NAMESPACE}","fields":[{fields},'
        '{"name":"array","type":["null",{"type":"array","items":"Anything"}],"default":null},'
        f'{{"name":"map","type":["null",{{"type":"array","items":{entry}}}],"default":null}}]}}'
    )


ANYTHING: Final = _anything()
"""The schema of schemaless data: a record with one field for each type, all null but one."""


def avro_of(schema: Schema | None, options: AvroOptions) -> AvroType:
    """The Avro schema of a Connect schema, ANYTHING of none. Errors: DataError."""
    if schema is None:
        return ANYTHING
    try:
        return _Mapping(options).of(schema)
    except (SchemaBuilderError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{schema} cannot be written as an Avro schema: {error}") from error


class _Mapping:
    """One run over one schema; remembers what it has named."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._known: dict[Schema, AvroType] = {}
        self._structs: dict[str, AvroType] = {}
        self._seen: set[str] = set()
        self._unnamed = 0
        self._entries: dict[tuple[Schema, Schema], int] = {}

    def of(self, schema: Schema, *, ignore_optional: bool = False) -> AvroType:
        if not is_union(schema) and not schema.is_optional and schema in self._known:
            return self._known[schema]
        made = self._made(schema)
        if made.kind != "union":
            self._annotate(made, schema)
            if not ignore_optional:
                made = _optional(schema, made)
        if not schema.is_optional:
            self._known[schema] = made
        return made

    def _inside(self, schema: Schema | None, *, ignore_optional: bool = False) -> AvroType:
        if schema is None:
            return ANYTHING
        known = None if schema.name is None else self._structs.get(schema.name)
        if known is None:
            return self.of(schema, ignore_optional=ignore_optional)
        return known if ignore_optional else _optional(schema, known)

    def _made(self, schema: Schema) -> AvroType:
        kind = schema.type
        if kind in _PLAIN:
            return AvroType(_PLAIN[kind])
        if kind is Type.STRING:
            return self._enum(schema) if self._is_enum(schema) else AvroType("string")
        if kind is Type.BYTES:
            return self._bytes(schema)
        if kind is Type.ARRAY:
            return AvroType("array", item=self._inside(schema.value_schema))
        if kind is Type.MAP:
            return self._map(schema)
        if is_union(schema):
            members = [self._inside(_required(field.schema), ignore_optional=True) for field in schema.fields]
            return AvroType("union", branches=[AvroType("null"), *members] if schema.is_optional else members)
        if schema.is_optional:
            return AvroType("union", branches=[AvroType("null"), self._inside(_required(schema))])
        return self._record(schema)

    def _is_enum(self, schema: Schema) -> bool:
        return (self._options.generalized or self._options.enhanced) and is_enum(schema)

    def _enum(self, schema: Schema) -> AvroType:
        parameters = schema.parameters or {}
        kind = GENERAL_ENUM if self._options.generalized else ENUM
        symbols = [key[len(kind) + 1 :] for key in parameters if key.startswith(f"{kind}.")]
        simple = self._name(schema.name).rpartition(".")[2]
        made = AvroType("enum", parameters[kind], symbols=symbols)
        if self._options.discard_type_doc_default:
            made.doc = parameters.get("connect.enum.doc")
        else:
            made.doc, made.enum_default = parameters.get(ENUM_DOC + simple), parameters.get(ENUM_DEFAULT + simple)
        return made

    def _bytes(self, schema: Schema) -> AvroType:
        parameters = schema.parameters or {}
        made = AvroType("bytes")
        if is_fixed(schema):
            made = AvroType("fixed", self._name(schema.name), size=int(parameters[FIXED_SIZE]))
        if schema.name == Decimal.LOGICAL_NAME:
            made.props["scale"] = Decimal.scale(schema)
            made.props["precision"] = int(parameters.get(PRECISION, DEFAULT_PRECISION))
        return made

    def _map(self, schema: Schema) -> AvroType:
        if self._options.has_text_keys(schema):
            return AvroType("map", item=self._inside(schema.value_schema))
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        entry = AvroType("record", f"{NAMESPACE}.{MAP_ENTRY}")
        if schema.name is not None:
            entry.name = self._name(schema.name)
            entry.props[INTERNAL_TYPE] = MAP_ENTRY
        else:
            # Java gives all of them one name, and cannot write a schema that has two
            number = self._entries.setdefault((schema.key_schema, schema.value_schema), len(self._entries) + 1)
            if number > 1:
                entry.name = f"{entry.name}{number}"
                entry.props[INTERNAL_TYPE] = MAP_ENTRY
        entry.fields = [self._field("key", schema.key_schema, None), self._field("value", schema.value_schema, None)]
        return AvroType("array", item=entry)

    def _record(self, schema: Schema) -> AvroType:
        parameters = schema.parameters or {}
        discard = self._options.discard_type_doc_default
        made = AvroType(
            "record", self._name(schema.name), parameters.get("connect.record.doc" if discard else RECORD_DOC)
        )
        if schema.name is not None:
            self._structs[schema.name] = made
        for field in schema.fields:
            doc = None if discard else parameters.get(FIELD_DOC + field.name)
            made.fields.append(self._field(self._options.scrub_name(field.name), field.schema, doc))
        return made

    def _field(self, name: str, schema: Schema, doc: str | None) -> AvroField:
        default: Any = NO_DEFAULT
        if schema.default is not None:
            default = default_json(schema, schema.default, self._options)
        elif schema.is_optional:
            default = None
        scrubbed = None if schema.name is None else self._options.scrub_full_name(schema.name)
        already = scrubbed is not None and scrubbed in self._seen
        if scrubbed is not None:
            self._seen.add(scrubbed)
        made = AvroField(name, self.of(schema), schema.doc if self._options.discard_type_doc_default else doc, default)
        if default is not NO_DEFAULT and not takes_default(made.type, default):
            log.warning("The default of field %s is none in Avro and is left out.", name)
            made.default = NO_DEFAULT
        parameters = self._parameters(schema)
        if self._options.meta_data and already and parameters and _is_named(made.type):
            made.props["connect.parameters"] = parameters
        return made

    def _annotate(self, made: AvroType, schema: Schema) -> None:
        """What Avro has no place for goes into properties, in the order in which Java adds them."""
        props = made.props
        if self._options.meta_data:
            if schema.doc is not None:
                props["connect.doc"] = schema.doc
            if schema.version is not None:
                props["connect.version"] = schema.version
            if parameters := self._parameters(schema):
                props["connect.parameters"] = parameters
            flagged = not self._options.discard_type_doc_default and FIELD_DEFAULT in (schema.parameters or ())
            if schema.default is not None and not flagged:
                props["connect.default"] = default_json(schema, schema.default, self._options)
            if schema.name is not None:
                props["connect.name"] = schema.name
            if schema.type in (Type.INT8, Type.INT16):
                props["connect.type"] = schema.type.value
        if schema.name == Decimal.LOGICAL_NAME:
            props["logicalType"] = "decimal"
        elif schema.name in _LOGICAL:
            props["logicalType"] = _LOGICAL[schema.name]
        for key, value in (schema.parameters or {}).items():
            if key.startswith("avro"):
                props[key] = value

    def _parameters(self, schema: Schema) -> dict[str, str]:
        discard = self._options.discard_type_doc_default
        return {key: value for key, value in (schema.parameters or {}).items() if discard or key != FIELD_DEFAULT}

    def _name(self, name: str | None) -> str:
        if name is not None:
            return self._options.scrub_full_name(name)
        self._unnamed += 1
        return f"{DEFAULT_NAME}{self._unnamed if self._unnamed > 1 else ''}"


def default_json(schema: Schema, value: Any, options: AvroOptions) -> Any:
    """A Connect value as JSON for a default. Errors: DataError."""
    if value is None:
        return None
    plain = TO_PLAIN.get(schema.name or "")
    if plain is not None:
        value = plain(schema, value)
    kind = schema.type
    if kind is Type.BYTES:
        return bytes(value).decode("latin-1")
    if kind is Type.FLOAT32:
        return float(float_text(value))  # 0.1 as in Java, not 0.10000000149011612: another schema to the registry
    if kind is Type.ARRAY:
        assert schema.value_schema is not None
        return [default_json(schema.value_schema, element, options) for element in value]
    if kind is Type.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        if options.has_text_keys(schema):
            return {key: default_json(schema.value_schema, element, options) for key, element in value.items()}
        return [
            [default_json(schema.key_schema, key, options), default_json(schema.value_schema, element, options)]
            for key, element in value.items()
        ]
    if kind is not Type.STRUCT:
        return value
    if not isinstance(value, Struct):
        raise DataError(f"The default of {schema} is not a struct.")
    found = {
        options.scrub_name(field.name): default_json(field.schema, value[field.name], options)
        for field in schema.fields
    }
    return next(iter(found.values()), None) if is_union(schema) else found


def _optional(schema: Schema, made: AvroType) -> AvroType:
    if not schema.is_optional:
        return made
    null = AvroType("null")
    return AvroType("union", branches=[made, null] if schema.default is not None else [null, made])


def _required(schema: Schema) -> Schema:
    if not schema.is_optional:
        return schema
    inner: dict[str, Any] = {}
    if schema.type is Type.STRUCT:
        inner["fields"] = schema.fields
    elif schema.type is Type.MAP:
        inner = {"key_schema": schema.key_schema, "value_schema": schema.value_schema}
    elif schema.type is Type.ARRAY:
        inner["value_schema"] = schema.value_schema
    return Schema(
        schema.type, False, schema.default, schema.name, schema.version, schema.doc, schema.parameters, **inner
    )


def _is_named(avro: AvroType) -> bool:
    return avro.kind in NAMED or any(branch.kind in NAMED for branch in avro.branches)
