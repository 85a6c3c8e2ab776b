"""JSON without schema as a column, where each row of it says exactly what the text says.

`plain_values_of` gives the plain values of many texts at once: each as JsonReader reads it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from kconnect.api.plain_columns import NULL_IS_MISSING, WHOLE_IS_INT
from kconnect.builtin.converters.json_columns import NO_OBJECTS, ByRecordsError, check_lengths, refusal_of
from kconnect.builtin.converters.plain_json_type import (
    Gap,
    Kind,
    Member,
    NoTypeError,
    PlainType,
    common_type,
    difference,
    widened,
)

if TYPE_CHECKING:
    import pyarrow as pa


# Times that the type may be found too narrow for a batch: each costs a search in all texts
_MOST_LESSONS: Final = 4
# Batches that go by records untried where those before them could not be columns
_MOST_LEFT_OUT: Final = 64
# Texts that one such lesson is drawn from
_LESSON_TEXTS: Final = 50


class PlainJsonColumns:
    """Reads texts as columns, by a type that it learns from them and keeps for the next batch of a topic.

    Measured with tests/bench/micro_stages.py, rows of 80 and 315 bytes: 0.7 and 1.4 us, by JsonReader 5.4 and 7.6 us.
    Of that a fourth is to see that all texts fit the type; a batch costs 0.4 ms more.
    """

    def __init__(self, read: Callable[[bytes], Any], most_types: int) -> None:
        self._read = read
        self._most_types = most_types
        self._types: dict[str, tuple[PlainType, str]] = {}
        self._trials: dict[str, _Trials] = {}

    def column(self, topic: str, texts: pa.BinaryArray) -> pa.Array:
        """The value of each text. Shape: one row a text; null where the text is null, or says null.

        Errors: ByRecordsError where a column cannot say exactly what each text says. Whatever `read` raises.
        """
        import pyarrow as pa

        given = texts.drop_null() if texts.null_count else texts
        if not len(given):
            raise ByRecordsError("all values are null")
        made = self._tried(topic, given)
        if not texts.null_count:
            return made
        import pyarrow.compute as pc

        present = texts.is_valid()
        rows = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
        return made.take(pc.if_else(present, rows, pa.scalar(None, pa.int64())))

    def _tried(self, topic: str, texts: pa.BinaryArray) -> pa.Array:
        """The values, unless other batches of the topic gave no reason to try again yet."""
        trials = self._trials.setdefault(topic, _Trials())
        if not trials.is_due():
            raise ByRecordsError(trials.reason)
        try:
            made = _parsed(self._type(topic, texts), texts)
        except ByRecordsError as error:
            trials.failed(str(error))
            raise
        trials.failures = 0
        return made

    def _type(self, topic: str, texts: pa.BinaryArray) -> PlainType:
        """The type that all texts fit."""
        import pyarrow.compute as pc

        known = self._types.get(topic) or self._remember(topic, self._taught(texts))
        tried, reason = set(), None
        for _ in range(_MOST_LESSONS):
            kind, pattern = known
            fits = pc.match_substring_regex(texts, pattern)
            if pc.all(fits).as_py():
                return kind
            tried.add(kind)
            found = self._taught(texts.filter(pc.invert(fits)))
            reason = difference(kind, found) or reason
            taught = self._widened(kind, found)
            if taught in tried:
                break
            known = self._remember(topic, taught)
        raise ByRecordsError(reason or "texts differ in the order of their members, or in how numbers are written")

    def _widened(self, kind: PlainType, found: PlainType) -> PlainType:
        try:
            return widened(kind, found)
        except NoTypeError as error:
            raise ByRecordsError(str(error)) from error

    def _taught(self, texts: pa.BinaryArray) -> PlainType:
        """The type that the first texts fit."""
        try:
            return common_type([self._read(text) for text in texts[:_LESSON_TEXTS].to_pylist()])
        except NoTypeError as error:
            raise ByRecordsError(str(error)) from error

    def _remember(self, topic: str, kind: PlainType) -> tuple[PlainType, str]:
        try:
            made = kind, pattern_of(kind)
        except NoTypeError as error:
            raise ByRecordsError(str(error)) from error
        if topic not in self._types and len(self._types) >= self._most_types:
            self._types.clear()
            self._trials.clear()
        self._types[topic] = made
        return made


class _Trials:
    """Leaves out batches of a topic whose texts have no columns, more each time: to see that is work as well."""

    def __init__(self) -> None:
        self.failures = 0
        self.reason = ""
        self._left = 0

    def is_due(self) -> bool:
        self._left -= 1
        return self._left < 0

    def failed(self, reason: str) -> None:
        self.reason = reason
        self.failures = min(self.failures + 1, 10)
        self._left = min(1 << self.failures - 2, _MOST_LEFT_OUT) if self.failures > 1 else 0


def _parsed(kind: PlainType, texts: pa.BinaryArray) -> pa.Array:
    """The values of texts that match the type's pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import json

    check_lengths(texts)
    # A member of an object each: Arrow's reader takes objects only
    lines = pc.binary_join_element_wise(b'{"":', texts, b"}\n", b"")
    content = lines.buffers()[2]
    try:
        lines.cast(pa.string())  # Arrow's reader does not check UTF-8
        table = json.read_json(
            pa.BufferReader(content),
            json.ReadOptions(use_threads=False, block_size=len(content)),
            json.ParseOptions(explicit_schema=pa.schema([("", _arrow_type(kind))]), unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid as error:
        raise ByRecordsError(refusal_of(error)) from error
    column = table.column(0)
    if len(column) != len(texts):
        raise ByRecordsError(NO_OBJECTS)
    return _finished(kind, column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())


def _arrow_type(kind: PlainType) -> pa.DataType:
    import pyarrow as pa

    if kind.item is not None:
        return pa.list_(pa.field("item", _arrow_type(kind.item), metadata=_metadata(kind.item)))
    if kind.kind is Kind.OBJECT:
        return pa.struct(
            [
                pa.field(member.name, _arrow_type(member.type), metadata=_metadata(member.type, member.gap))
                for member in kind.members
            ]
        )
    return {
        Kind.NULL: pa.null(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.STRING: pa.string(),
        Kind.WHOLE: pa.int64(),
        Kind.FRACTION: pa.float64(),
        Kind.DOUBLE: pa.float64(),
        Kind.NUMBER: pa.float64(),
    }[kind.kind]


def _metadata(kind: PlainType, gap: Gap = Gap.NONE) -> dict[bytes, bytes]:
    missing = NULL_IS_MISSING if gap is Gap.MISSING else {}
    return {**missing, **(WHOLE_IS_INT if kind.kind is Kind.NUMBER else {})}


def _finished(kind: PlainType, column: pa.Array) -> pa.Array:
    """The column with its metadata, and without -0.0: a BigDecimal has no sign for it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made_type = _arrow_type(kind)
    if made_type.equals(column.type, check_metadata=True) and not _has_floats(made_type):
        return column
    mask = column.is_null() if column.null_count else None
    if kind.item is not None:
        items = _finished(kind.item, column.values)
        return pa.ListArray.from_arrays(column.offsets, items, type=made_type, mask=mask)
    if kind.kind is Kind.OBJECT:
        children = [_finished(member.type, column.field(index)) for index, member in enumerate(kind.members)]
        return pa.StructArray.from_arrays(children, fields=list(made_type), mask=mask)
    return pc.add(column, 0.0)


def _has_floats(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_floating(kind) or any(_has_floats(kind.field(index).type) for index in range(kind.num_fields))


def pattern_of(kind: PlainType) -> str:
    """What a text of this type matches.

    Errors: NoTypeError for names that JSON may spell in several ways, and numbers without a field to say how they are.
    """
    if kind.kind is Kind.NUMBER:
        raise NoTypeError("the value is a whole number and a fraction")
    return rf"\A{_SPACE}{_or_null(kind)}{_SPACE}\z"


def _or_null(kind: PlainType) -> str:
    return "null" if kind.kind is Kind.NULL else f"(?:{_value(kind)}|null)"


def _value(kind: PlainType) -> str:
    if kind.kind is Kind.OBJECT:
        return _object(kind.members)
    if kind.item is not None:
        item = f"{_or_null(kind.item)}{_SPACE}"
        # Arrow's reader loses count in lists of nulls
        items = "" if kind.item.kind is Kind.NULL else f"(?:{item}(?:,{_SPACE}{item})*)?"
        return rf"\[{_SPACE}{items}\]"
    return _VALUES[kind.kind]


def _object(members: tuple[Member, ...]) -> str:
    if all(member.gap is not Gap.MISSING for member in members):
        return rf"\{{{_SPACE}" + f",{_SPACE}".join(_member(member) for member in members) + r"\}"
    # A comma or a brace behind each: which it is, follows from what comes next in the text
    each = [
        f"(?:{_member(member)}[,}}]{_SPACE})?" if member.gap is Gap.MISSING else f"{_member(member)}[,}}]{_SPACE}"
        for member in members
        if member.gap is not Gap.MISSING or member.type.kind is not Kind.NULL  # else it is in no text
    ]
    if all(member.gap is Gap.MISSING for member in members):
        return rf"\{{{_SPACE}(?:\}}|" + "".join(each) + ")"
    return rf"\{{{_SPACE}" + "".join(each)


def _member(member: Member) -> str:
    value = f"(?:{_value(member.type)})" if member.gap is Gap.MISSING else _or_null(member.type)
    return f'"{_name(member.name)}"{_SPACE}:{_SPACE}{value}{_SPACE}'


def _name(name: str) -> str:
    try:
        raw = name.encode()
    except UnicodeEncodeError as error:
        raise NoTypeError(f"the name {name!a} is no Unicode") from error
    if any(byte < 0x20 or byte in b'"\\' for byte in raw):
        raise NoTypeError(f"the name {name!a} needs escapes in JSON")
    return "".join(chr(byte) if byte < 0x80 and chr(byte).isalnum() else rf"\x{byte:02x}" for byte in raw)


# Line feeds are between texts
_SPACE: Final = r"[ \t]*"
_WHOLE: Final = "(?:0|-?[1-9][0-9]*)"
# No exponents that could leave the range of a double
_FRACTION: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2})"
# Whole ones that a double holds, and fractions that no double rounds to a whole number: short ones, or their first five
# digits are not all 0 and not all 9. Exponents as JavaScript has them for very small ones.
_NUMBER: Final = (
    r"0|-?[1-9][0-9]{0,14}|-?(?:0|[1-9][0-9]{0,4})\.[0-9]{0,8}[1-9]"
    r"|-?(?:0|[1-9][0-9]{0,9})\.(?:0{0,4}[1-8]|0{1,4}9|9{1,4}[0-8])[0-9]*"
    r"|-?(?:0|[1-9][0-9]{0,9})\.9{1,4}"
    r"|-?[1-9](?:\.[0-9]+)?e-(?:[7-9]|[1-9][0-9])"
)
# Escaped surrogates in pairs only
_STRING: Final = (
    r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r'|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*"'
)
_VALUES: Final = {
    Kind.NULL: "null",
    Kind.BOOLEAN: "true|false",
    Kind.STRING: _STRING,
    Kind.WHOLE: _WHOLE,
    Kind.FRACTION: _FRACTION,
    Kind.DOUBLE: _FRACTION,
    Kind.NUMBER: _NUMBER,
}


def plain_values_of(texts: pa.BinaryArray, read: Callable[[bytes], Any]) -> list[Any]:
    """The value of each text, null for null. `read` reads those that orjson might read otherwise.

    Errors: whatever `read` raises for a text. Measured on a busy machine, with records made of them: 57 bytes 2.3 us a
    text, by `read` alone 14; 88 bytes 2.7 and 17 us.
    """
    import pyarrow.compute as pc

    raw: list[bytes | None] = texts.to_pylist()
    odd: Sequence[int] = pc.indices_nonzero(pc.fill_null(_odd(texts), True)).to_pylist()
    kept = {index: raw[index] for index in odd}
    for index in odd:
        raw[index] = b"null"
    loads = orjson.loads
    try:
        values = list(map(loads, raw))  # type: ignore[arg-type]  # no null is left
    except orjson.JSONDecodeError:
        return [None if text is None else read(text) for text in texts.to_pylist()]
    for index, text in kept.items():
        values[index] = None if text is None else read(text)
    return values


def _odd(texts: pa.BinaryArray) -> pa.BooleanArray:
    """Texts with numbers that orjson may read otherwise, or that may be nested more deeply than it has to see."""
    import pyarrow.compute as pc

    odd = pc.match_substring_regex(texts, _ODD_NUMBER)
    lengths = pc.binary_length(texts)
    if (pc.max(lengths).as_py() or 0) >= _SHORTEST_DEEP:
        is_deep = pc.greater(pc.count_substring_regex(texts, r"[\[{]"), _MOST_BRACKETS)
        odd = pc.or_(odd, pc.and_(is_deep, pc.greater_equal(lengths, _SHORTEST_DEEP)))
    return odd


# More digits than 64 bits hold; a zero with a sign, and what may be rounded to one: a BigDecimal has no sign for it
_ODD_NUMBER: Final = r"[0-9]{19}|(?:^|[\[:, \t\r\n])-0|-[0-9.]+[eE]-"
# JsonReader goes down by recursion, some five hundred levels; each needs two brackets
_MOST_BRACKETS: Final = 200
_SHORTEST_DEEP: Final = 2 * _MOST_BRACKETS
