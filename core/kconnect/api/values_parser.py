"""The parser behind `values.parse_string`: converts a text to its most likely value.

Works token by token, where `:,{}[]"` end a token unless escaped by a backslash. Anything that is not a list or map is
text. Source: Values.ValueParser, Values.Parser.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any

from kconnect.api.logical import Date, Decimal, Time, Timestamp
from kconnect.api.schema import Schema, SchemaAndValue
from kconnect.api.schema_types import Type
from kconnect.api.values_text import single_precision
from kconnect.errors import DataError

Convert = Callable[[Schema, Schema | None, Any], Any]

# The syntax of Java's BigDecimal. Ten digits of exponent exceed its scale.
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")

# By the text's length, as in Java; its lenient parser accepts any number of digits, and ignores the rest.
_DATE = re.compile(r"\s*(\d+)-\s*(\d+)-\s*(\d+)")
_TIME = re.compile(r"\s*(\d+):\s*(\d+):\s*(\d+)\.\s*(\d+)Z")
_TIMESTAMP = re.compile(_DATE.pattern + "T" + _TIME.pattern)
_DATE_LENGTH, _TIME_LENGTH, _TIMESTAMP_LENGTH = 10, 13, 24

_DELIMITERS = frozenset(':,{}[]"')
_BLANK = "".join(map(chr, range(33)))  # removed by Java's trim
_WIDENING = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_TRUE = SchemaAndValue(Schema.BOOLEAN_SCHEMA, True)
_FALSE = SchemaAndValue(Schema.BOOLEAN_SCHEMA, False)


def parse(text: str, convert: Convert) -> SchemaAndValue | None:
    """The value and schema of a text; None for the text `null`. `convert` aligns list elements to their common type."""
    if not text:
        return SchemaAndValue(Schema.STRING_SCHEMA, text)
    return _ValueParser(text, convert).parse(embedded=False)


class _Tokens:
    """Tokens of a text, with one token of lookahead; can return to a marked position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._ahead: str | None = None
        self.last: str | None = None

    def mark(self) -> int:
        return self._at - len(self._ahead or "")

    def rewind(self, place: int) -> None:
        self._at, self._ahead, self.last = place, None, None

    def more(self) -> bool:
        return self._ahead is not None or self._at < len(self.text)

    def next(self) -> str:
        self.last = self._cut() if self._ahead is None else self._ahead
        self._ahead = None
        return self.last

    def next_joined(self, count: int) -> str | None:
        """The text of the next tokens together, or None (and none consumed) if there are fewer."""
        start = self.mark()
        for _ in range(count):
            if not self.more():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._at]

    def take(self, expected: str) -> bool:
        """Consume the next token if it is this one; blank tokens before it are skipped, and stay skipped."""
        if self._ahead is None:
            if not self.more():
                return False
            self._ahead = self._cut()
        while not self._ahead.strip(_BLANK) and self._at < len(self.text):
            self._ahead = self._cut()
        if self._ahead.strip(_BLANK) != expected:
            return False
        self._ahead = None
        return True

    def _cut(self) -> str:
        start, escaped = self._at, False
        while self._at < len(self.text):
            char = self.text[self._at]
            if char in _DELIMITERS and not escaped:
                if start == self._at:
                    self._at += 1
                break
            escaped = char == "\\" and not escaped
            self._at += 1
        return self.text[start : self._at]


