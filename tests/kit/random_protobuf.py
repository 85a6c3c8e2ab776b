"""Random files of proto3, as text and as protoc would have read them, and messages of them, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from google.protobuf import timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

__all__ = ["RandomProtobuf"]

_NAMES = ("a", "b_c", "camelCase", "UPPER", "n1", "_x", "message_", "ts")
_SIGNED_32, _SIGNED_64 = ("int32", "sint32", "sfixed32"), ("int64", "sint64", "sfixed64")
_SCALARS = (*_SIGNED_32, *_SIGNED_64, "uint32", "uint64", "fixed32", "fixed64", "double", "float", "bool")
_SCALARS += ("string", "bytes")
_KEYS = ("string", "int32", "int64", "bool", "uint32", "sfixed64")
_WRAPPED = ("String", "Bytes", "Bool", "Int32", "Int64", "UInt32", "Double", "Float")
_TEXTS = ("", "a", "\u00fc", "\U0001f600", "null", '"', "\x00")
_SYMBOLS = ("NONE", "RED", "GREEN")
_FEW = (0, 0, 1, 2, 3)


@dataclass
class _Message:
    name: str
    proto: DescriptorProto
    lines: list[str] = field(default_factory=list)


class RandomProtobuf:
    """`text` is the file, `message` the class of its first message."""

    def __init__(self, random: Random, depth: int = 3) -> None:
        self._random = random
        self._file = FileDescriptorProto(name="row.proto", package="com.example", syntax="proto3")
        self._file.dependency.extend(["google/protobuf/wrappers.proto", "google/protobuf/timestamp.proto"])
        self._count = 0
        text = self._row(self._file.message_type, "com.example", depth)
        head = ['syntax = "proto3";', "package com.example;"]
        self.text = "\n".join([*head, *(f'import "{name}";' for name in self._file.dependency), *text])
        pool = DescriptorPool()
        for known in (wrappers_pb2, timestamp_pb2):
            pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        pool.Add(self._file)
        self.message: Any = GetMessageClass(pool.FindMessageTypeByName("com.example.Row1"))

    def value(self) -> Any:
        """A message with random members."""
        return self._filled(self.message())

    # --- the file ---

    def _row(self, among: Any, scope: str, depth: int) -> list[str]:
        self._count += 1
        name = f"Row{self._count}"
        made = _Message(f"{scope}.{name}", among.add(name=name))
        for number, one in enumerate(self._random.sample(_NAMES, self._random.randint(1, 5)), start=1):
            self._field(made, one, number, depth - 1)
        self._oneof(made)
        self._optional_scopes(made.proto)
        return [f"message {name} {{", *(f"  {line}" for line in made.lines), "}"]

    def _field(self, made: _Message, name: str, number: int, depth: int) -> None:
        draw = self._random.random()
        if depth and draw < 0.15:
            made.lines += self._row(made.proto.nested_type, made.name, depth)
            self._plain(made, name, number, f"{made.name}.{made.proto.nested_type[-1].name}", "TYPE_MESSAGE")
        elif draw < 0.25:
            self._map(made, name, number)
        elif draw < 0.35:
            self._enum(made, name, number)
        elif draw < 0.45:
            wrapped = f"google.protobuf.{self._random.choice(_WRAPPED)}Value"
            self._plain(made, name, number, wrapped, "TYPE_MESSAGE")
        elif draw < 0.5:
            self._plain(made, name, number, "google.protobuf.Timestamp", "TYPE_MESSAGE")
        else:
            kind = self._random.choice(_SCALARS)
            self._plain(made, name, number, kind, f"TYPE_{kind.upper()}")

    def _plain(self, made: _Message, name: str, number: int, kind: str, type_name: str) -> None:
        label = self._random.choice(("", "", "optional ", "repeated "))
        one = self._added(made, name, number, kind, type_name)
        if label == "repeated ":
            one.label = FieldDescriptorProto.LABEL_REPEATED
        one.proto3_optional = label == "optional "
        made.lines.append(f"{label}{_in_text(kind)} {name} = {number};")

    def _added(self, made: _Message, name: str, number: int, kind: str, type_name: str) -> FieldDescriptorProto:
        found = made.proto.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        found.type = getattr(FieldDescriptorProto, type_name)
        if "." in kind:
            found.type_name = f".{kind}"
        return found

    def _map(self, made: _Message, name: str, number: int) -> None:
        """Under a name of its own: Avro has the entries as records, of which two cannot have one name."""
        self._count += 1
        name = f"{name}{self._count}"
        key, kind = self._random.choice(_KEYS), self._random.choice(_SCALARS)
        entry = made.proto.nested_type.add(name=f"{_camel(name)}Entry")
        entry.options.map_entry = True
        inner = _Message("", entry)
        self._added(inner, "key", 1, key, f"TYPE_{key.upper()}")
        self._added(inner, "value", 2, kind, f"TYPE_{kind.upper()}")
        found = self._added(made, name, number, f"{made.name}.{entry.name}", "TYPE_MESSAGE")
        found.label = FieldDescriptorProto.LABEL_REPEATED
        made.lines.append(f"map<{key}, {kind}> {name} = {number};")

    def _enum(self, made: _Message, name: str, number: int) -> None:
        self._count += 1
        kind = made.proto.enum_type.add(name=f"Kind{self._count}")
        symbols = [f"{symbol}_{self._count}" for symbol in _SYMBOLS]
        for at, symbol in enumerate(symbols):
            kind.value.add(name=symbol, number=at * 3)
        made.lines.append(
            f"enum {kind.name} {{ {' '.join(f'{symbol} = {at * 3};' for at, symbol in enumerate(symbols))} }}"
        )
        self._plain(made, name, number, f"{made.name}.{kind.name}", "TYPE_ENUM")

    def _oneof(self, made: _Message) -> None:
        if self._random.random() < 0.7:
            return
        self._count += 1
        made.proto.oneof_decl.add(name=f"choice_{self._count}")
        made.lines.append(f"oneof choice_{self._count} {{")
        for number in (20, 21, 22):
            kind = self._random.choice(_SCALARS)
            name = f"one_{self._count}_{number}"
            self._added(made, name, number, kind, f"TYPE_{kind.upper()}").oneof_index = 0
            made.lines.append(f"  {kind} {name} = {number};")
        made.lines.append("}")

    @staticmethod
    def _optional_scopes(proto: DescriptorProto) -> None:
        """What protoc adds for each optional field; behind the oneofs of the file."""
        for one in proto.field:
            if one.proto3_optional:
                one.oneof_index = len(proto.oneof_decl)
                proto.oneof_decl.add(name=f"_{one.name}")

    # --- messages ---

    def _filled(self, message: Any) -> Any:
        chosen = {oneof.name: self._random.choice(oneof.fields).name for oneof in message.DESCRIPTOR.oneofs}
        for one in message.DESCRIPTOR.fields:
            if self._random.random() < 0.25:
                continue
            if one.containing_oneof is not None and chosen[one.containing_oneof.name] != one.name:
                continue
            self._fill(message, one)
        return message

    def _fill(self, message: Any, one: Any) -> None:
        if one.message_type is not None and one.message_type.GetOptions().map_entry:
            key, value = (one.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(self._random.choice(_FEW)):
                getattr(message, one.name)[self._scalar(key)] = self._scalar(value)
        elif one.is_repeated:
            for _ in range(self._random.choice(_FEW)):
                if one.message_type is not None:
                    self._inner(getattr(message, one.name).add(), one.message_type)
                else:
                    getattr(message, one.name).append(self._scalar(one))
        elif one.message_type is not None:
            inner = getattr(message, one.name)
            inner.SetInParent()
            self._inner(inner, one.message_type)
        else:
            setattr(message, one.name, self._scalar(one))

    def _inner(self, inner: Any, kind: Any) -> None:
        if kind.full_name == "google.protobuf.Timestamp":
            inner.FromMilliseconds(self._random.randint(-(10**12), 4 * 10**12))
        elif kind.file.package == "google.protobuf":
            inner.value = self._scalar(kind.fields_by_name["value"])
        else:
            self._filled(inner)

    def _scalar(self, one: Any) -> Any:
        if one.enum_type is not None:
            return self._random.choice(one.enum_type.values).number
        return _SCALAR[one.type](self._random)


def _whole(low: int, high: int) -> Any:
    return lambda random: random.choice((0, 1, low, high - 1, random.randrange(low, high)))


def _fraction(random: Random) -> float:
    return random.choice((0.0, 0.5, -1.25, 2.0**60, 1024.0 * random.randint(-9, 9)))


_P = FieldDescriptorProto
_SCALAR = {
    **dict.fromkeys((_P.TYPE_INT32, _P.TYPE_SINT32, _P.TYPE_SFIXED32), _whole(-(1 << 31), 1 << 31)),
    **dict.fromkeys((_P.TYPE_INT64, _P.TYPE_SINT64, _P.TYPE_SFIXED64), _whole(-(1 << 63), 1 << 63)),
    **dict.fromkeys((_P.TYPE_UINT32, _P.TYPE_FIXED32), _whole(0, 1 << 32)),
    **dict.fromkeys((_P.TYPE_UINT64, _P.TYPE_FIXED64), _whole(0, 1 << 63)),
    **dict.fromkeys((_P.TYPE_DOUBLE, _P.TYPE_FLOAT), _fraction),
    _P.TYPE_BOOL: lambda random: random.random() < 0.5,
    _P.TYPE_STRING: lambda random: random.choice(_TEXTS),
    _P.TYPE_BYTES: lambda random: random.randbytes(random.choice(_FEW)),
}


def _in_text(kind: str) -> str:
    """Types of this file by their own name, others by the whole."""
    return kind.rsplit(".", 1)[-1] if kind.startswith("com.example.") else kind


def _camel(name: str) -> str:
    """As protoc names the entries of a map."""
    parts = name.split("_")
    return "".join(part[:1].upper() + part[1:] for part in parts)
