"""Each member's share of one kind of work, connectors or tasks, during a round of assignment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heapreplace
from itertools import cycle
from typing import Generic, TypeVar

from kconnect.java.compat.hash_map import sort_key

Item = TypeVar("Item", bound=Hashable)


class Shares(Generic[Item]):
    """Threads: one. Which members may keep one more than others, and what is revoked first, follows the order of
    `held`.

    Source: IncrementalCooperativeAssignor and WorkerCoordinator.WorkerLoad (Kafka 4.3).
    """

    def __init__(self, held: Mapping[str, Iterable[Item]]) -> None:
        self.held = {member: dict.fromkeys(items) for member, items in held.items()}  # dicts: sets with an order
        self.given: dict[str, dict[Item, None]] = {member: {} for member in held}
        self.revoked: dict[str, list[Item]] = {member: [] for member in held}

    def is_empty(self, member: str) -> bool:
        return not self.held[member]

    def revoke_everywhere(self, gone: AbstractSet[Item]) -> None:
        """Remove these from every member that has them."""
        if gone:
            self.revoke({member: [item for item in items if item in gone] for member, items in self.held.items()})

    def revoke(self, taken: Mapping[str, Sequence[Item]]) -> None:
        """As in Java, work assigned in this very round is also revoked, which is harmless here."""
        for member, items in taken.items():
            self.revoked[member] += items
            for item in items:
                del self.held[member][item]
                self.given[member].pop(item, None)

    def surplus(self, configured: int) -> dict[str, list[Item]]:
        """What members have beyond an even share of all work; nothing if no member has.

        Shares differ by one when it cannot be even: the first members with more than the least may have one more.
        """
        least, extras = divmod(configured, len(self.held))
        sizes = [len(items) for items in self.held.values()]
        if sizes.count(least + 1) == extras and sizes.count(least) + extras == len(sizes):
            return {}
        above: dict[str, list[Item]] = {}
        for member, items in self.held.items():
            if len(items) <= least:
                continue
            allowed = least + 1 if extras else least
            extras = max(0, extras - 1)
            if len(items) > allowed:
                above[member] = list(items)[: len(items) - allowed]
        return above

    def give_in_turn(self, items: Iterable[Item], members: Sequence[str]) -> None:
        """Assign round-robin over these members, whatever they already have."""
        for item, member in zip(items, cycle(members), strict=False):
            self._give(member, item)

    def spread(self, items: Iterable[Item]) -> None:
        """Each item to who has least then; those who had as much when it began take turns in the order of names."""
        by_load = sorted(self.held, key=lambda member: (len(self.held[member]), sort_key(member)))
        loads = [(len(self.held[member]), turn) for turn, member in enumerate(by_load)]
        heapify(loads)
        for item in items:
            load, turn = loads[0]
            self._give(by_load[turn], item)
            heapreplace(loads, (load + 1, turn))

    def _give(self, member: str, item: Item) -> None:
        self.held[member][item] = None
        self.given[member][item] = None
