"""Counters of a task, and what the worker makes of a minute of them."""

from __future__ import annotations

import pytest

from kconnect.model import RunState, TaskId
from kconnect.runtime.metrics import Moves, Spread, TaskCounters, TaskMeter, TaskMeters

TASK = TaskId("orders", 0)


class SetClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time_ms(self) -> int:
        return 0

    def wait(self, event, timeout_s):
        raise AssertionError("nothing waits here")


def meter_of(*samples: tuple[float, TaskCounters]) -> TaskMeter:
    meter = TaskMeter(run=1, born_s=0.0)
    for at_s, counters in samples:
        meter.add(at_s, counters)
    return meter


def test_a_rate_of_a_young_task_goes_over_its_life():
    assert meter_of((10.0, TaskCounters(records_polled=500))).rate(10.0, "records_polled") == pytest.approx(50)


def test_a_rate_goes_over_the_last_minute_and_ends_when_nothing_comes():
    meter = meter_of(*((float(second), TaskCounters(records_read=100 * second)) for second in range(1, 201)))
    assert meter.rate(200.0, "records_read") == pytest.approx(100)
    assert meter.rate(230.0, "records_read") == pytest.approx(50)
    assert meter.rate(300.0, "records_read") == 0


def test_what_is_moved_now_goes_over_ten_seconds_a_young_task_over_its_life_and_ends_when_nothing_comes():
    meter = meter_of(*((float(second), TaskCounters(records_put=100 * second, errors=2)) for second in range(1, 31)))
    assert meter.moves(30.0) == Moves(pytest.approx(100), 3000, 2)
    assert meter.moves(35.0).per_s == pytest.approx(50)
    assert meter.moves(41.0) == Moves(0, 3000, 2)
    assert meter_of((4.0, TaskCounters(records_written=80))).moves(4.0).per_s == pytest.approx(20)
    assert meter_of((0.1, TaskCounters(records_written=80))).moves(0.1).per_s == pytest.approx(80), "not 800"
    assert meter_of().moves(5.0) == Moves(0, 0, 0)


def test_averages_and_maxima_forget_what_is_older_than_a_minute():
    meter = meter_of(
        (1.0, TaskCounters(put_ms=Spread(1, 900.0, 900.0))),
        (100.0, TaskCounters(put_ms=Spread(3, 910.0, 6.0))),
        (101.0, TaskCounters(put_ms=Spread(4, 914.0, 4.0))),
    )
    assert meter.average(102.0, "put_ms") == pytest.approx(14 / 3)
    assert meter.most(102.0, "put_ms") == 6
    assert meter.average(300.0, "put_ms") is None
    assert meter.most(300.0, "put_ms") is None


def test_a_look_every_tenth_of_a_second_costs_no_maximum():
    meter = TaskMeter(run=1, born_s=0.0)
    for tenth in range(1, 600):
        most = 77.0 if tenth == 50 else 1.0
        meter.add(tenth / 10, TaskCounters(records_polled=tenth, poll_ms=Spread(tenth, tenth, most)))
    assert len(meter.samples) <= 64
    assert meter.most(60.0, "poll_ms") == 77
    assert meter.rate(60.0, "records_polled") == pytest.approx(10, rel=0.01)


def test_a_maximum_is_reported_in_one_copy_only():
    counters = TaskCounters()
    counters.poll_ms.note(8.0)
    counters.note_active(5)
    counters.note_active(2)
    first, second = counters.snapshot(), counters.snapshot()
    assert (first.poll_ms, second.poll_ms) == (Spread(1, 8.0, 8.0), Spread(1, 8.0, 0.0))
    assert (first.records_active_most, second.records_active_most) == (5, 2)


def test_counters_travel_without_their_zeros():
    counters = TaskCounters(records_read=3, last_error_ms=1_700_000_000_000, commit_ms=Spread(1, 2.5, 2.5))
    body = counters.to_json()
    assert body == {"records_read": 3, "last_error_ms": 1_700_000_000_000, "commit_ms": [1, 2.5, 2.5]}
    assert TaskCounters.from_json(body) == counters
    with pytest.raises(ValueError, match="no counter is called records_lost"):
        TaskCounters.from_json({"records_lost": 1})


def test_the_share_of_a_state_is_that_of_the_tasks_life():
    clock = SetClock()
    meters = TaskMeters(clock)
    meters.take(TASK, 1, TaskCounters())
    for state, seconds in ((RunState.RUNNING, 30), (RunState.PAUSED, 60), (RunState.RUNNING, 10)):
        meters.entered(TASK, 1, state)
        clock.now_s += seconds
    meter = meters.meters()[TASK]
    assert meter.share(clock.now_s, RunState.RUNNING) == pytest.approx(0.4)
    assert meter.share(clock.now_s, RunState.PAUSED) == pytest.approx(0.6)


def test_a_new_run_counts_from_zero_and_an_old_one_is_not_heard():
    meters = TaskMeters(SetClock())
    meters.take(TASK, 1, TaskCounters(records_put=10))
    meters.take(TASK, 2, TaskCounters(records_put=1))
    meters.take(TASK, 1, TaskCounters(records_put=11))
    assert meters.counters()[TASK].records_put == 1
    meters.forget([TASK])
    assert meters.counters() == {}
