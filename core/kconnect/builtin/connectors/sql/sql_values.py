"""Values of a driver that Arrow does not take as they are, one by one. Pure.

Errors of all: ValueError, TypeError, ArithmeticError, KeyError for what is no value of the type.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kconnect.api import Decimal
from kconnect.builtin.types.iso_text import clock_of_iso, moment_of_iso

WHOLE = ("int8", "int16", "int32", "int64")

_EXACT = decimal.Context(prec=100_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
# Of a sum of doubles, as SQLite keeps its decimals: of its size, and how many digits behind those that it should have
_NOISE, _NOISE_DIGITS = decimal.Decimal("1e-12"), 3
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - SQLite's numbers have no zone either
_DAY = datetime.timedelta(days=1)
_JULIAN_1970 = 2_440_587.5
_MS_A_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value that Python has not: the database's text for it, and what the driver says."""

    text: str
    says: str


def first_time(kind: str) -> datetime.date:
    """The first value of a column of dates or times; by the clock of its database where those have no zone."""
    if kind == "date":
        return datetime.date.min
    return datetime.datetime.min.replace(tzinfo=None if kind == "timestamp" else datetime.UTC)


def is_before_calendar(value: Any) -> bool:
    """Whether it is a time of PostgreSQL before year 1."""
    return isinstance(value, Unreadable) and (value.text == "-infinity" or value.text.endswith(" BC"))


def readable(value: Any) -> Any:
    """The value. Errors: ValueError for what Python has not."""
    if isinstance(value, Unreadable):
        raise ValueError(value.says)
    return value


def known_of(value: Any) -> Any:
    """What is known of a value, for people and dead letters: JSON's values as they are, others as text."""
    if isinstance(value, Unreadable):
        return value.text
    return value if value is None or isinstance(value, str | int | float | bool) else _text(value)


def decimal_of(value: Any, scale: int, is_bytes: bool) -> Any:
    """A number with just that scale; as bytes where Arrow's decimals are too narrow."""
    number = _number(value)
    exact = number.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
    least = min(abs(number) * _NOISE, decimal.Decimal(1).scaleb(-scale - _NOISE_DIGITS))
    is_noise = isinstance(value, float) and abs(exact - number) <= least
    if exact != number and not is_noise:
        raise ValueError(f"{number} has more than {scale} digits behind the point")
    return Decimal.from_logical(Decimal.schema(scale), exact) if is_bytes else exact


def list_of(value: Any) -> list[Any]:
    """An array: a list as it is, or PostgreSQL's text of one, `{1,NULL,"a b",{2}}`, with texts for its elements."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(value)
    text = value.decode() if isinstance(value, bytes) else value
    if text.startswith("["):  # bounds that begin elsewhere than at 1: [0:1]={a,b}
        text = text.partition("=")[2]
    found, end = _list_at(text, 0)
    if end != len(text):
        raise ValueError(f"{text!r} is not an array")
    return found


_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)


def _list_at(text: str, start: int) -> tuple[list[Any], int]:
    if text[start : start + 1] != "{":
        raise ValueError(f"{text!r} is not an array")
    found: list[Any] = []
    at = start + 1
    while text[at : at + 1] != "}":
        if text[at : at + 1] == "{":
            inner, at = _list_at(text, at)
            found.append(inner)
        else:
            match = _ELEMENT.match(text, at)
            if match is None:
                raise ValueError(f"{text!r} is not an array")
            quoted, plain = match.groups()
            is_null = plain is not None and plain.upper() == "NULL"
            found.append(None if is_null else plain if plain is not None else re.sub(r"(?s)\\(.)", r"\1", quoted))
            at = match.end()
        if text[at : at + 1] == ",":
            at += 1
    return found, at + 1


def element_bytes(value: Any) -> Any:
    """An element of an array of bytes, which PostgreSQL writes as a text of hexadecimal digits: there alone."""
    is_text = isinstance(value, str) and value.startswith("\\x")
    return bytes.fromhex(value[2:]) if is_text else value


def _number(value: Any) -> decimal.Decimal:
    if isinstance(value, bytes):  # MySQL's BIT
        return decimal.Decimal(int.from_bytes(value, "big"))
    return value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))


def _whole(value: Any) -> int:
    if isinstance(value, float | decimal.Decimal) and value == int(value):
        return int(value)
    if isinstance(value, bytes):
        return int.from_bytes(value, "big")
    if isinstance(value, str):  # an element of an array
        return int(value)
    if not isinstance(value, int):
        raise TypeError(type(value).__name__)
    return value


def _float(value: Any) -> float:
    found = float(value)
    if isinstance(value, int) and int(found) != value:
        raise ValueError(f"{value} has more digits than a double")
    return found


def _money(text: str) -> float:
    """PostgreSQL's money, written as its locale does: $1,234.50, -1.234,50 EUR, ($5.00). Also plain numbers.

    Of that type alone: elsewhere a text with digits in it, such as a UUID in a column of SQLite, is not a number.
    """
    with contextlib.suppress(ValueError):
        return float(text)
    digits = re.sub(r"[^0-9.,]", "", text).strip(".,")
    last = max(digits.rfind("."), digits.rfind(","))
    if last >= 0 and len(digits) - last - 1 != 3:  # else it parts thousands
        digits = re.sub(r"[.,]", "", digits[:last]) + "." + digits[last + 1 :]
    else:
        digits = re.sub(r"[.,]", "", digits)
    return -float(digits) if "-" in text or text.strip().startswith("(") else float(digits)


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        return {"1": True, "0": False, "t": True, "f": False, "true": True, "false": False}[value.lower()]
    if isinstance(value, bytes):
        return any(value)
    if value not in (0, 1):
        raise ValueError(f"{value} is neither 0 nor 1")
    return bool(value)


def _text(value: Any) -> str:
    """Writes any value: lists and mappings as JSON, bytes in base64, as Connect's JSON has them; decimals in full."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=_text)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return str(value)


