"""Reads times as declared types say: of ISO text, and of numbers in the unit that they count. Pure."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any, Final

from kconnect.builtin.types.column_type import ColumnType
from kconnect.builtin.types.exact_numbers import number_of
from kconnect.builtin.types.fitting import NotFittingError, misfit

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY_ONE: Final = datetime.date(1970, 1, 1).toordinal()
_MICRO: Final = datetime.timedelta(microseconds=1)
_MICROS_A_DAY: Final = 86_400_000_000
# Microseconds in each unit that numbers may count
_MICROS: Final = {"d": decimal.Decimal(_MICROS_A_DAY), "s": decimal.Decimal(1_000_000), "ms": decimal.Decimal(1000),
                  "us": decimal.Decimal(1), "ns": decimal.Decimal("0.001")}  # fmt: skip
_ZONE_NAME: Final = re.compile(r"\[[\w/+-]+\]$", re.ASCII)
_FRACTION: Final = re.compile(r"([.,]\d{6})\d+")


def time_reader(kind: ColumnType, unit: str | None) -> Callable[[Any], Any]:
    unit = unit or ("d" if kind.name == "date" else "ms")
    make = {"date": _date, "time": _clock}.get(kind.name, _instant)
    a_unit, cut = _MICROS[unit], 10 ** (6 - min(6, 6 if kind.digits is None else kind.digits))
    whole = int(a_unit)  # 0 where a unit is less than a microsecond

    def read(value: Any) -> Any:
        if not isinstance(value, int | float | decimal.Decimal) or isinstance(value, bool):
            try:
                return make(value, kind, cut)
            except (ValueError, OverflowError, TypeError) as error:
                raise misfit(value, kind) from error
        # what is finer than a microsecond is cut off, before 1970 as well
        if whole and type(value) is int:
            micros = value * whole
        else:
            micros = int((number_of(value, kind) * a_unit).to_integral_value(decimal.ROUND_FLOOR))
        try:
            return make(micros, kind, cut)
        except (ValueError, OverflowError, NotFittingError) as error:
            raise misfit(value, kind) from error

    return read


def _instant(value: Any, kind: ColumnType, cut: int) -> datetime.datetime:
    """An aware time in UTC of microseconds since 1970, a time, a date or ISO text; without zone it is of UTC."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _EPOCH + (value - value % cut) * _MICRO
    if isinstance(value, str):
        value = _of_iso(value)
    if isinstance(value, datetime.datetime):
        found = value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
        return found if cut == 1 else found.replace(microsecond=found.microsecond - found.microsecond % cut)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    raise misfit(value, kind)


def _date(value: Any, kind: ColumnType, cut: int) -> datetime.date:
    """A day of microseconds since 1970, a date, or text; a time only if it is midnight in UTC, or in its own zone."""
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.date.fromordinal(_DAY_ONE + value // _MICROS_A_DAY)
    if isinstance(value, str):
        value = _of_iso(value)
    if isinstance(value, datetime.datetime):
        if value.time() != datetime.time():
            raise misfit(value.isoformat(), kind, "and has a time of day")
        return value.date()
    if isinstance(value, datetime.date):
        return value
    raise misfit(value, kind)


def _clock(value: Any, kind: ColumnType, cut: int) -> datetime.time:
    """A time of day of microseconds since midnight, a time, or text; one with a zone becomes one of UTC."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < _MICROS_A_DAY:
            raise misfit(value, kind)
        return (_EPOCH + (value - value % cut) * _MICRO).time()
    if isinstance(value, str):
        value = datetime.time.fromisoformat(_FRACTION.sub(r"\1", value.strip()))
    if not isinstance(value, datetime.time):
        raise misfit(value, kind)
    if value.tzinfo is not None and (away := value.utcoffset()):
        value = (datetime.datetime.combine(_EPOCH.date(), value.replace(tzinfo=None)) - away).time()
    micros = value.microsecond - value.microsecond % cut
    return datetime.time(value.hour, value.minute, value.second, micros)


def _of_iso(text: str) -> datetime.datetime:
    """The time of ISO 8601; with the zone's name that Java adds, and more digits than microseconds have, too."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return datetime.datetime.fromisoformat(_FRACTION.sub(r"\1", _ZONE_NAME.sub("", text.strip())))
