"""SimpleDateFormat: what each letter writes, and how leniently texts are read; integration/builtin asks a JVM too."""

from __future__ import annotations

import datetime

import pytest

from kconnect.java.compat.simple_date_format import DatePattern, format_instant, parse_instant

NOW = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
INSTANT = 1483425001864


@pytest.mark.parametrize(
    ("pattern", "millis", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", INSTANT, "2017-01-03T06:30:01.864Z"),
        ("EEE, d MMM yyyy hh:mm a z", INSTANT, "Tue, 3 Jan 2017 06:30 AM UTC"),
        ("EEEE d MMMM yy zzzz Z", INSTANT, "Tuesday 3 January 17 Coordinated Universal Time +0000"),
        ("D w u k K G ''", INSTANT, "3 1 2 6 6 AD '"),
        ("yyyy-MM-dd", -12_219_292_800_000, "1582-10-15"),
        ("yyyy-MM-dd", -12_219_292_800_001, "1582-10-04"),
        ("y G", -62_135_769_600_001, "1 BC"),
        ("YYYY w", 1_483_142_400_000, "2016 53"),
        ("Y y", -(1 << 63), "-292269054 292269055"),
    ],
)
def test_an_instant_is_written_as_java_writes_it(pattern: str, millis: int, text: str) -> None:
    assert format_instant(DatePattern(pattern), millis) == text


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("yyyy-MM-dd", "2017-13-45", 1518566400000),
        ("yyyy-MM-dd", "2017-01-03 trailing", 1483401600000),
        ("HH:mm", "25:99", 95940000),
        ("yy", "17", 1483228800000),
        ("yyyy-MM-dd'T'HH:mm:ssX", "2017-01-03T06:30:01+02", 1483417801000),
        ("H", "NaN", 0),
        ("yyyy-MM-dd", "nope", None),
        ("yyyy-MM-dd", "", None),
    ],
)
def test_a_text_is_read_as_leniently_as_java_reads_it(pattern: str, text: str, millis: int | None) -> None:
    assert parse_instant(DatePattern(pattern), text, NOW) == millis


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("bbb", "Illegal pattern character 'b'"),
        ("yyyy 'open", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
    ],
)
def test_a_pattern_that_java_refuses_is_refused_in_its_words(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DatePattern(pattern)
