"""Which slot has which task, whether that slot's process has been sent it, and stops of tasks that are under way.

Slots are balanced by task count. A placed task moves by order alone, since a move is a restart. Tasks of a connector
that wants slots of its own (kconnect.slot) go into these alone, and those of the others into the slots that all share.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from kconnect.model import RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.config.slot_keys import SlotSettings

_ALL_SHARED: Final[Mapping[int, str]] = MappingProxyType({})


class TaskTable:
    """Pure state: facts in, messages to send out; no thread, clock or link. Guarded by the launcher's lock.

    A task is homeless (no slot), unsent (its slot's process does not know it) or sent. The cost of adding a task does
    not grow with the number of tasks: a thousand connectors are a thousand calls.
    """

    def __init__(self) -> None:
        self._tasks: dict[TaskId, _Task] = {}
        self._homeless: dict[TaskId, _Task] = {}
        self._unsent: defaultdict[int, dict[TaskId, _Task]] = defaultdict(dict)
        self._owning: dict[TaskId, _Task] = {}
        """The tasks that want slots of their connector's own."""
        self._loads = Loads()

    def add(self, spec: TaskSpec) -> int | None:
        """Add a run of a task, in the slot of its previous run, whose process then fences that one off.

        Gives the slot whose process must stop that run by itself, as the new one may not go there: kconnect.slot has
        changed.
        """
        earlier = self._drop(spec.id)
        task = self._tasks[spec.id] = _Task(spec, None, SlotSettings.of_connector(spec.connector_config))
        if task.wants.is_own:
            self._owning[spec.id] = task
        if earlier is not None and earlier.slot is not None and earlier.wants.is_own == task.wants.is_own:
            task.slot = earlier.slot
            self._loads.add(spec.id, task.slot)
            self._unsent[task.slot][spec.id] = task
            return None
        self._homeless[spec.id] = task
        return earlier.slot if earlier is not None and earlier.sent else None

    def remove(self, task_id: TaskId) -> int | None:
        """Forget a task; gives the slot whose process was sent it, if any."""
        task = self._drop(task_id)
        return task.slot if task is not None and task.sent else None

    def place(self, usable: Collection[int], owners: Mapping[int, str] = _ALL_SHARED) -> None:
        """Assign each task without a usable slot to one of these; no other task moves.

        `owners`: the connectors whose own a slot is; a task of theirs that finds none waits.
        """
        if not usable:
            return
        for slot in [slot for slot in self._unsent if slot not in usable]:
            tasks = self._unsent.pop(slot)
            for task_id, task in tasks.items():
                self._loads.remove(task_id, slot)
                task.slot = None
            self._homeless |= tasks
        if not self._homeless:
            return
        slots: defaultdict[str | None, list[int]] = defaultdict(list)
        for slot in usable:
            slots[owners.get(slot)].append(slot)
        homeless: defaultdict[str | None, dict[TaskId, _Task]] = defaultdict(dict)
        for task_id, task in self._homeless.items():
            homeless[task_id.connector if task.wants.is_own else None][task_id] = task
        self._homeless = {}
        for owner, tasks in homeless.items():
            if not slots[owner]:
                self._homeless |= tasks
            for task_id, slot in self._loads.place(tasks, slots[owner]).items():
                tasks[task_id].slot = slot
                self._unsent[slot][task_id] = tasks[task_id]

    def take_unsent(self, attached: Collection[int]) -> list[tuple[int, TaskSpec]]:
        """The tasks to send to these slots; they count as sent."""
        taken = []
        for slot in [slot for slot in self._unsent if slot in attached]:
            for task in self._unsent.pop(slot).values():
                task.sent, task.waits_for = True, None
                taken.append((slot, task.spec))
        return taken

    def explain(self, slot: int, why: str) -> list[TaskSpec]:
        """Why tasks wait for a slot's process; gives those of which that was not said yet."""
        waiting = [task for task in self._unsent.get(slot, {}).values() if task.waits_for != why]
        for task in waiting:
            task.waits_for = why
        return [task.spec for task in waiting]

    def is_sent(self, task_id: TaskId) -> bool:
        return self._tasks[task_id].sent

    def set_target(self, task_id: TaskId, state: TargetState) -> int | None:
        """Change the target state; gives the slot whose process must be sent it."""
        task = self._tasks.get(task_id)
        if task is None:
            return None
        task.spec = replace(task.spec, target_state=state)
        return task.slot if task.sent else None

    def reached(self, slot: int, task_id: TaskId, run: int, state: RunState) -> bool:
        """Record a state that a slot reports. False: it comes from an earlier run or a lost process."""
        task = self._tasks.get(task_id)
        if task is None or task.spec.run != run or task.slot != slot or not task.sent or task.target is not None:
            return False  # of one that moves, its next slot says what becomes of it
        ended = state in (RunState.FAILED, RunState.STOPPED)
        if ended and not task.ended:
            self._loads.remove(task_id, slot)
        elif task.ended and not ended:
            self._loads.add(task_id, slot)
        task.ended = ended
        return True

    def is_run_of(self, slot: int, task_id: TaskId, run: int) -> bool:
        """Whether this is the current run of the task, and in its slot."""
        task = self._tasks.get(task_id)
        return task is not None and task.slot == slot and task.spec.run == run

    def lost(self, slot: int) -> list[TaskSpec]:
        """The slot's process is gone: gives the tasks lost with it, which its successor must be sent."""
        gone = [task for task in self._tasks.values() if task.slot == slot and task.sent and not task.ended]
        for task in gone:
            task.sent = False
            if task.target is not None:  # it was on its way
                self._take_over(task)
            else:
                self._unsent[slot][task.spec.id] = task
        return [task.spec for task in gone]

    def fail(self, slot: int) -> list[TaskSpec]:
        """Let the slot's tasks count as FAILED; gives those that had not ended."""
        failed = [task for task in self._tasks.values() if task.slot == slot and not task.ended]
        self._unsent.pop(slot, None)
        for task in failed:
            task.ended, task.sent, task.target = True, False, None
            self._loads.remove(task.spec.id, slot)
        return [task.spec for task in failed]

    def move(self, task_id: TaskId, slot: int) -> int | None:
        """Have a task go on in another slot; gives the slot whose process must stop it first, and be waited for."""
        task = self._tasks.get(task_id)
        if task is None or task.slot is None or task.ended or task.target is not None or task.slot == slot:
            return None
        task.target = slot
        if task.sent:
            return task.slot
        del self._unsent[task.slot][task_id]
        self._take_over(task)
        return None

    def stopped(self, slot: int, task_id: TaskId) -> TaskSpec | None:
        """The slot's process has stopped a task that moves: gives it, to be sent to its next slot.

        None: it moves no more.
        """
        task = self._tasks.get(task_id)
        if task is None or task.slot != slot or task.target is None:
            return None
        task.sent = False
        self._take_over(task)
        return task.spec

    def leave(self, slot: int) -> None:
        """The slot has ended for good: tasks that have ended in it are in none."""
        for task in self._tasks.values():
            if task.slot == slot and task.ended:
                task.slot, task.sent = None, False

    def working(self, slots: Collection[int]) -> dict[int, list[TaskId]]:
        """The tasks of each of these slots that have not ended; one that moves away is there until it is stopped."""
        found: dict[int, list[TaskId]] = {slot: [] for slot in slots}
        for task_id, task in self._tasks.items():
            if task.slot in found and not task.ended:
                found[task.slot].append(task_id)
        return found

    def own_tasks(self) -> dict[str, list[int | None]]:
        """The connectors that want slots of their own: the slot of each of their tasks here, None without one."""
        found: defaultdict[str, list[int | None]] = defaultdict(list)
        for task_id, task in self._owning.items():
            found[task_id.connector].append(task.slot)
        return dict(found)

    def bounds(self) -> dict[int, SlotSettings]:
        """The slots that are a connector's own and have its tasks, with what the connector has set for them."""
        return {task.slot: task.wants for task in self._owning.values() if task.slot is not None and not task.ended}

    def has_work(self, slot: int) -> bool:
        """Whether the slot's process has tasks that have not ended."""
        return any(task.slot == slot and task.sent and not task.ended for task in self._tasks.values())

    def by_slot(self) -> dict[int, tuple[TaskId, ...]]:
        """The tasks of each slot that has any, in order."""
        found: defaultdict[int, list[TaskId]] = defaultdict(list)
        for task_id, task in sorted(self._tasks.items()):
            if task.slot is not None:
                found[task.slot].append(task_id)
        return {slot: tuple(ids) for slot, ids in found.items()}

    def _take_over(self, task: _Task) -> None:
        """Let a task that no process runs be in the slot that it moves to."""
        assert task.slot is not None, "it comes from there"
        assert task.target is not None, "it moves"
        self._loads.remove(task.spec.id, task.slot)
        task.slot, task.target = task.target, None
        self._loads.add(task.spec.id, task.slot)
        self._unsent[task.slot][task.spec.id] = task

    def _drop(self, task_id: TaskId) -> _Task | None:
        task = self._tasks.pop(task_id, None)
        if task is None:
            return None
        self._homeless.pop(task_id, None)
        self._owning.pop(task_id, None)
        if task.slot is not None:
            self._unsent[task.slot].pop(task_id, None)
            if not task.ended:
                self._loads.remove(task_id, task.slot)
        return task


@dataclass(slots=True)
class _Task:
    spec: TaskSpec
    slot: int | None
    wants: SlotSettings
    sent: bool = False
    """Whether the slot's current process has been sent it."""
    ended: bool = False
    """FAILED or STOPPED by itself; stays so even when its slot is lost."""
    waits_for: str | None = None
    """Why it has not been sent, as far as that was reported."""
    target: int | None = None
    """Where it goes on as soon as its slot has stopped it."""


class Loads:
    """How many tasks each slot carries, and where new ones go. One owner.

    Counts are kept between placements: recounted for each new connector, a thousand would cost a million steps.
    """

    def __init__(self) -> None:
        self._tasks: Counter[int] = Counter()
        self._of_connector: Counter[tuple[int, str]] = Counter()

    def add(self, task: TaskId, slot: int) -> None:
        """Count the task in the slot."""
        self._tasks[slot] += 1
        self._of_connector[slot, task.connector] += 1

    def remove(self, task: TaskId, slot: int) -> None:
        """Stop counting the task: it ended, was removed, or moves."""
        self._tasks[slot] -= 1
        self._of_connector[slot, task.connector] -= 1
        if not self._of_connector[slot, task.connector]:
            del self._of_connector[slot, task.connector]

    def place(self, homeless: Iterable[TaskId], slots: Collection[int]) -> dict[TaskId, int]:
        """Assign each task to the least-loaded slot, and count it there.

        Shape: one entry for each task; empty without slots. Each goes to the slot with the fewest tasks; among equals
        to the one with the fewest of its own connector, so that one busy connector spreads out; then to the lowest
        number.
        """
        placed: dict[TaskId, int] = {}
        for task in sorted(homeless) if slots else ():
            placed[task] = self._lightest(slots, task.connector)
            self.add(task, placed[task])
        return placed

    def _lightest(self, slots: Collection[int], connector: str) -> int:
        return min(slots, key=lambda slot: (self._tasks[slot], self._of_connector.get((slot, connector), 0), slot))


@dataclass(slots=True)
class TaskStop:
    """One StopTasks whose answer somebody waits for."""

    slot: int
    ids: tuple[TaskId, ...]
    answered: threading.Event = field(default_factory=threading.Event)
    left: tuple[TaskId, ...] | None = None
    """The tasks that did not stop in time; None while the slot has not answered."""


class TaskStops:
    """By the number of the StopTasks that was sent. Guarded by the launcher's lock, but for the wait for `answered`."""

    def __init__(self) -> None:
        self._stops: dict[int, TaskStop] = {}

    def begin(self, number: int, slot: int, ids: Iterable[TaskId]) -> TaskStop:
        """A slot was asked to stop tasks."""
        stop = self._stops[number] = TaskStop(slot, tuple(sorted(ids)))
        return stop

    def end(self, number: int) -> tuple[TaskId, ...]:
        """Nobody waits any more; gives the tasks that have not stopped."""
        stop = self._stops.pop(number)
        return stop.ids if stop.left is None else stop.left

    def answered(self, number: int, left: tuple[TaskId, ...]) -> bool:
        """The slot has answered; False for a stop that nobody waits for."""
        stop = self._stops.get(number)
        if stop is not None:
            stop.left = left
            stop.answered.set()
        return stop is not None

    def lost(self, slot: int) -> None:
        """The slot's process is gone, and its tasks with it."""
        for stop in self._stops.values():
            if stop.slot == slot and stop.left is None:
                stop.left = ()
                stop.answered.set()

    def has(self, slot: int) -> bool:
        """Whether tasks of the slot are being stopped."""
        return any(stop.slot == slot for stop in self._stops.values())


@dataclass(frozen=True, slots=True)
class _Way:
    task: TaskId
    source: int
    target: int
    why: str
    began_s: float


class TaskMoves:
    """Tasks on their way: which stop each waits for, and how long its gap is.

    Pure state, by the number of the StopTasks that was sent. Guarded by the launcher's lock.
    """

    def __init__(self) -> None:
        self._stopping: dict[int, _Way] = {}
        self._starting: dict[TaskId, _Way] = {}

    def begin(self, request: int, task: TaskId, source: int, target: int, why: str, now_s: float) -> None:
        """A slot was asked to stop a task, so that another one starts it."""
        self._starting.pop(task, None)
        self._stopping = {number: way for number, way in self._stopping.items() if way.task != task}  # of earlier runs
        self._stopping[request] = _Way(task, source, target, why, now_s)

    def stopped(self, request: int) -> tuple[int, TaskId] | None:
        """The slot that has stopped a task, and the task; None for a stop that is no part of a move."""
        way = self._stopping.pop(request, None)
        if way is None:
            return None
        self._starting[way.task] = way
        return way.source, way.task

    def lost(self, slot: int) -> None:
        """The slot's process is gone: it answers nothing any more."""
        self._stopping = {request: way for request, way in self._stopping.items() if way.source != slot}

    def reached(self, slot: int, task: TaskId, state: RunState, now_s: float) -> str | None:
        """What the log says of a move, once its task runs again."""
        if state is RunState.UNASSIGNED or (way := self._starting.pop(task, None)) is None or slot == way.source:
            return None
        gap_s = now_s - way.began_s
        return f"Task {task} has moved from slot {way.source} to slot {slot} in {gap_s:.2f} s: {way.why}"
