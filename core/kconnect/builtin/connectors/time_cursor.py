"""Cursors that are times in ISO 8601: the one behind which everything from a time on lies. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII | re.IGNORECASE
)


def cursor_before(example: object, time_ms: int) -> str | None:
    """The last cursor before a time, spelled as the example is: its zone, its digits of a second; None if that is none.

    Items at the time itself are beyond it, as a cursor leaves out what is not beyond it. A number is none, however
    much it looks like seconds since 1970: it may be an id. A time without a zone is taken as UTC.
    """
    found = _TIME.fullmatch(example) if isinstance(example, str) else None
    if found is None:
        return None
    _, separator, _, fraction, zone = found.groups()
    unit_us = 10 ** (6 - len(fraction or ""))
    wanted_us = -(-time_ms * 1000 // unit_us) * unit_us - unit_us  # the first unit at or after it, less one
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=wanted_us)
    local = moment.astimezone(_zone(zone))
    digits = f".{local.microsecond:06d}"[: len(fraction) + 1] if fraction else ""
    return f"{local:%Y-%m-%d}{separator}{local:%H:%M:%S}{digits}{zone or ''}"


def _zone(text: str | None) -> timezone:
    if text is None or text.upper() == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=minutes if text[0] == "+" else -minutes))
