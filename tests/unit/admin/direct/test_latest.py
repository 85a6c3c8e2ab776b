"""Which record of a key is in force."""

from __future__ import annotations

from itertools import permutations

import pytest

from kconnect.admin.direct.read.reader import Latest
from kconnect.model import LogRecord


def record(partition: int, offset: int, value: bytes | None, at_ms: int, key: bytes = b"k") -> LogRecord:
    return LogRecord("offsets", partition, offset, key, value, at_ms)


def taken(*records: LogRecord) -> Latest:
    latest = Latest(over_partitions=True)
    for one in records:
        latest.apply(one)
    return latest


@pytest.mark.parametrize(("last", "value"), [(b"b", b"b"), (None, None)])
def test_of_a_key_in_two_partitions_the_later_counts_in_whatever_order_they_are_read(last, value):
    records = [record(0, 7, b"a", 10), record(3, 1, last, 20)]
    for order in permutations(records):
        found = taken(*order).get(b"k")
        assert (found.value if found else None) == value
    again = record(0, 8, b"c", 30)
    assert taken(*records, again).get(b"k") == again


def test_of_one_millisecond_two_partitions_give_the_same_answer_each_time():
    records = [record(0, 0, b"a", 10), record(1, 0, b"b", 10)]
    assert {taken(*order).get(b"k") for order in permutations(records)} == {records[1]}


def test_within_a_partition_the_order_counts_and_not_the_clock():
    assert taken(record(0, 0, b"a", 20), record(0, 1, b"b", 10)).get(b"k").value == b"b"


def test_a_key_that_is_set_anew_comes_behind_the_others_and_a_deleted_one_not_at_all():
    latest = taken(
        record(0, 0, b"a", 1, b"x"),
        record(0, 1, b"b", 2, b"y"),
        record(0, 2, None, 3, b"x"),
        record(0, 3, None, 4, b"z"),
        record(0, 4, b"c", 5, b"x"),
    )
    assert [one.value for one in latest.all()] == [b"b", b"c"]
