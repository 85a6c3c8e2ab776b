"""Connect schemas as Protobuf files, and back. Source: io.confluent.connect.protobuf.ProtobufData."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilder, SchemaBuilderError, Time, Timestamp, Type
from kconnect.builtin.schema_registry.protobuf.field_params import params_of, set_params
from kconnect.builtin.schema_registry.protobuf.proto_parser import LABELS, typed
from kconnect.builtin.schema_registry.protobuf.protobuf_names import (
    CONNECT_TYPE,
    ENUM,
    LOCATIONS,
    LOGICAL_TYPES,
    MAP_ENTRY,
    PRECISION,
    TAG,
    TYPE,
    UNION,
    WRAPPED,
    WRAPPER,
    NumberedNames,
    ProtobufOptions,
    is_enum,
    is_union,
    map_entry,
    map_name,
)
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_ENUM, GENERAL_UNION

_SCALARS: Final = {
    Type.INT8: ("int32", "Int32Value"),
    Type.INT16: ("int32", "Int32Value"),
    Type.INT32: ("int32", "Int32Value"),
    Type.INT64: ("int64", "Int64Value"),
    Type.FLOAT32: ("float", "FloatValue"),
    Type.FLOAT64: ("double", "DoubleValue"),
    Type.BOOLEAN: ("bool", "BoolValue"),
    Type.STRING: ("string", "StringValue"),
    Type.BYTES: ("bytes", "BytesValue"),
}
_UNSIGNED: Final = {
    "uint32": "UInt32Value",
    "fixed32": "UInt32Value",
    "uint64": "UInt64Value",
    "fixed64": "UInt64Value",
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def file_of(schema: Schema, options: ProtobufOptions) -> tuple[FileDescriptorProto, str]:
    """The file that describes values of a schema, and the full name of the message in it that they are.

    Errors: DataError for a schema that has no place in Protobuf.
    """
    if schema.type in _SCALARS and schema.name not in LOGICAL_TYPES and not is_enum(schema):
        wrappers = import_module("google.protobuf.wrappers_pb2").DESCRIPTOR
        file = FileDescriptorProto.FromString(wrappers.serialized_pb)
        return file, f"google.protobuf.{_SCALARS[schema.type][1]}"
    if schema.type is not Type.STRUCT or is_union(schema):
        raise DataError(
            f"Unsupported root schema of type {schema.name or schema.type}",
            hint="Protobuf writes structs, and plain values in google.protobuf's wrappers: put it into a struct,"
            " such as with the transformation HoistField.",
        )
    names = NumberedNames(options)
    package, name = options.split_name(names.full(schema))
    for part in (*package.split("."), name) if package else (name,):
        _checked(part)
    file = FileDescriptorProto(syntax="proto3", package=package)
    file.message_type.append(_Mapping(file, names, options).message(name, schema))
    return file, f"{package}.{name}" if package else name


class _Mapping:
    def __init__(self, file: FileDescriptorProto, names: NumberedNames, options: ProtobufOptions) -> None:
        self._file = file
        self._names = names
        self._options = options

    def message(self, name: str, schema: Schema) -> DescriptorProto:
        message = DescriptorProto(name=_checked(name))
        number = 1
        for entry in schema.fields:
            tag = _tag(entry.schema)
            if tag is None:
                tag, number = number, number + 1
            field = self._field(message, entry.schema, self._options.scrub_name(entry.name), tag, in_oneof=False)
            if field is None:
                continue
            if self._options.optional_for_nullables and entry.schema.is_optional and field.label != LABELS["repeated"]:
                field.proto3_optional = True
            message.field.append(field)
        for field in message.field:
            if field.proto3_optional:  # a descriptor has its oneof after all others
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
        return message

    def _field(
        self, message: DescriptorProto, schema: Schema, name: str, number: int, *, in_oneof: bool
    ) -> FieldDescriptorProto | None:
        """The field; None for a union, whose members are fields of the message."""
        is_repeated = schema.type in (Type.ARRAY, Type.MAP)
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            schema = schema.value_schema
            if schema.type in (Type.ARRAY, Type.MAP) or is_union(schema):
                raise DataError(f"Array cannot be nested: the elements of {name} cannot be arrays, maps or unions.")
        if is_union(schema):
            self._oneof(message, schema)
            return None
        field = FieldDescriptorProto(name=_checked(name), number=number)
        field.label = LABELS["repeated" if is_repeated else "optional"]
        kind = self._kind(message, schema, field, in_oneof=in_oneof)
        typed(field, kind)
        if kind in LOCATIONS and LOCATIONS[kind] not in self._file.dependency:
            self._file.dependency.append(LOCATIONS[kind])
        return field

    def _kind(self, message: DescriptorProto, schema: Schema, field: FieldDescriptorProto, *, in_oneof: bool) -> str:
        """The name of the type, which is defined in the message if it has to be."""
        logical = LOGICAL_TYPES.get(schema.name or "")
        if logical is not None:
            if schema.name == Decimal.LOGICAL_NAME:
                _describe_decimal(schema, field)
            return logical
        if schema.type is Type.MAP:
            kind = map_entry(self._names.simple(schema))
            message.nested_type.append(self._entry(kind, schema))
            return kind
        if schema.type is Type.STRUCT:
            return self._struct(message, schema, field.name)
        if schema.type in (Type.STRING, Type.INT32) and is_enum(schema):
            return self._enum(message, schema)
        if schema.type in (Type.INT8, Type.INT16):
            set_params(field, {CONNECT_TYPE: schema.type.value})
        scalar, wrapper = _SCALARS[schema.type]
        if schema.type in (Type.INT32, Type.INT64):
            scalar = (schema.parameters or {}).get(TYPE, scalar)
            wrapper = _UNSIGNED.get(scalar, wrapper)
        return f"google.protobuf.{wrapper}" if self._options.is_wrapped(schema, in_oneof=in_oneof) else scalar

    def _struct(self, message: DescriptorProto, schema: Schema, field: str) -> str:
        kind = self._names.simple(schema)
        if kind == field:
            kind += "Message"  # a field and a type cannot have the same name
        if kind != message.name and all(nested.name != kind for nested in message.nested_type):
            message.nested_type.append(self.message(kind, schema))
        return kind

    def _entry(self, name: str, schema: Schema) -> DescriptorProto:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        entry = DescriptorProto(name=_checked(name))
        for number, (part, part_schema) in enumerate((("key", schema.key_schema), ("value", schema.value_schema)), 1):
            field = self._field(entry, part_schema, part, number, in_oneof=False)
            if field is None:
                raise DataError(f"The {part}s of a map cannot be a union.")
            entry.field.append(field)
        return entry

    def _oneof(self, message: DescriptorProto, schema: Schema) -> None:
        parameters = schema.parameters or {}
        name = parameters.get(GENERAL_UNION) if self._options.generalized else None
        if name is None:
            name = (schema.name or "").removeprefix(UNION).rpartition(".")[2]
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=_checked(self._options.scrub_name(name)))
        for entry in schema.fields:
            member = self._options.scrub_name(entry.name)
            tag = _tag(entry.schema)
            if tag is None:
                raise DataError(
                    f"The member {member} of the union {name} has no parameter {TAG}: its number is unknown."
                )
            field = self._field(message, entry.schema, member, tag, in_oneof=True)
            if field is None or field.label == LABELS["repeated"]:
                raise DataError(f"The member {member} of the union {name} cannot be an array, a map or a union.")
            field.oneof_index = index
            message.field.append(field)

    def _enum(self, message: DescriptorProto, schema: Schema) -> str:
        parameters = schema.parameters or {}
        name = self._names.simple(schema)
        if all(enum.name != name for enum in message.enum_type):
            enum = EnumDescriptorProto(name=_checked(name))
            prefix = f"{self._options.enum_parameter}."
            for key, number in parameters.items():
                if key.startswith(prefix):
                    enum.value.add(name=_checked(key.removeprefix(prefix)), number=_whole(number, key))
            enum.options.allow_alias = len({value.number for value in enum.value}) < len(enum.value)
            message.enum_type.append(enum)
        return parameters.get(GENERAL_ENUM) or parameters.get(ENUM) or name


def _describe_decimal(schema: Schema, field: FieldDescriptorProto) -> None:
    parameters = schema.parameters or {}
    found = {"precision": parameters.get(PRECISION), "scale": parameters.get(Decimal.SCALE_FIELD)}
    set_params(field, {key: value for key, value in found.items() if value is not None})


def _tag(schema: Schema) -> int | None:
    text = (schema.parameters or {}).get(TAG)
    return None if text is None else _whole(text, TAG)


def _whole(text: str, parameter: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise DataError(f"The parameter {parameter} is {text!r}, not a number.") from error


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise DataError(
            f"{name!r} is not a valid Protobuf name.",
            hint="Names in Protobuf have letters, digits and _; scrub.invalid.names=true replaces other characters.",
        )
    return name


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
        return _ConnectSchemas(options).root(message).version(version).build()
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


class _ConnectSchemas:
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
        if _is_wrapped(field) and (self._options.wrapper_for_nullables or self._options.wrapper_for_raw_primitives):
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
    builder = Decimal.builder(_whole_number(params.get("scale")) or 0)
    precision = _whole_number(params.get("precision"))
    return builder if precision is None else builder.parameter(PRECISION, str(precision))


def _whole_number(text: str | None) -> int | None:
    """The number in a parameter, which counts for nothing if it is none."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
