"""An instant as text. Source: java.text.SimpleDateFormat.subFormat (JDK 17), in English and UTC."""

from __future__ import annotations

from collections.abc import Callable

from kconnect.java.compat.simple_date_format.calendar import Moment, days_of, moment_of, weekday
from kconnect.java.compat.simple_date_format.pattern import DatePattern

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def format_instant(pattern: DatePattern, millis: int) -> str:
    """The text of an instant, given in ms since the epoch."""
    moment = moment_of(millis)
    return "".join(
        piece.text if not piece.letter else _WRITERS[piece.letter](moment, piece.width) for piece in pattern.pieces
    )


def _year(year: int, count: int) -> str:
    """Writes two letters as the last two digits; BC counts its own years up."""
    return _digits(year if year > 0 else 1 - year, count)


def _digits(year: int, count: int) -> str:
    return f"{year % 100:02d}" if count == 2 else f"{year:0{count}d}"


def _week_year(year: int, count: int) -> str:
    """Writes it as above, but before 1 AD it counts down: 0 is 1 BC. Source: GregorianCalendar.getWeekYear."""
    return f"{'-' if year < 0 else ''}{_digits(abs(year), count)}"


def _month(moment: Moment, count: int) -> str:
    if count < 3:
        return f"{moment.month:0{count}d}"
    name = MONTHS[moment.month - 1]
    return name if count > 3 else name[:3]


def _day_name(moment: Moment, count: int) -> str:
    name = WEEKDAYS[weekday(moment.days)]
    return name if count > 3 else name[:3]


def _number(read: Callable[[Moment], int]) -> Callable[[Moment, int], str]:
    return lambda moment, count: f"{read(moment):0{count}d}"


def _hour(moment: Moment) -> int:
    return moment.millis_of_day // 3_600_000


def _day_of_year(moment: Moment) -> int:
    return moment.days - days_of(moment.year, 1, 1) + 1


def _week_of_month(moment: Moment) -> int:
    first = weekday(moment.days - moment.day + 1)
    return (moment.day - 1 + first) // 7 + 1


def _week(moment: Moment) -> tuple[int, int]:
    """The year that the week belongs to, and its number. Weeks begin on Sunday; that of 1 January is the first."""
    first_of_next = days_of(moment.year + 1, 1, 1)
    if moment.days >= first_of_next - weekday(first_of_next):
        return moment.year + 1, 1
    first = days_of(moment.year, 1, 1)
    return moment.year, (moment.days - first + weekday(first)) // 7 + 1


_WRITERS: dict[str, Callable[[Moment, int], str]] = {
    "G": lambda moment, count: "AD" if moment.year > 0 else "BC",
    "y": lambda moment, count: _year(moment.year, count),
    "Y": lambda moment, count: _week_year(_week(moment)[0], count),
    "M": _month,
    "L": _month,
    "w": _number(lambda moment: _week(moment)[1]),
    "W": _number(_week_of_month),
    "D": _number(_day_of_year),
    "d": _number(lambda moment: moment.day),
    "F": _number(lambda moment: (moment.day - 1) // 7 + 1),
    "E": _day_name,
    "u": _number(lambda moment: weekday(moment.days) or 7),
    "a": lambda moment, count: "AM" if _hour(moment) < 12 else "PM",
    "H": _number(_hour),
    "k": _number(lambda moment: _hour(moment) or 24),
    "K": _number(lambda moment: _hour(moment) % 12),
    "h": _number(lambda moment: _hour(moment) % 12 or 12),
    "m": _number(lambda moment: moment.millis_of_day // 60_000 % 60),
    "s": _number(lambda moment: moment.millis_of_day // 1000 % 60),
    "S": _number(lambda moment: moment.millis_of_day % 1000),
    "z": lambda moment, count: "UTC" if count < 4 else "Coordinated Universal Time",
    "Z": lambda moment, count: "+0000",
    "X": lambda moment, count: "Z",
}
