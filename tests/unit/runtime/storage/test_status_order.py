"""Which record of a connector or task is in force, in whatever order they got into the topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.model import RunState
from kconnect.runtime.storage.status_cache import StatusRecords
from kconnect.runtime.storage.status_topic import StoredStatus

RUNNING, UNASSIGNED, FAILED, PAUSED = RunState.RUNNING, RunState.UNASSIGNED, RunState.FAILED, RunState.PAUSED


def status(state, worker, generation):
    return StoredStatus(state, worker, generation)


def records_of(*statuses):
    records = StatusRecords()
    for each in statuses:
        records.add(each)
    return records


@pytest.mark.parametrize("state", [UNASSIGNED, FAILED, PAUSED, RUNNING, RunState.RESTARTING])
def test_a_late_record_of_an_older_generation_is_not_in_force_whatever_it_says(state):
    records = records_of(status(RUNNING, "w2", 15), status(state, "w1", 14))
    assert records.in_force() == status(RUNNING, "w2", 15)
    assert records.last == status(state, "w1", 14)


def test_a_late_stop_of_the_worker_itself_does_not_cover_its_own_start_in_a_newer_generation():
    assert records_of(status(RUNNING, "w1", 15), status(UNASSIGNED, "w1", 14)).in_force().state is RUNNING


def test_of_one_generation_the_last_record_is_in_force_but_for_the_stop_of_another_worker():
    assert records_of(status(RUNNING, "w1", 3), status(UNASSIGNED, "w1", 3)).in_force().state is UNASSIGNED
    assert records_of(status(RUNNING, "w1", 3), status(FAILED, "w2", 3)).in_force().state is FAILED
    assert records_of(status(RUNNING, "w1", 3), status(UNASSIGNED, "w2", 3)).in_force().state is RUNNING


def test_a_worker_that_starts_it_in_an_older_generation_than_before_shows_that_the_group_counts_anew():
    records = records_of(status(RUNNING, "w1", 57), status(UNASSIGNED, "w1", 57), status(RUNNING, "w1", 1))
    assert records.in_force() == status(RUNNING, "w1", 1)


def test_a_reader_in_the_group_knows_which_generations_are_of_a_former_life_of_it():
    records = records_of(status(RUNNING, "old", 57))
    records.take_generation(1)
    assert records.in_force() == status(RUNNING, "old", 57)  # nobody has said anything since
    for each in (status(RUNNING, "w1", 1), status(RUNNING, "w2", 3), status(UNASSIGNED, "w1", 2)):
        records.add(each)
    assert records.in_force() == status(RUNNING, "w2", 3)
    assert not records.is_beyond(3)


def test_a_reader_that_lags_behind_its_group_does_not_take_newer_records_for_former_ones():
    records = records_of()
    records.take_generation(14)
    records.add(status(RUNNING, "w2", 15))
    records.add(status(UNASSIGNED, "w1", 14))
    assert records.in_force() == status(RUNNING, "w2", 15)
    assert records.is_beyond(14)
    records.take_generation(15)
    assert records.in_force() == status(RUNNING, "w2", 15)


def test_without_a_group_the_worker_that_has_the_work_is_in_force():
    records = records_of(status(RUNNING, "old-pod", 57), status(RUNNING, "new-pod", 1))
    assert records.in_force().worker_id == "old-pod"
    assert records.in_force("new-pod").worker_id == "new-pod"


def test_what_it_keeps_has_an_end():
    records = records_of(*(status(RUNNING, f"w{number}", 100 - number) for number in range(50)))
    assert records.in_force().generation >= 58
    assert records.last == status(RUNNING, "w49", 51)


@given(st.permutations(range(6)))
def test_whatever_the_order_in_the_topic_the_newest_generation_is_in_force(order):
    """Six workers had it one after the other; each has started it and been asked to stop."""
    history = [status(state, f"w{number}", number) for number in order for state in (RUNNING, UNASSIGNED)]
    history.remove(status(UNASSIGNED, "w5", 5))
    assert records_of(*history).in_force() == status(RUNNING, "w5", 5)
