"""Which slots there are: those that connectors share, those of one connector, which of them are up or may come back."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from kconnect.model import TaskId
from kconnect.runtime.config.slot_keys import SlotBounds
from kconnect.spark.own_slots import Changes, OwnSlots
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_scaling import Look, Shared, SlotScaling, Steps

# A lost slot is back after a second; its tasks wait for it that long before they go to others.
_WAIT_FOR_SLOT_S = 10.0
# A cluster may take a while to allocate the first executors.
_WAIT_FOR_FIRST_START_S = 30.0


class KnownSlots:
    """Pure state: what happens to slots, and the time, in; slots to begin and to end, out. Guarded by the launcher's
    lock. `taken` are numbers that no new slot may have: their jobs have not ended.
    """

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._shared: set[int] = set()
        self._own = OwnSlots()
        self._scaling = _scaling_of(settings)
        self._up: set[int] = set()
        self._down_since_s: dict[int, float] = {}

    @property
    def up(self) -> Set[int]:
        """The slots whose process is there."""
        return self._up

    @property
    def shared(self) -> Set[int]:
        """The slots that connectors share; none until Spark has said how many there may be."""
        return self._shared

    @property
    def awaits(self) -> bool:
        """Whether one is to come up that is not up."""
        return bool(self._down_since_s)

    def owners(self) -> dict[int, str]:
        """The connector of each slot that is a connector's own."""
        return self._own.owners()

    def numbers(self) -> list[int]:
        """All of them, up or not."""
        return sorted({*self._down_since_s, *self._up})

    def bounds(self) -> SlotBounds:
        """How many slots connectors share at least and at most."""
        least = self._settings.slots or len(self._shared)
        return SlotBounds(least, self._settings.most_slots or least)

    def open(self, given_up: Collection[int], now_s: float) -> tuple[set[int], list[int]]:
        """Gives the slots that take tasks now, and those that tasks may wait for, which include them.

        `given_up`: those whose process is about to end. Another follows in a second, and tasks wait for it as they do
        once it has ended: else all that start in this moment would go to the other slots, and stay there.
        """
        owners = self._own.owners()
        ending = self._scaling.ending if self._scaling is not None else ()
        alive = self._up.difference(ending)
        down = (slot for slot in self._down_since_s if slot in owners or self._is_awaited(slot, now_s))
        return alive.difference(given_up), [*alive, *down]

    def came_up(self, slot: int) -> None:
        """Its process takes tasks."""
        self._up.add(slot)
        self._own.came_up(slot)
        self._down_since_s.pop(slot, None)

    def lost(self, slot: int, now_s: float) -> None:
        """Its process is gone; it is expected back, unless it was ended."""
        self._up.discard(slot)
        if slot in self._shared or slot in self._own.owners():
            self._down_since_s[slot] = now_s
            self._own.lost(slot, now_s)

    def grow(self, count: int, now_s: float) -> dict[int, None]:
        """Have connectors share so many; gives the new ones. They never become fewer: an executor may come back."""
        new = self._numbered(count - len(self._shared), ())
        self._await(new, now_s)
        return new

    def saw(self, slot: int, look: Look) -> None:
        """What a slot's process reports of its load."""
        if self._scaling is not None and slot in self._shared:
            self._scaling.saw(slot, look)

    def follow_load(
        self,
        working: Mapping[int, Sequence[TaskId]],
        given_up: Collection[int],
        taken: Collection[int],
        now_s: float,
    ) -> tuple[Steps, dict[int, None]]:
        """What the load wants done, and the numbers of slots that begin. `working`: the tasks in each shared slot."""
        if self._scaling is None or not self._shared:
            return Steps(), {}
        up = self._up.difference(given_up)
        steps = self._scaling.look({slot: Shared(ids, slot in up) for slot, ids in working.items()}, now_s)
        self._shared -= steps.end.keys()
        self._forget(steps.end)
        new = self._numbered(steps.begin, taken)
        self._down_since_s |= dict.fromkeys(new, now_s)
        return steps, new

    def follow_tasks(
        self, own_tasks: Mapping[str, Sequence[int | None]], taken: Collection[int], now_s: float
    ) -> Changes:
        """What connectors with slots of their own want done. `own_tasks`: as of `OwnSlots.look`."""
        if not self._shared:  # the most that one may have is not known yet
            return Changes({}, ())
        changes = self._own.look(own_tasks, self.bounds().most, {*taken, *self._shared}, now_s)
        self._forget(changes.end)
        self._await(changes.begin, now_s)
        return changes

    def late(self, now_s: float) -> dict[int, str]:
        """Connectors' own slots that did not start in their time, with the connectors."""
        return self._own.late(self._settings.start_timeout_s, now_s)

    def _numbered(self, count: int, taken: Collection[int]) -> dict[int, None]:
        used = {*self._shared, *self._own.owners(), *taken}
        new = dict.fromkeys(itertools.islice((number for number in itertools.count() if number not in used), count))
        self._shared |= new.keys()
        return new

    def _await(self, slots: Iterable[int], now_s: float) -> None:
        self._down_since_s |= dict.fromkeys(slots, now_s + _WAIT_FOR_FIRST_START_S)

    def _forget(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._up.discard(slot)
            self._down_since_s.pop(slot, None)

    def _is_awaited(self, slot: int, now_s: float) -> bool:
        if not self._up:  # nowhere better to go
            return True
        return now_s - self._down_since_s[slot] < _WAIT_FOR_SLOT_S


def _scaling_of(settings: SparkSettings) -> SlotScaling | None:
    """Returns None where the number of slots is fixed."""
    if settings.slots is None or settings.most_slots is None:
        return None
    return SlotScaling(settings.slots, settings.most_slots, settings.start_timeout_s)
