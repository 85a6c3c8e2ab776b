"""Connect schema to a Protobuf file. Source: io.confluent.connect.protobuf.ProtobufData.fromConnectSchema."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from kconnect.api import DataError, Decimal, Schema, Type
from kconnect.builtin.schema_registry.protobuf.field_params import set_params
from kconnect.builtin.schema_registry.protobuf.proto_parser import LABELS, typed
from kconnect.builtin.schema_registry.protobuf.protobuf_names import (
    CONNECT_TYPE,
    ENUM,
    LOCATIONS,
    LOGICAL_TYPES,
    PRECISION,
    TAG,
    TYPE,
    UNION,
    NumberedNames,
    ProtobufOptions,
    is_enum,
    is_union,
    map_entry,
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
