"""How long a call that failed is waited for."""

from __future__ import annotations

import pytest

from kconnect.runtime.pipeline.retries import Backoff


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def test_pauses_double_up_to_the_cap_and_begin_anew_after_a_success():
    backoff = Backoff(0.3, 60.0, middle)
    assert [backoff.next_s() for _ in range(10)] == pytest.approx([0.3, 0.6, 1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 60, 60])
    backoff.reset()
    assert backoff.next_s() == pytest.approx(0.3)


def test_pauses_are_spread_by_a_fifth():
    found = [Backoff(1.0, 60.0).next_s() for _ in range(500)]
    assert 0.8 <= min(found) < 0.9
    assert 1.1 < max(found) <= 1.2


def test_a_cap_of_nothing_does_not_spin_and_an_endless_outage_does_not_overflow():
    assert Backoff(0.3, 0.0, middle).next_s() == pytest.approx(0.1)
    backoff = Backoff(0.3, 60.0, middle)
    assert [backoff.next_s() for _ in range(5000)][-1] == 60.0
