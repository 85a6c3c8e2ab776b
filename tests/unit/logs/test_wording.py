"""Numbers with their nouns, and lengths of time."""

from __future__ import annotations

import pytest

from kconnect.logs.wording import length_text, pluralize


def test_numbers_have_their_nouns():
    assert [pluralize(1, "task"), pluralize(0, "task"), pluralize(1006, "time")] == ["1 task", "0 tasks", "1,006 times"]


@pytest.mark.parametrize(
    ("seconds", "reported"),
    [(0.4, "0 s"), (83, "83 s"), (252, "4 min 12 s"), (7500, "2 h 5 min"), (86_400, "24 h 0 min")],
)
def test_lengths_are_reported_in_their_two_largest_parts(seconds, reported):
    assert length_text(seconds) == reported