class _ValueParser:
    """One parse of one text."""

    def __init__(self, text: str, convert: Convert) -> None:
        self._tokens = _Tokens(text)
        self._convert = convert

    def parse(self, embedded: bool) -> SchemaAndValue | None:
        tokens = self._tokens
        if not tokens.more():
            return None
        if embedded and tokens.take('"'):
            return self._quoted()
        for literal, meaning in (("null", None), ("true", _TRUE), ("false", _FALSE)):
            if self._is_literal(literal, embedded):
                return meaning
        start = tokens.mark()
        try:
            if tokens.take("["):
                return self._list()
            if tokens.take("{"):
                return self._map()
        except DataError:
            tokens.rewind(start)  # not well formed: it is text
        token = tokens.next()
        if not token.strip(_BLANK):
            return SchemaAndValue(Schema.STRING_SCHEMA, token)
        return self._scalar(token.strip(_BLANK), embedded)

    def _is_literal(self, literal: str, embedded: bool) -> bool:
        """Whether the next token is this word; at top level nothing may follow it."""
        start = self._tokens.mark()
        if self._tokens.take(literal) and (embedded or not self._tokens.more()):
            return True
        self._tokens.rewind(start)
        return False

    def _scalar(self, token: str, embedded: bool) -> SchemaAndValue:
        first = token[0]
        if first.isdecimal():
            found = self._temporal_of_tokens(token)
            if found is not None:
                return found
        if (first.isdecimal() or first in "+-") and NUMBER.fullmatch(token):
            return _number(decimal.Decimal(token))
        if embedded:
            raise DataError("Failed to parse embedded value")
        return SchemaAndValue(Schema.STRING_SCHEMA, self._tokens.text)

    def _temporal_of_tokens(self, token: str) -> SchemaAndValue | None:
        """A time contains two colons, so it is five tokens."""
        start = self._tokens.mark()
        rest = self._tokens.next_joined(4)
        if rest is not None:
            found = _temporal(token + rest)
            if found is not None:
                return found
        self._tokens.rewind(start)
        return _temporal(token)

    def _quoted(self) -> SchemaAndValue:
        parts = []
        while self._tokens.more() and not self._tokens.take('"'):
            parts.append(self._tokens.next())
        content = "".join(parts)
        return _temporal(content) or SchemaAndValue(Schema.STRING_SCHEMA, content)

    def _list(self) -> SchemaAndValue:
        tokens, common = self._tokens, _Common()
        items: list[Any] = []
        while tokens.more():
            if tokens.take("]"):
                schema = common.schema
                if schema is not None:
                    items = [self._convert(schema, None, item) for item in items]
                return SchemaAndValue(Schema(Type.ARRAY, value_schema=schema), items)
            if tokens.take(","):
                raise DataError(f"Unable to parse an empty array element: {tokens.text}")
            element = self.parse(embedded=True)
            common.merge(element)
            items.append(None if element is None else element.value)
            place = tokens.mark()
            if tokens.take("]"):
                tokens.rewind(place)
            elif not tokens.take(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {tokens.text}")

    def _map(self) -> SchemaAndValue:
        tokens, keys, items = self._tokens, _Common(), _Common()
        entries: list[tuple[Any, Any]] = []
        while tokens.more():
            if tokens.take("}"):
                return self._finished_map(entries, keys.schema, items.schema)
            if tokens.take(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key = self.parse(embedded=True)
            if key is None or key.value is None:
                raise DataError(f"Map entry may not have a null key: {tokens.text}")
            if isinstance(key.value, list | dict):
                raise DataError(f"A list or map cannot be a key of a Python dict: {tokens.text}")
            if not tokens.take(":"):
                raise DataError(f"Map entry is missing ':' in {tokens.text}")
            item = self.parse(embedded=True)
            entries.append((key.value, None if item is None else item.value))
            tokens.take(",")
            keys.merge(key)
            items.merge(item)
        raise DataError(f"Map is missing terminating '}}': {tokens.text}")

    def _finished_map(
        self, entries: list[tuple[Any, Any]], key_schema: Schema | None, value_schema: Schema | None
    ) -> SchemaAndValue:
        if key_schema is None:
            return SchemaAndValue(Schema(Type.MAP), dict(entries))
        result = {}
        for key, item in entries:
            aligned = item if value_schema is None else self._convert(value_schema, None, item)
            result[self._convert(key_schema, None, key)] = aligned
        return SchemaAndValue(Schema(Type.MAP, key_schema=key_schema, value_schema=value_schema), result)


class _Common:
    """The one schema that all elements can have; None while it is unknown, and after a conflict."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._clashed = False

    def merge(self, latest: SchemaAndValue | None) -> None:
        if latest is None or latest.schema is None or self._clashed:
            return
        self.schema = latest.schema if self.schema is None else _merged(self.schema, latest.schema)
        self._clashed = self.schema is None


def _merged(previous: Schema, latest: Schema) -> Schema | None:
    """The wider of two number schemas, or the later of two of one type; None if they are incompatible.

    None of the parser's schemas is optional, so Java's rules about that do not apply.
    """
    if previous.type is latest.type:
        return latest
    if previous.type not in _WIDENING or latest.type not in _WIDENING:
        return None
    return previous if _WIDENING.index(previous.type) > _WIDENING.index(latest.type) else latest


def _number(number: decimal.Decimal) -> SchemaAndValue:
    """The narrowest type that fits a number: integers for whole numbers, else floats, else Decimal."""
    exponent = number.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    # Below 10 ** 19 it may fit in 64 bits; only then is the whole number written out.
    if number.adjusted() < 19 and number == number.to_integral_value():
        whole = int(number)
        for bits, schema in _INTEGERS:
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return SchemaAndValue(schema, whole)
    if scale != 0:
        single = single_precision(number)
        if abs(single) != float("inf"):
            return SchemaAndValue(Schema.FLOAT32_SCHEMA, single)
        double = float(number)
        if abs(double) != float("inf"):
            return SchemaAndValue(Schema.FLOAT64_SCHEMA, double)
    return SchemaAndValue(Decimal.schema(scale), number)


_INTEGERS = (
    (8, Schema.INT8_SCHEMA),
    (16, Schema.INT16_SCHEMA),
    (32, Schema.INT32_SCHEMA),
    (64, Schema.INT64_SCHEMA),
)


def _temporal(token: str) -> SchemaAndValue | None:
    """A date, time or timestamp, distinguished by the text's length; out-of-range parts carry over, as in Java."""
    text = token.replace("\\:", ":")
    try:
        if len(text) == _TIME_LENGTH and (match := _TIME.match(text)):
            millis = _time_of_day(*map(int, match.groups()))
            return SchemaAndValue(Time.SCHEMA, Time.to_logical(Time.SCHEMA, millis))
        if len(text) == _TIMESTAMP_LENGTH and (match := _TIMESTAMP.match(text)):
            parts = tuple(map(int, match.groups()))
            millis = _day(*parts[:3]) * 24 * 60 * 60 * 1000 + _time_of_day(*parts[3:])
            return SchemaAndValue(Timestamp.SCHEMA, Timestamp.to_logical(Timestamp.SCHEMA, millis))
        if len(text) == _DATE_LENGTH and (match := _DATE.match(text)):
            return SchemaAndValue(Date.SCHEMA, Date.to_logical(Date.SCHEMA, _day(*map(int, match.groups()))))
    except (DataError, ValueError, OverflowError):
        return None  # no such day in Python's calendar: so it is text
    return None


def _time_of_day(hours: int, minutes: int, seconds: int, millis: int) -> int:
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis


def _day(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date whose month and day may overflow: month 13 is January, 31 June is 1 July."""
    years, month_index = divmod(month - 1, 12)
    first = datetime.date(year + years, month_index + 1, 1)
    return first.toordinal() - datetime.date(1970, 1, 1).toordinal() + day - 1
