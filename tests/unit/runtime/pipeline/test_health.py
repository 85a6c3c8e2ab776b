"""From what happens in a task's loop to its condition: a pure state machine."""

from __future__ import annotations

import pytest

from kconnect.model import Condition, TaskCondition
from kconnect.runtime.pipeline.health import HealthSettings, TaskHealth

EPOCH_MS = 1_000_000


@pytest.fixture
def health() -> TaskHealth:
    return TaskHealth(HealthSettings(), 0.0, EPOCH_MS)


def at(seconds: float) -> int:
    return EPOCH_MS + int(seconds * 1000)


def test_a_task_to_which_nothing_happens_is_healthy_since_it_began(health):
    assert health.look(5.0) == TaskCondition(Condition.HEALTHY, at(0))


def test_a_call_that_may_succeed_later_is_retrying_with_its_count_and_cause_until_records_move(health):
    for second in (1, 2, 4):
        health.failed(f"poll() raised {second}", float(second))
    assert health.look(5.0) == TaskCondition(Condition.RETRYING, at(1), 3, "poll() raised 4")

    over = health.went_well(6.0, moved=True)

    assert over is not None
    assert (over.since_s, over.count) == (1.0, 3)
    assert health.look(7.0) == TaskCondition(Condition.HEALTHY, at(7))
    assert health.look(9.0).since_ms == at(7)
    assert health.failed_calls == 3


def test_a_poll_that_gives_nothing_ends_the_trouble_only_after_some_quiet(health):
    health.failed("no route", 1.0)
    assert health.went_well(2.0, moved=False) is None
    health.failed("no route", 3.0)
    assert health.went_well(4.0, moved=False) is None
    assert health.went_well(8.9, moved=False) is None
    assert health.look(8.9).count == 2, "one that fails every other time is retrying all the time"
    assert health.went_well(9.0, moved=False) is not None
    assert health.look(9.0).condition is Condition.HEALTHY


def test_a_call_that_does_not_return_is_stuck_since_it_began_until_it_does(health):
    call = health.call = ("Orders.poll()", 10.0)
    assert health.overdue(69.9) is None
    assert health.overdue(70.0) is call
    health.named(call, "Orders.poll() has not returned", "stack")
    assert health.look(70.0) == TaskCondition(Condition.STUCK, at(10), 0, "Orders.poll() has not returned", "stack")
    health.call = ("Orders.poll()", 71.0)
    assert health.look(72.0).condition is Condition.HEALTHY, "the next call is not the one that was named"


def test_zero_means_that_no_call_is_ever_stuck():
    health = TaskHealth(HealthSettings(stuck_after_s=0.0), 0.0, EPOCH_MS)
    health.call = ("Orders.poll()", 10.0)
    assert health.overdue(1e9) is None


def test_offsets_that_cannot_be_stored_are_counted_until_they_are(health):
    health.commit_began(1.0)
    health.commit_failed("no space", 2.0)
    health.commit_began(3.0)
    health.commit_failed("no space", 4.0)
    assert health.look(5.0) == TaskCondition(Condition.NOT_COMMITTING, at(2), 2, "no space")
    over = health.commit_done()
    assert over is not None
    assert over.count == 2
    assert health.look(6.0).condition is Condition.HEALTHY


def test_a_commit_without_an_answer_counts_as_none(health):
    health.commit_began(1.0)
    assert health.look(5.9).condition is Condition.HEALTHY
    found = health.look(6.0)
    assert (found.condition, found.since_ms) == (Condition.NOT_COMMITTING, at(1))
    assert health.commit_done() is None
    assert health.look(7.0).condition is Condition.HEALTHY


def test_the_worst_is_reported_and_the_others_are_still_known_when_it_passes(health):
    health.commit_failed("no space", 1.0)
    health.failed("no route", 2.0)
    call = health.call = ("Orders.poll()", 3.0)
    health.named(call, "it hangs", "stack")
    assert health.look(70.0).condition is Condition.STUCK
    health.call = None
    assert health.look(71.0).condition is Condition.RETRYING
    health.went_well(72.0, moved=True)
    assert health.look(73.0).condition is Condition.NOT_COMMITTING
    health.commit_done()
    assert health.look(74.0).condition is Condition.HEALTHY


