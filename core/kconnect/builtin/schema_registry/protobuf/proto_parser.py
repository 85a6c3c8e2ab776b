"""A .proto text to the descriptor of its file: what shapes data. Services, extensions and options of users are skipped.

Types are left as names, which the pool of descriptors resolves by Protobuf's rules.

ProtoTokens are its tokens, with one look ahead. Source: https://protobuf.dev/reference/protobuf/proto3-spec/.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from kconnect.builtin.schema_registry.protobuf.field_params import set_params
from kconnect.errors import DataError

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


_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<word>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<symbol>[{}()\[\]<>=;,:+\-/.])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLOSING: Final = {"{": "}", "[": "]", "(": ")", "<": ">"}


class ProtoTokens:
    """Reads token by token. Errors of all methods: DataError that names the line."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0
        self._kind = self.token = ""  # at the end of the text both are empty
        self._start = 0
        self._advance()

    @property
    def is_text(self) -> bool:
        return self._kind == "text"

    def take(self) -> str:
        """The token, whatever it is."""
        if not self._kind:
            self.refuse("it ends in the middle of a statement")
        found = self.token
        self._advance()
        return found

    def takes(self, wanted: str) -> bool:
        """Whether the token is `wanted`, which is then consumed."""
        if self.token != wanted or self._kind == "text":
            return False
        self._advance()
        return True

    def expect(self, wanted: str) -> None:
        if not self.takes(wanted):
            self.refuse(f"expected {wanted!r} but found {self.token or 'the end'!r}")

    def word(self, what: str) -> str:
        """A name, which may have dots."""
        if self._kind != "word":
            self.refuse(f"expected {what} but found {self.token or 'the end'!r}")
        return self.take()

    def whole(self, what: str) -> int:
        """A whole number with or without a sign."""
        sign = -1 if self.takes("-") else 1
        token = self.token
        if self._kind == "number":
            try:
                number = int(token, 8 if re.fullmatch(r"0[0-7]+", token) else 0)
            except ValueError:
                pass
            else:
                self._advance()
                return sign * number
        self.refuse(f"expected {what} but found {token or 'the end'!r}")

    def text(self) -> str:
        """The text of one or several quoted strings side by side, escapes resolved."""
        if self._kind != "text":
            self.refuse(f"expected a text in quotes but found {self.token or 'the end'!r}")
        parts = []
        while self._kind == "text":
            parts.append(_ESCAPE.sub(_escaped, self.take()[1:-1]))
        return "".join(parts)

    def skip_statement(self) -> None:
        """Pass over the rest of a statement: up to its semicolon, or the end of its block."""
        while self._kind:
            if self.takes(";"):
                return
            if self.token == "{" and self._kind == "symbol":
                self.skip_block()
                if self.token != ";":
                    return
            else:
                self._skip_one()
        self.refuse("it ends in the middle of a statement")

    def skip_block(self) -> None:
        """Pass over a block in brackets of any kind, with all that is in it."""
        closings = [_CLOSING[self.take()]]
        while closings:
            if not self._kind:
                self.refuse(f"{closings[-1]!r} is missing")
            if self._kind == "symbol" and self.token in "{[(":
                closings.append(_CLOSING[self.token])
            elif self._kind == "symbol" and self.token == closings[-1]:
                closings.pop()
            self._advance()

    def refuse(self, why: str) -> NoReturn:
        """Errors: always."""
        line = self._source.count("\n", 0, self._start) + 1
        raise DataError(f"This is not valid .proto text: line {line}: {why}")

    def _skip_one(self) -> None:
        if self._kind == "symbol" and self.token in "[(":
            self.skip_block()
        else:
            self._advance()

    def _advance(self) -> None:
        while True:
            self._start = self._position
            if self._position >= len(self._source):
                self._kind = self.token = ""
                return
            match = _TOKEN.match(self._source, self._position)
            if match is None:
                self.refuse(f"{self._source[self._position]!r} means nothing here")
            self._position = match.end()
            if match.lastgroup != "space":
                self._kind, self.token = match.lastgroup or "", match.group()
                return


def _escaped(match: re.Match[str]) -> str:
    octal, two, four, eight, letter = match.groups()
    if octal is not None:
        return chr(int(octal, 8))
    code = two or four or eight
    if code is not None:
        return chr(min(int(code, 16), 0x10FFFF))
    return _LETTERS.get(letter, letter)
