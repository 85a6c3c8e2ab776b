"""The table of tasks and slots in whatever order slots come and go and tasks start, fail and are removed."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kconnect.model import ConnectorType, RunState, TaskId, TaskSpec
from kconnect.spark.task_table import TaskTable


class Slots(RuleBasedStateMachine):
    """Slots come and go, tasks start, end and are removed: what runs is where the table says, and evenly spread."""

    def __init__(self) -> None:
        super().__init__()
        self.table = TaskTable()
        self.up: set[int] = {0, 1, 2}
        self.processes: dict[int, dict[TaskId, int]] = {0: {}, 1: {}, 2: {}}
        self.wanted: dict[TaskId, int] = {}
        self.runs = 0
        self.moving: dict[TaskId, tuple[int, int]] = {}
        """The slot and the run that was asked to stop there."""

    def _serve(self) -> None:
        self.table.place(sorted(self.up))
        for slot, one in self.table.take_unsent(self.up):
            self.processes[slot][one.id] = one.run

    @rule(name=st.sampled_from("abc"), task=st.integers(0, 3))
    def start(self, name: str, task: int) -> None:
        self.runs += 1
        self.table.add(TaskSpec(TaskId(name, task), self.runs, ConnectorType.SOURCE, {}, {}, {}))
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
        # Its answers are lost with it: the task may come back there in the same run
        self.moving = {task: way for task, way in self.moving.items() if way[0] != slot}
        self.table.lost(slot)
        self._serve()

    @rule(name=st.sampled_from("abc"), task=st.integers(0, 3), slot=st.integers(0, 2))
    def move(self, name: str, task: int, slot: int) -> None:
        task_id = TaskId(name, task)
        source = self.table.move(task_id, slot)
        if source is not None:
            assert self.processes[source][task_id] == self.wanted[task_id]
            self.moving[task_id] = source, self.wanted[task_id]
        self._serve()

    @rule(data=st.data())
    def end_of_a_move(self, data: st.DataObject) -> None:
        if not self.moving:
            return
        task_id = data.draw(st.sampled_from(sorted(self.moving)))
        source, run = self.moving.pop(task_id)
        if self.processes[source].get(task_id) == run:
            del self.processes[source][task_id]
            self.table.stopped(source, task_id)
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
            if self.moving.get(task_id) == (slot, run):  # what becomes of it, its next slot says
                assert not self.table.reached(slot, task_id, run, RunState.FAILED)
                return
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
