"""Stops under way in slots: those that somebody waits for, and those of tasks that go on in another slot."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from kconnect.model import RunState, TaskId


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
