"""Which slot gets which task: balanced by task count. A placed task never moves, since a move is a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from kconnect.model import TaskId


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
