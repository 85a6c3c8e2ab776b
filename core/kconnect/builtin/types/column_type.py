"""ColumnType: a type as people declare it, in Spark's words, and the schema that Connect has for it. Pure.

Spark's DDL is read without Spark: `id bigint NOT NULL, tags array<string>`, and each error with its position.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

from kconnect.api import ConfigError, Date, Decimal, Schema, SchemaBuilder, Time, Timestamp

UUID_NAME: Final = "io.debezium.data.Uuid"
JSON_NAME: Final = "io.debezium.data.Json"
UNITS: Final = ("s", "ms", "us", "ns")
MOST_DIGITS: Final = 38
"""Limits a decimal in Arrow, Spark and each table format."""
# Digits behind the second that Connect's own Time and Timestamp have
_MILLI_DIGITS: Final = 3
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Column:
    """A column or a struct's field. `doc`: its COMMENT."""

    name: str
    type: ColumnType
    is_required: bool = False
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type by its name in Spark's DDL, such as bigint; beside those uuid and json.

    `digits`: of a decimal, or behind the second of a time. `length`: of varchar and char. `unit`: what numbers that
    are read as a time count; of a date that is `d` where none is said. `holds_null`: of a list's or map's values.
    """

    name: str
    digits: int | None = None
    scale: int = 0
    length: int | None = None
    unit: str | None = None
    key: ColumnType | None = None
    item: ColumnType | None = None
    columns: tuple[Column, ...] = ()
    holds_null: bool = True

    def __str__(self) -> str:
        """Its DDL."""
        match self.name:
            case "decimal":
                return f"decimal({self.digits},{self.scale})"
            case "varchar" | "char":
                return f"{self.name}({self.length})"
            case "array":
                return f"array<{self.item}>"
            case "map":
                return f"map<{self.key},{self.item}>"
            case "struct":
                return f"struct<{', '.join(f'{quoted(column.name)}:{column.type}' for column in self.columns)}>"
            case "time" | "timestamp" | "timestamp_ntz" if self.unit is None and self.digits is not None:
                return f"{self.name}({self.digits})"
            case _:
                return f"{self.name}({self.unit})" if self.unit else self.name


def quoted(name: str) -> str:
    """A column's name as DDL has it."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def schema_of(
    kind: ColumnType,
    *,
    is_required: bool = False,
    is_fine: bool = False,
    doc: str | None = None,
    default: Any = None,
) -> Schema:
    """Connect's schema. `is_fine`: times keep microseconds, and whether they have a zone, which Connect's own lack."""
    builder = _builder(kind, is_fine)
    if default is not None:
        builder.default(default)
    if doc is not None:
        builder.doc(doc)
    return (builder if is_required else builder.optional()).build()


def _builder(kind: ColumnType, is_fine: bool) -> SchemaBuilder:
    match kind.name:
        case "decimal":
            return Decimal.builder(kind.scale).parameter(Decimal.PRECISION_FIELD, str(kind.digits))
        case "date":
            return Date.builder()
        case "time":
            return _finer(Time.builder(), kind, is_fine)
        case "timestamp":
            return _finer(Timestamp.builder(), kind, is_fine)
        case "timestamp_ntz":
            local = _finer(Timestamp.builder(), kind, is_fine)
            return local.parameter(Timestamp.ZONE_FIELD, Timestamp.NO_ZONE) if is_fine else local
        case "uuid":
            return SchemaBuilder.string().name(UUID_NAME).version(1)
        case "json" | "variant":
            return SchemaBuilder.string().name(JSON_NAME).version(1)
        case "array":
            return SchemaBuilder.array(_inner(kind.item, is_fine, not kind.holds_null))
        case "map":
            return SchemaBuilder.map(_inner(kind.key, is_fine, True), _inner(kind.item, is_fine, not kind.holds_null))
        case "struct":
            builder = SchemaBuilder.struct()
            for column in kind.columns:
                builder.field(
                    column.name,
                    schema_of(column.type, is_required=column.is_required, is_fine=is_fine, doc=column.doc),
                )
            return builder
        case _:
            return getattr(SchemaBuilder, _PLAIN[kind.name])()  # type: ignore[no-any-return]  # a SchemaBuilder


