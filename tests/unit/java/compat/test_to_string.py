"""Numbers and values in Java's spelling; the recorded cases are in tests/integration/builtin."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import Schema, SchemaBuilder
from kconnect.java.compat.to_string import double_text, float_text, java_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (123456.75, "123456.75"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.5e10, "1.5E10"),
        (1e21, "1.0E21"),
        (0.001, "0.001"),
        (0.00123, "0.00123"),
        (0.0001, "1.0E-4"),
        (1.25e-7, "1.25E-7"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.1, "0.1"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (-2.5, "-2.5"),
    ],
)
def test_doubles_are_spelled_as_java_spells_them(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (16777216.0, "1.6777216E7"),
        (1.4e-45, "1.4E-45"),
        (3.4028235e38, "3.4028235E38"),
        (1e39, "Infinity"),
        (0.5, "0.5"),
        (1e10, "1.0E10"),
    ],
)
def test_floats_have_the_digits_that_single_precision_needs(value: float, text: str) -> None:
    assert float_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_text_of_a_double_reads_back_as_the_same_double(value: float) -> None:
    assert float(double_text(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_text_of_a_float_reads_back_as_the_same_float(value: float) -> None:
    import struct

    assert struct.pack("f", float(float_text(value))) == struct.pack("f", value)


def test_dates_print_as_java_util_date_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert java_text(datetime.datetime(2024, 3, 9, 1, 2, 3, tzinfo=zone)) == "Fri Mar 08 23:02:03 UTC 2024"
    assert java_text(datetime.date(1970, 1, 2)) == "Fri Jan 02 00:00:00 UTC 1970"
    assert java_text(datetime.time(23, 59, 59)) == "Thu Jan 01 23:59:59 UTC 1970"


@pytest.mark.parametrize(
    ("date", "text"),
    [
        ("0001-01-01", "Mon Jan 03 00:00:00 UTC 1"),
        ("0703-04-08", "Wed Apr 04 00:00:00 UTC 703"),
        ("1500-03-10", "Sat Feb 29 00:00:00 UTC 1500"),
        ("1582-10-14", "Thu Oct 04 00:00:00 UTC 1582"),
        ("1582-10-15", "Fri Oct 15 00:00:00 UTC 1582"),
    ],
)
def test_dates_before_october_1582_print_as_javas_calendar_has_them(date: str, text: str) -> None:
    assert java_text(datetime.date.fromisoformat(date)) == text


def test_floats_inside_lists_and_maps_take_the_precision_of_their_schema() -> None:
    floats = SchemaBuilder.array(Schema.FLOAT32_SCHEMA).build()
    single = 0.10000000149011612
    assert java_text([single], floats) == "[0.1]"
    assert java_text([single]) == "[0.10000000149011612]"
    assert java_text({"a": Decimal("1E+3"), "b": b"x"}) == "{a=1E+3, b=x}"
