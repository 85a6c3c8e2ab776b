"""Placement: everything placed, nothing moved without need, nobody overloaded."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kconnect.model import TaskId
from kconnect.spark.placement import moves

TASKS = st.lists(st.builds(TaskId, st.sampled_from("abc"), st.integers(0, 20)), unique=True, max_size=40)
SLOTS = st.lists(st.integers(0, 6), unique=True, max_size=6)


@given(TASKS, SLOTS, st.data())
def test_every_homeless_task_is_placed_and_no_other_moves(tasks, slots, data):
    current = {task: data.draw(st.integers(0, 9)) for task in tasks if data.draw(st.booleans())}

    placed = moves(tasks, slots, current)

    homeless = {task for task in tasks if current.get(task) not in slots}
    assert set(placed) == (homeless if slots else set())
    assert set(placed.values()) <= set(slots)


@given(TASKS, SLOTS.filter(bool))
def test_fresh_tasks_are_spread_evenly(tasks, slots):
    load = Counter(moves(tasks, slots, {}).values())

    counts = [load[slot] for slot in slots]
    assert max(counts) - min(counts) <= 1


def test_new_tasks_go_to_the_slot_with_fewest():
    busy = {TaskId("old", number): 0 for number in range(3)}

    placed = moves([*busy, TaskId("new", 0), TaskId("new", 1)], [0, 1], busy)

    assert placed == {TaskId("new", 0): 1, TaskId("new", 1): 1}


def test_tasks_of_one_connector_spread_out_among_equals():
    current = {TaskId("a", 0): 0, TaskId("b", 0): 1}

    assert moves([*current, TaskId("a", 1)], [0, 1], current) == {TaskId("a", 1): 1}


def test_tasks_of_a_lost_slot_move_and_the_others_stay():
    current = {TaskId("a", number): number % 2 for number in range(4)}

    assert moves(current, [0], current) == {TaskId("a", 1): 0, TaskId("a", 3): 0}
