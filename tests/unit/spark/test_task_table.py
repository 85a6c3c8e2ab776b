"""Which slot has which task, through starts, stops, failures and losses of slots."""

from __future__ import annotations

from kconnect.model import ConnectorType, RunState, TargetState, TaskId, TaskSpec
from kconnect.spark.task_table import TaskTable
from kit.counting import instructions


def spec(name: str, task: int = 0, run: int = 1) -> TaskSpec:
    return TaskSpec(TaskId(name, task), run, ConnectorType.SOURCE, {}, {}, {})


def started(table: TaskTable, specs: list[TaskSpec], slots: list[int]) -> dict[TaskId, int]:
    for one in specs:
        table.add(one)
    table.place(slots)
    return {one.id: slot for slot, one in table.take_unsent(slots)}


def test_tasks_that_came_before_the_slots_wait_and_spread_over_all_of_them() -> None:
    table = TaskTable()
    for number in range(4):
        table.add(spec("a", number))
        table.place([])
    assert table.take_unsent([]) == []

    table.place([0, 1])
    assert len(table.take_unsent([1])) == 2  # slot 0 is awaited
    assert not table.is_sent(TaskId("a", 0))
    assert len(table.take_unsent([0, 1])) == 2
    assert table.by_slot() == {0: (TaskId("a", 0), TaskId("a", 2)), 1: (TaskId("a", 1), TaskId("a", 3))}


def test_the_next_run_of_a_task_goes_to_the_same_slot_though_another_is_empty() -> None:
    table = TaskTable()
    places = started(table, [spec("a"), spec("b")], [0, 1])
    table.remove(TaskId("a", 0))

    assert started(table, [spec("b", run=2)], [0, 1]) == {TaskId("b", 0): places[TaskId("b", 0)]}


def test_tasks_of_a_lost_slot_wait_for_it_then_move_and_the_others_stay() -> None:
    table = TaskTable()
    started(table, [spec("a", number) for number in range(4)], [0, 1])

    assert [one.id.task for one in table.lost(1)] == [1, 3]
    table.place([0, 1])  # it is awaited
    assert table.take_unsent([0]) == []
    table.place([0])
    assert sorted(one.id.task for _, one in table.take_unsent([0])) == [1, 3]
    assert [task.task for task in table.by_slot()[0]] == [0, 1, 2, 3]


def test_a_task_that_failed_stays_down_when_its_slot_is_lost_and_takes_no_room() -> None:
    table = TaskTable()
    started(table, [spec("a"), spec("b")], [0, 1])
    assert table.reached(0, TaskId("a", 0), 1, RunState.FAILED)

    assert table.lost(0) == []
    assert started(table, [spec("c")], [0, 1]) == {TaskId("c", 0): 0}


def test_reports_of_earlier_runs_and_other_slots_do_not_count() -> None:
    table = TaskTable()
    started(table, [spec("a", run=2)], [0, 1])

    assert not table.reached(0, TaskId("a", 0), 1, RunState.RUNNING)
    assert not table.reached(1, TaskId("a", 0), 2, RunState.RUNNING)
    assert not table.reached(0, TaskId("b", 0), 2, RunState.RUNNING)
    assert table.reached(0, TaskId("a", 0), 2, RunState.RUNNING)
    assert table.is_run_of(0, TaskId("a", 0), 2)


def test_a_wish_for_another_state_reaches_a_task_that_is_not_reported_of_yet() -> None:
    table = TaskTable()
    table.add(spec("a"))
    assert table.set_target(TaskId("a", 0), TargetState.PAUSED) is None

    table.place([3])
    ((slot, reported),) = table.take_unsent([3])
    assert (slot, reported.target_state) == (3, TargetState.PAUSED)
    assert table.set_target(TaskId("a", 0), TargetState.STARTED) == 3
    assert table.remove(TaskId("a", 0)) == 3
    assert table.remove(TaskId("a", 0)) is None


def test_what_a_start_costs_does_not_grow_with_the_tasks_that_run() -> None:
    table = TaskTable()

    def start(first: int, count: int) -> None:
        for number in range(first, first + count):
            started(table, [spec(f"c{number}")], [0, 1])

    early = instructions(lambda: start(0, 100))
    start(100, 900)
    late = instructions(lambda: start(1000, 100))

    assert late < early * 1.2
