"""The forms an instant may have in a record, and the way from one to another by way of ms since the epoch.

`converted_column` does it for columns, where Arrow's kernels give what Java gives.

As text and back: for the patterns people write most; others go value by value.
"""

from __future__ import annotations

import datetime
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConnectError, DataError, Date, Schema, SchemaBuilder, Time, Timestamp, Type
from kconnect.java.compat.simple_date_format import DatePattern, format_instant, parse_instant
from kconnect.java.compat.to_string import java_class

if TYPE_CHECKING:
    import pyarrow as pa


STRING, UNIX, DATE, TIME, TIMESTAMP = "string", "unix", "Date", "Time", "Timestamp"
TARGETS: Final = (STRING, UNIX, DATE, TIME, TIMESTAMP)
UNITS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")

# How many of the unit are a ms, or how many ms the unit is
FINER: Final = {"nanoseconds": 1_000_000, "microseconds": 1000}
COARSER: Final = {"seconds": 1000}

_MILLIS_PER_DAY = 86_400_000
_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimestampFormat:
    """What a TimestampConverter was reported: the form to make, the unit of numbers, and the pattern of texts, if
    any.
    """

    target: str
    unit: str
    pattern: DatePattern | None


def target_schema(target: str, is_optional: bool) -> Schema:
    """The schema of a form."""
    return _SCHEMAS[target, is_optional]


def kind_of(schema: Schema) -> str:
    """The form that values of a schema have. Errors: ConnectError for a schema of no instants."""
    named = _NAMED.get(schema.name or "")
    if named is not None:
        return named
    if schema.type is Type.STRING:
        return STRING
    if schema.type is Type.INT64:
        return UNIX
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def converted(schema: Schema | None, value: Any, to: TimestampFormat) -> Any:
    """The value in the form asked for; None stays None, whatever its schema. Errors: DataError, ConnectError."""
    kind = None if schema is None else kind_of(schema)
    if value is None:
        return None
    return _from_millis(_to_millis(_inferred(value) if kind is None else kind, value, to), to)