def _inner(kind: ColumnType | None, is_fine: bool, is_required: bool) -> Schema:
    assert kind is not None, "a list or map has a type inside"
    return schema_of(kind, is_required=is_required, is_fine=is_fine)


def _finer(builder: SchemaBuilder, kind: ColumnType, is_fine: bool) -> SchemaBuilder:
    has_micros = is_fine and (kind.digits is None or kind.digits > _MILLI_DIGITS)
    return builder.parameter(Timestamp.UNIT_FIELD, "us") if has_micros else builder


_PLAIN: Final = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "varchar": "string",
    "char": "string",
    "binary": "bytes",
}


def parse_ddl(text: str) -> ColumnType:
    """The type of a list of columns, a struct; or one type, of values without fields.

    Shape: as Spark's StructType.fromDDL, with `struct<..>` too; types as in Spark, and uuid, json, and the unit of
    numbers behind times: timestamp(us), time(s), date(ms). Errors: ConfigError that says where and what was expected.
    """
    reader = _Reader(text)
    if reader.is_one_type():
        found = reader.type()
        reader.expect_end()
        return found
    columns = reader.columns(end="")
    reader.expect_end()
    return ColumnType("struct", columns=columns)


class _Token(NamedTuple):
    text: str
    at: int
    is_name: bool = False
    """Is true, or `is_text` is, for a name without its back quotes, and for a text without its quotes."""
    is_text: bool = False


_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<word>[^\W\d]\w*)|(?P<number>\d+)|`(?P<name>(?:[^`]|``)*)`"""
    r"""|'(?P<one>(?:[^'\\]|\\.|'')*)'|"(?P<two>(?:[^"\\]|\\.|"")*)"|(?P<sign>[<>(),:]))""",
    re.DOTALL,
)
_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def _tokens(text: str) -> list[_Token]:
    """Errors: ConfigError."""
    plain = _COMMENTS.sub(lambda found: " " * len(found[0]), text)
    found, at = [], 0
    while plain[at:].strip():
        match = _TOKEN.match(plain, at)
        if match is None:
            begin = at + len(plain[at:]) - len(plain[at:].lstrip())
            if plain[begin] in "`'\"":
                raise _error(text, begin, "A quote is not closed")
            hint = "A name that is not of letters, digits and _ stands in back quotes."
            raise _error(text, begin, f"{plain[begin]!r} has no meaning here", hint)
        kind = match.lastgroup or ""
        value, begin = match[kind], match.start(kind)
        if kind == "name":
            found.append(_Token(value.replace("``", "`"), begin - 1, is_name=True))
        elif kind in ("one", "two"):
            quote = plain[begin - 1]
            unescaped = re.sub(
                r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), value.replace(quote * 2, quote)
            )
            found.append(_Token(unescaped, begin - 1, is_text=True))
        else:
            found.append(_Token(value, begin))
        at = match.end()
    return found


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


_MANY: Final = ("nothing", "one number", "two of these")


