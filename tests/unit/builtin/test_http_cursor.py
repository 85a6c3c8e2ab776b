"""Cursors of a JSON service: compared as what they are, and which items come once: pure decisions."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import DataError
from kconnect.builtin.connectors.http_reading import Cursor, Had, Reach
from kit.examples import examples

ROWS = [
    ["2026-11-27T00:00:00Z", "2026-11-27T00:00:00.5Z", "2026-11-27T00:00:00.500000001Z", "2026-11-27T00:00:01Z"],
    ["2026-11-27T02:30:00+02:00", "2026-11-27T02:10:00+01:00", "2026-11-27 01:11:00"],
    ["2026-10-25T02:30:00+02:00[Europe/Berlin]", "2026-10-25T02:10:00.5+01:00[Europe/Berlin]"],
    [
        "2026-11-27T00:00:00Z[UTC]",
        "2026-11-27T00:00:00.5Z[UTC]",
        "2026-11-27 00:00:01 UTC",
        "2026-11-27 00:00:01.5 GMT",
    ],
    ["2026-11-26", "2026-11-26T00:00:00.1Z", "2026-11-26T12:00", "2026-11-27"],
    ["Fri, 27 Nov 2026 10:00:00 GMT", "2026-11-27T10:00:01Z", "Fri, 27 Nov 2026 12:00:00 +0100"],
    [2, "9", 10, "11.5", 12],
    ["1764237600.000000001", "1764237600.000000002"],
    [9007199254740992, 9007199254740993, "9007199254740994"],
    ["a", "b", "bb"],
]


@pytest.mark.parametrize("row", ROWS)
def test_cursors_are_in_the_order_of_what_they_are(row: list[Any]) -> None:
    for one, other in pairwise(row):
        assert Cursor(one) < Cursor(other)
        assert not Cursor(other) < Cursor(one)


def test_one_time_in_two_spellings_is_one_cursor() -> None:
    assert Cursor("2026-11-27T02:30:00+02:00") == Cursor("2026-11-27T00:30:00.000Z")
    assert Cursor("10") == Cursor(10.0)
    assert Cursor("10") != Cursor("ten")


@pytest.mark.parametrize(
    ("given", "distance", "wanted"),
    [
        ("2026-11-27T00:00:00Z", 60, "2026-11-26T23:59:00Z"),
        ("2026-11-27T02:30:00.250+02:00", 0.5, "2026-11-27T02:29:59.750+02:00"),
        ("2026-11-27 02:30:00.250 UTC", 0.5, "2026-11-27 02:29:59.750 UTC"),
        ("2026-11-27", 86400, "2026-11-26"),
        ("Fri, 27 Nov 2026 10:00:00 GMT", 1, "Fri, 27 Nov 2026 09:59:59 GMT"),
        (100, 10, 90),
        ("100", 10, "90"),
        (1.5, 1, 0.5),
        ("text", 10, "text"),
    ],
)
def test_what_lies_before_is_spelled_alike(given: Any, distance: float, wanted: Any) -> None:
    assert Cursor(given).before(Decimal(str(distance))).given == wanted


def turn(reach: Reach, items: list[Any], lookback: int = 0) -> tuple[Reach, list[Any]]:
    after, fresh = reach.page([(item["t"], item, item) for item in items], Decimal(lookback))
    return after.ended(Decimal(lookback)), [item for item, is_new in zip(items, fresh, strict=True) if is_new]


def test_an_item_with_the_cursors_own_value_is_distinguished_from_those_that_came() -> None:
    one, two, three = ({"t": 5, "id": number} for number in (1, 2, 3))
    reach, fresh = turn(Reach(), [one])
    assert fresh == [one]
    reach, fresh = turn(reach, [one, two])
    assert fresh == [two]
    reach, fresh = turn(reach, [two])
    assert fresh == []
    reach = Reach(reach.cursor, Had.of(reach.known.text()))  # type: ignore[union-attr]  # through an offset
    reach, fresh = turn(reach, [one, two, three, {"t": 4, "id": 9}])
    assert fresh == [three]
    assert (reach.cursor, len(reach.known.items)) == (5, 3)  # type: ignore[union-attr]


def test_items_that_come_late_are_found_by_looking_back_and_none_comes_twice() -> None:
    reach, _ = turn(Reach(), [{"t": 10}, {"t": 20}], lookback=10)
    reach, fresh = turn(reach, [{"t": 10}, {"t": 15}, {"t": 20}, {"t": 25}], lookback=10)
    assert fresh == [{"t": 15}, {"t": 25}]
    reach, fresh = turn(reach, [{"t": 10}, {"t": 15}, {"t": 16}, {"t": 20}, {"t": 25}, {"t": 14, "too": "late"}], 10)
    assert fresh == [{"t": 16}]


def test_nothing_is_known_of_a_cursor_that_somebody_set() -> None:
    reach, fresh = turn(Reach(5), [{"t": 5, "id": 1}, {"t": 4}, {"t": 6}])
    assert fresh == [{"t": 6}]
    reach, fresh = turn(Reach(5), [{"t": 5, "id": 1}])
    assert fresh == []
    assert turn(reach, [{"t": 5, "id": 1}, {"t": 5, "id": 2}])[1] == [{"t": 5, "id": 2}]
    assert turn(Reach(5, Had()), [{"t": 5}])[1] == [{"t": 5}], "cursor.initial is where to begin"


def test_known_items_are_refused_that_are_none() -> None:
    for text in ("x", "[1]", '{"a": 1}'):
        with pytest.raises(DataError, match="came before"):
            Had.of(text)


@examples(200)
@given(st.data())
def test_each_item_comes_once_whatever_the_rounds_pages_and_restarts(data: st.DataObject) -> None:
    """Items come late by up to `late`; the server gives, in any order, what is not before the cursor less that."""
    late = data.draw(st.integers(0, 3))
    reach, there, given_out, clock = Reach(), list[dict[str, int]](), list[dict[str, int]](), 0
    for number in range(data.draw(st.integers(1, 12))):
        clock += data.draw(st.integers(0, 2))
        for _ in range(data.draw(st.integers(0, 3))):
            there.append({"t": clock - data.draw(st.integers(0, late)), "id": len(there)})
        asked = None if reach.cursor is None else Cursor(reach.cursor).before(Decimal(late)).given
        answer = [item for item in there if asked is None or item["t"] >= asked]
        answer = data.draw(st.permutations(answer))
        size = data.draw(st.integers(1, 4))
        for start in range(0, len(answer), size):
            page = answer[start : start + size]
            reach, fresh = reach.page([(item["t"], item, item) for item in page], Decimal(late))
            given_out += [item for item, is_new in zip(page, fresh, strict=True) if is_new]
            known, seen = reach.known, reach.seen
            reach = Reach(reach.cursor, known and Had.of(known.text()), reach.highest, Had.of(seen.text()))
        reach = reach.ended(Decimal(late))
        assert number >= 0
    ids = [item["id"] for item in given_out]
    assert len(ids) == len(set(ids)), "one came twice"
    assert {item["id"] for item in there} == set(ids), "one was lost"
