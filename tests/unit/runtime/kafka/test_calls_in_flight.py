"""Counting what was acknowledged by whole pieces gives what looking at each message gives."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from itertools import pairwise

from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from kconnect.runtime.kafka.calls_in_flight import CallsInFlight


class Callback:
    """Notes its end, as a unit's delivery does."""

    def __init__(self, name: str, ended: list[str]) -> None:
        self.name, self.ended = name, ended

    def __call__(self, error: KafkaError, message: object) -> None:
        """Nothing is refused here."""

    def __del__(self) -> None:
        self.ended.append(self.name)


class Calls:
    """Calls with the names of those that ended, in the order of their ends."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.flight = CallsInFlight()

    def begin(self, name: str, rows: int, partition: int | None = 0) -> int:
        place = None if partition is None else ("orders", partition)
        return self.flight.begin(rows, Callback(name, self.ended), place)


def test_a_piece_ends_the_calls_that_it_covers_and_leaves_the_rest_of_the_next() -> None:
    calls = Calls()
    first, second = calls.begin("first", 100), calls.begin("second", 50)
    assert calls.flight.ended_in_order(first, 0, 60)
    assert calls.ended == []
    assert calls.flight.ended_in_order(first, 60, 60)
    assert calls.ended == ["first"]
    assert calls.flight.ended_in_order(second, 20, 30)
    assert calls.ended == ["first", "second"]


def test_calls_that_end_together_end_in_their_order() -> None:
    calls, names = Calls(), [str(number) for number in range(6)]
    numbers = [calls.begin(name, 10) for name in names]
    assert calls.flight.ended_in_order(numbers[0], 0, 30)
    calls.flight.ended(dict.fromkeys(reversed(numbers[3:]), 10))
    assert calls.ended == names


def test_partitions_end_each_in_its_own_order() -> None:
    calls = Calls()
    zero, one = calls.begin("zero", 10, 0), calls.begin("one", 10, 1)
    assert calls.flight.ended_in_order(one, 0, 10)
    assert calls.flight.ended_in_order(zero, 0, 10)
    assert calls.ended == ["one", "zero"]


def test_a_piece_that_overtakes_another_is_not_counted() -> None:
    """Behind a change of leader the old leader's answer may come after the new one's."""
    calls = Calls()
    first, second = calls.begin("first", 10), calls.begin("second", 10)
    assert not calls.flight.ended_in_order(second, 0, 10)
    calls.flight.ended({second: 10})
    assert calls.ended == ["second"]
    assert not calls.flight.ended_in_order(first, 0, 10), "all are looked at until nothing is in flight"
    calls.flight.ended({first: 10})
    again = calls.begin("again", 10)
    assert calls.flight.ended_in_order(again, 0, 10)
    assert calls.ended == ["second", "first", "again"]


def test_a_piece_that_overtakes_one_of_the_same_call_is_not_counted() -> None:
    calls = Calls()
    first = calls.begin("first", 20)
    assert not calls.flight.ended_in_order(first, 10, 10)
    assert calls.ended == []


def test_behind_a_refused_message_all_are_looked_at() -> None:
    calls = Calls()
    first, second = calls.begin("first", 10), calls.begin("second", 10)
    calls.flight.ended({first: 1})
    assert not calls.flight.are_in_order
    assert not calls.flight.ended_in_order(first, 1, 9)
    calls.flight.ended({first: 9, second: 10})
    assert calls.flight.are_in_order
    assert calls.ended == ["first", "second"]


def test_messages_whose_partition_librdkafka_chooses_are_looked_at() -> None:
    calls = Calls()
    known, unknown = calls.begin("known", 10), calls.begin("unknown", 10, None)
    assert not calls.flight.ended_in_order(known, 0, 10)
    calls.flight.ended({known: 10, unknown: 10})
    assert calls.ended == ["known", "unknown"]


def test_a_piece_longer_than_what_is_in_flight_is_not_counted() -> None:
    calls = Calls()
    first = calls.begin("first", 10)
    assert not calls.flight.ended_in_order(first, 0, 11)
    assert calls.ended == []


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 500), max_size=20),
    swap=st.none() | st.integers(0, 10),
    looks_at=st.sets(st.integers(0, 20), max_size=3),
)
def test_what_is_counted_ends_exactly_when_its_last_message_did(
    sizes: list[int], cuts: list[int], swap: int | None, looks_at: set[int]
) -> None:
    """Pieces of any length, two of which may come the wrong way round, and some of which are looked at."""
    calls = Calls()
    numbers = [calls.begin(str(at), size) for at, size in enumerate(sizes)]
    pieces = deque(pieces_of(numbers, sizes, cuts))
    if swap is not None and swap + 1 < len(pieces):
        pieces[swap], pieces[swap + 1] = pieces[swap + 1], pieces[swap]
    left = dict(zip(numbers, sizes, strict=True))
    for at, piece in enumerate(pieces):
        number, row = piece[0]
        if at in looks_at or not calls.flight.ended_in_order(number, row, len(piece)):
            calls.flight.ended(Counter(number for number, _ in piece))
        for number, _ in piece:
            left[number] -= 1
        assert set(calls.ended) == {str(numbers.index(number)) for number, count in left.items() if not count}
    assert len(calls.ended) == len(sizes)


def pieces_of(numbers: list[int], sizes: list[int], cuts: list[int]) -> Iterator[list[tuple[int, int]]]:
    """All messages, as call and row, cut into pieces."""
    messages = [(number, row) for number, size in zip(numbers, sizes, strict=True) for row in range(size)]
    bounds = sorted({0, len(messages), *(cut for cut in cuts if cut < len(messages))})
    for begin, end in pairwise(bounds):
        yield messages[begin:end]