class _Reader:
    """Reads the tokens of one text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        if not self._tokens:
            raise _error(text, 0, "Nothing is declared")

    def is_one_type(self) -> bool:
        """Whether the text is a type alone, and no column with its type."""
        first = self._tokens[0]
        if first.is_name or first.is_text:
            return False
        word = first.text.lower()
        if len(self._tokens) == 1:
            return word in _TYPES
        return self._tokens[1].text in ("<", "(") and (word in _TYPES or word in _NESTED)

    def columns(self, end: str) -> tuple[Column, ...]:
        """Columns up to `end`, which is not read; the end of the text where it is empty."""
        found: list[Column] = []
        if end and self._peek() == end:
            return ()
        while True:
            at = self._at()
            column = self._column(is_inside=bool(end))
            if any(column.name == other.name for other in found):
                raise _error(self._text, at, f"Column {column.name} is declared twice")
            found.append(column)
            if not self._take(","):
                return tuple(found)

    def type(self) -> ColumnType:
        token = self._read("a type, such as bigint")
        name = _ALIASES.get(token.text.lower(), token.text.lower())
        if token.is_name or token.is_text:
            self._fail(token, f"{token.text} stands in quotes, and a type was expected")
        if name in _NESTED:
            return self._nested(name, token)
        if name == "interval":
            self._interval()
            self._fail(token, "interval has no place in a format of a sink: declare it as string")
        if name in _NOTHING:
            self._fail(token, _NOTHING[name])
        if name not in _TYPES:
            self._fail(token, f"Unknown type: {token.text}", f"{_near(name)}The types are {', '.join(_SHOWN)}.")
        made = _TYPES[name](self, token)
        if name == "string" and self._take("collate"):
            self._read("the name of a collation")
        return made

    def arguments(self, token: _Token, most: int) -> list[str]:
        """What stands in parentheses behind a type's name."""
        found: list[str] = []
        if not self._take("("):
            return found
        while True:
            found.append(self._read("a number").text.lower())
            if not self._take(","):
                break
        self._expect(")")
        if len(found) > most:
            self._fail(token, f"{token.text} takes {_MANY[most]} in parentheses")
        return found

    def number(self, token: _Token, text: str, least: int, most: int) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            self._fail(token, f"{token.text}({text}): a number from {least} to {most} was expected")
        return int(text)

    def fail(self, token: _Token, what: str) -> NoReturn:
        self._fail(token, what)

    def expect_end(self) -> None:
        if self._next < len(self._tokens):
            token = self._tokens[self._next]
            self._fail(token, f"{token.text!r} was not expected here", "A comma stands between columns.")

    # --- parts ---

    def _column(self, *, is_inside: bool) -> Column:
        token = self._read("the name of a column")
        if token.is_text or (not token.is_name and not (token.text[0].isalnum() or token.text[0] == "_")):
            self._fail(token, f"{token.text!r} stands where the name of a column was expected")
        self._take(":")
        kind = self.type()
        is_required, doc = False, None
        while (word := self._peek()) in ("not", "comment", "null"):
            self._next += 1
            if word == "not":
                self._expect("null")
                is_required = True
            elif word == "comment":
                found = self._read("the comment in quotes")
                if not found.is_text:
                    self._fail(found, f"COMMENT {found.text}: the comment stands in quotes")
                doc = found.text
        if (word := self._peek()) in ("default", "generated", "as"):
            self._fail(self._tokens[self._next], f"{word.upper()} cannot be declared: a column has what the record has")
        return Column(token.text, kind, is_required, doc)

    def _nested(self, name: str, token: _Token) -> ColumnType:
        self._expect("<", f"{token.text} needs what it holds, such as {_NESTED[name]}")
        if name == "array":
            kind = ColumnType(name, item=self.type())
        elif name == "map":
            key = self.type()
            self._expect(",")
            kind = ColumnType(name, key=key, item=self.type())
        else:
            kind = ColumnType(name, columns=self.columns(end=">"))
        self._expect(">")
        return kind

    def _interval(self) -> None:
        while self._peek() in ("year", "month", "day", "hour", "minute", "second", "to"):
            self._next += 1

    # --- tokens ---

    def _at(self) -> int:
        return self._tokens[self._next].at if self._next < len(self._tokens) else len(self._text)

    def _peek(self) -> str:
        """The next word or sign in lower case; empty at the end, and for what stands in quotes."""
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        return "" if token is None or token.is_name or token.is_text else token.text.lower()

    def _take(self, word: str) -> bool:
        found = self._peek() == word
        self._next += found
        return found

    def _expect(self, word: str, message: str = "") -> None:
        if not self._take(word):
            found = self._tokens[self._next].text if self._next < len(self._tokens) else "the end"
            raise _error(self._text, self._at(), message or f"{word!r} was expected, not {found}")

    def _read(self, wanted: str) -> _Token:
        if self._next >= len(self._tokens):
            raise _error(self._text, len(self._text), f"The text ends, and {wanted} was expected")
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _fail(self, token: _Token, what: str, hint: str | None = None) -> NoReturn:
        raise _error(self._text, token.at, what, hint)


