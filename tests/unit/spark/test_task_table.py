"""Which slot has which task, through starts, stops, failures and losses of slots."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

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


def test_a_wish_for_another_state_reaches_a_task_that_is_not_told_of_yet() -> None:
    table = TaskTable()
    table.add(spec("a"))
    assert table.set_target(TaskId("a", 0), TargetState.PAUSED) is None

    table.place([3])
    ((slot, told),) = table.take_unsent([3])
    assert (slot, told.target_state) == (3, TargetState.PAUSED)
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


class Slots(RuleBasedStateMachine):
    """Slots come and go, tasks start, end and are removed: what runs is where the table says, and evenly spread."""

    def __init__(self) -> None:
        super().__init__()
        self.table = TaskTable()
        self.up: set[int] = {0, 1, 2}
        self.processes: dict[int, dict[TaskId, int]] = {0: {}, 1: {}, 2: {}}
        self.wanted: dict[TaskId, int] = {}
        self.runs = 0

    def _serve(self) -> None:
        self.table.place(sorted(self.up))
        for slot, one in self.table.take_unsent(self.up):
            self.processes[slot][one.id] = one.run

    @rule(name=st.sampled_from("abc"), task=st.integers(0, 3))
    def start(self, name: str, task: int) -> None:
        self.runs += 1
        self.table.add(spec(name, task, self.runs))
        self.wanted[TaskId(name, task)] = self.runs
        self._serve()

    @rule(name=st.sampled_from("abc"), task=st.integers(0, 3))
    def remove(self, name: str, task: int) -> None:
        slot = self.table.remove(TaskId(name, task))
        self.wanted.pop(TaskId(name, task), None)
        if slot is not None:
            self.processes[slot].pop(TaskId(name, task), None)

    @rule(slot=st.integers(0, 2))
    def lose(self, slot: int) -> None:
        self.up.discard(slot)
        self.processes[slot] = {}
        self.table.lost(slot)
        self._serve()

    @rule(slot=st.integers(0, 2))
    def attach(self, slot: int) -> None:
        self.up.add(slot)
        self._serve()

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        running = [(slot, *item) for slot in self.up for item in self.processes[slot].items()]
        if running:
            slot, task_id, run = data.draw(st.sampled_from(running))
            assert self.table.reached(slot, task_id, run, RunState.FAILED)
            del self.wanted[task_id], self.processes[slot][task_id]
            self.table.remove(task_id)

    @invariant()
    def every_wanted_run_is_in_one_slot(self) -> None:
        found = [item for slot in self.up for item in self.processes[slot].items()]
        assert len(found) == len(dict(found))
        if self.up:
            assert dict(found) == self.wanted

    @invariant()
    def the_table_and_the_processes_agree(self) -> None:
        places = {task: slot for slot, tasks in self.table.by_slot().items() for task in tasks}
        counted = Counter(slot for slot in places.values())
        for slot in self.up:
            assert counted[slot] == len(self.processes[slot])


TestSlots = Slots.TestCase
