"""Which slot gets which task: pure, balanced by number of tasks, and sticky."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kconnect.model import TaskId

__all__ = ["moves"]


def moves(tasks: Iterable[TaskId], slots: Iterable[int], current: Mapping[TaskId, int]) -> dict[TaskId, int]:
    """Where tasks must go that have no usable slot. A task that has one stays: a move would be a restart.

    Shape: one entry for each of `tasks` whose slot in `current` is missing or not among `slots`; empty without slots.
    Each goes to the slot with the fewest tasks; among equals to the one with the fewest of its own connector, so that
    one busy connector spreads out; then to the lowest number.
    """
    wanted = sorted(tasks)
    usable = sorted(set(slots))
    if not usable:
        return {}
    load = Counter({slot: 0 for slot in usable})
    of_connector: Counter[tuple[int, str]] = Counter()
    homeless = []
    for task in wanted:
        slot = current.get(task)
        if slot is not None and slot in load:
            load[slot] += 1
            of_connector[slot, task.connector] += 1
        else:
            homeless.append(task)
    placed = {}
    for task in homeless:
        best = min(usable, key=lambda slot: (load[slot], of_connector[slot, task.connector], slot))
        placed[task] = best
        load[best] += 1
        of_connector[best, task.connector] += 1
    return placed
