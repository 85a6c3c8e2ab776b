"""What a driver is given for a value, by the type of the column that it goes into: casts by what the table says. Pure.

What a database takes rightly by itself is given to it as it is. What it would refuse (a list for an array, a number for
a text or for JSON) is read as docs/types.md says of the type. `sql_fit.py` has what a column would change.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from kconnect.api import Struct
from kconnect.builtin.types.column_type import ColumnType, schema_of
from kconnect.builtin.types.exact_numbers import exact_json
from kconnect.builtin.types.fitting import NotFittingError, as_text, json_text
from kconnect.builtin.types.reading import reader_of

Make = Callable[[Any], Any]

_NONE: Final = type(None)
_NUMBERS: Final[frozenset[type]] = frozenset((int, float))
REFUSALS: Final = (NotFittingError, ValueError, TypeError, ArithmeticError)
_NESTED: Final[frozenset[type]] = frozenset((list, tuple, dict, Struct))
_OTHERS: Final[frozenset[type]] = frozenset(
    (bool, bytearray, decimal.Decimal, datetime.datetime, datetime.date, datetime.time)
)


@dataclass(frozen=True, slots=True)
class Target:
    """A column of a table that is there. `passes`: types of Python that the driver is given as they are."""

    passes: frozenset[type]
    make: Make
    """What it is given for another value. Errors: those of `REFUSALS`."""

    makes: frozenset[type] = frozenset()
    """Types of which `make` takes every value."""

    def takes(self, kinds: Set[type]) -> bool:
        """Whether it takes all values of these types."""
        return kinds <= self.passes or kinds <= self.passes | self.makes

    def cells(self, values: Sequence[Any]) -> Sequence[Any]:
        """Values that it takes, as the driver does."""
        if self.passes.issuperset(map(type, values)):
            return values
        passes, make = self.passes, self.make
        return [value if type(value) in passes else make(value) for value in values]

    def cell(self, value: Any) -> Any:
        """A value as the driver takes it. Errors: those of `REFUSALS`."""
        return value if type(value) in self.passes else self.make(value)

    def fitted(self, value: Any) -> Any:
        """A value that it takes, made so if need be. Errors: those of `REFUSALS`."""
        kind = type(value)
        return value if kind in self.passes or kind in self.makes else self.make(value)


def plain_target(adapt: Make) -> Target:
    """A column of which nothing is known: lists and maps are JSON. `adapt`: what the driver takes for other values."""
    passes: frozenset[type] = frozenset((str, int, float, bytes, _NONE))
    return Target(passes, lambda value: as_text(value) if type(value) in _NESTED else adapt(value), _OTHERS | _NESTED)


ANYTHING: Final = Target(_OTHERS | {str, int, float, bytes, _NONE}, as_text, _NESTED)
"""Fits a column of which nothing is known, for a driver that takes all of Python's values."""


def postgres_target(type_name: str, zone: datetime.tzinfo) -> Target:
    """By the name that format_type gives. `zone`: of times in columns that have none."""
    name = re.sub(r"\(.*\)", "", type_name).rpartition(".")[2]  # an extension may be in any schema
    kind = _POSTGRES.get(name)
    if kind is not None:
        return _target(kind)
    if name in ("bit", "bit varying"):
        return Target(frozenset((str, _NONE)), _digits)
    special: Mapping[str, Make] = {"hstore": _hstore, "interval": _number_in_words, "money": _number_in_words}
    make = _refused if name in _ADDRESSES else special.get(name, _in_words)
    return Target(frozenset((str, _NONE)), make)


def array_target(type_name: str, inner: Target, fit: Make, zone: datetime.tzinfo) -> Target:
    """An array of elements of that type of PostgreSQL. `fit`: what makes one fit it. `zone`: as of the above."""
    element, of_json = _element_of(inner, fit, type_name, zone), type_name in _JSON
    return Target(frozenset((_NONE,)), lambda value: _array(value, element, of_json=of_json))


