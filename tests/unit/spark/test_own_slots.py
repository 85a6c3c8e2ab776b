"""When slots of one connector begin and end, by its tasks and time."""

from __future__ import annotations

from kconnect.spark.own_slots import OwnSlots


def test_a_connector_gets_a_slot_for_each_task_and_at_most_as_many_as_all_share() -> None:
    own = OwnSlots()

    begun = own.look({"a": [None], "b": [None] * 5}, 2, {0, 1}, 0.0).begin

    assert begun == {2: "a", 3: "b", 4: "b"}
    assert own.owners() == begun
    assert own.look({"a": [2], "b": [3, 4, 3, 4, 3]}, 2, {0, 1}, 1.0) == ({}, [])


def test_numbers_that_are_taken_are_left_out() -> None:
    own = OwnSlots()

    assert own.look({"a": [None, None]}, 2, {0, 2, 3}, 0.0).begin == {1: "a", 4: "a"}


def test_a_slot_ends_ten_seconds_after_its_connector_has_left() -> None:
    own = OwnSlots()
    own.look({"a": [None]}, 2, {0}, 0.0)

    assert own.look({}, 2, {0}, 5.0).end == []
    assert own.look({}, 2, {0}, 14.9).end == []
    assert own.look({}, 2, {0}, 15.0).end == [1]
    assert own.owners() == {}


def test_a_restart_in_between_keeps_the_slot_and_counts_anew() -> None:
    own = OwnSlots()
    own.look({"a": [None]}, 2, {0}, 0.0)
    own.look({}, 2, {0}, 1.0)

    assert own.look({"a": [1]}, 2, {0}, 9.0) == ({}, [])
    assert own.look({}, 2, {0}, 12.0).end == []
    assert own.look({}, 2, {0}, 21.9).end == []
    assert own.look({}, 2, {0}, 22.0).end == [1]


def test_of_a_connector_with_fewer_tasks_than_before_only_spare_slots_without_a_task_end() -> None:
    own = OwnSlots()
    own.look({"a": [None] * 4}, 4, (), 0.0)

    own.look({"a": [3, 3]}, 4, (), 1.0)
    assert own.look({"a": [3, 3]}, 4, (), 11.0).end == [1, 2]
    assert own.owners() == {0: "a", 3: "a"}
    assert own.look({"a": [3, 3]}, 4, (), 99.0) == ({}, [])


def test_a_slot_is_late_that_has_had_no_process_for_so_long() -> None:
    own = OwnSlots()
    own.look({"a": [None], "b": [None]}, 2, {0}, 0.0)
    own.came_up(1)

    assert own.late(60.0, 59.9) == {}
    assert own.late(60.0, 60.0) == {2: "b"}
    own.lost(1, 100.0)
    assert own.late(60.0, 160.0) == {1: "a", 2: "b"}
