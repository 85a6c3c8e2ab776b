"""Executors of a cluster: what Spark tells of them, how many slots they carry, where the next goes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.spark.executors import (
    Executor,
    Homes,
    RunningSlot,
    SlotTarget,
    UnreachableSlots,
    executors_of,
    expected_slots,
    registration_wait_s,
    usable_slots,
)
from kconnect.spark.settings import SparkSettings

STANDALONE = {"spark.master": "spark://m:7077"}
YARN = {"spark.master": "yarn"}
DYNAMIC = {**YARN, "spark.dynamicAllocation.enabled": "true"}


def _summary(number: str, **reported: object) -> dict[str, object]:
    return {"id": number, "hostPort": "10.0.0.1:4040", "isActive": True, "maxTasks": 2, "isExcluded": False, **reported}


def _some(*slots: int) -> list[Executor]:
    return [Executor(str(number), "host", count) for number, count in enumerate(slots)]


def test_the_driver_and_lost_executors_carry_no_slot():
    reported = [
        _summary("driver", maxTasks=0),
        _summary("0"),
        _summary("1", isActive=False),
        _summary("2", isExcluded=True),
    ]

    found = executors_of(reported)

    assert found == [Executor("0", "10.0.0.1", 2), Executor("2", "10.0.0.1", 2, excluded=True)]
    assert usable_slots(found) == 2
    assert found[0].location == "executor_10.0.0.1_0"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 30))
def test_slots_spread_within_one_over_executors_with_room(sizes, count):
    executors, homes = _some(*sizes), Homes()
    taken: Counter[str] = Counter()
    for slot in range(count):
        home = homes.choose(slot, executors)
        assert (home is None) == (taken.total() == sum(sizes))
        if home is not None:
            taken[home.id] += 1
    assert all(taken[executor.id] <= executor.slots for executor in executors)
    with_room = [taken[executor.id] for executor in executors if taken[executor.id] < executor.slots]
    assert all(max(taken.values()) - carried <= 1 for carried in with_room)


def test_an_excluded_executor_is_given_none():
    assert Homes().choose(0, [Executor("0", "h", 2, excluded=True)]) is None


def _id(executor: Executor | None) -> str | None:
    return executor.id if executor is not None else None


def test_a_slot_that_did_not_come_up_goes_to_another_executor_if_there_is_room():
    homes, two = Homes(), _some(1, 1)

    assert [_id(homes.choose(0, two)) for _ in range(4)] == ["0", "1", "0", "1"]


def test_others_avoid_an_executor_in_which_a_slot_did_not_come_up_until_one_does():
    homes, two = Homes(), _some(2, 2)
    assert _id(homes.choose(0, two)) == "0"
    assert _id(homes.choose(0, two)) == "1"
    homes.settled(0, "1")

    assert _id(homes.choose(1, two)) == "1"  # the other has more room, and no slot ever came up in it
    homes.settled(1, "1")
    assert _id(homes.choose(2, two)) == "0"
    homes.settled(2, "0")
    assert _id(homes.choose(3, two)) == "0"


def test_a_slot_that_was_up_and_died_is_no_mark_against_its_executor():
    homes, two = Homes(), _some(1, 1)
    for _ in range(3):
        assert _id(homes.choose(0, two)) == "0"
        homes.settled(0, "0")


def test_a_slot_is_where_spark_has_put_it():
    homes, two = Homes(), _some(1, 1)
    assert _id(homes.choose(0, two)) == "0"
    homes.settled(0, "1")

    assert _id(homes.choose(1, two)) == "0"


def test_where_spark_does_not_say_a_slot_is_where_it_was_sent():
    homes, two = Homes(), _some(1, 1)
    assert _id(homes.choose(0, two)) == "0"
    homes.settled(0, None)

    assert _id(homes.choose(1, two)) == "1"


def test_a_lost_executor_takes_its_marks_with_it():
    """Another of the same number never comes: what is kept must not grow."""
    homes = Homes()
    for number in range(50):
        assert _id(homes.choose(0, [Executor(str(number), "h", 1)])) == str(number)

    assert len(homes._failed) <= 1


@pytest.mark.parametrize(
    ("spark", "slots"),
    [
        (STANDALONE, None),
        ({**STANDALONE, "spark.cores.max": "12", "spark.task.cpus": "2"}, 6),
        (YARN, 2),
        ({**YARN, "spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        ({**YARN, "spark.executor.instances": "5", "spark.executor.cores": "4", "spark.task.cpus": "3"}, 5),
        (DYNAMIC, 0),
        ({**DYNAMIC, "spark.dynamicAllocation.minExecutors": "3", "spark.executor.cores": "2"}, 6),
    ],
)
def test_the_settings_tell_how_many_slots_are_to_come(spark, slots):
    assert expected_slots(spark) == slots


@pytest.mark.parametrize(("text", "seconds"), [("5s", 5), ("2m", 120), ("500", 0.5), ("", 30), ("soon", 30)])
def test_the_wait_for_executors_is_sparks_own_setting(text, seconds):
    assert registration_wait_s({"spark.scheduler.maxRegisteredResourcesWaitingTime": text}) == seconds


def _target(spark: dict[str, str], slots: int | None = None) -> SlotTarget:
    return SlotTarget(SparkSettings(spark=spark, slots=slots))


def test_a_standalone_cluster_is_given_a_second_to_hand_out_all_its_executors():
    target = _target(STANDALONE)

    assert [target.look(_some(*[1] * there), at) for there, at in ((0, 0.0), (1, 3.0), (2, 3.5), (2, 4.4))] == [0] * 4
    assert target.look(_some(1, 1), 4.6) == 2


def test_what_was_promised_is_waited_for_and_not_longer_than_spark_would():
    target = _target(
        {**YARN, "spark.executor.instances": "4", "spark.scheduler.maxRegisteredResourcesWaitingTime": "10s"}
    )

    assert target.look(_some(1, 1), 0.0) == 0
    assert target.look(_some(1, 1), 9.0) == 0
    assert target.look(_some(1, 1), 10.0) == 2
    assert target.look(_some(1, 1, 1, 1), 11.0) == 4


def test_slots_follow_executors_that_are_added_and_wait_for_those_that_are_lost():
    target = _target({**YARN, "spark.executor.instances": "2"})

    counts = [target.look(_some(*[1] * there), at) for at, there in enumerate((2, 3, 1, 0, 2, 4))]

    assert counts == [2, 3, 3, 3, 3, 4]


def test_a_set_number_of_slots_stays_whatever_comes():
    target = _target(STANDALONE, slots=2)

    assert [target.look(_some(*[1] * there), at) for at, there in enumerate((1, 2, 5))] == [0, 2, 2]


def test_dynamic_allocation_without_executors_is_asked_for_one_by_a_slot():
    """Spark starts executors for jobs that wait: without a job there would never be one."""
    assert _target(DYNAMIC).look([], 0.0) == 1
    assert _target(DYNAMIC, slots=6).look([], 0.0) == 6


def test_a_cluster_that_gives_nothing_is_a_sentence():
    target = _target(STANDALONE)

    assert target.look([], 0.0) == 0
    assert target.problem is None
    assert target.look([], 30.0) == 1
    assert target.problem is not None
    assert target.problem.startswith("spark://m:7077 has given this worker no executor in 30 s")
    target.look(_some(1), 31.0)
    assert target.problem is None


def test_executors_that_are_lost_have_their_time_to_come_back():
    target = _target(STANDALONE)

    assert [target.look(_some(*[1] * there), at) for at, there in ((0.0, 1), (2.0, 1), (900.0, 0))] == [0, 1, 1]
    assert target.problem is None
    target.look([], 929.0)
    assert target.problem is None
    target.look([], 930.0)
    assert target.problem is not None
    assert "no executor in 30 s" in target.problem


def test_executors_that_are_all_excluded_are_a_sentence():
    target = _target(STANDALONE)
    target.look([], 0.0)
    target.look([Executor("0", "h", 1, excluded=True)], 40.0)

    assert target.problem == "Spark has excluded all 1 executors of spark://m:7077 (spark.excludeOnFailure.*)"


def test_a_slot_that_runs_but_never_says_hello_is_a_sentence_with_the_address_and_the_setting():
    watch = UnreachableSlots(SparkSettings(spark=STANDALONE, start_timeout_s=20.0), "connect-0:40001")

    assert watch.look({3: RunningSlot("7", 0)}, 0.0) is None
    assert watch.look({3: RunningSlot("7", 0)}, 9.0) is None
    problem = watch.look({3: RunningSlot("7", 0)}, 10.0)
    assert problem is not None
    assert "Slot 3 runs in executor 7" in problem
    assert "connect-0:40001" in problem
    assert "kconnect.link.advertised.host" in problem
    assert watch.look({}, 11.0) is None
    assert watch.look({3: RunningSlot("7", 0)}, 12.0) is None


def test_a_slot_that_fails_and_is_started_again_is_no_matter_of_the_network():
    watch = UnreachableSlots(SparkSettings(spark=STANDALONE, start_timeout_s=20.0), "connect-0:40001")

    assert [watch.look({3: RunningSlot("7", job)}, job * 6.0) for job in range(5)] == [None] * 5
