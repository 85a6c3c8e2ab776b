"""Tasks on their way from one slot to another: which stop each waits for, and how long its gap is."""

from __future__ import annotations

from dataclasses import dataclass

from kconnect.model import RunState, TaskId


@dataclass(frozen=True, slots=True)
class _Way:
    task: TaskId
    source: int
    target: int
    why: str
    began_s: float


class TaskMoves:
    """Pure state, by the number of the StopTasks that was sent. Guarded by the launcher's lock."""

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
