"""Values as a column of a table takes them without change; sql_target_columns.py has the columns of tables. Pure.

A database changes values without a word: PostgreSQL rounds 3.5 into a bigint and reads "no" as false, MySQL cuts off,
SQLite makes 1234 of "01234". Such a value is an error of its record instead.
"""

from __future__ import annotations

import datetime
import decimal
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kconnect.api import Struct
from kconnect.builtin.connectors.sql.sql_errors import RefusedRecordError
from kconnect.builtin.connectors.sql.sql_targets import (
    ANYTHING,
    REFUSALS,
    Target,
)
from kconnect.builtin.types.fitting import as_text
from kconnect.builtin.types.leaf_columns import exact_decimal

_BITS: Final = {"int8": 8, "int16": 16, "int24": 24, "int32": 32, "int64": 64}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that a table has. `kind`: as of sql_dialect, or empty for a type that is left to the database."""

    name: str
    kind: str
    type_name: str
    precision: int | None = None
    """Digits of a decimal; None for any number of them. Of times, digits behind the second."""
    scale: int = 0
    is_unsigned: bool = False
    is_loose: bool = False
    """Whether any number keeps its value in it, as in SQLite's INTEGER."""
    target: Target = ANYTHING
    is_null_if_left_out: bool = False
    """Whether a row without it is the same as one with null in it: it may be null, and nothing else fills it."""
    is_key: bool = False
    """Whether it is one of the primary key."""
    is_null_for_nan: bool = False
    """Whether NaN would be null in it, as in SQLite."""
    length: int | None = None
    """The most characters of a text, where the database would cut off blanks behind them."""


class TableColumns:
    """The columns of a table by the names of fields, whose case may be another where that makes no other column."""

    def __init__(self, columns: Iterable[TableColumn], *, tells_case: bool) -> None:
        """`tells_case`: whether two names that differ in case alone are two columns."""
        self._named: Callable[[str], str] = str if tells_case else str.lower
        self._columns = {self._named(column.name): column for column in columns}

    def __bool__(self) -> bool:
        return bool(self._columns)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __getitem__(self, name: str) -> TableColumn:
        return self._columns[self._named(name)]

    def get(self, name: str) -> TableColumn | None:
        return self._columns.get(self._named(name))

    def values(self) -> Iterable[TableColumn]:
        return self._columns.values()


class MisfitError(RefusedRecordError):
    """A value that its column would change."""

    def __init__(self, column: TableColumn, value: Any) -> None:
        shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:60] + ".."
        self.column, self.value = column, value
        super().__init__(f"Column {column.name} is {column.type_name}, and would change the value {shown}")


def fitted(column: TableColumn, value: Any, *, is_seen: bool) -> Any:
    """The value as it is handed to the driver. `is_seen`: it came without schema. Errors: MisfitError."""
    if value is None:
        return value
    if value != value and column.is_null_for_nan and column.kind in _NAN_IS_NULL:
        raise MisfitError(column, value)
    is_own = column.kind in _BITS and isinstance(value, bool) and not is_seen  # a schema's boolean may be 0 and 1
    try:
        made = value if is_own or not column.kind else _FITS[column.kind](column, value)
        made = column.target.fitted(made)
    except MisfitError:
        raise
    except REFUSALS as error:
        raise MisfitError(column, value) from error
    if column.kind in CLOCKS and not isinstance(value, _TIMES):  # those of a schema are cut off, as in Java
        _require_digits(column, value, made)
    return made


def is_safe(column: TableColumn | None, values: Sequence[Any]) -> bool:
    """Whether the column takes all values as they are: by far the most. 0.03 us a value, of decimals 0.3."""
    if column is None:
        return True
    kinds = {*map(type, values)}
    if column.is_null_for_nan and float in kinds and any(value != value for value in values):
        return False
    if not column.kind:
        return column.target.takes(kinds)
    if kinds <= _SAFE[column.kind]:
        return column.length is None or (kinds <= _TEXTS and _longest(values) <= column.length)
    if kinds <= _INTS and column.kind in _BITS:
        present = values if _NONE not in kinds else [value for value in values if value is not None]
        low, high = _range(column)
        return bool(low <= min(present) and max(present) < high)
    if column.kind == "decimal" and kinds <= _EXACT_NUMBERS:
        if column.precision is None:
            return True
        return column.scale >= 0 and _has_digits(column, [value for value in values if value is not None])
    return False


def _has_digits(column: TableColumn, numbers: Sequence[Any]) -> bool:
    """Whether a decimal's column has room for all of these: whole numbers and decimals."""
    ends = [value.as_tuple().exponent for value in numbers if type(value) is decimal.Decimal]
    if not all(isinstance(end, int) and end >= -column.scale for end in ends):
        return False
    limit = 10 ** (column.precision - column.scale) if column.precision is not None else 0
    return bool(-limit < min(numbers) and max(numbers) < limit)


def _longest(values: Sequence[str | None]) -> int:
    return max((len(value) for value in values if value is not None), default=0)


