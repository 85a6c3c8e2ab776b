"""Avro schema to Connect schema. Source: io.confluent.connect.avro.AvroData.toConnectSchema."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    Schema,
    SchemaBuilder,
    SchemaBuilderError,
    Struct,
    Time,
    Timestamp,
    Type,
)
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
    UNION,
    AvroOptions,
    is_union,
)
from kconnect.builtin.schema_registry.avro.avro_schema import NO_DEFAULT, AvroField, AvroType
from kconnect.builtin.schema_registry.registry.general_names import (
    GENERAL_ENUM,
    GENERAL_UNION,
    GENERAL_UNION_FIELD,
    GENERAL_UNION_NAME,
)

log = logging.getLogger(__name__)

_SIMPLE: Final = {
    "boolean": SchemaBuilder.bool,
    "double": SchemaBuilder.float64,
    "float": SchemaBuilder.float32,
    "string": SchemaBuilder.string,
}
TO_LOGICAL: Final[Mapping[str, Callable[[Schema, Any], Any]]] = {
    Decimal.LOGICAL_NAME: Decimal.to_logical,
    Date.LOGICAL_NAME: Date.to_logical,
    Time.LOGICAL_NAME: Time.to_logical,
    Timestamp.LOGICAL_NAME: Timestamp.to_logical,
}


def connect_of(avro: AvroType, version: int | None, options: AvroOptions) -> Schema:
    """The Connect schema; `version` is the registry's, taken if the schema has no connect.version of its own.

    Differs: generalized unions are numbered in each schema, where Java counts all that a converter has read.
    Errors: DataError, also for a schema that refers to itself: a Connect schema of ours is finite.
    """
    try:
        return _Mapping(options).of(avro, version=version)
    except SchemaBuilderError as error:
        raise DataError(f"The Avro schema {avro.name or avro.kind} cannot be a Connect schema: {error}") from error


def union_member_name(avro: AvroType, index: int, options: AvroOptions) -> str:
    """The field that a branch of a union has in its struct."""
    if options.generalized:
        return f"{GENERAL_UNION_FIELD}{index}"
    if avro.name is None:
        return avro.kind
    return avro.name if options.enhanced else avro.simple_name


def optional_branch(avro: AvroType) -> AvroType | None:
    """The other branch of a union of null and one more; None for any other schema."""
    if avro.kind != "union" or len(avro.branches) != 2:
        return None
    others = [branch for branch in avro.branches if branch.kind != "null"]
    return others[0] if len(others) == 1 else None


def is_map_entry(avro: AvroType) -> bool:
    if avro.kind != "record":
        return False
    return avro.name == f"{NAMESPACE}.{MAP_ENTRY}" or avro.props.get(INTERNAL_TYPE) == MAP_ENTRY


class _Mapping:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._open: list[AvroType] = []
        self._unions = itertools.count()

    def of(
        self,
        avro: AvroType,
        *,
        optional: bool = False,
        default: Any = NO_DEFAULT,
        doc: str | None = None,
        version: int | None = None,
    ) -> Schema:
        """`default` and `doc` are those of the field that has this schema."""
        inner = self._looked_through(avro)
        if inner is not None:
            return self.of(inner, optional=avro.kind == "union" and len(avro.branches) == 2, doc=doc)
        if avro in self._open:
            raise DataError(
                f"The Avro schema {avro.name} refers to itself, which a Connect schema cannot.",
                hint="Write such data as JSON text in a string, or leave the field out.",
            )
        self._open.append(avro)
        try:
            builder = self._builder(avro)
        finally:
            self._open.pop()
        self._doc(builder, avro, doc)
        self._version(builder, avro, version)
        self._parameters(builder, avro)
        self._default(builder, avro, default)
        self._name(builder, avro)
        return builder.optional().build() if optional else builder.build()

    def _looked_through(self, avro: AvroType) -> AvroType | None:
        if avro.kind != "union":
            return None
        if len(avro.branches) == 1 and self._options.flatten_singleton_unions:
            return avro.branches[0]
        return optional_branch(avro)

    def _builder(self, avro: AvroType) -> SchemaBuilder:
        kind, logical = avro.kind, str(avro.props.get("logicalType", "")).lower()
        if kind in _SIMPLE:
            return _SIMPLE[kind]()
        if kind in ("bytes", "fixed"):
            return _bytes(avro, logical)
        if kind == "int":
            return _int(avro, logical)
        if kind == "long":
            return Timestamp.builder() if logical == "timestamp-millis" else SchemaBuilder.int64()
        if kind == "array":
            return self._array(avro.inner)
        if kind == "map":
            return SchemaBuilder.map(Schema.STRING_SCHEMA, self.of(avro.inner))
        if kind == "record":
            return self._record(avro)
        if kind == "enum":
            return self._enum(avro)
        if kind == "union":
            return self._union(avro)
        raise DataError("Standalone null schemas are not supported by this converter")

    def _array(self, item: AvroType) -> SchemaBuilder:
        if not is_map_entry(item):
            return SchemaBuilder.array(self.of(item))
        key, value = item.field_named("key"), item.field_named("value")
        if len(item.fields) != 2 or key is None or value is None:
            raise DataError(
                "Found map encoded as array of key-value pairs, but array elements do not match the expected format."
            )
        return SchemaBuilder.map(self.of(key.type), self.of(value.type))

    def _record(self, avro: AvroType) -> SchemaBuilder:
        builder = SchemaBuilder.struct()
        tells = self._options.meta_data and not self._options.discard_type_doc_default
        if tells and avro.doc is not None:
            builder.parameter(RECORD_DOC, avro.doc)
        for field in avro.fields:
            if tells and field.doc is not None:
                builder.parameter(FIELD_DOC + field.name, field.doc)
            builder.field(field.name, self._field(field))
        return builder

    def _field(self, field: AvroField) -> Schema:
        made = self.of(field.type, default=field.default, doc=field.doc)
        extra = field.props.get("connect.parameters")
        if not self._options.meta_data or not isinstance(extra, dict):
            return made
        return _with_parameters(made, {str(key): str(value) for key, value in extra.items()})

    def _enum(self, avro: AvroType) -> SchemaBuilder:
        builder = SchemaBuilder.string()
        discard = self._options.discard_type_doc_default
        if self._options.meta_data:
            if avro.doc is not None:
                builder.parameter("connect.enum.doc" if discard else ENUM_DOC + avro.simple_name, avro.doc)
            if not discard and avro.enum_default is not None:
                builder.parameter(ENUM_DEFAULT + avro.simple_name, avro.enum_default)
        kind = GENERAL_ENUM if self._options.generalized else ENUM
        builder.parameter(kind, avro.name or "")
        for index, symbol in enumerate(avro.symbols):
            builder.parameter(f"{kind}.{symbol}", str(index) if self._options.generalized else symbol)
        return builder

    def _union(self, avro: AvroType) -> SchemaBuilder:
        builder = SchemaBuilder.struct()
        if self._options.generalized:
            name = f"{GENERAL_UNION_NAME}{next(self._unions)}"
            builder.name(name).parameter(GENERAL_UNION, name)
        else:
            builder.name(UNION)
        names: set[str] = set()
        for index, branch in enumerate(avro.branches):
            if branch.kind == "null":
                builder.optional()
                continue
            name = union_member_name(branch, index, self._options)
            if name in names:
                raise DataError("Multiple union schemas map to the Connect union field name")
            names.add(name)
            builder.field(name, self.of(branch, optional=True))
        return builder

    def _doc(self, builder: SchemaBuilder, avro: AvroType, doc: str | None) -> None:
        own = avro.props.get("connect.doc")
        if not self._options.discard_type_doc_default:
            if self._options.meta_data and own is not None:
                builder.doc(own)
            return
        found = doc if doc is not None else avro.doc if avro.doc is not None else own
        if found is not None:
            builder.doc(found)
        if self._options.meta_data and avro.doc is not None:
            builder.parameter("connect.record.doc", avro.doc)

    def _version(self, builder: SchemaBuilder, avro: AvroType, version: int | None) -> None:
        own = avro.props.get("connect.version")
        if own is not None and (not isinstance(own, int) or isinstance(own, bool)):
            raise DataError(f"Invalid Connect version found: {own}")
        found = version if own is None else own
        if found is not None and found >= 0 and (own is not None or builder.build().version is None):
            builder.version(found)

    def _parameters(self, builder: SchemaBuilder, avro: AvroType) -> None:
        parameters = avro.props.get("connect.parameters")
        if self._options.meta_data and parameters is not None:
            if not isinstance(parameters, dict):
                raise DataError(f"Expected JSON object for schema parameters but found: {parameters}")
            for key, value in parameters.items():
                if not isinstance(value, str):
                    raise DataError(f"Expected schema parameter values to be strings but found: {value}")
                builder.parameter(key, value)
        for key, value in avro.props.items():
            if key.startswith("avro"):
                builder.parameter(key, value if isinstance(value, str) else str(value))

    def _default(self, builder: SchemaBuilder, avro: AvroType, default: Any) -> None:
        own = avro.props.get("connect.default", NO_DEFAULT)
        if default is NO_DEFAULT:
            default = own
        elif not self._options.discard_type_doc_default and self._options.meta_data and own is NO_DEFAULT:
            builder.parameter(FIELD_DEFAULT, "true")
        if default is NO_DEFAULT or default is None:
            return
        try:
            builder.default(default_value(builder.build(), avro, default, self._options))
        except (DataError, SchemaBuilderError, TypeError, ValueError, KeyError, AttributeError) as error:
            log.warning("The default of schema %s is invalid and is left out: %s", avro.name or avro.kind, error)

    def _name(self, builder: SchemaBuilder, avro: AvroType) -> None:
        present = builder.build().name
        name = avro.props.get("connect.name")
        if name is not None and not isinstance(name, str):
            raise DataError(f"Invalid schema name: {name}")
        if name is None and (avro.kind in ("record", "enum") or (avro.kind == "fixed" and present is None)):
            name = avro.name
        if name is None or name.startswith(DEFAULT_NAME):
            return
        if present is not None and present != name:
            raise DataError(
                f"Mismatched names: name already added to SchemaBuilder ({present}) differs from name in source schema "
                f"({name})"
            )
        builder.name(name)


def _bytes(avro: AvroType, logical: str) -> SchemaBuilder:
    builder = SchemaBuilder.bytes()
    if logical == "decimal":
        scale, precision = avro.props.get("scale"), avro.props.get("precision")
        builder = Decimal.builder(scale if isinstance(scale, int) else 0)
        if precision is not None and not isinstance(precision, int):
            raise DataError(
                "precision property must be a JSON Integer. https://avro.apache.org/docs/1.9.1/spec.html#Decimal"
            )
        if precision is not None and precision != DEFAULT_PRECISION:
            builder.parameter(PRECISION, str(precision))
    if avro.kind == "fixed":
        builder.parameter(FIXED_SIZE, str(avro.size))
    return builder


def _int(avro: AvroType, logical: str) -> SchemaBuilder:
    if logical == "date":
        return Date.builder()
    if logical == "time-millis":
        return Time.builder()
    kind = avro.props.get("connect.type")
    if logical or kind is None:
        return SchemaBuilder.int32()
    if kind not in ("int8", "int16"):
        raise DataError("Connect type annotation for Avro int field is null")
    return SchemaBuilder(Type(kind))


def _with_parameters(schema: Schema, extra: dict[str, str]) -> Schema:
    present = dict(schema.parameters or {})
    if all(present.get(key) == value for key, value in extra.items()):
        return schema
    inner: dict[str, Any] = {"fields": schema.fields} if schema.type is Type.STRUCT else {}
    merged = {**present, **extra}
    return Schema(
        schema.type, schema.is_optional, schema.default, schema.name, schema.version, schema.doc, merged, **inner
    )


def default_value(schema: Schema, avro: AvroType, default: Any, options: AvroOptions) -> Any:
    """The Connect value of a default in JSON. Errors: DataError and those of values that do not fit."""
    if default is None:
        return None
    inner = optional_branch(avro) or (avro.branches[0] if avro.kind == "union" and not is_union(schema) else None)
    if inner is not None:
        return default_value(schema, inner, default, options)
    kind = avro.kind
    if kind == "union":
        if avro.branches[0].kind == "null":
            return None
        field = schema.field(union_member_name(avro.branches[0], 0, options))
        assert field is not None
        return Struct(schema, {field.name: default_value(field.schema, avro.branches[0], default, options)})
    if kind in ("float", "double"):
        found: Any = float(default)
    elif kind in ("bytes", "fixed"):
        found = default.encode("latin-1")
    elif kind == "array":
        found = _default_array(schema, avro, default, options)
    elif kind == "map":
        assert schema.value_schema is not None
        found = {key: default_value(schema.value_schema, avro.inner, item, options) for key, item in default.items()}
    elif kind == "record":
        found = Struct(schema)
        for entry, field in zip(avro.fields, schema.fields, strict=True):
            given = default.get(entry.name, None if entry.default is NO_DEFAULT else entry.default)
            found.put(field, default_value(field.schema, entry.type, given, options))
    else:
        found = default
    logical = TO_LOGICAL.get(schema.name or "")
    return found if logical is None else logical(schema, found)


def _default_array(schema: Schema, avro: AvroType, default: Any, options: AvroOptions) -> Any:
    assert schema.value_schema is not None
    if schema.type is not Type.MAP:
        return [default_value(schema.value_schema, avro.inner, item, options) for item in default]
    assert schema.key_schema is not None
    key, value = (entry.type for entry in avro.inner.fields)
    return {
        default_value(schema.key_schema, key, pair[0], options): default_value(
            schema.value_schema, value, pair[1], options
        )
        for pair in default
    }