def mysql_target(type_name: str, adapt: Make) -> Target:
    """By the type that SHOW COLUMNS gives. `adapt`: gives times without zone."""
    name = re.split(r"[ (]", type_name, maxsplit=1)[0].lower()
    kind = _MYSQL.get(name)
    if kind is None:
        return Target(frozenset((str, int, float, bool, bytes, _NONE)), lambda value: adapt(_text(value)))
    if kind == "bit":
        return Target(frozenset((int, bool, bytes, _NONE)), _bits)
    if kind == "set":
        return Target(frozenset((str, _NONE)), _set_member)
    if kind in _READ_TIMES:
        return _mysql_time(kind, adapt)
    return _target(kind, _MYSQL_MORE.get(kind, frozenset()))


# --- by kind ---

_JSON: Final = ("json", "jsonb")
_ADDRESSES: Final = ("inet", "cidr", "macaddr", "macaddr8")  # which PostgreSQL reads numbers as
_POSTGRES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("smallint", "integer", "bigint", "oid"), "whole"),
    **dict.fromkeys(("real", "double precision", "numeric"), "number"),
    "boolean": "boolean",
    **dict.fromkeys(("text", "character varying", "character", "citext", "name"), "string"),
    "bytea": "binary",
    **dict.fromkeys(_JSON, "json"),
    "date": "date",
    "time without time zone": "time",
    "time with time zone": "time",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamp",
}
_MYSQL: Final[Mapping[str, str]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "integer", "bigint"), "whole"),
    **dict.fromkeys(("decimal", "float", "double", "year"), "number"),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"), "string"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "binary"),
    **{name: name for name in ("json", "date", "time", "timestamp", "bit", "set")},
    "datetime": "timestamp",
}
_MYSQL_MORE: Final[Mapping[str, frozenset[type]]] = {
    "string": frozenset((bytes,)),
    "whole": frozenset((bool,)),
    "number": frozenset((bool,)),
}
_READ_TIMES: Final = ("date", "time", "timestamp")
# What databases take rightly for a kind of columns
_TAKEN: Final[Mapping[str, frozenset[type]]] = {
    "whole": frozenset((int,)),
    "number": frozenset((int, float, decimal.Decimal, str)),
    "boolean": frozenset((bool,)),
    "string": frozenset((str,)),
    "binary": frozenset((bytes,)),
    "json": frozenset(),
    "date": frozenset((datetime.date, datetime.datetime, str)),
    "time": frozenset((datetime.time, str)),
    "timestamp": frozenset((datetime.datetime, datetime.date, str)),
}


def _target(kind: str, more: frozenset[type] = frozenset()) -> Target:
    """A column of a kind of `_TAKEN`; `more`: what it takes beside the usual."""
    special: Mapping[str, Make] = {
        "whole": _whole,
        "number": _refused,
        "string": _text,
        "binary": _bytes,
        "json": _json,
    }
    make = special.get(kind) or _reader(kind)
    makes = _OTHERS | _NESTED | _NUMBERS | {str} if kind in ("string", "json") else frozenset()
    return Target(_TAKEN[kind] | more | {_NONE}, make, makes)


def _reader(name: str) -> Make:
    kind = ColumnType(name)
    return reader_of(kind, schema_of(kind))


def _whole(value: Any) -> int:
    """A fraction is none; which size it has the database says. What a schema calls boolean may be kept as 0 and 1."""
    number = decimal.Decimal(value) if isinstance(value, str) else value
    if isinstance(number, bool | float | decimal.Decimal) and number == int(number):
        return int(number)
    return int(_refused(value))


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return as_text(value)


def _json(value: Any) -> str:
    """A text of JSON as it is, any other as a text in it."""
    if isinstance(value, str):
        found: str = _reader("json")(value)
        return found
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return f"{value:f}"
    return json_text(value)


