"""What Spark's user reads of an error."""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError
from kconnect.spark.datasource.failures import reported_to_spark, rows_named

FIRST = 1883296011316625408


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"The record at t-0, offset {FIRST + 3} cannot be written", "The record at t-0, row 3 cannot be written"),
        (f"it failed (it was given t-0 {FIRST} to {FIRST + 9})", "it failed (it was given t-0 row 0 to row 9)"),
        (f"Column d would change the value {FIRST + 1}", f"Column d would change the value {FIRST + 1}"),
        (f"offset {FIRST - 1} of another", f"offset {FIRST - 1} of another"),
    ],
)
def test_rows_of_a_write_are_named_and_not_the_offsets_that_were_made_up_for_them(said: str, shown: str) -> None:
    assert rows_named(said, FIRST) == shown
    with pytest.raises(ConnectError) as caught, reported_to_spark("writing partition 0", FIRST):
        raise ConnectError(said)
    assert str(caught.value) == f"{shown}\n  while writing partition 0"


@pytest.mark.parametrize("first", [0, 1 << 32])
def test_numbers_in_a_batch_of_a_query_are_rows_only_where_they_are_offsets(first: int) -> None:
    said = f"The record at t-7, offset {first + 3}, has the value 5000000000 in 2 to 6 columns"
    assert rows_named(said, first) == "The record at t-7, row 3, has the value 5000000000 in 2 to 6 columns"


def test_what_an_outer_error_repeats_of_its_causes_is_said_once() -> None:
    """The sentence was left with a hole: "m:read raised , at m.py:9"."""
    failed = ConnectError("m:read raised ValueError: the shop burns, at m.py:9")
    failed.__cause__ = ValueError("the shop burns")
    with pytest.raises(ConnectError) as caught, reported_to_spark("reading task 0"):
        raise ConnectError(f"Task.poll() raised ConnectError: {failed}") from failed
    lines = str(caught.value).splitlines()
    assert lines[:4] == [
        "ValueError: the shop burns",
        "  m:read raised ValueError, at m.py:9",
        "  Task.poll() raised ConnectError",
        "  while reading task 0",
    ]