def _inferred(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return TIMESTAMP
    if isinstance(value, int) and not isinstance(value, bool):
        return UNIX
    if isinstance(value, str):
        return STRING
    raise DataError(f"TimestampConverter does not support class {java_class(value)} objects as timestamps")


def _to_millis(kind: str, value: Any, given: TimestampFormat) -> int:
    if kind == STRING:
        return _read(value, given.pattern)
    if kind == UNIX:
        return _unix_millis(value, given.unit)
    if isinstance(value, datetime.datetime):
        return Timestamp.from_logical(Timestamp.SCHEMA, value)
    if isinstance(value, datetime.date):
        return Date.from_logical(Date.SCHEMA, value) * _MILLIS_PER_DAY
    if isinstance(value, datetime.time):
        return Time.from_logical(Time.SCHEMA, value)
    raise DataError(f"Expected {kind} to be a java.util.Date, but found class {java_class(value)}")


def _read(text: Any, pattern: DatePattern | None) -> int:
    if not isinstance(text, str):
        raise DataError(f"Expected string timestamp to be a String, but found class {java_class(text)}")
    if pattern is None:
        raise DataError(f"The text {text} can be read as a timestamp only with the setting 'format'")
    refused = pattern.refused_letters
    found = None if refused else parse_instant(pattern, text, datetime.datetime.now(datetime.UTC))
    if found is None:
        reason = f"; patterns with {' and '.join(refused)} are not read" if refused else ""
        raise DataError(f"Could not parse timestamp: value ({text}) does not match pattern ({pattern.text}){reason}")
    return found


def _unix_millis(value: Any, unit: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"Expected Unix timestamp to be a Long, but found class {java_class(value)}")
    if unit in FINER:
        return _towards_zero(value, FINER[unit])
    return _saturated(value * COARSER.get(unit, 1))


def _from_millis(millis: int, to: TimestampFormat) -> Any:
    if to.target == STRING:
        if to.pattern is None:
            raise DataError("An instant can be written as text only with the setting 'format'")
        return format_instant(to.pattern, millis)
    if to.target == UNIX:
        if to.unit in FINER:
            return _saturated(millis * FINER[to.unit])
        return _towards_zero(millis, COARSER.get(to.unit, 1))
    if to.target == DATE:
        return Date.to_logical(Date.SCHEMA, millis // _MILLIS_PER_DAY)
    if to.target == TIME:
        return Time.to_logical(Time.SCHEMA, millis % _MILLIS_PER_DAY)
    return Timestamp.to_logical(Timestamp.SCHEMA, millis)


def _towards_zero(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def _saturated(value: int) -> int:
    """The nearest number of 64 bits. Source: java.util.concurrent.TimeUnit."""
    return max(-_LONG_MAX - 1, min(value, _LONG_MAX))


_NAMED = {Timestamp.LOGICAL_NAME: TIMESTAMP, Date.LOGICAL_NAME: DATE, Time.LOGICAL_NAME: TIME}


def _both(target: str, builder: SchemaBuilder) -> dict[tuple[str, bool], Schema]:
    return {(target, False): builder.build(), (target, True): builder.optional().build()}


_SCHEMAS: dict[tuple[str, bool], Schema] = {
    **_both(STRING, SchemaBuilder.string()),
    **_both(UNIX, SchemaBuilder.int64()),
    **_both(DATE, Date.builder()),
    **_both(TIME, Time.builder()),
    **_both(TIMESTAMP, Timestamp.builder()),
}


# The years 1 to 9999, outside of which there is no datetime
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def converted_column(schema: Schema, column: pa.Array, to: TimestampFormat) -> pa.Array | None:
    """The column in the form asked for; None where each value has to be looked at. Errors: ConnectError, as records."""
    kind = kind_of(schema)
    if kind == to.target and kind in (DATE, TIME, TIMESTAMP):
        return column
    millis = _millis(kind, column, to)
    if millis is None:
        return None
    if to.target == STRING:
        return None if to.pattern is None else format_column(to.pattern, millis)
    if to.target == UNIX:
        return _scaled(millis, FINER.get(to.unit, 1), COARSER.get(to.unit, 1))
    return _moments(millis, to.target)


def _millis(kind: str, column: pa.Array, given: TimestampFormat) -> pa.Array | None:
    """The column as int64 ms since the epoch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == STRING:
        is_read = given.pattern is not None and not given.pattern.refused_letters
        return parse_column(given.pattern, column) if given.pattern is not None and is_read else None
    if kind == UNIX:
        return _scaled(column, COARSER.get(given.unit, 1), FINER.get(given.unit, 1))
    if pa.types.is_integer(column.type):
        return None  # a logical column may hold the plain type
    if kind == TIMESTAMP:
        return column.cast(pa.int64())
    numbers = column.cast(pa.int32()).cast(pa.int64())
    return pc.multiply(numbers, 86_400_000) if kind == DATE else numbers


def _scaled(column: pa.Array, factor: int, divisor: int) -> pa.Array | None:
    """Multiplied, or divided towards zero as Java's TimeUnit does; None where the result would not fit 64 bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if divisor != 1:
        return pc.divide(column, divisor)
    if factor == 1:
        return column
    try:
        return pc.multiply_checked(column, factor)
    except pa.ArrowInvalid:
        return None


def _moments(millis: pa.Array, target: str) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.min_max(millis).as_py()
    if found["min"] is not None and (found["min"] < _FIRST_MS or found["max"] > _LAST_MS):
        return None  # a DataError of the records outside
    instants = millis.cast(pa.timestamp("ms"))
    if target == TIMESTAMP:
        return millis.cast(pa.timestamp("ms", tz="UTC"))
    days = pc.floor_temporal(instants, unit="day")
    if target == DATE:
        return days.cast(pa.date32())
    return pc.subtract(millis, days.cast(pa.int64())).cast(pa.int32()).cast(pa.time32("ms"))


# Where Arrow writes what Java writes: Gregorian, and years of four digits
_FIRST_DATE_MS, _LAST_DATE_MS = -12_219_292_800_000, 253_402_300_799_999
# Where each field stands in Arrow's own text of an instant, and what is between them there
_PLACES = {
    ("y", 4): (0, 4),
    ("y", 2): (2, 4),
    ("M", 2): (5, 7),
    ("d", 2): (8, 10),
    ("H", 2): (11, 13),
    ("m", 2): (14, 16),
    ("s", 2): (17, 19),
    ("S", 3): (20, 23),
}
_BETWEEN = "    -  -     :  :  .   "
_NAMES = {("M", 3): "%b", ("M", 4): "%B", ("E", 3): "%a", ("E", 4): "%A", ("h", 2): "%I", ("a", 1): "%p"}
_ZONES = {("z", 1): "UTC", ("Z", 1): "+0000", ("X", 1): "Z", ("X", 2): "Z", ("X", 3): "Z"}
# Digits in their places, in ranges in which Java's leniency plays no part
_READ = {
    ("y", 4): "(?P<y>(1[6-9]|[2-9][0-9])[0-9]{2})",
    ("M", 2): "(?P<M>0[1-9]|1[0-2])",
    ("d", 2): "(?P<d>0[1-9]|[12][0-9]|3[01])",
    ("H", 2): "(?P<H>[01][0-9]|2[0-3])",
    ("m", 2): "(?P<m>[0-5][0-9])",
    ("s", 2): "(?P<s>[0-5][0-9])",
    ("S", 3): "(?P<S>[0-9]{3})",
    **{("X", count): "Z" for count in (1, 2, 3)},
}
_WIDTHS = {"y": 4, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2, "S": 3, "X": 1}


def format_column(pattern: DatePattern, millis: pa.Array) -> pa.Array | None:
    """The texts of instants, an int64 column of ms since the epoch; None where each has to be written alone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = _parts(pattern)
    if parts is None or not _is_within(millis, _FIRST_DATE_MS, _LAST_DATE_MS):
        return None
    instants = millis.cast(pa.timestamp("ms"))
    written = instants.cast(pa.string())  # 0.1 us a row, strftime ten times as much
    made = []
    for part in parts:
        if isinstance(part, tuple):
            made.append(pc.utf8_slice_codeunits(written, *part))
        else:
            made.append(pc.strftime(instants, part) if part.startswith("%") else part)
    if len(made) == 1 and isinstance(parts[0], tuple):
        return made[0]
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(written, 0, 0), *made, "")


def parse_column(pattern: DatePattern, texts: pa.Array) -> pa.Array | None:
    """The instants of texts, int64 ms since the epoch; None where each has to be read alone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    form = _fixed_form(pattern)
    if form is None or not pc.all(pc.match_substring_regex(texts, form[0]), min_count=0).as_py():
        return None
    places = form[1]
    try:
        seconds = _iso_texts(texts, places).cast(pa.timestamp("s"))
    except pa.ArrowInvalid:
        return None  # such as 31 February, which Java counts on
    millis = pc.multiply(seconds.cast(pa.int64()), 1000)
    if "S" not in places:
        return millis
    return pc.add(millis, _slice(texts, places["S"], 3).cast(pa.int64()))


def _is_within(column: pa.Array, low: int, high: int) -> bool:
    import pyarrow.compute as pc

    found = pc.min_max(column).as_py()
    return found["min"] is None or (found["min"] >= low and found["max"] <= high)


@functools.cache
def _parts(pattern: DatePattern) -> tuple[tuple[int, int] | str, ...] | None:
    """What to put together: spans of Arrow's text, strftime's patterns of one name, texts; None where these do not do.

    Neighbours that stand in Arrow's text as they do here become one span: `yyyy-MM-dd` is one.
    """
    parts: list[tuple[int, int] | str] = []
    for piece in pattern.pieces:
        key = (piece.letter, piece.width)
        part: tuple[int, int] | str | None = _PLACES.get(key)
        if part is None:
            part = _NAMES.get(key) or _ZONES.get(key) or piece.text
            if not part or (part == piece.text and part.startswith("%")):
                return None
        before = parts[-1] if parts else None
        if isinstance(before, tuple) and isinstance(part, tuple) and part[0] == before[1]:
            parts[-1] = (before[0], part[1])
        elif isinstance(before, tuple) and part == _BETWEEN[before[1] : before[1] + 1]:
            parts[-1] = (before[0], before[1] + 1)
        else:
            parts.append(part)
    return tuple(parts) or None


@functools.cache
def _fixed_form(pattern: DatePattern) -> tuple[str, dict[str, int]] | None:
    """A regular expression for texts of fixed width, and where each field begins; None for other patterns."""
    form, places, at = "", dict[str, int](), 0
    for piece in pattern.pieces:
        if not piece.letter:
            form, at = form + re.escape(piece.text), at + len(piece.text)
            continue
        made = _READ.get((piece.letter, piece.width))
        if made is None or piece.letter in places or not form.isascii():
            return None
        places[piece.letter] = at
        form, at = form + made, at + _WIDTHS[piece.letter]
    return f"^{form}$", places


def _iso_texts(texts: pa.Array, places: dict[str, int]) -> pa.Array:
    """The texts as `yyyy-MM-ddTHH:mm:ss`, which Arrow reads; what a pattern does not have is that of the epoch."""
    import pyarrow.compute as pc

    wanted = {"y": 0, "M": 5, "d": 8, "H": 11, "m": 14, "s": 17}
    if all(places.get(letter) == at for letter, at in wanted.items()):
        # The usual form: its separators are those that were written, and Arrow takes "T" or a space for the middle one
        head = _slice(texts, 0, 19)
        if pc.all(pc.match_substring_regex(head, "^....-..-..[T ]..:..:..$"), min_count=0).as_py():
            return head
    parts: list[pa.Array | str] = []
    for letter, before, absent in zip("yMdHms", ("", "-", "-", "T", ":", ":"), _EPOCH_PARTS, strict=True):
        parts.append(before)
        parts.append(_slice(texts, places[letter], _WIDTHS[letter]) if letter in places else absent)
    return pc.binary_join_element_wise(*parts, "")


_EPOCH_PARTS = ("1970", "01", "01", "00", "00", "00")


def _slice(texts: pa.Array, start: int, width: int) -> pa.Array:
    import pyarrow.compute as pc

    return pc.utf8_slice_codeunits(texts, start, start + width)
