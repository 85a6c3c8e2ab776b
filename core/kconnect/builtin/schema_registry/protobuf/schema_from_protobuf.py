"""Protobuf message to Connect schema. Source: io.confluent.connect.protobuf.ProtobufData.toConnectSchema."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    Schema,
    SchemaBuilder,
    SchemaBuilderError,
    Time,
    Timestamp,
    Type,
)
from kconnect.builtin.schema_registry.protobuf.field_params import params_of
from kconnect.builtin.schema_registry.protobuf.protobuf_names import (
    CONNECT_TYPE,
    MAP_ENTRY,
    PRECISION,
    TAG,
    TYPE,
    UNION,
    WRAPPED,
    WRAPPER,
    ProtobufOptions,
    map_name,
)
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_UNION

_TYPES: Final = {
    FieldDescriptor.TYPE_INT32: Type.INT32,
    FieldDescriptor.TYPE_SINT32: Type.INT32,
    FieldDescriptor.TYPE_SFIXED32: Type.INT32,
    FieldDescriptor.TYPE_UINT32: Type.INT64,
    FieldDescriptor.TYPE_FIXED32: Type.INT64,
    FieldDescriptor.TYPE_INT64: Type.INT64,
    FieldDescriptor.TYPE_UINT64: Type.INT64,
    FieldDescriptor.TYPE_SINT64: Type.INT64,
    FieldDescriptor.TYPE_FIXED64: Type.INT64,
    FieldDescriptor.TYPE_SFIXED64: Type.INT64,
    FieldDescriptor.TYPE_FLOAT: Type.FLOAT32,
    FieldDescriptor.TYPE_DOUBLE: Type.FLOAT64,
    FieldDescriptor.TYPE_BOOL: Type.BOOLEAN,
    FieldDescriptor.TYPE_STRING: Type.STRING,
    FieldDescriptor.TYPE_BYTES: Type.BYTES,
}
_PLAIN_INTS: Final = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)
_SMALL: Final = {"int8": Type.INT8, "int16": Type.INT16}
_LOGICAL: Final = {
    "google.type.Date": Date.builder,
    "google.type.TimeOfDay": Time.builder,
    "google.protobuf.Timestamp": Timestamp.builder,
}


def connect_of(message: Descriptor, version: int | None, options: ProtobufOptions) -> Schema:
    """The Connect schema; `version` is the registry's.

    Errors: DataError, also for a message that contains itself: a Connect schema of ours is finite.
    """
    try:
        return _Mapping(options).root(message).version(version).build()
    except SchemaBuilderError as error:
        raise DataError(f"The Protobuf message {message.full_name} cannot be a Connect schema: {error}") from error


class Parts:
    """The fields and oneofs of a message, as they were written."""

    def __init__(self, message: Descriptor) -> None:
        proto = DescriptorProto()
        message.CopyToProto(proto)
        self._optional = {field.name for field in proto.field if field.proto3_optional}
        # A field that is `optional` in proto3 has a oneof of its own, which nobody wrote.
        self.oneofs: list[OneofDescriptor] = [
            oneof for oneof in message.oneofs if oneof.fields[0].name not in self._optional
        ]
        members = {field.name for oneof in self.oneofs for field in oneof.fields}
        self.fields: list[FieldDescriptor] = [field for field in message.fields if field.name not in members]

    def is_proto3_optional(self, field: FieldDescriptor) -> bool:
        return field.name in self._optional

    def is_optional(self, field: FieldDescriptor) -> bool:
        """Whether a field is marked `optional`, in proto2 or proto3, or has a message as in proto3."""
        if field.is_repeated or field.is_required:
            return False
        return self.is_proto3_optional(field) or (field.has_presence and field.containing_oneof is None)


def is_map(field: FieldDescriptor) -> bool:
    """Whether a repeated field has the entries of a map."""
    entry = field.message_type
    if not field.is_repeated or entry is None or not entry.name.endswith(MAP_ENTRY):
        return False
    return [(part.name, part.is_repeated) for part in entry.fields] == [("key", False), ("value", False)]


def union_name(oneof: OneofDescriptor, options: ProtobufOptions) -> str:
    """The field of a struct that a oneof becomes."""
    return f"{oneof.name}_{oneof.index}" if options.index_for_unions else oneof.name


class _Mapping:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._open: list[str] = []

    def root(self, message: Descriptor) -> SchemaBuilder:
        wrapped = WRAPPED.get(message.full_name) if self._options.wrapper_for_raw_primitives else None
        return self._struct(message) if wrapped is None else SchemaBuilder(wrapped)

    def _struct(self, message: Descriptor) -> SchemaBuilder:
        if message.full_name in self._open:
            raise DataError(
                f"The Protobuf message {message.full_name} contains itself, which a Connect schema cannot.",
                hint="Write such data as JSON text in a string, or leave the field out.",
            )
        self._open.append(message.full_name)
        builder = SchemaBuilder.struct().name(self._name(message.name, message.full_name))
        parts = Parts(message)
        for oneof in parts.oneofs:
            if self._options.flatten_unions:
                for member in oneof.fields:
                    builder.field(member.name, self._field(member, in_union=True))
            else:
                builder.field(union_name(oneof, self._options), self._union(oneof))
        for field in parts.fields:
            builder.field(field.name, self._field(field, is_optional=parts.is_optional(field)))
        self._open.pop()
        return builder

    def _union(self, oneof: OneofDescriptor) -> Schema:
        builder = SchemaBuilder.struct().optional()
        if self._options.generalized:
            builder.name(oneof.name).parameter(GENERAL_UNION, oneof.name)
        else:
            builder.name(f"{UNION}.{self._name(oneof.name, oneof.full_name)}")
        for member in oneof.fields:
            builder.field(member.name, self._field(member, in_union=True))
        return builder.build()

    def _field(self, field: FieldDescriptor, *, is_optional: bool = False, in_union: bool = False) -> Schema:
        builder = self._value(field)
        is_nullable = field.message_type is not None or field.enum_type is not None
        if field.is_repeated and not is_map(field):
            builder = SchemaBuilder.array(builder.optional())
            is_nullable = True
        if in_union:
            is_nullable = True
            if self._options.wrapper_for_nullables and _is_wrapped(field):
                builder.parameter(WRAPPER, "true")
        elif self._options.optional_for_nullables:
            is_nullable = is_nullable or is_optional
        elif not self._options.wrapper_for_nullables:
            is_nullable = True
        if is_nullable:
            builder.optional()
        return builder.parameter(TAG, str(field.number)).build()

    def _value(self, field: FieldDescriptor) -> SchemaBuilder:
        if field.enum_type is not None:
            return self._enum(field)
        if field.message_type is not None:
            return self._message(field)
        kind = _TYPES.get(field.type)
        if kind is None:
            raise DataError(f"Unknown Connect schema type: the field {field.full_name} is a group")
        if kind is Type.INT32:
            kind = _SMALL.get(params_of(field).get(CONNECT_TYPE, ""), kind)
        builder = SchemaBuilder(kind)
        if kind in (Type.INT32, Type.INT64) and field.type not in _PLAIN_INTS:
            builder.parameter(TYPE, _type_name(field))
        return builder

    def _message(self, field: FieldDescriptor) -> SchemaBuilder:
        message = field.message_type
        assert message is not None
        if message.full_name == "confluent.type.Decimal":
            return _decimal(params_of(field))
        logical = _LOGICAL.get(message.full_name)
        if logical is not None:
            return logical()
        if self._options.wrapper_for_nullables and _is_wrapped(field):
            return SchemaBuilder(WRAPPED[message.full_name])
        if not is_map(field):
            return self._struct(message)
        key, value = message.fields
        name = map_name(self._name(message.name, message.full_name))
        return SchemaBuilder.map(self._field(key), self._field(value)).name(name)

    def _enum(self, field: FieldDescriptor) -> SchemaBuilder:
        enum = field.enum_type
        assert enum is not None
        builder = SchemaBuilder.int32() if self._options.int_for_enums else SchemaBuilder.string()
        parameter = self._options.enum_parameter
        builder.name(self._name(enum.name, enum.full_name)).parameter(parameter, enum.name)
        for value in enum.values:
            builder.parameter(f"{parameter}.{value.name}", str(value.number))
        return builder

    def _name(self, name: str, full_name: str) -> str:
        return full_name if self._options.enhanced else name


def _is_wrapped(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name in WRAPPED


def _type_name(field: FieldDescriptor) -> str:
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()  # type: ignore[arg-type]  # its int


def _decimal(params: dict[str, str]) -> SchemaBuilder:
    builder = Decimal.builder(_whole(params.get("scale")) or 0)
    precision = _whole(params.get("precision"))
    return builder if precision is None else builder.parameter(PRECISION, str(precision))


def _whole(text: str | None) -> int | None:
    """The number in a parameter, which counts for nothing if it is none."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