# --- lagging ---


def looked(health: TaskHealth, behind: list[int], every_s: float = 10.0) -> list[Condition]:
    found = []
    for number, records in enumerate(behind):
        health.behind = records
        found.append(health.look(number * every_s).condition)
    return found


def test_a_sink_that_falls_further_behind_for_a_minute_is_lagging_with_how_far(health):
    assert looked(health, [0, 5_000, 10_000, 15_000, 20_000, 25_000]) == [Condition.HEALTHY] * 6
    health.behind = 30_000
    found = health.look(60.0)
    assert (found.condition, found.since_ms, found.count) == (Condition.LAGGING, at(0), 30_000)
    assert "30,000 records behind" in (found.cause or "")


def test_who_lags_while_quotas_hold_its_client_back_says_so_until_its_next_report(health):
    quota = "; a quota of the brokers holds its client back, by up to 9.9 s a request"
    health.throttled(9_940.0, 80.0)
    assert looked(health, [step * 10_000 for step in range(10)])[-1] is Condition.LAGGING
    health.throttled(40.0, 95.0)  # what nobody notices
    assert [(health.look(now_s).cause or "").endswith(quota) for now_s in (100.0, 103.0)] == [True, False]
    source = TaskHealth(HealthSettings(), 0.0, EPOCH_MS)
    source.waiting_since_s = 5.0
    source.throttled(100_000.0, 0.0)
    assert (source.look(99.0).cause or "").endswith("by up to 100.0 s a request")


def test_who_hears_nothing_of_kafka_for_a_quota_is_lagging_and_whose_stream_is_shaped_is_not(health):
    shaped = TaskHealth(HealthSettings(), 0.0, EPOCH_MS)
    for second in range(0, 70, 10):
        health.throttled(27_497.0 if second % 30 == 0 else 0.0, float(second))
        shaped.throttled(900.0, float(second))
    assert health.look(59.0).condition is Condition.HEALTHY
    found = health.look(60.0)
    assert (found.condition, found.since_ms) == (Condition.LAGGING, at(0))
    assert found.cause == "A quota of the brokers holds its client back, by up to 27.5 s a request"
    assert health.look(99.0).condition is Condition.LAGGING
    assert health.look(100.0).condition is Condition.HEALTHY, "it waited for so long, and then reported nothing"
    assert shaped.look(60.0).condition is Condition.HEALTHY


def test_a_sink_that_works_off_a_backlog_is_not_lagging(health):
    assert set(looked(health, [10_000_000 - 100_000 * step for step in range(100)])) == {Condition.HEALTHY}


def test_a_sink_that_stays_where_it_is_is_not_lagging_nor_one_a_few_records_behind(health):
    assert set(looked(health, [50_000, 50_020, 50_010] * 30)) == {Condition.HEALTHY}
    assert set(looked(health, [step * 10 for step in range(100)])) == {Condition.HEALTHY}


def test_lagging_is_over_when_it_has_caught_up_or_no_longer_falls_behind(health):
    grown = [step * 10_000 for step in range(10)]
    assert looked(health, grown)[-1] is Condition.LAGGING
    health.behind = 0
    assert health.look(100.0).condition is Condition.HEALTHY
    other = TaskHealth(HealthSettings(), 0.0, EPOCH_MS)
    assert looked(other, grown)[-1] is Condition.LAGGING
    assert other.look(140.0).condition is Condition.LAGGING
    assert other.look(150.0).condition is Condition.HEALTHY, "no new high for a minute"


def test_a_source_that_waits_for_kafka_most_of_the_time_is_lagging_until_it_does_not(health):
    for second in range(61):
        health.waiting_since_s = second + 0.2
        health.waited(second + 0.9)
        found = health.look(second + 1.0)
    assert (found.condition, found.since_ms) == (Condition.LAGGING, at(0))
    assert "70% of its time" in (found.cause or "")
    for second in range(61, 123):
        found = health.look(float(second))
    assert found.condition is Condition.HEALTHY


def test_a_wait_that_goes_on_counts_as_well(health):
    health.waiting_since_s = 5.0
    assert health.look(59.0).condition is Condition.HEALTHY
    assert health.look(60.0).condition is Condition.LAGGING
