"""A text as an instant, as leniently as Java reads it: 2017-13-45 is 14 February 2018, and what follows is ignored.

Source: java.text.SimpleDateFormat.parse and java.util.Calendar.selectFields (JDK 17), in English and UTC.
Differs: of names of time zones those of `_ZONES` are known; one that was read does not become the zone of the texts
that follow; patterns of weeks (Y, w, W, F) are not read.
"""

from __future__ import annotations

import datetime
import re

from kconnect.java.compat.simple_date_format.calendar import MILLIS_PER_DAY, days_of, moment_of, weekday
from kconnect.java.compat.simple_date_format.pattern import DatePattern, Piece
from kconnect.java.compat.simple_date_format.text import MONTHS, WEEKDAYS

_NUMBER = re.compile(r"-?\d+(?:E-?\d+)?|NaN")
_COUNTED = frozenset("yYdDFwWHkKhmsSu")
_NAMED = frozenset("GEa")
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_ZONES = {
    "UTC": 0,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "WET": 0,
    "WEST": 1,
    "CET": 1,
    "CEST": 2,
    "EET": 2,
    "EEST": 3,
    "JST": 9,
    "Coordinated Universal Time": 0,
}


def parse_instant(pattern: DatePattern, text: str, now: datetime.datetime) -> int | None:
    """The instant that a text means, in ms since the epoch; None when it does not match the pattern.

    `now` tells the century of years of two digits: none is more than 80 years ago.
    """
    reader = _Reader(text, now)
    for index, piece in enumerate(pattern.pieces):
        follows = pattern.pieces[index + 1] if index + 1 < len(pattern.pieces) else None
        is_read = reader.literal(piece.text) if not piece.letter else reader.field(piece, _is_counted(follows))
        if not is_read:
            return None
    return reader.instant()


def _is_counted(piece: Piece | None) -> bool:
    """Whether a number before this piece ends after as many digits as it has letters."""
    if piece is None:
        return False
    return piece.letter in _COUNTED or (piece.letter in ("M", "L") and piece.width <= 2)