def wider(column: TableColumn, value: Any) -> str | None:
    """The kind that holds the value and all that the column may have; None where there is none."""
    if column.kind == "text" and _VARYING.match(column.type_name):
        return "text"
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    if column.kind == "decimal":
        return column.kind
    if column.kind == "float32" and isinstance(value, float):
        return "float64"
    if column.kind not in _BITS:
        return None
    if isinstance(value, float):
        return "float64"
    low = 0 if column.is_unsigned and column.kind == "int64" else -(1 << 63)
    return "int64" if isinstance(value, int) and low <= value < 1 << 63 else "decimal"


def _int(column: TableColumn, value: Any) -> Any:
    if isinstance(value, bool):
        raise MisfitError(column, value)
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            raise MisfitError(column, value)
        value = int(value)
    if isinstance(value, float | decimal.Decimal):
        if value != int(value):
            if column.is_loose and isinstance(value, float):
                return value
            raise MisfitError(column, value)
        value = int(value)
    low, high = _range(column)
    if low <= value < high:
        return value
    if column.is_loose and float(value) == value:
        return float(value)
    raise MisfitError(column, value)


def _range(column: TableColumn) -> tuple[int, int]:
    """The smallest number of a column, and the one above the largest."""
    bits = _BITS[column.kind]
    return (0, 1 << bits) if column.is_unsigned else (-(1 << bits - 1), 1 << bits - 1)


def _double(column: TableColumn, value: Any) -> Any:
    if isinstance(value, str) and value in _NOT_FINITE and column.type_name in _HAVE_NAN:
        return float(value)
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value)):
        raise MisfitError(column, value)
    made = float(value)
    if isinstance(value, str) and decimal.Decimal(value) not in (exact_decimal(made), decimal.Decimal(made)):
        raise MisfitError(column, value)
    if not isinstance(value, str) and made != value and value == value:  # NaN is not equal to itself
        raise MisfitError(column, value)
    return made


def _single(column: TableColumn, value: Any) -> Any:
    """A value that is one of 32 bits; others read back as their fewest digits, which must be all."""
    made = _double(column, value)
    if made != made or made in (float("inf"), float("-inf")):
        return made
    (single,) = struct.unpack("f", struct.pack("f", made))
    if single == made:
        return made  # as a FLOAT32 of a column is: 5.699999809265137 for 5.7
    texts = (f"{single:.{digits}g}" for digits in range(1, 10))
    shortest = next((text for text in texts if struct.pack("f", float(text)) == struct.pack("f", single)), "")
    if not shortest or float(shortest) != made:
        raise MisfitError(column, value)
    return made


def _decimal(column: TableColumn, value: Any) -> Any:
    if column.precision is None and isinstance(value, str) and value in _NOT_FINITE:
        return value
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value)):
        raise MisfitError(column, value)
    number = exact_decimal(value) if isinstance(value, float) else decimal.Decimal(value)
    if column.precision is None:
        return number if isinstance(value, str | float) else value
    if not number.is_finite():
        raise MisfitError(column, value)
    _, digits, exponent = number.normalize(_WIDE).as_tuple()
    whole = max(0, len(digits) + int(exponent))
    if number and (-int(exponent) > column.scale or whole > column.precision - column.scale):
        raise MisfitError(column, value)
    return number


def _money(column: TableColumn, value: Any) -> Any:
    """Sums as the database's locale writes them are left to it."""
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        if not _DIGIT.search(value):  # it takes an empty text for 0
            raise MisfitError(column, value)
        return value
    return _decimal(column, value)


def _year(column: TableColumn, value: Any) -> Any:
    """All four digits: MySQL makes 2001 of 1."""
    made = _int(replace(column, kind="int16"), value)
    if made != 0 and not 1901 <= made <= 2155:
        raise MisfitError(column, value)
    return made


def _member(column: TableColumn, value: Any) -> Any:
    """Reads members of ENUM and SET: MySQL takes digits that are none for the number of one."""
    made = column.target.cell(value)
    if isinstance(made, str) and made.strip().lstrip("+-").isdecimal() and f"'{made}'" not in column.type_name:
        raise MisfitError(column, value)
    return made


def _bool(column: TableColumn, value: Any) -> Any:
    found = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise MisfitError(column, value)
    return found


def _text(column: TableColumn, value: Any) -> Any:
    """Numbers and booleans as JSON: SQLite would write true as 1, and floats with 15 digits."""
    made = as_text(value) if isinstance(value, int | float) else value
    if column.length is None:
        return made
    made = column.target.cell(made)
    if isinstance(made, str) and len(made) > column.length:
        raise MisfitError(column, value)
    return made


def _date(column: TableColumn, value: Any) -> Any:
    if isinstance(value, str):
        if _DAY.fullmatch(value):
            return value
        value = _moment(column, value)
        if isinstance(value, str) and ":" in value:
            raise MisfitError(column, value)
    if isinstance(value, datetime.datetime):
        if value.time() != datetime.time():
            raise MisfitError(column, value)
        return value.date()
    return value


