"""Which slot gets which task: balanced by number of tasks; a task that has a slot stays, since a move is a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from kconnect.model import TaskId


class Loads:
    """How many tasks each slot carries, and where new ones go. One owner; nothing in it grows with tasks at work.

    It is kept from one placement to the next: counted anew for each connector that comes, a thousand would cost a
    million steps.
    """

    def __init__(self) -> None:
        self._tasks: Counter[int] = Counter()
        self._of_connector: Counter[tuple[int, str]] = Counter()

    def add(self, task: TaskId, slot: int) -> None:
        """The slot carries the task from now on."""
        self._tasks[slot] += 1
        self._of_connector[slot, task.connector] += 1

    def remove(self, task: TaskId, slot: int) -> None:
        """The slot does not carry it any more: it ended, was removed, or moves."""
        self._tasks[slot] -= 1
        self._of_connector[slot, task.connector] -= 1
        if not self._of_connector[slot, task.connector]:
            del self._of_connector[slot, task.connector]

    def place(self, homeless: Iterable[TaskId], slots: Collection[int]) -> dict[TaskId, int]:
        """Give each task a slot and count it there.

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