def _date(value: Any) -> datetime.date:
    if isinstance(value, str):
        found = moment_of_iso(value)
        if found.time() != datetime.time() or found.tzinfo is not None:
            raise ValueError(f"{value} is more than a date")
        return found.date()
    return _moment(value).date()


def _time(value: Any) -> datetime.time:
    if isinstance(value, int | float):
        return _moment(value).time()
    if isinstance(value, datetime.timedelta):
        if not datetime.timedelta() <= value < _DAY:
            raise ValueError(f"{value} is not a time of day")
        return (_EPOCH + value).time()
    found = clock_of_iso(value) if isinstance(value, str) else value
    if found.tzinfo is not None:
        raise ValueError(f"{value} has a zone")
    clock: datetime.time = found
    return clock


def _moment(value: Any) -> datetime.datetime:
    """A time without zone: of text in ISO form, of milliseconds since 1970, of SQLite's REAL, which is a Julian day.

    Source: JDBC3ResultSet#getTimestamp of org.sqlite (sqlite-jdbc 3.50), https://sqlite.org/datatype3.html, 2.2.
    """
    if isinstance(value, float):
        return _EPOCH + datetime.timedelta(milliseconds=round((value - _JULIAN_1970) * _MS_A_DAY))
    if isinstance(value, int):
        return _EPOCH + datetime.timedelta(milliseconds=value)
    found = moment_of_iso(value) if isinstance(value, str) else value
    if not isinstance(found, datetime.datetime):
        raise TypeError(f"{type(value).__name__} is not a time")
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)


def utc_of(value: Any, zone: datetime.tzinfo) -> datetime.datetime:
    """A time in UTC. `zone` is that of times that do not say by themselves when they are.

    Milliseconds since 1970 say it, and what has a zone of its own; a Julian day is of the wall's clock, as in Java.
    """
    local = _moment(value)
    if type(value) is int or (isinstance(value, str) and moment_of_iso(value).tzinfo is not None):
        return local.replace(tzinfo=datetime.UTC)
    return local.replace(tzinfo=zone).astimezone(datetime.UTC)


def utc_text(value: Any, zone: datetime.tzinfo) -> str | None:
    """The same as text, to the millisecond; None for what is no time."""
    try:
        rounded = utc_of(value, zone) + datetime.timedelta(microseconds=500)
    except _REFUSALS:
        return None
    return rounded.replace(tzinfo=None).isoformat(" ", "milliseconds")


_REFUSALS = (ValueError, TypeError, ArithmeticError)


def _bytes(value: Any) -> bytes:
    if isinstance(value, int | float):  # in a BLOB of SQLite: its text, as sqlite3_column_blob has it
        value = str(value)
    return value.encode() if isinstance(value, str) else bytes(value)


COERCE: dict[str, Callable[[Any], Any]] = {
    "bool": _bool,
    **dict.fromkeys(WHOLE, _whole),
    "float32": _float,
    "float64": _float,
    "money": _money,
    "string": _text,
    "bytes": _bytes,
    "date": _date,
    "time": _time,
    "timestamp": _moment,
    "timestamptz": lambda value: _moment(value).replace(tzinfo=datetime.UTC),
}
"""For each kind of column what makes a value of it."""
