"""A Protobuf schema of the registry: its text, or descriptor in base64, with what it imports, as descriptors.

A map is kept as what it is on the wire, a list of entries with key and value: Confluent's converter writes maps whose
keys Protobuf's own maps do not take.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from kconnect.builtin.schema_registry.protobuf.field_params import params_of
from kconnect.builtin.schema_registry.protobuf.proto_parser import FIELD_META, LABELS, SCALARS, parse_proto
from kconnect.errors import DataError

_MAIN: Final = "schema"
_GOOGLE: Final = re.compile(r"google/(?:protobuf|type)/[a-z_]+\.proto")
_CONFLUENT: Final = {
    "confluent/meta.proto": 'syntax = "proto3"; package confluent;',  # only options: see field_params.py
    "confluent/type/decimal.proto": """
        syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
    "confluent/type/variant.proto": """
        syntax = "proto3"; package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }""",
}
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


class ProtoSchema:
    """The messages of one file, by index and by name. Threads: any."""

    def __init__(self, file: FileDescriptorProto, references: Mapping[str, str] | None = None) -> None:
        """`references` are texts by the names they are imported with. Errors: DataError for what is no schema."""
        self._references = references or {}
        self._pool = DescriptorPool()
        self._added: set[str] = set()
        self._add(_MAIN, file)
        found = self._pool.FindFileByName(_MAIN)
        self._messages: list[Descriptor] = [found.message_types_by_name[each.name] for each in file.message_type]

    def message(self, indexes: Sequence[int]) -> Descriptor:
        """The message with that path of indexes. Errors: DataError when there is none."""
        messages, found = self._messages, None
        for index in indexes:
            if not 0 <= index < len(messages):
                raise DataError(
                    f"The record says that it is message {list(indexes)} of its Protobuf schema, which has none there."
                )
            found = messages[index]
            messages = list(found.nested_types)
        if found is None:
            raise DataError("The Protobuf schema has no message.")
        return found

    def indexes_of(self, name: str) -> list[int] | None:
        """The path of indexes of the message with that full name; None if the file has none."""
        open_ = [([index], message) for index, message in enumerate(self._messages)]
        while open_:
            path, message = open_.pop()
            if message.full_name == name:
                return path
            open_.extend(([*path, index], nested) for index, nested in enumerate(message.nested_types))
        return None

    @property
    def names(self) -> list[str]:
        """The full names of the messages at the top."""
        return [message.full_name for message in self._messages]

    def _add(self, name: str, file: FileDescriptorProto) -> None:
        self._added.add(name)
        file.name = name
        absent = self._import(file)
        for message in file.message_type:
            _plain(message)
        try:
            self._pool.Add(file)
        except (TypeError, ValueError) as error:
            said = str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
            if not absent:
                raise DataError(f"This is not a valid Protobuf schema: {said}") from error
            raise DataError(
                f"The Protobuf schema imports {', '.join(absent)}, which it has no reference to: {said}",
                hint="Register the other schema, and this one with a reference to it by that name.",
            ) from error

    def _import(self, file: FileDescriptorProto) -> list[str]:
        """Add what a file imports to the pool; what nobody has is left out and returned: it matters only if used."""
        public = {file.dependency[index] for index in file.public_dependency}
        known: list[str] = []
        absent: list[str] = []
        for name in dict.fromkeys(file.dependency):
            if name not in self._added:
                found = self._imported(name)
                if found is None:
                    absent.append(name)
                    continue
                self._add(name, found)
            known.append(name)
        del file.dependency[:], file.public_dependency[:], file.weak_dependency[:]
        file.dependency.extend(known)
        file.public_dependency.extend(index for index, name in enumerate(known) if name in public)
        return absent

    def _imported(self, name: str) -> FileDescriptorProto | None:
        text = self._references.get(name) or _CONFLUENT.get(name)
        if text is not None:
            return read_proto(text)
        if not _GOOGLE.fullmatch(name):
            return None
        try:
            module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        except ImportError:
            return None
        return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def read_proto(text: str) -> FileDescriptorProto:
    """The file of a schema as registries have it: a .proto text, or a descriptor in base64. Errors: DataError."""
    try:
        return parse_proto(text)
    except DataError as error:
        try:
            return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError, DecodeError):
            raise error from None


def _plain(message: DescriptorProto) -> None:
    """Maps as lists of entries, and JSON's names as they are: Protobuf refuses two that are alike, Java does not."""
    message.options.ClearField("map_entry")
    del message.extension[:]
    for field in message.field:
        field.json_name = field.name
    for nested in message.nested_type:
        _plain(nested)


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
