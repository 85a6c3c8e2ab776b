"""How long a try that failed is waited for."""

from __future__ import annotations

import pytest

from kconnect.clock import Backoff, Pauses
from kconnect.runtime.pipeline.retries import backoff_of


def test_pauses_double_up_to_the_most_and_begin_anew_after_a_success():
    pauses = Pauses(Backoff(first_s=0.3, most_s=60.0, jitter=(1.0, 1.0)))
    assert [pauses.next_s() for _ in range(10)] == pytest.approx([0.3, 0.6, 1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 60, 60])
    pauses.reset()
    assert pauses.next_s() == pytest.approx(0.3)


def test_pauses_are_spread_and_never_longer_than_the_most():
    backoff = Backoff(first_s=1.0, most_s=60.0)
    first = [backoff.pause_s(0) for _ in range(500)]
    assert 0.8 <= min(first) < 0.9
    assert 1.1 < max(first) <= 1.2
    late = [backoff.pause_s(20) for _ in range(500)]
    assert 48.0 <= min(late) < 50.0
    assert 58.0 < max(late) <= 60.0
    assert len(set(late)) > 400, "at the most, too: those that lost the same system do not return at one moment"


def test_another_factor_than_two_is_taken():
    backoff = Backoff(first_s=1.0, most_s=50.0, factor=5.0, jitter=(1.0, 1.0))
    assert [backoff.pause_s(failures) for failures in range(4)] == [1.0, 5.0, 25.0, 50.0]


def test_pauses_of_a_task_without_a_cap_do_not_spin_and_an_endless_outage_does_not_overflow():
    assert 0 < backoff_of(0.3, 0.0).pause_s(5) <= 0.01
    pauses = Pauses(backoff_of(0.3, 60.0))
    assert 48.0 <= [pauses.next_s() for _ in range(5000)][-1] <= 60.0


@pytest.mark.parametrize("most_s", [0.001, 0.05, 0.3, 0.35, 60.0])
def test_no_pause_of_a_task_is_longer_than_its_setting(most_s):
    backoff = backoff_of(0.3, most_s)
    assert all(0 < backoff.pause_s(failures) <= most_s for failures in range(200))


def test_no_first_pause_means_none():
    assert Backoff(first_s=0.0, most_s=1.0).pause_s(3) == 0.0
