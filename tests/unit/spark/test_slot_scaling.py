"""How many slots a load gets between bounds, and which tasks move, second by second."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kconnect.model import TaskId
from kconnect.spark.slot_scaling import Look, Shared, SlotScaling, Steps

PATIENCE_S = 60.0


class World:
    """Slots whose tasks want so much of a core; a slot has one core for all of them. It obeys."""

    def __init__(self, least: int, most: int, tasks: Mapping[str, float], *, starts_in_s: int = 2) -> None:
        self.least, self.most = least, most
        self.scaling = SlotScaling(least, most, PATIENCE_S)
        self.wants = {TaskId(name, 0): percent for name, percent in tasks.items()}
        self.backlog: defaultdict[int, int] = defaultdict(int)
        self.now_s = 0.0
        self.slots = list(range(least))
        self.up_at_s: dict[int, float] = dict.fromkeys(self.slots, 0.0)
        self.places = {task: self.slots[number % least] for number, task in enumerate(self.wants)}
        self.starts_in_s = starts_in_s
        self.log: list[tuple[float, Steps]] = []
        self.moved_s: defaultdict[TaskId, list[float]] = defaultdict(list)

    def is_up(self, slot: int) -> bool:
        return self.now_s >= self.up_at_s[slot]

    def inside(self, slot: int) -> list[TaskId]:
        return [task for task, place in self.places.items() if place == slot]

    def second(self) -> None:
        self.now_s += 1
        for slot in self.slots:
            if self.is_up(slot):
                wants = {task: self.wants[task] for task in self.inside(slot)}
                total = sum(wants.values())
                part = min(1.0, 100 / total) if total else 0.0
                gets = {task: percent * part for task, percent in wants.items()}
                self.scaling.saw(slot, Look(self.now_s, sum(gets.values()), gets, self.backlog[slot]))
        steps = self.scaling.look(
            {slot: Shared(self.inside(slot), self.is_up(slot)) for slot in self.slots}, self.now_s
        )
        if steps.begin or steps.moves or steps.end:
            self.log.append((self.now_s, steps))
        self.obey(steps)

    def obey(self, steps: Steps) -> None:
        for move in steps.moves:
            assert move.slot in self.slots
            assert self.is_up(move.slot)
            assert self.places[move.task] != move.slot
            self.places[move.task] = move.slot
            self.moved_s[move.task].append(self.now_s)
        for slot in steps.end:
            assert not self.inside(slot)
            self.slots.remove(slot)
        for _ in range(steps.begin):
            slot = next(number for number in range(self.most + 1) if number not in self.slots)
            self.slots.append(slot)
            self.up_at_s[slot] = self.now_s + self.starts_in_s
        assert self.least <= len(self.slots) <= self.most

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second()


def test_a_tenfold_load_has_its_slots_within_thirty_seconds_and_an_end_of_it_ends_them() -> None:
    world = World(2, 8, {name: 10.0 for name in "abcdefgh"})
    world.run(60)
    assert (world.slots, world.log) == ([0, 1], [])

    world.wants = dict.fromkeys(world.wants, 100.0)
    world.run(30)
    assert len(world.slots) == 8
    assert sorted(world.places.values()) == sorted(world.slots)  # each has a slot for itself

    world.wants = dict.fromkeys(world.wants, 10.0)
    world.run(30)
    assert len(world.slots) == 2
    assert sorted(world.places.values()) == sorted(world.slots * 4)


def test_the_reason_names_the_slots_and_what_they_want() -> None:
    world = World(2, 4, {name: 97.0 for name in "abcd"})
    world.run(6)

    ((at_s, steps),) = world.log
    assert (at_s, steps.begin) == (6.0, 2)
    assert steps.begin_why == "slot 0 has wanted 100 % of a core for 5 s, and so has slot 1"
    world.run(4)
    assert {(move.slot, move.why) for move in world.log[1][1].moves} == {
        (2, "slot 0 has wanted 100 % of a core for 5 s"),
        (3, "slot 1 has wanted 100 % of a core for 5 s"),
    }
    world.wants = dict.fromkeys(world.wants, 0.0)
    world.run(30)
    assert set(world.log[-1][1].end.values()) == {"4 slots have wanted 0 % of a core together for 10 s"}


def test_one_task_that_takes_a_core_brings_no_slot_and_those_beside_it_leave() -> None:
    world = World(1, 4, {"greedy": 96.0, "b": 2.5, "c": 2.5})
    world.run(60)
    assert len(world.slots) == 2
    assert {world.places[TaskId(name, 0)] for name in "bc"} != {world.places[TaskId("greedy", 0)]}
    alone = World(1, 4, {"greedy": 100.0})
    alone.run(60)
    assert alone.log == []


def test_room_in_another_slot_is_used_before_one_begins() -> None:
    world = World(2, 4, {"a": 60.0, "b": 5.0, "c": 60.0, "d": 5.0})
    world.run(30)

    assert len(world.slots) == 2
    assert {world.places[TaskId("a", 0)], world.places[TaskId("c", 0)]} == {0, 1}


def test_at_the_bound_nothing_begins_and_a_fixed_number_has_no_bounds_to_leave() -> None:
    world = World(2, 3, {name: 100.0 for name in "abcdef"})
    world.run(120)
    assert len(world.slots) == 3


def test_a_slot_that_falls_behind_is_full_before_its_core_is() -> None:
    world = World(1, 2, {"a": 35.0, "b": 35.0})
    world.run(20)
    assert world.log == []
    for growth in (1000, 1000, -1, *[1000] * 9):
        world.backlog[0] += growth
        world.second()

    ((at_s, steps),) = world.log
    assert (at_s, steps.begin) == (32.0, 1)
    assert steps.begin_why == "slot 0 has wanted 70 % of a core for 5 s and has 9,000 records more to catch up with"


def test_a_burst_of_four_seconds_brings_no_slot_and_a_lull_of_seven_ends_none() -> None:
    world = World(1, 2, {"a": 5.0, "b": 5.0})
    world.run(20)
    for _ in range(5):
        world.wants = dict.fromkeys(world.wants, 100.0)
        world.run(4)
        world.wants = dict.fromkeys(world.wants, 5.0)
        world.run(20)
    assert world.log == []

    world.wants = dict.fromkeys(world.wants, 100.0)
    world.run(40)
    assert len(world.slots) == 2
    for _ in range(5):
        world.wants = dict.fromkeys(world.wants, 5.0)
        world.run(7)
        world.wants = dict.fromkeys(world.wants, 100.0)
        world.run(20)
    assert len(world.slots) == 2
    assert not any(steps.end for _, steps in world.log)


def test_a_slot_that_does_not_start_in_its_time_ends_and_the_next_try_is_later() -> None:
    world = World(1, 3, {"a": 100.0, "b": 100.0}, starts_in_s=10_000)
    world.run(200)

    assert [(at_s, steps.begin, list(steps.end.values())) for at_s, steps in world.log] == [
        (6.0, 1, []),
        (67.0, 0, ["it has not started in 60 s"]),
        (127.0, 1, []),
        (188.0, 0, ["it has not started in 60 s"]),
    ]


def test_a_slot_whose_process_is_gone_is_neither_a_target_nor_ended_nor_replaced() -> None:
    world = World(2, 3, {"a": 100.0, "b": 20.0, "c": 100.0, "d": 20.0})
    world.places = dict.fromkeys(world.places, 0)
    world.up_at_s[1] = 1_000.0
    world.run(50)
    assert [move.slot for _, steps in world.log for move in steps.moves] == []
    assert not any(steps.end for _, steps in world.log)


def test_without_the_demand_of_tasks_all_count_alike() -> None:
    scaling = SlotScaling(1, 2, PATIENCE_S)
    tasks = [TaskId("a", number) for number in range(4)]
    moves = []
    for second in range(1, 10):
        scaling.saw(0, Look(float(second), 95.0, {}, 0))
        slots = {0: Shared(tasks, True)} | ({1: Shared([], True)} if second > 7 else {})
        moves += scaling.look(slots, float(second)).moves
    assert [(move.task.task, move.slot) for move in moves] == [(0, 1), (1, 1)]


@given(
    least=st.integers(1, 3),
    more=st.integers(0, 4),
    loads=st.lists(st.lists(st.sampled_from([0.0, 1.0, 10.0, 45.0, 80.0, 100.0]), min_size=6, max_size=6), max_size=8),
    seconds=st.lists(st.integers(1, 40), min_size=8, max_size=8),
    starts_in_s=st.sampled_from([0, 2, 7, 90]),
)
def test_whatever_the_load_does(
    least: int, more: int, loads: list[list[float]], seconds: list[int], starts_in_s: int
) -> None:
    """Bounds are never left (`World.obey`), no task moves twice within its rest, and idle slots end at the least."""
    world = World(least, least + more, {name: 0.0 for name in "abcdef"}, starts_in_s=starts_in_s)
    for load, length in zip(loads, seconds, strict=False):
        world.wants = dict(zip(world.wants, load, strict=True))
        world.run(length)
    for times in world.moved_s.values():
        assert all(later - earlier >= 15.0 for earlier, later in itertools.pairwise(times))

    world.wants = dict.fromkeys(world.wants, 0.0)
    world.run(60 + int(PATIENCE_S) + starts_in_s)
    assert len(world.slots) == least
    calm = len(world.log)
    world.run(100)
    assert len(world.log) == calm