def _error(text: str, at: int, what: str, hint: str | None = None) -> ConfigError:
    before = text[:at]
    line = before.count("\n") + 1
    column = at - (before.rfind("\n") + 1) + 1
    return ConfigError(f"{what}, at line {line}, column {column}", hint=hint)


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = [_ELSEWHERE[name]] if name in _ELSEWHERE else get_close_matches(name, [*_SHOWN, *_ALIASES], 1)
    return f"Did you mean {near[0]}? " if near else ""


# What others call types, where the nearest name here is another type: bytea is no byte
_ELSEWHERE: Final = {
    **dict.fromkeys(("bytea", "blob", "varbinary", "longblob"), "binary"),
    **dict.fromkeys(("float64", "float8"), "double"),
    **dict.fromkeys(("int64", "uint32", "bigserial"), "bigint"),
    **dict.fromkeys(("int32", "int4", "uint16", "serial"), "int"),
    **dict.fromkeys(("int16", "int2", "uint8"), "smallint"),
    **dict.fromkeys(("datetime", "datetime64"), "timestamp"),
    **dict.fromkeys(("jsonb", "object"), "json"),
    **dict.fromkeys(("number", "bignumeric", "uint64"), "decimal"),
    **dict.fromkeys(("clob", "longtext", "nvarchar"), "string"),
    "int8": "tinyint",
    "float32": "float",
    "float4": "float",
    "list": "array",
    "record": "struct",
}


# --- types ---


def _plain(name: str) -> Callable[[_Reader, _Token], ColumnType]:
    def make(reader: _Reader, token: _Token) -> ColumnType:
        reader.arguments(token, 0)
        return ColumnType(name)

    return make


def _decimal(reader: _Reader, token: _Token) -> ColumnType:
    given = reader.arguments(token, 2)
    digits = reader.number(token, given[0], 1, MOST_DIGITS) if given else 10
    scale = reader.number(token, given[1], 0, MOST_DIGITS) if len(given) > 1 else 0
    if scale > digits:
        reader.fail(token, f"decimal({digits},{scale}): more digits behind the point than it has")
    return ColumnType("decimal", digits=digits, scale=scale)


def _text(name: str) -> Callable[[_Reader, _Token], ColumnType]:
    def make(reader: _Reader, token: _Token) -> ColumnType:
        given = reader.arguments(token, 1)
        if not given:
            reader.fail(token, f"{name} needs its length, such as {name}(20)")
        return ColumnType(name, length=reader.number(token, given[0], 1, 1 << 31))

    return make


def _time(name: str) -> Callable[[_Reader, _Token], ColumnType]:
    """A number in parentheses is the digits behind the second, a unit what numbers count."""
    units = ("d", *UNITS) if name == "date" else UNITS

    def make(reader: _Reader, token: _Token) -> ColumnType:
        digits = unit = None
        for part in reader.arguments(token, 2):
            if part in units:
                unit = part
            elif name != "date" and part.isdecimal():
                digits = reader.number(token, part, 0, 9)
            else:
                reader.fail(token, f"{name}({part}): the unit of numbers is one of {', '.join(units)}")
        return ColumnType(name, digits=digits, unit=unit)

    return make


_PLAIN_TYPES: Final = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary")
_TYPES: Final[dict[str, Callable[[_Reader, _Token], ColumnType]]] = {
    **{name: _plain(name) for name in (*_PLAIN_TYPES, "uuid", "json", "variant")},
    "decimal": _decimal,
    "varchar": _text("varchar"),
    "char": _text("char"),
    **{name: _time(name) for name in ("date", "time", "timestamp", "timestamp_ntz")},
}
_NESTED: Final = {"array": "array<string>", "map": "map<string,bigint>", "struct": "struct<id:bigint>"}
_SHOWN: Final = (*_TYPES, *_NESTED)
_ALIASES: Final = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "text": "string",
    "bytes": "binary",
    "timestamp_ltz": "timestamp",
    "timestamptz": "timestamp",
}
_NOTHING: Final = {
    "void": "void holds nothing: leave the column out",
    "geometry": "geometry has no place in a format of a sink: declare it as binary or string",
    "geography": "geography has no place in a format of a sink: declare it as binary or string",
}