def _bytes(value: Any) -> bytes:
    """Reads base64, or PostgreSQL's own text, which begins as no base64 does."""
    if isinstance(value, str) and value.startswith("\\x"):
        return bytes.fromhex(value[2:])
    found: bytes = _reader("binary")(value)
    return found


def _refused(value: Any) -> Any:
    raise TypeError(type(value).__name__)


def _in_words(value: Any) -> str:
    """For types of which only the database knows the texts: addresses, intervals, ranges, those of users."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, datetime.datetime) else as_text(value)


def _number_in_words(value: Any) -> str:
    """The same of types that read their number out of a list, too."""
    if isinstance(value, bool) or type(value) in _NESTED:
        _refused(value)
    return _in_words(value)


def _digits(value: Any) -> str:
    """Writes PostgreSQL's BIT: 101 is its digits."""
    return str(value if type(value) is int else _whole(value))


def _bits(value: Any) -> int:
    """Writes MySQL's BIT from its digits."""
    if not isinstance(value, str) or not re.fullmatch("[01]+", value):
        _refused(value)
    return int(value, 2)


def _hstore(value: Any) -> str:
    if not isinstance(value, Mapping):
        raise TypeError(type(value).__name__)
    pairs = ((_quoted(str(key)), "NULL" if item is None else _quoted(as_text(item))) for key, item in value.items())
    return ", ".join(f"{key}=>{item}" for key, item in pairs)


def _set_member(value: Any) -> str:
    """Writes MySQL's SET: members with commas between."""
    if isinstance(value, list | tuple):
        return ",".join(as_text(item) for item in value)
    return as_text(value)


def _mysql_time(kind: str, adapt: Make) -> Target:
    """Times of ISO's form go there as those without zone that MySQL knows; its own texts as they are."""
    read = _reader(kind)

    def make(value: Any) -> Any:
        if isinstance(value, str) and not (kind != "time" and _OF_ISO.search(value)):
            return value
        return adapt(value if isinstance(value, datetime.datetime) else read(value))

    return Target(frozenset((datetime.date, datetime.time, _NONE)), make, frozenset((datetime.datetime,)))


_OF_ISO: Final = re.compile(r"\dT\d|Z$|:\d\d([.,]\d+)?[+-]\d\d:?\d\d$")


# --- arrays of PostgreSQL ---


def _array(value: Any, element: Make, *, of_json: bool) -> Any:
    """Its text, for a list or for a text of JSON; PostgreSQL's own text stays. `of_json`: lists inside are elements."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return value
        value = exact_json(value)
    if not isinstance(value, list | tuple):
        raise TypeError(type(value).__name__)
    texts = (
        "NULL"
        if item is None
        else _array(item, element, of_json=False)
        if isinstance(item, list | tuple) and not of_json
        else element(item)
        for item in value
    )
    return "{" + ",".join(texts) + "}"


def _element_of(target: Target, fit: Make, type_name: str, zone: datetime.tzinfo) -> Make:
    """What makes an element's text in an array's."""
    has_no_zone = type_name.startswith("timestamp") and type_name.endswith("without time zone")

    def make(value: Any) -> str:
        made = target.cell(fit(value))
        if isinstance(made, str):
            return _quoted(made)
        if isinstance(made, bool):
            return "t" if made else "f"
        if isinstance(made, datetime.datetime) and made.tzinfo is not None and has_no_zone:
            made = made.astimezone(zone).replace(tzinfo=None)
        if isinstance(made, datetime.date | datetime.time):
            return _quoted(made.isoformat())
        if isinstance(made, bytes | bytearray):
            return f'"\\\\x{bytes(made).hex()}"'
        if isinstance(made, float) and not math.isfinite(made):
            return _quoted(str(made))
        return f"{made:f}" if isinstance(made, decimal.Decimal) else repr(made)

    def of_json(value: Any) -> str:
        return _quoted(target.make(value))

    return of_json if type_name in _JSON else make


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
