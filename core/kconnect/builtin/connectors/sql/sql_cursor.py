"""How far a table was read: offsets in the form of Confluent's connector, and the statements that go on from there."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.api import ConnectError, DataError
from kconnect.builtin.types.iso_text import moment_of_iso

if TYPE_CHECKING:
    import pyarrow as pa

INCREMENTING, TIMESTAMP, NANOS = "incrementing", "timestamp", "timestamp_nanos"
MARK = "\0"
"""Stands for a parameter; no name and no query can have it."""
UTC_TEXT = "kconnect_utc"
"""A function that a connection to SQLite is given, for times in a zone: `utc_text`, by which they are compared."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND, _MINUTE = datetime.timedelta(microseconds=1), datetime.timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Place:
    """The position in a table: the last id, the last time in microseconds since 1970; None for the beginning.

    Source: TimestampIncrementingOffset of Confluent's connector. Differs: the beginning is before all rows; there it is
        id -1 and the year 1970.
    """

    incrementing: int | None = None
    time_us: int | None = None

    def to_offset(self) -> dict[str, int]:
        found: dict[str, int] = {}
        if self.incrementing is not None:
            found[INCREMENTING] = self.incrementing
        if self.time_us is not None:
            found[TIMESTAMP] = self.time_us // 1000
            found[NANOS] = self.time_us % 1_000_000 * 1000
        return found

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any] | None) -> Place:
        """Errors: DataError if it is no offset of this connector."""
        given = offset or {}
        for name, value in given.items():
            if name not in (INCREMENTING, TIMESTAMP, NANOS):
                raise DataError(f"An offset has {INCREMENTING}, {TIMESTAMP} and {NANOS}, but not {name}")
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise DataError(f"{name} of an offset must be a whole number, not {value!r}")
        time_ms, nanos = given.get(TIMESTAMP), given.get(NANOS)
        if nanos is not None and not 0 <= nanos < 1_000_000_000:
            raise DataError(f"{NANOS} must be in a second (0 to 999999999), not {nanos}")
        time_us = None
        if time_ms is not None:
            time_us = time_ms * 1000 if nanos is None else time_ms // 1000 * 1_000_000 + nanos // 1000
        return cls(given.get(INCREMENTING), time_us)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The columns that the mode goes by."""

    incrementing: str | None = None
    timestamps: tuple[str, ...] = ()
    has_zone: bool = False
    """Whether the database's times have a zone."""
    walls: tuple[str, ...] = ()
    """Are those of `timestamps` that have none, where another one has."""

    @property
    def names(self) -> set[str]:
        """All of its columns, in lower case."""
        return {name.lower() for name in (*self.timestamps, self.incrementing or "")}


@dataclass(frozen=True, slots=True)
class SqlStyle:
    """What differs in the SQL of databases."""

    kind: str
    quote: Callable[[str], str]
    zone: datetime.tzinfo

    @property
    def is_zoned(self) -> bool:
        """Whether times without a zone are others than those of UTC."""
        return str(self.zone) != "UTC"


def statement(
    select: str, cursor: Cursor | None, place: Place, end_us: int | None, style: SqlStyle, suffix: str = ""
) -> tuple[str, list[Any]]:
    """The statement for the rows after a place and before a time, in order, with MARK for each of its parameters.

    `cursor` None reads all. Source: TimestampIncrementingCriteria.
    """
    params: list[Any] = []

    def mark(value: Any) -> str:
        params.append(value)
        return MARK

    if cursor is None:
        return f"{select} {suffix}".strip(), params
    conditions = []
    order = []
    identity = style.quote(cursor.incrementing) if cursor.incrementing is not None else ""
    if cursor.timestamps:
        time = _time_expression(cursor, style)
        order.append(time)
        if end_us is not None:
            conditions.append(f"{time} < {mark(_moment(end_us, cursor, style))}")
        if place.time_us is not None:
            moment = _moment(place.time_us, cursor, style)
            if identity and place.incrementing is not None:
                equal = f"{time} = {mark(moment)} AND {identity} > {mark(place.incrementing)}"
                conditions.append(f"(({equal}) OR {time} > {mark(moment)})")
            else:  # with an id, rows of this very time were not read: it is timestamp.initial
                conditions.append(f"{time} {'>=' if identity else '>'} {mark(moment)}")
        if not conditions:
            conditions.append(f"{time} IS NOT NULL")
        if style.kind == "sqlite":  # what it reads no time in: such a row is reported, not passed over
            conditions = [f"({' AND '.join(conditions)} OR {time} IS NULL AND {_values(cursor, style)} IS NOT NULL)"]
    elif place.incrementing is not None:
        conditions.append(f"{identity} > {mark(place.incrementing)}")
    else:
        conditions.append(f"{identity} IS NOT NULL")
    if identity:
        order.append(identity)
    text = f"{select} WHERE {' AND '.join(conditions)} ORDER BY {', '.join(f'{column} ASC' for column in order)}"
    return f"{text} {suffix}".strip(), params


