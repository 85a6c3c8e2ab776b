"""Where tasks may go while slots come and go."""

from __future__ import annotations

from kconnect.spark.known_slots import KnownSlots
from kconnect.spark.settings import SparkSettings


def two_up() -> KnownSlots:
    slots = KnownSlots(SparkSettings(slots=2))
    for slot in slots.grow(2, now_s=0.0):
        slots.came_up(slot)
    return slots


def test_tasks_spread_over_a_slot_that_is_given_up_but_are_not_sent_to_its_process() -> None:
    slots = two_up()

    takes, may_wait_for = slots.open({0}, now_s=1.0)

    assert takes == {1}
    assert sorted(may_wait_for) == [0, 1]


def test_tasks_spread_over_a_slot_that_is_lost_for_ten_seconds() -> None:
    slots = two_up()
    slots.lost(0, now_s=1.0)

    assert slots.open((), now_s=10.0) == ({1}, [1, 0])
    assert slots.open((), now_s=11.0) == ({1}, [1])
