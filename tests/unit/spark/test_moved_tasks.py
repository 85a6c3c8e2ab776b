"""The real SparkLauncher with slots between bounds, by a clock that stands still: what begins, moves and ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kconnect.model import RunState, TaskId
from kconnect.spark.messages import SlotDemand, TasksStopped
from kconnect.spark.settings import SparkSettings
from kit.memory_spark import MemorySlot, MemorySpark
from unit.spark.test_launcher import World, launched, spec

TASKS = [TaskId("a", 0), TaskId("b", 0)]


@contextmanager
def one_slot(*, most: int = 2) -> Iterator[World]:
    """A worker with a slot that has two tasks, of one to `most`."""
    with launched(MemorySpark(), 1, SparkSettings(slots=1, most_slots=most)) as world:
        world.settle()
        world.up(0)
        world.launcher.start_tasks([spec("a"), spec("b")])
        world.settle()
        yield world


def seconds(world: World, count: int, percent: float) -> None:
    """Time passes in which the tasks of each slot want so much of a core together."""
    for _ in range(count):
        for process in world.spark.live():
            tasks = list(process.working())
            shares = tuple((task, percent / len(tasks)) for task in tasks)
            process.say(SlotDemand(percent if tasks else 0.0, shares))
        world.spark.step(world.launcher, world.slots)


def grown(world: World) -> tuple[MemorySlot, MemorySlot]:
    """The load has brought a second slot, which has just come up."""
    seconds(world, 6, 98.0)
    world.slots = 2
    world.settle()
    return world.spark.processes[0], world.up(1)


def states(world: World, name: str) -> list[RunState]:
    return world.events.by_run()[TaskId(name, 0), 1]


def test_a_full_slot_brings_another_and_a_task_goes_on_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kconnect.spark")
    with one_slot() as world:
        first, second = grown(world)
        assert world.spark.jobs[1].spec.connector is None
        assert world.spark.jobs[1].spec.tells_demand
        seconds(world, 1, 98.0)

        assert (first.working().keys(), second.working().keys()) == ({TaskId("b", 0)}, {TaskId("a", 0)})
        assert second.starts == [(TaskId("a", 0), 1)]
        assert states(world, "a") == [RunState.RUNNING, RunState.UNASSIGNED, RunState.RUNNING]
        assert states(world, "b") == [RunState.RUNNING]
        assert [(slot.shared_least, slot.shared_most) for slot in world.launcher.slots()] == [(1, 2), (1, 2)]
        why = "slot 0 has wanted 98 % of a core for 5 s"
        assert f"Slot 1 starts: {why}" in caplog.messages
        assert f"Task a-0 has moved from slot 0 to slot 1 in 0.00 s: {why}" in caplog.messages


def test_a_load_that_has_left_ends_the_slot_and_its_task_goes_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kconnect.spark")
    with one_slot() as world:
        first, second = grown(world)
        seconds(world, 1, 98.0)
        world.slots = 1
        seconds(world, 17, 1.0)

        assert second.pid in world.spark.killed
        assert first.is_live
        assert [slot.slot for slot in world.launcher.slots()] == [0]
        assert first.working().keys() == set(TASKS)
        assert states(world, "a")[-2:] == [RunState.UNASSIGNED, RunState.RUNNING]
        why = "2 slots have wanted 2 % of a core together for 10 s"
        assert f"Slot 1 ends: {why}" in caplog.messages
        seconds(world, 8, 98.0)
        world.slots = 2
        assert world.up(1).slot == 1  # its number is free again


def test_a_task_that_does_not_stop_goes_on_elsewhere_once_it_was_given_up() -> None:
    with one_slot() as world:
        first, second = grown(world)
        first.holds_stops = True
        seconds(world, 1, 98.0)

        assert second.working().keys() == {TaskId("a", 0)}


def test_a_task_whose_slot_dies_on_the_way_starts_in_the_next_at_once() -> None:
    with one_slot() as world:
        first, second = grown(world)
        first.is_hung = True  # it takes the stop, and does not answer
        world.spark.step(world.launcher, 2)
        assert second.starts == []
        world.spark.end_process(first, "exit 1")
        world.settle()

        assert second.starts == [(TaskId("a", 0), 1)]
        world.up(0)
        assert world.spark.processes[0].starts == [(TaskId("b", 0), 1)]


def test_a_task_whose_next_slot_dies_on_the_way_goes_where_there_is_room() -> None:
    with one_slot() as world:
        first, second = grown(world)
        first.is_hung = True
        world.spark.step(world.launcher, 2)
        world.spark.end_process(second, "exit 1")
        first.is_hung = False
        world.settle()
        (request,) = [number for number in range(1, 9) if answered(world, first, number)]

        assert request == 1
        for _ in range(12):
            world.spark.step(world.launcher, 2)
        assert first.starts[-1] == (TaskId("a", 0), 1)
        assert states(world, "a")[-1] is RunState.RUNNING


def answered(world: World, process: MemorySlot, request: int) -> bool:
    """The slot says that it has stopped the tasks of this request; whether that has changed anything."""
    before = world.events.count()
    process.say(TasksStopped(request, ()))
    world.settle()
    return world.events.count() > before


def test_a_task_that_is_stopped_on_the_way_starts_nowhere() -> None:
    with one_slot() as world:
        first, second = grown(world)
        first.is_hung = True
        world.spark.step(world.launcher, 2)
        first.is_hung = False
        assert world.launcher.stop_tasks([TaskId("a", 0)], 1.0) == set()
        answered(world, first, 1)
        seconds(world, 3, 50.0)

        assert second.starts == []
        assert TaskId("a", 0) not in first.working()


def test_a_task_that_is_started_anew_on_the_way_stays_and_its_first_run_is_not_started_again() -> None:
    with one_slot() as world:
        first, second = grown(world)
        first.is_hung = True
        world.spark.step(world.launcher, 2)
        first.is_hung = False
        world.launcher.start_tasks([spec("a", run=2)])
        world.settle()
        answered(world, first, 1)

        assert first.starts[-1] == (TaskId("a", 0), 2)
        assert second.starts == []


def test_a_task_that_has_failed_does_not_move_and_starts_anew_in_a_slot_that_is_there() -> None:
    with one_slot() as world:
        first, second = grown(world)
        seconds(world, 1, 98.0)
        second.report(TaskId("a", 0), RunState.FAILED, "broken")
        world.settle()
        world.slots = 1
        seconds(world, 17, 1.0)
        assert second.pid in world.spark.killed
        assert states(world, "a")[-1] is RunState.FAILED

        world.launcher.start_tasks([spec("a", run=2)])
        world.settle()
        assert first.starts[-1] == (TaskId("a", 0), 2)


def test_with_a_number_nothing_moves_and_no_slot_tells_what_it_wants() -> None:
    with launched(MemorySpark(), 1) as world:
        world.settle()
        first = world.up(0)
        world.launcher.start_tasks([spec("a"), spec("b")])
        world.settle()
        seconds(world, 20, 100.0)

        assert world.spark.jobs.keys() == {0}
        assert not world.spark.jobs[0].spec.tells_demand
        assert first.working().keys() == set(TASKS)
        assert [(slot.shared_least, slot.shared_most) for slot in world.launcher.slots()] == [(1, 1)]
