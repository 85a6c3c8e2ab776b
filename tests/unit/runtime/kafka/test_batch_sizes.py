"""How a producer's batches become smaller when a topic refuses them for their size."""

from __future__ import annotations

import pytest

from kconnect.runtime.kafka.batch_sizes import BatchSizes

GIVEN = {"batch.size": 1_000_000, "batch.num.messages": 10_000, "linger.ms": 5}


def test_a_refused_batch_is_of_javas_size_next_and_then_of_one_record() -> None:
    sizes = BatchSizes()
    first = sizes.of("orders", GIVEN)
    assert (first.settings, first.most_bytes) == ({}, 1_000_000)
    assert first.refused(100)
    second = sizes.of("orders", GIVEN)
    assert (second.settings, second.most_bytes) == ({"batch.size": 16_384}, 16_384)
    assert second.refused(16_384)
    third = sizes.of("orders", GIVEN)
    assert (third.settings, third.most_bytes) == ({"batch.num.messages": 1}, 0)
    assert not third.refused(100), "alone it is the record that is too large"
    assert sizes.of("payments", GIVEN).settings == {}, "another producer's batches stay"


def test_a_record_larger_than_a_batch_was_alone_in_it() -> None:
    sizes = BatchSizes()
    assert not sizes.of("orders", GIVEN).refused(1_000_001)
    assert sizes.of("orders", GIVEN).settings == {}


@pytest.mark.parametrize(
    ("own", "settings"),
    [({"batch.size": 1_000}, {"batch.size": 1_000}), ({"batch.size": 20_000}, {"batch.size": 16_384})],
)
def test_settings_of_the_users_that_are_smaller_stay(own: dict[str, int], settings: dict[str, int]) -> None:
    sizes = BatchSizes()
    sizes.of("orders", GIVEN | own).refused(10)
    assert sizes.of("orders", GIVEN | own).settings == settings


def test_what_an_older_producer_says_late_makes_batches_no_larger_again() -> None:
    sizes = BatchSizes()
    older = sizes.of("orders", GIVEN)
    older.refused(10)
    sizes.of("orders", GIVEN).refused(10)
    older.refused(10)
    assert sizes.of("orders", GIVEN).most_bytes == 0
