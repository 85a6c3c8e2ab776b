"""The .proto text of a file, as Confluent's ProtobufSchema writes it: the text is what a registry compares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from kconnect.builtin.schema_registry.protobuf.field_params import params_of
from kconnect.builtin.schema_registry.protobuf.proto_parser import FIELD_META, LABELS, SCALARS

_KINDS: Final = {number: name for name, number in SCALARS.items()}
_VALUE_FIRST: Final = frozenset({"precision", "scale"})
_FILE_OPTIONS: Final = (
    "java_package", "java_outer_classname", "java_multiple_files", "go_package", "cc_enable_arenas",
    "objc_class_prefix", "csharp_namespace",
)  # fmt: skip

_ESCAPES: Final = str.maketrans(
    {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    | {char: f"\\{char}" for char in "\\'\""}
)


def proto_text(file: FileDescriptorProto) -> str:
    """The text. Source: ProtobufSchemaUtils.toString(ProtoFileElement), of what Connect's schemas become."""
    lines = [f'syntax = "{file.syntax}";']
    if file.package:
        lines.append(f"package {file.package};")
    if file.dependency:
        lines += ["", *(f'import "{name}";' for name in file.dependency)]
    given = [name for name in _FILE_OPTIONS if file.options.HasField(name)]
    options = [f"option {name} = {_value(getattr(file.options, name))};" for name in given]
    if options:
        lines += ["", *options]
    lines.append("")
    for message in file.message_type:
        lines += _message(message)
    return "".join(f"{line}\n" for line in lines)


def _message(message: DescriptorProto) -> Iterator[str]:
    oneofs: dict[int, list[FieldDescriptorProto]] = {}
    plain: list[FieldDescriptorProto] = []
    for field in message.field:
        is_member = field.HasField("oneof_index") and not field.proto3_optional
        (oneofs.setdefault(field.oneof_index, []) if is_member else plain).append(field)
    groups: list[list[str]] = [
        [line for field in plain for line in _field(field)],
        [line for index in sorted(oneofs) for line in _oneof(message.oneof_decl[index].name, oneofs[index])],
        [
            *(line for nested in message.nested_type for line in _message(nested)),
            *(line for enum in message.enum_type for line in _enum(enum)),
        ],
    ]
    inside: list[str] = []
    for group in groups:
        if group:
            inside += ["", *group] if inside else group
    if not inside:
        yield f"message {message.name} {{}}"
        return
    yield f"message {message.name} {{"
    yield from _indented(inside)
    yield "}"


def _oneof(name: str, fields: Iterable[FieldDescriptorProto]) -> Iterator[str]:
    yield f"oneof {name} {{"
    for field in fields:
        yield from _indented(_field(field))
    yield "}"


def _field(field: FieldDescriptorProto) -> Iterator[str]:
    label = "repeated " if field.label == LABELS["repeated"] else "optional " if field.proto3_optional else ""
    line = f"{label}{field.type_name or _KINDS[field.type]} {field.name} = {field.number}"
    params = params_of(field)
    if not params:
        yield f"{line};"
        return
    yield f"{line} [({FIELD_META}) = {{"
    yield "  params: ["
    for index, (key, value) in enumerate(params.items(), 1):
        parts = [f"key: {_value(key)}", f"value: {_value(value)}"]
        first, second = reversed(parts) if key in _VALUE_FIRST else parts
        yield from ("    {", f"      {first},", f"      {second}", "    }" + ("," if index < len(params) else ""))
    yield "  ]"
    yield "}];"


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    if enum.options.allow_alias:
        yield "  option allow_alias = true;"
    for value in enum.value:
        yield f"  {value.name} = {value.number};"
    yield "}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{str(value).translate(_ESCAPES)}"'