def _timestamp(column: TableColumn, value: Any) -> Any:
    return _moment(column, value) if isinstance(value, str) else value


def _moment(column: TableColumn, text: str) -> Any:
    """A text as a time, with its zone; one that is in no known form is left to the database.

    But for what it guesses at: digits alone, a day without a year of four digits, the name of a zone where it keeps
    none, and words for its own clock. MySQL reads 24:00:00 and 10.0.0.1 as days.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        is_known = _YEAR.search(text) or text.strip().lower().lstrip("+-") == "infinity"
        is_digits = text.strip().isdecimal() and len(text.strip()) != _DIGITS_OF_DAY
        has_name = "with time zone" not in column.type_name and _NAMED_ZONE.search(text)
        if not is_known or is_digits or has_name:
            raise MisfitError(column, text)
        return text
    _require_micros(column, text, found["fraction"])
    return datetime.datetime.fromisoformat(text)


def _time(column: TableColumn, value: Any) -> Any:
    """A text with a zone is of UTC, as a declared time is; those of MySQL may have more hours than a day."""
    if not isinstance(value, str):
        return value
    found = _CLOCK.fullmatch(value)
    if found is None:
        raise MisfitError(column, value)
    _require_micros(column, value, found["fraction"])
    if found["zone"] is None:
        digits = 6 if column.precision is None else column.precision
        if len((found["fraction"] or "").rstrip("0")) > digits:
            raise MisfitError(column, value)
        return value
    clock = datetime.time.fromisoformat(value)
    return (datetime.datetime.combine(_ANY_DAY, clock).astimezone(datetime.UTC)).time()


def _require_micros(column: TableColumn, text: str, fraction: str | None) -> None:
    """Errors: MisfitError for what is finer than a microsecond."""
    if len((fraction or "").rstrip("0")) > 6:
        raise MisfitError(column, text)


def _require_digits(column: TableColumn, value: Any, made: Any) -> None:
    """Errors: MisfitError for a time with more digits behind the second than its column has."""
    micros = made.microsecond if isinstance(made, datetime.datetime | datetime.time) else 0
    if column.precision is not None and micros % 10 ** max(0, 6 - column.precision):
        raise MisfitError(column, value)


def _as_is(column: TableColumn, value: Any) -> Any:
    return value


_VARYING: Final = re.compile("character varying|varchar")
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_HAVE_NAN: Final = ("double precision", "real")
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DIGIT: Final = re.compile(r"\d")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_YEAR: Final = re.compile(r"(?<!\d)\d{4}(?!\d{5})")
_DIGITS_OF_DAY: Final = 8
_NAMED_ZONE: Final = re.compile(r":\d\d(?:[.,]\d+)? *(?!AM|PM|BC|AD)[A-Z]{2}[\w/+-]*\s*$", re.IGNORECASE)
_CLOCK: Final = re.compile(
    r"-?(?:\d+ )?\d{1,3}:\d\d(?::\d\d(?:\.(?P<fraction>\d+))?)?(?: ?[AaPp][Mm])?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?"
)
_ANY_DAY: Final = datetime.date(2000, 1, 1)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.(?P<fraction>\d+))?)?(?:Z|[+-]\d\d(?::?\d\d)?)?")
_WIDE: Final = decimal.Context(prec=100_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)

_FITS: Final[Mapping[str, Callable[[TableColumn, Any], Any]]] = {
    **dict.fromkeys(_BITS, _int),
    "float32": _single,
    "float64": _double,
    "decimal": _decimal,
    "bool": _bool,
    "text": _text,
    "date": _date,
    "timestamp": _timestamp,
    "bytes": _as_is,
    "time": _time,
    "money": _money,
    "year": _year,
    "member": _member,
}
_NAN_IS_NULL: Final = ("float64", "")
_NONE: Final = type(None)
_INTS: Final = frozenset({_NONE, int})
_EXACT_NUMBERS: Final = frozenset({_NONE, int, decimal.Decimal})
_TEXTS: Final = frozenset({_NONE, str})
_TIMES: Final = (datetime.date, datetime.time, datetime.datetime)
CLOCKS: Final = ("time", "timestamp")
_SAFE: Final[Mapping[str, frozenset[type]]] = {
    **{kind: frozenset({_NONE}) for kind in _BITS},
    "float32": frozenset({_NONE}),
    "float64": frozenset({_NONE, float}),
    "decimal": frozenset({_NONE}),
    "bool": frozenset({_NONE, bool}),
    "text": frozenset({_NONE, str, bytes, bytearray, decimal.Decimal, list, dict, Struct, *_TIMES}),
    "date": frozenset({_NONE, datetime.date}),
    "timestamp": frozenset({_NONE, *_TIMES}),
    "bytes": frozenset({_NONE, bytes, bytearray}),
    "time": frozenset({_NONE, datetime.time}),
    **{kind: frozenset({_NONE}) for kind in ("money", "year", "member")},
}
