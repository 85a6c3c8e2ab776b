"""Java's GregorianCalendar in UTC: Julian until 4 October 1582, Gregorian from the next day, the 15th.

Days are counted from 1970-01-01. Source: java.util.GregorianCalendar.
"""

from __future__ import annotations

from typing import NamedTuple

MILLIS_PER_DAY = 86_400_000
# 15 October 1582, the first Gregorian day
CUTOVER_DAY, CUTOVER_YEAR = -141_427, 1582
# From 1 March of the year 0 to 1970-01-01, in each calendar
_GREGORIAN_EPOCH, _JULIAN_EPOCH = 719_468, 719_470


class Moment(NamedTuple):
    """An instant in UTC, as a calendar shows it. The year counts on below 1: the year 0 is 1 BC."""

    days: int
    year: int
    month: int  # 1 to 12
    day: int
    millis_of_day: int


def moment_of(millis: int) -> Moment:
    """What the calendar shows that many ms after 1970-01-01T00:00Z."""
    days, rest = divmod(millis, MILLIS_PER_DAY)
    return Moment(days, *_date_of(days), rest)


def weekday(days: int) -> int:
    """0 for a Sunday to 6 for a Saturday."""
    return (days + 4) % 7


def days_of(year: int, month: int, day: int) -> int:
    """The day of a date; months and days beyond their range count on, as Java's lenient calendar does.

    In which calendar is decided by the year as it is given, before the months count on.
    """
    gregorian, julian = _gregorian_days(year, month, day), _julian_days(year, month, day)
    if year > CUTOVER_YEAR:
        return gregorian if gregorian >= CUTOVER_DAY else julian
    if year < CUTOVER_YEAR:
        return julian
    return gregorian if gregorian >= CUTOVER_DAY and julian >= CUTOVER_DAY else julian


def _date_of(days: int) -> tuple[int, int, int]:
    if days >= CUTOVER_DAY:
        era, of_era = divmod(days + _GREGORIAN_EPOCH, 146_097)
        years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
        of_year = of_era - (365 * years + years // 4 - years // 100)
        year = years + 400 * era
    else:
        era, of_era = divmod(days + _JULIAN_EPOCH, 1461)
        years = (of_era - of_era // 1460) // 365
        of_year = of_era - 365 * years
        year = years + 4 * era
    # The year begins in March here, so that a leap day is its last
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return (year, month + 3, day) if month < 10 else (year + 1, month - 9, day)


def _march_year(year: int, month: int) -> tuple[int, int]:
    """The year from March on, and how many of its days are before that month."""
    carried, month_index = divmod(month - 1, 12)
    year += carried
    if month_index < 2:
        return year - 1, (153 * (month_index + 10) + 2) // 5
    return year, (153 * (month_index - 2) + 2) // 5


def _gregorian_days(year: int, month: int, day: int) -> int:
    year, before = _march_year(year, month)
    return 365 * year + year // 4 - year // 100 + year // 400 + before + day - 1 - _GREGORIAN_EPOCH


def _julian_days(year: int, month: int, day: int) -> int:
    year, before = _march_year(year, month)
    return 365 * year + year // 4 + before + day - 1 - _JULIAN_EPOCH