def offset_columns(
    mode: str, times: pa.Array | None, ids: pa.Array | None, before: Place, is_last: bool
) -> dict[str, pa.Array]:
    """The offset of each row, by field.

    In mode timestamp a row's time is its offset only if the next row is later: another row of the same time may follow.
    Rows before have the time before (Source: TimestampTableQuerier). `is_last`: no row follows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[str, pa.Array] = {}
    if ids is not None:
        found[INCREMENTING] = ids
    if times is None:
        return found
    if mode == "timestamp":
        later = pc.less(times.slice(0, len(times) - 1), times.slice(1))
        ends = pa.concat_arrays([later, pa.array([is_last], pa.bool_())])
        kept = pc.fill_null_forward(pc.if_else(ends, times, pa.scalar(None, times.type)))
        times = kept if before.time_us is None else pc.fill_null(kept, pa.scalar(before.time_us, times.type))
    ms = pc.floor_temporal(times, unit="millisecond")
    whole = pc.floor_temporal(times, unit="second")
    micros = pc.subtract(times.cast(pa.int64()), whole.cast(pa.int64()))
    found[TIMESTAMP] = ms.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    found[NANOS] = pc.multiply(micros, pa.scalar(1000, pa.int64()))
    return found


def before_repeat(time_us: int, cursor: Cursor, style: SqlStyle) -> int:
    """The time, or in two equal hours of autumn when the first begins: by times without a zone they are one.

    A row of the second hour compares with those of the first, and would never be found behind them. When both are over
    their rows are read in one order.
    """
    if cursor.has_zone or not style.is_zoned:
        return time_us
    try:
        local = (_EPOCH + time_us * _MICROSECOND).astimezone(style.zone).replace(second=0, microsecond=0, fold=0)
    except OverflowError:
        return time_us
    first = None
    while local.utcoffset() != local.replace(fold=1).utcoffset():  # zones change at whole minutes
        first, local = local, local - _MINUTE
    return time_us if first is None else (first - _EPOCH) // _MICROSECOND


def nullable(table: str, what: str) -> ConnectError:
    """The error for a table whose columns of the mode may be null."""
    return ConnectError(
        f"{table} cannot be read: {what}, and rows without a value would never be found",
        hint="Declare the column NOT NULL, or set validate.non.null=false to leave such rows out.",
    )


def of_two_zones(table: str, mode: str, cursor: Cursor, style: SqlStyle) -> ConnectError:
    """The error for times that cannot be compared: MySQL knows zones by name only where somebody has loaded them."""
    return ConnectError(
        f"{table} cannot be read: of its columns {', '.join(cursor.timestamps)} for mode={mode} "
        f"{', '.join(cursor.walls)} has times of db.timezone={style.zone}, and the others moments, which MySQL cannot "
        "compare with them",
        hint="Name columns of one type in timestamp.column.name, or make them so in a view.",
    )


def moment_of(value: Any, zone: datetime.tzinfo) -> int:
    """Microseconds since 1970 of a time from the database: datetime, ISO text. Without a zone it is in `zone`."""
    found = moment_of_iso(value) if isinstance(value, str) else value
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone)
    micros: int = (found - _EPOCH) // _MICROSECOND
    return micros


def _values(cursor: Cursor, style: SqlStyle) -> str:
    """The first of its times that is not null, as it stands."""
    names = [style.quote(name) for name in cursor.timestamps]
    return names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"


def _time_expression(cursor: Cursor, style: SqlStyle) -> str:
    names = [style.quote(name) for name in cursor.timestamps]
    if style.kind == "sqlite" and style.is_zoned:
        names = [f"{UTC_TEXT}({name})" for name in names]
    elif style.kind == "sqlite":
        # Its times are texts of several forms, whole numbers of milliseconds, or Julian days with a fraction: compared
        # as they stand they are in no order
        names = [
            f"CASE typeof({name}) WHEN 'integer' THEN strftime('%Y-%m-%d %H:%M:%f', {name} / 1000.0, 'unixepoch') "
            f"ELSE strftime('%Y-%m-%d %H:%M:%f', {name}) END"
            for name in names
        ]
    elif style.kind == "postgresql" and cursor.walls:
        # Beside one with a zone it would be read in the session's
        zone = f" AT TIME ZONE '{style.zone}'"
        names = [
            f"(CAST({quoted} AS timestamp){zone})" if name in cursor.walls else quoted
            for name, quoted in zip(cursor.timestamps, names, strict=True)
        ]
    return names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"


def _moment(time_us: int, cursor: Cursor, style: SqlStyle) -> Any:
    """A time as parameter: with a zone if the column has one, else in the database's zone.

    Errors: DataError for an offset that is no time of the calendar.
    """
    if style.kind == "sqlite":
        time_us = (time_us + 500) // 1000 * 1000  # SQLite rounds to milliseconds
    try:
        found = _EPOCH + time_us * _MICROSECOND
    except OverflowError as error:
        return _at_the_edge(time_us, cursor, style, error)
    if cursor.has_zone:
        return found
    if style.kind == "sqlite":
        return found.replace(tzinfo=None).isoformat(" ", "milliseconds")
    return found.astimezone(style.zone).replace(tzinfo=None)


def _at_the_edge(time_us: int, cursor: Cursor, style: SqlStyle, error: OverflowError) -> datetime.datetime:
    """A time that only the clock of the database has: 0001-01-01 of a zone east of UTC is of year 0 there."""
    first, last = datetime.datetime.min.replace(tzinfo=style.zone), datetime.datetime.max.replace(tzinfo=style.zone)
    behind = (first if time_us < 0 else last).utcoffset()
    if not cursor.has_zone and style.kind != "sqlite" and behind is not None:
        with contextlib.suppress(OverflowError):
            return _EPOCH.replace(tzinfo=None) + (time_us * _MICROSECOND + behind)
    raise DataError(
        f"The offset {time_us // 1000} is outside the years 1 to 9999",
        hint="Move it with `connect offsets move`, or alter it.",
    ) from error
