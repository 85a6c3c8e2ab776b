"""Which offsets are meant by a time, an offset, an end; and the order over partitions."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.records import Last
from kconnect.admin.records.reading import _by_time
from kconnect.admin.records.selection import Span, Watermarks, chosen_partitions, last_of, remarks, spans_of
from kconnect.api import ConsumerRecord
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.model import AtOffset, AtTime, Edge

MARKS = Watermarks({0: 5, 1: 0}, {0: 20, 1: 4}, {0: 18, 1: 4})


def test_all_partitions_are_read_unless_some_are_named() -> None:
    assert chosen_partitions("orders", (), [0, 1, 2]) == [0, 1, 2]
    assert chosen_partitions("orders", {2, 0}, [0, 1, 2]) == [0, 2]


def test_a_partition_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(NotFoundError, match="orders has no partition 7") as caught:
        chosen_partitions("orders", {7, 0}, [0, 1, 2])
    assert caught.value.hint == "It has partitions 0 to 2."


def test_each_start_gives_its_offsets() -> None:
    assert spans_of("orders", Edge.EARLIEST, MARKS, {}, {}) == {0: Span(5, 18), 1: Span(0, 4)}
    assert spans_of("orders", Last(3), MARKS, {}, {}) == {0: Span(5, 18), 1: Span(0, 4)}
    assert spans_of("orders", Edge.LATEST, MARKS, {}, {}) == {0: Span(18, 18), 1: Span(4, 4)}
    assert spans_of("orders", AtOffset(2), MARKS, {}, {}) == {0: Span(5, 18), 1: Span(2, 4)}
    assert spans_of("orders", AtTime(1), MARKS, {0: 9, 1: -1}, {}) == {0: Span(9, 18), 1: Span(4, 4)}


def test_the_last_time_ends_each_partition_before_the_first_younger_record() -> None:
    assert spans_of("orders", Edge.EARLIEST, MARKS, {}, {0: 7, 1: -1}) == {0: Span(5, 7), 1: Span(0, 4)}
    assert spans_of("orders", AtTime(1), MARKS, {0: 9, 1: 1}, {0: 7, 1: 2}) == {0: Span(9, 9), 1: Span(1, 2)}


def test_an_offset_beyond_every_end_is_refused_and_one_beyond_some_gives_nothing_of_those() -> None:
    with pytest.raises(BadRequestError, match="Offset 21 is beyond the end: orders-0 ends at 20, orders-1 ends at 4"):
        spans_of("orders", AtOffset(21), MARKS, {}, {})
    assert spans_of("orders", AtOffset(20), MARKS, {}, {})[1] == Span(20, 20)


def test_what_is_not_shown_is_reported() -> None:
    (open_one,) = remarks("orders", Edge.EARLIEST, MARKS)
    assert open_one.startswith("orders-0: a transaction is open from offset 18; 2 offsets behind it")
    assert remarks("orders", AtOffset(1), MARKS)[1:] == [
        "orders-0 begins at offset 5: earlier records were deleted.",
    ]


def _records(partition: int, *times: int) -> deque[ConsumerRecord]:
    return deque(ConsumerRecord("t", partition, offset, None, b"", time) for offset, time in enumerate(times))


def test_partitions_are_merged_by_time_and_keep_their_own_order() -> None:
    waiting = {0: _records(0, 1, 5, 2, 6), 1: _records(1, 3, 4)}
    merged = [(record.partition, record.timestamp) for record in _by_time(waiting, lambda record: record)]
    assert merged == [(0, 1), (1, 3), (1, 4), (0, 5), (0, 2), (0, 6)]


def test_merging_waits_for_partitions_of_which_more_will_come() -> None:
    waiting = {0: _records(0, 1, 5), 1: _records(1, 3)}
    merged = [record.timestamp for record in _by_time(waiting, lambda record: record, until_empty=[1])]
    assert merged == [1, 3]
    assert [record.timestamp for record in waiting[0]] == [5]


@given(st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 50))), st.integers(0, 200))
def test_the_last_of_all_partitions_are_as_many_as_allowed_and_ends_stay(
    sizes: dict[int, tuple[int, int]], most: int
) -> None:
    spans = {number: Span(begin, begin + size) for number, (begin, size) in sizes.items()}
    found = last_of(spans, most)
    size = sum(span.end - span.begin for span in spans.values())
    assert sum(span.end - span.begin for span in found.values()) == min(size, most)
    assert {number: span.end for number, span in found.items()} == {n: span.end for n, span in spans.items()}
    assert all(found[number].begin >= span.begin for number, span in spans.items())
