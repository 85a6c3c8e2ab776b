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
        (f"it was given t-0 {FIRST} to {FIRST + 9}", "it was given t-0 row 0 to row 9"),
        ("Column d would change the value 17", "Column d would change the value 17"),
        (f"the value {FIRST - 1}", f"the value {FIRST - 1}"),
    ],
)
def test_rows_of_a_write_are_named_and_not_the_offsets_that_were_made_up_for_them(said: str, shown: str) -> None:
    assert rows_named(said, FIRST) == shown
    with pytest.raises(ConnectError) as caught, reported_to_spark("writing partition 0", FIRST):
        raise ConnectError(said)
    assert str(caught.value) == f"{shown}\n  while writing partition 0"


def test_the_first_batch_of_a_query_has_its_rows_as_offsets() -> None:
    assert rows_named("The record at t-7, offset 3, value 4", 0) == "The record at t-7, offset 3, value 4"
