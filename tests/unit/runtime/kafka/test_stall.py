"""When a reader that gives nothing is replaced, and when it is only waiting, slow, or at the end."""

from __future__ import annotations

from kconnect.runtime.kafka.log import StallWatch


def test_a_reader_that_gives_nothing_of_what_there_is_stands_still() -> None:
    watch = StallWatch(15.0)
    assert not watch.look({0: 42}, {0: 186}, 100.0)
    assert not watch.look({0: 42}, {0: 190}, 114.0)
    assert watch.look({0: 42}, {0: 200}, 115.0)


def test_one_partition_that_goes_on_shows_that_the_reader_lives() -> None:
    watch = StallWatch(15.0)
    for second in range(60):
        assert not watch.look({0: 42, 1: second}, {0: 186, 1: 1_000}, float(second))


def test_a_reader_at_the_end_of_what_is_committed_waits_for_an_open_transaction() -> None:
    watch = StallWatch(15.0)
    for second in range(60):
        assert not watch.look({0: 42}, {0: 42}, float(second))


def test_time_without_anything_to_read_does_not_count() -> None:
    watch = StallWatch(15.0)
    assert not watch.look({0: 42}, {0: 43}, 0.0)
    assert not watch.look({0: 43}, {0: 43}, 1.0)
    assert not watch.look({0: 43}, {0: 44}, 3_600.0)
    assert not watch.look({0: 43}, {0: 44}, 3_601.0)
    assert watch.look({0: 43}, {0: 44}, 3_615.0)


def test_the_next_reader_gets_as_much_time() -> None:
    watch = StallWatch(15.0)
    watch.look({0: 42}, {0: 186}, 0.0)
    assert watch.look({0: 42}, {0: 186}, 15.0)
    assert not watch.look({0: 42}, {0: 186}, 29.0)
    assert watch.look({0: 42}, {0: 186}, 30.0)