class _Reader:
    """Goes through one text and keeps what it found; of fields that contradict each other the later one holds."""

    def __init__(self, text: str, now: datetime.datetime) -> None:
        self._text = text
        self._at = 0
        self._found: dict[str, int] = {}  # in the order in which they were found last
        self._has_ambiguous_year = False
        self._century_start = _eighty_years_before(now)

    def literal(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def field(self, piece: Piece, is_counted: bool) -> bool:
        text, start = self._text, self._at
        while self._at < len(text) and text[self._at] in " \t":
            self._at += 1
        if self._at >= len(text):
            return False
        if piece.letter in "zZ":
            return self._zone()
        if piece.letter == "X":
            return self._iso_zone(piece.width)
        if piece.letter in _NAMED or (piece.letter in "ML" and piece.width > 2):
            return self._name(piece.letter, start)
        number = self._number(start + piece.width if is_counted else None)
        if number is None:
            return False
        return self._set_number(piece, *number)

    def instant(self) -> int | None:
        """The instant of all that was found. Source: GregorianCalendar.computeTime."""
        made = self._instant()
        if self._has_ambiguous_year and made < self._century_start:
            self._found["year"] += 100
            made = self._instant()
        return made

    def _set(self, field: str, value: int) -> bool:
        self._found.pop(field, None)
        self._found[field] = value
        return True

    def _set_number(self, piece: Piece, value: int, digits: int) -> bool:
        letter = piece.letter
        if letter == "y":
            if piece.width <= 2 and digits == 2:
                value = self._in_century(value)
            return self._set("year", value)
        if letter in "ML":
            return self._set("month", value)
        if letter == "k":
            return self._set("hour_of_day", 0 if value == 24 else value)
        if letter == "h":
            return self._set("hour", 0 if value == 12 else value)
        if letter == "u":
            return self._set("weekday", value % 7)
        return self._set(_FIELDS[letter], value)

    def _in_century(self, value: int) -> int:
        start = moment_of(self._century_start).year
        self._has_ambiguous_year = value == start % 100
        return value + start // 100 * 100 + (100 if value < start % 100 else 0)

    def _number(self, end: int | None) -> tuple[int, int] | None:
        """The number here and how many characters it has if all are digits, else 0; None when there is none."""
        if end is not None and end > len(self._text):
            return None
        found = _NUMBER.match(self._text, self._at, len(self._text) if end is None else end)
        if found is not None and found[0] == "NaN":  # DecimalFormat reads it, and its int is 0
            self._at = found.end()
            return 0, 0
        if found is None:
            return None
        self._at = found.end()
        return _java_int(found[0]), len(found[0]) if found[0].isdecimal() else 0

    def _name(self, letter: str, start: int) -> bool:
        """The longest name that the text has here, in any case; names are not looked for behind spaces."""
        names: tuple[str, ...] = {"G": ("BC", "AD"), "a": ("AM", "PM"), "E": WEEKDAYS}.get(letter, MONTHS)
        field = {"G": "era", "a": "half", "E": "weekday"}.get(letter, "month")
        rest = self._text[start:].lower()
        spelt = [(index, name) for index, name in enumerate(names)]
        if letter not in "Ga":
            spelt += [(index, name[:3]) for index, name in enumerate(names)]
        for index, name in spelt:
            if rest.startswith(name.lower()):
                self._at = start + len(name)
                return self._set(field, index + 1 if field == "month" else index)
        return False

    def _zone(self) -> bool:
        text, at = self._text, self._at
        if text[at] in "+-":
            return self._offset(at, 0, has_colon=False)
        if text[at : at + 3].upper() == "GMT":
            if text[at + 3 : at + 4] in ("+", "-"):
                return self._offset(at + 3, 0, has_colon=True)
            self._at = at + 3
            return self._set("zone", 0)
        for name, hours in _ZONES.items():
            if text[at : at + len(name)].upper() == name.upper():
                self._at = at + len(name)
                return self._set("zone", hours * _HOUR_MS)
        return False

    def _iso_zone(self, count: int) -> bool:
        sign = self._text[self._at]
        if sign == "Z":
            self._at += 1
            return self._set("zone", 0)
        return sign in "+-" and self._offset(self._at, count, has_colon=count == 3)

    def _offset(self, sign_at: int, count: int, *, has_colon: bool) -> bool:
        """hh, hhmm or hh:mm behind a sign; behind GMT one digit for the hour will do."""
        hours = r"([0-9]{2})" if count or not has_colon else r"([0-9]{1,2})"
        minutes = "" if count == 1 else (":" if has_colon else "") + "([0-5][0-9])"
        found = re.compile(hours + minutes).match(self._text, sign_at + 1)
        if found is None or int(found[1]) > 23:
            return False
        self._at = found.end()
        offset = int(found[1]) * _HOUR_MS + (0 if count == 1 else int(found[2]) * _MINUTE_MS)
        return self._set("zone", -offset if self._text[sign_at] == "-" else offset)

    def _instant(self) -> int:
        found = self._found
        time_ms = self._hour() * _HOUR_MS + found.get("minute", 0) * _MINUTE_MS
        time_ms += found.get("second", 0) * 1000 + found.get("milli", 0)
        return self._days() * MILLIS_PER_DAY + time_ms - found.get("zone", 0)

    def _hour(self) -> int:
        """The hour of the day, or hour and half of the day, whichever was found later."""
        found, order = self._found, list(self._found)
        last = [field for field in order if field in ("hour_of_day", "hour", "half")]
        whole = "hour" in found and "half" in found
        if "hour_of_day" in found and (not whole or last[-1] == "hour_of_day"):
            return found["hour_of_day"]
        return found.get("hour", 0) + 12 * found.get("half", 0)

    def _days(self) -> int:
        found, order = self._found, list(self._found)
        year = found.get("year", 1970)
        if found.get("era") == 0:
            year = 1 - year
        chosen = [field for field in order if field in ("day", "day_of_year")]
        if chosen and chosen[-1] == "day_of_year":
            return days_of(year, 1, found["day_of_year"])
        month = found.get("month", 1)
        if not chosen and "weekday" in found:  # the first day of that name in the month
            first = days_of(year, month, 1)
            return first + (found["weekday"] - weekday(first)) % 7
        return days_of(year, month, found.get("day", 1))


_FIELDS = {
    "d": "day",
    "D": "day_of_year",
    "H": "hour_of_day",
    "K": "hour",
    "m": "minute",
    "s": "second",
    "S": "milli",
}


def _java_int(text: str) -> int:
    """A number as DecimalFormat reads it, cut to Java's int: the low bits of a long, the nearest of what is wider."""
    digits, _, power = text.partition("E")
    number = int(digits)
    if power:
        exponent = int(power)
        if exponent > 30 and number:
            return (1 << 31) - 1 if number > 0 else -(1 << 31)
        scaled = abs(number) * 10**exponent if exponent >= 0 else abs(number) // 10 ** min(-exponent, 5000)
        number = scaled if number >= 0 else -scaled
    if not -(1 << 63) <= number < 1 << 63:
        return (1 << 31) - 1 if number > 0 else -(1 << 31)
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _eighty_years_before(now: datetime.datetime) -> int:
    millis = int(now.timestamp() * 1000)
    moment = moment_of(millis)
    return days_of(moment.year - 80, moment.month, moment.day) * MILLIS_PER_DAY + moment.millis_of_day
