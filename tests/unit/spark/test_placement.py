"""Placement: everything placed, nobody overloaded."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kconnect.model import TaskId
from kconnect.spark.task_table import Loads

TASKS = st.lists(st.builds(TaskId, st.sampled_from("abc"), st.integers(0, 20)), unique=True, max_size=40)
SLOTS = st.lists(st.integers(0, 6), unique=True, max_size=6)


@given(TASKS, SLOTS)
def test_every_task_is_placed_while_there_are_slots(tasks, slots):
    placed = Loads().place(tasks, slots)

    assert set(placed) == (set(tasks) if slots else set())
    assert set(placed.values()) <= set(slots)


@given(TASKS, SLOTS.filter(bool), st.integers(0, 40))
def test_tasks_are_spread_evenly_at_once_or_in_two_steps(tasks, slots, cut):
    loads = Loads()
    load = Counter([*loads.place(tasks[:cut], slots).values(), *loads.place(tasks[cut:], slots).values()])

    counts = [load[slot] for slot in slots]
    assert max(counts) - min(counts) <= 1


def test_new_tasks_go_to_the_slot_with_fewest():
    loads = Loads()
    for number in range(3):
        loads.add(TaskId("old", number), 0)

    assert loads.place([TaskId("new", 0), TaskId("new", 1)], [0, 1]) == {TaskId("new", 0): 1, TaskId("new", 1): 1}


def test_tasks_of_one_connector_spread_out_among_equals():
    loads = Loads()
    loads.add(TaskId("a", 0), 0)
    loads.add(TaskId("b", 0), 1)

    assert loads.place([TaskId("a", 1)], [0, 1]) == {TaskId("a", 1): 1}


def test_a_task_that_is_gone_leaves_room():
    loads = Loads()
    loads.place([TaskId("a", 0), TaskId("a", 1)], [0, 1])
    loads.remove(TaskId("a", 1), 1)

    assert loads.place([TaskId("b", 0)], [0, 1]) == {TaskId("b", 0): 1}
