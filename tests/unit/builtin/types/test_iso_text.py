"""Texts as times: what ISO 8601 and its relatives write, and nothing that only looks like it."""

from __future__ import annotations

import pytest

from kconnect.builtin.types.iso_text import clock_of_iso, moment_of_iso


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2025-11-27T11:00:00+0100", "2025-11-27T11:00:00+01:00"),
        ("2025-11-27t11:00:00z", "2025-11-27T11:00:00+00:00"),
        ("2025-11-27 11:00:00.5 UTC", "2025-11-27T11:00:00.500000+00:00"),
        ("2025-11-27 11:00:00.123456+00", "2025-11-27T11:00:00.123456+00:00"),
        ("1969-12-31T23:59:59.999999999-05:00[America/New_York]", "1969-12-31T23:59:59.999999-05:00"),
        (" 20251127T1100 ", "2025-11-27T11:00:00"),
        ("2025-11-27", "2025-11-27T00:00:00"),
        ("2025-11-27-05:00", "2025-11-27T00:00:00-05:00"),
        ("2025-W48-4", "2025-11-27T00:00:00"),
    ],
)
def test_a_time_is_read_in_each_of_its_spellings(text: str, wanted: str) -> None:
    assert moment_of_iso(text).isoformat() == wanted


@pytest.mark.parametrize("text", ["1312052310230", "20251127x11", "2025-11-27_11:00", "2025-11-27T", "2025-13-01", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        moment_of_iso(text)


def test_a_time_of_day_has_six_digits_before_its_fraction() -> None:
    assert clock_of_iso("T030405,25").isoformat() == "03:04:05.250000"
    assert clock_of_iso("03:04 -01:00").isoformat() == "03:04:00-01:00"
    for text in ("11045000", "11045000123", "3:04:05", "24:00", "-01:00:00"):
        with pytest.raises(ValueError, match=r".+"):
            clock_of_iso(text)
