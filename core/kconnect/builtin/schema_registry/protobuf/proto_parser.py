"""A .proto text to the descriptor of its file: what shapes data. Services, extensions and options of users are skipped.

Types are left as names, which the pool of descriptors resolves by Protobuf's rules.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from kconnect.builtin.schema_registry.protobuf.field_params import set_params
from kconnect.builtin.schema_registry.protobuf.proto_tokens import ProtoTokens

SCALARS: Final = {
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "fixed64": FieldDescriptorProto.TYPE_FIXED64,
    "fixed32": FieldDescriptorProto.TYPE_FIXED32,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "sfixed32": FieldDescriptorProto.TYPE_SFIXED32,
    "sfixed64": FieldDescriptorProto.TYPE_SFIXED64,
    "sint32": FieldDescriptorProto.TYPE_SINT32,
    "sint64": FieldDescriptorProto.TYPE_SINT64,
}
LABELS: Final = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
FIELD_META: Final = "confluent.field_meta"
_SKIPPED: Final = frozenset({"option", "reserved", "extensions", "extend"})
_DEEPEST: Final = 60  # messages within messages; protobuf's own limit for a message's data is 100


def parse_proto(text: str) -> FileDescriptorProto:
    """The file of a text, without a name. Errors: DataError that names the line."""
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = ProtoTokens(text)
        self._file = FileDescriptorProto(syntax="proto2")
        self._depth = 0

    def file(self) -> FileDescriptorProto:
        tokens = self._tokens
        while tokens.token:
            if tokens.takes(";"):
                continue
            keyword = tokens.word("a statement")
            if keyword == "syntax":
                self._syntax()
            elif keyword == "package":
                self._file.package = tokens.word("a name")
                tokens.expect(";")
            elif keyword == "import":
                self._import()
            elif keyword == "message":
                self._message(self._file.message_type.add())
            elif keyword == "enum":
                self._enum(self._file.enum_type.add())
            elif keyword in ("option", "service", "extend"):
                tokens.skip_statement()
            else:
                tokens.refuse(f"{keyword!r} begins no statement")
        return self._file

    def _syntax(self) -> None:
        self._tokens.expect("=")
        found = self._tokens.text()
        if found not in ("proto2", "proto3"):
            self._tokens.refuse(f"the syntax {found!r} is unknown: proto2 and proto3 can be read")
        self._file.syntax = found
        self._tokens.expect(";")

    def _import(self) -> None:
        if self._tokens.takes("public"):
            self._file.public_dependency.append(len(self._file.dependency))
        else:
            self._tokens.takes("weak")
        self._file.dependency.append(self._tokens.text())
        self._tokens.expect(";")

    def _message(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        message.name = tokens.word("a name")
        self._depth += 1
        if self._depth > _DEEPEST:
            tokens.refuse(f"messages are more than {_DEEPEST} levels deep")
        entries: list[DescriptorProto] = []
        tokens.expect("{")
        while not tokens.takes("}"):
            self._member(message, entries)
        message.nested_type.extend(entries)  # after those that are written out, which are counted
        _present(message)
        self._depth -= 1

    def _member(self, message: DescriptorProto, entries: list[DescriptorProto]) -> None:
        tokens = self._tokens
        if tokens.takes(";"):
            return
        keyword = tokens.word("a field")
        if keyword == "message":
            self._message(message.nested_type.add())
        elif keyword == "enum":
            self._enum(message.enum_type.add())
        elif keyword == "oneof":
            self._oneof(message)
        elif keyword in _SKIPPED:
            tokens.skip_statement()
        elif keyword == "map" and tokens.takes("<"):
            self._map(message, entries)
        elif keyword in LABELS:
            self._field(message, tokens.word("a type"), label=keyword)
        else:
            self._field(message, keyword)

    def _oneof(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=tokens.word("a name"))
        tokens.expect("{")
        while not tokens.takes("}"):
            if tokens.takes(";"):
                continue
            keyword = tokens.word("a field")
            if keyword == "option":
                tokens.skip_statement()
            else:
                self._field(message, keyword, oneof=index)

    def _map(self, message: DescriptorProto, entries: list[DescriptorProto]) -> None:
        tokens = self._tokens
        key = tokens.word("a type")
        tokens.expect(",")
        value = tokens.word("a type")
        tokens.expect(">")
        field = message.field.add(label=LABELS["repeated"])
        self._named(field)
        words = field.name.split("_")
        entry = DescriptorProto(name="".join(word[:1].upper() + word[1:] for word in words) + "Entry")
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            typed(entry.field.add(name=name, number=number, label=LABELS["optional"]), kind)
        entries.append(entry)
        field.type_name = entry.name

    def _field(
        self, message: DescriptorProto, kind: str, *, label: str | None = None, oneof: int | None = None
    ) -> None:
        if kind == "group":
            self._tokens.skip_statement()  # as Confluent's does
            return
        field = message.field.add(label=LABELS[label or "optional"])
        if oneof is not None:
            field.oneof_index = oneof
        field.proto3_optional = label == "optional" and self._file.syntax == "proto3"
        typed(field, kind)
        self._named(field)

    def _named(self, field: FieldDescriptorProto) -> None:
        """The rest of a field, from its name on."""
        field.name = self._tokens.word("a field's name")
        self._tokens.expect("=")
        field.number = self._tokens.whole("a field's number")
        if self._tokens.takes("["):
            self._options(field)
        self._tokens.expect(";")

    def _options(self, field: FieldDescriptorProto) -> None:
        tokens = self._tokens
        while True:
            name = self._option_name()
            if name == "default" and self._file.syntax == "proto2":
                field.default_value = self._constant()
            elif name == "packed":
                field.options.packed = self._constant() == "true"
            elif name == FIELD_META and tokens.token == "{":
                set_params(field, self._params())
            else:
                self._skip_value()
            if tokens.takes("]"):
                return
            tokens.expect(",")

    def _option_name(self) -> str:
        tokens = self._tokens
        name = ""
        while tokens.token not in ("=", ""):
            if tokens.takes("("):
                name += tokens.word("an option").removeprefix(".")
                tokens.expect(")")
            else:
                name += tokens.take()
        tokens.expect("=")
        return name

    def _constant(self) -> str:
        tokens = self._tokens
        if tokens.is_text:
            return tokens.text()
        sign = "-" if tokens.takes("-") else ""
        return sign + tokens.take()

    def _skip_value(self) -> None:
        tokens = self._tokens
        if tokens.token in ("{", "[", "<") and not tokens.is_text:
            tokens.skip_block()
        else:
            self._constant()

    def _params(self) -> dict[str, str]:
        """The parameters in `{ params: [{ key: "k", value: "v" }] }`."""
        tokens = self._tokens
        found: dict[str, str] = {}
        tokens.expect("{")
        while not tokens.takes("}"):
            is_params = tokens.word("a name") == "params"
            tokens.takes(":")
            if is_params and tokens.takes("["):
                while not tokens.takes("]"):
                    self._param(found)
                    tokens.takes(",")
            elif is_params:
                self._param(found)
            else:
                self._skip_value()
            if not tokens.takes(","):
                tokens.takes(";")
        return found

    def _param(self, found: dict[str, str]) -> None:
        tokens = self._tokens
        parts = {"key": "", "value": ""}
        tokens.expect("{")
        while not tokens.takes("}"):
            name = tokens.word("key or value")
            tokens.takes(":")
            parts[name] = tokens.text()
            tokens.takes(",")
        found[parts["key"]] = parts["value"]

    def _enum(self, enum: EnumDescriptorProto) -> None:
        tokens = self._tokens
        enum.name = tokens.word("a name")
        enum.options.allow_alias = False
        tokens.expect("{")
        while not tokens.takes("}"):
            if tokens.takes(";"):
                continue
            name = tokens.word("a symbol")
            if name in ("option", "reserved") and tokens.token != "=":
                tokens.skip_statement()
                continue
            tokens.expect("=")
            enum.value.add(name=name, number=tokens.whole("a number"))
            tokens.skip_statement()
        numbers = [value.number for value in enum.value]
        enum.options.allow_alias = len(set(numbers)) < len(numbers)


def typed(field: FieldDescriptorProto, kind: str) -> None:
    """Give a field the type of that name."""
    scalar = SCALARS.get(kind)
    if scalar is None:
        field.type_name = kind
    else:
        field.type = scalar


def _present(message: DescriptorProto) -> None:
    """Give each `optional` field of proto3 the oneof of its own that a descriptor has for it."""
    taken = {oneof.name for oneof in message.oneof_decl} | {field.name for field in message.field}
    for field in message.field:
        if field.proto3_optional:
            name = "_" + field.name
            while name in taken:
                name = "X" + name
            taken.add(name)
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)
