"""How many slots connectors share, between bounds: when one begins, which tasks move into it, and when one ends."""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kconnect.logs.wording import pluralize
from kconnect.model import TaskId

# Shares are percent of a core that a slot's threads used or waited for: a machine that is busy hides no load.
_FULL: Final = 90.0
# At this load one that falls behind more and more has no room either: its tasks wait for each other.
_BEHIND: Final = 60.0
# What is left has to fit into so much of each slot: far from full, so that one which has ended is not missed.
_ROOMY: Final = 50.0
_FULL_FOR_S: Final = 5.0
_ROOMY_FOR_S: Final = 10.0
# A move costs a gap. A fall is followed within 30 s all the same, whatever was moved just before it.
_REST_S: Final = 15.0
# A task with less is no part of the load
_IDLE: Final = 2.0
# A large task moves if the fuller of the two slots has so much less to do afterwards
_GAIN: Final = 10.0


class Look(NamedTuple):
    """What a slot is seen to do at one moment: percent of a core, in all and by task, and records to catch up with."""

    at_s: float
    percent: float
    tasks: Mapping[TaskId, float]
    backlog: int


class Shared(NamedTuple):
    """A slot that connectors share: the tasks in it that have not ended, and whether its process is up."""

    tasks: Collection[TaskId]
    is_up: bool


class Move(NamedTuple):
    """A task is to go on in another slot. `why`: what the log says of it."""

    task: TaskId
    slot: int
    why: str


@dataclass(slots=True)
class Steps:
    """What the launcher must do now. Reasons are parts of sentences that follow a colon."""

    begin: int = 0
    begin_why: str = ""
    moves: list[Move] = field(default_factory=list)
    end: dict[int, str] = field(default_factory=dict)
    """Slots without tasks, with the reason."""


@dataclass(slots=True)
class _Seen:
    """What one slot was seen to do since something about it changed."""

    since_s: float
    looks: deque[Look] = field(default_factory=deque)

    def last(self, seconds: float, now_s: float) -> list[Look]:
        """The looks of the last seconds; none while it has not been seen for that long."""
        return [] if now_s - self.since_s < seconds else [look for look in self.looks if look.at_s > now_s - seconds]


class SlotScaling:
    """Pure state: looks and time in, steps out; no thread, clock or link. Guarded by the launcher's lock.

    A slot is full after five seconds at 90 % of a core, or at 60 % with a backlog that has grown for ten. Tasks of a
    full slot go into one that has room, and if there is none, another slot begins. When what all do would fit into
    fewer slots for ten seconds, at half a core each, those with the least work are emptied and end. A task stays
    for a while where it was moved.
    """

    def __init__(self, least: int, most: int, patience_s: float) -> None:
        """`patience_s`: how long a slot may take to start before it ends again."""
        self.least, self.most = least, most
        self._patience_s = patience_s
        self._seen: dict[int, _Seen] = {}
        self._starting: dict[int, float] = {}
        self._ending: dict[int, str] = {}
        self._moved_s: dict[TaskId, float] = {}
        self._begins_from_s = -math.inf

    @property
    def ending(self) -> Collection[int]:
        """Slots that are being emptied: no task may go there."""
        return self._ending.keys()

    def saw(self, slot: int, look: Look) -> None:
        """What a slot's process reports."""
        seen = self._seen.setdefault(slot, _Seen(look.at_s))
        seen.looks.append(look)
        while seen.looks[0].at_s <= look.at_s - _ROOMY_FOR_S:
            seen.looks.popleft()

    def look(self, slots: Mapping[int, Shared], now_s: float) -> Steps:
        """What must be done. `slots` are all that are shared; it expects that all it wants is done at once."""
        self._forget(slots, now_s)
        steps = Steps()
        for slot in [slot for slot in self._ending if not slots[slot].tasks]:
            steps.end[slot] = self._ending.pop(slot)
        self._give_up_late(slots, steps, now_s)
        open_slots = {slot: one for slot, one in slots.items() if slot not in self._ending and slot not in steps.end}
        if self._ending:  # takes a second: what is left of the load is seen afterwards
            return steps
        full = self._full(open_slots, now_s)
        if full:
            self._spread(full, open_slots, steps, now_s, len(slots) - len(steps.end))
        elif not self._starting:
            self._shrink(open_slots, steps, now_s)
        return steps

    def _forget(self, slots: Mapping[int, Shared], now_s: float) -> None:
        self._seen = {slot: seen for slot, seen in self._seen.items() if slot in slots and slots[slot].is_up}
        self._ending = {slot: why for slot, why in self._ending.items() if slot in slots}
        waiting = [slot for slot, one in slots.items() if not one.is_up]
        self._starting = {slot: self._starting.get(slot, now_s) for slot in waiting}
        self._moved_s = {task: at_s for task, at_s in self._moved_s.items() if now_s - at_s < _REST_S}

    def _give_up_late(self, slots: Mapping[int, Shared], steps: Steps, now_s: float) -> None:
        """End slots that do not start, beyond the least: a cluster may have no core for them."""
        left = len(slots) - len(steps.end) - len(self._ending)
        for slot in sorted(self._starting, reverse=True):
            is_late = now_s - self._starting[slot] >= self._patience_s
            if is_late and left > self.least and not slots[slot].tasks and slot not in self._ending:
                steps.end[slot] = f"it has not started in {self._patience_s:g} s"
                self._begins_from_s = now_s + self._patience_s
                left -= 1

    def _full(self, slots: Mapping[int, Shared], now_s: float) -> dict[int, str]:
        """The slots without room, with the reason, those with the most load first."""
        found: dict[int, tuple[float, str]] = {}
        for slot in slots:
            looks = self._seen[slot].last(_FULL_FOR_S, now_s) if slot in self._seen else []
            percent = _mean(looks)
            if percent >= _FULL:
                found[slot] = percent, ""
            elif percent >= _BEHIND and (grown := _growth(self._seen[slot].last(_ROOMY_FOR_S, now_s))):
                found[slot] = percent, f" and has {pluralize(grown, 'record')} more to catch up with"
        return {
            slot: f"slot {slot} has wanted {percent:.0f} % of a core for {_FULL_FOR_S:g} s{more}"
            for slot, (percent, more) in sorted(found.items(), key=lambda item: -item[1][0])
        }

    def _spread(
        self, full: Mapping[int, str], slots: Mapping[int, Shared], steps: Steps, now_s: float, count: int
    ) -> None:
        """Move tasks of full slots to where there is room, and begin slots for those that find none."""
        loads = {slot: self._load(slot, one, now_s) for slot, one in slots.items()}
        roomy = {slot: load for slot, load in loads.items() if load is not None and slot not in full}
        unhelped = []
        for slot, why in full.items():
            load = loads[slot]
            assert load is not None, "it is full"
            target = min(roomy, key=lambda other: (roomy[other], other), default=None)
            picked = [] if target is None else self._picked(slot, load, roomy[target], slots[slot].tasks, now_s)
            if target is not None and picked:
                steps.moves += [Move(task, target, why) for task in picked]
                self._touch(picked, (slot, target), now_s)
                del roomy[target]
            elif self._picked(slot, load, 0.0, slots[slot].tasks, now_s):
                unhelped.append(slot)
        lacking = len(unhelped) - len(self._starting.keys() & slots.keys())
        steps.begin = max(0, min(lacking, self.most - count)) if now_s >= self._begins_from_s else 0
        if steps.begin:
            steps.begin_why = _all_full(unhelped, full)

    def _shrink(self, slots: Mapping[int, Shared], steps: Steps, now_s: float) -> None:
        """Empty slots that the load does not need."""
        looks = {slot: self._seen[slot].last(_ROOMY_FOR_S, now_s) for slot in slots if slot in self._seen}
        if not all(slot in looks and looks[slot] for slot in slots):
            return
        known = {slot: max(_mean(half) for half in _halves(looks[slot], now_s)) for slot in slots}
        total = sum(known.values())
        spare = len(slots) - max(self.least, math.ceil(total / _ROOMY))
        if spare <= 0:
            return
        all_slots = pluralize(len(slots), "slot")
        why = f"{all_slots} have wanted {total:.0f} % of a core together for {_ROOMY_FOR_S:g} s"
        victims = sorted(known, key=lambda slot: (round(known[slot]), len(slots[slot].tasks), -slot))[:spare]
        for slot in [slot for slot in victims if not self._moved_s.keys() & set(slots[slot].tasks)]:
            self._ending[slot] = why
        counts = {slot: len(one.tasks) for slot, one in slots.items() if slot not in self._ending}
        rest = {slot: known[slot] for slot in counts}
        for slot in sorted(self._ending):
            shares = self._shares(slot, known[slot], slots[slot].tasks, now_s)
            for task in sorted(slots[slot].tasks):
                target = min(counts, key=lambda other: (round(rest[other]), counts[other], other))
                counts[target] += 1
                rest[target] += shares[task]
                steps.moves.append(Move(task, target, why))
            self._touch(slots[slot].tasks, (slot,), now_s)
        if self._ending:
            self._touch((), counts, now_s)

    def _load(self, slot: int, one: Shared, now_s: float) -> float | None:
        """Percent of a core; None while it is not known."""
        looks = self._seen[slot].last(_FULL_FOR_S, now_s) if slot in self._seen else []
        if looks:
            return _mean(looks)
        return 0.0 if one.is_up and not one.tasks else None

    def _picked(self, slot: int, load: float, other: float, tasks: Collection[TaskId], now_s: float) -> list[TaskId]:
        """Which tasks bring two slots nearest to each other, none of them moved lately."""
        picked = []
        shares = self._shares(slot, load, tasks, now_s)
        for task in sorted(shares, key=lambda task: (-shares[task], task)):
            share = shares[task]
            is_small = share <= (load - other) / 2
            if task in self._moved_s or share < _IDLE or load < other:
                continue
            if is_small or max(load - share, other + share) <= load - _GAIN:
                picked.append(task)
                load, other = load - share, other + share
        return picked

    def _shares(self, slot: int, load: float, tasks: Collection[TaskId], now_s: float) -> dict[TaskId, float]:
        """The part of each task in its slot's load; what clients' threads take is counted with them."""
        looks = self._seen[slot].last(_FULL_FOR_S, now_s) if slot in self._seen else []
        sums = Counter({task: 0.0 for task in tasks})
        for look in looks:
            sums.update({task: percent for task, percent in look.tasks.items() if task in sums})
        total = sum(sums.values())
        if total <= 0:
            return {task: load / len(sums) for task in sums}
        return {task: load * part / total for task, part in sums.items()}

    def _touch(self, tasks: Iterable[TaskId], slots: Iterable[int], now_s: float) -> None:
        """These tasks move: what their slots were seen to do says nothing of what they will do."""
        self._moved_s |= dict.fromkeys(tasks, now_s)
        for slot in slots:
            if slot in self._seen:
                self._seen[slot] = _Seen(now_s)


def _mean(looks: Sequence[Look]) -> float:
    return sum(look.percent for look in looks) / len(looks) if looks else 0.0


def _halves(looks: Sequence[Look], now_s: float) -> tuple[list[Look], list[Look]]:
    """Gives those of the last seconds and those before them: a load that has just begun is none of long ago."""
    middle_s = now_s - _ROOMY_FOR_S / 2
    return [look for look in looks if look.at_s > middle_s], [look for look in looks if look.at_s <= middle_s]


def _growth(looks: Sequence[Look]) -> int:
    """How much a backlog has grown that has not become less in between, and more most of the time; else 0."""
    backlogs = [look.backlog for look in looks]
    rises = sum(later > earlier for earlier, later in itertools.pairwise(backlogs))
    return backlogs[-1] - backlogs[0] if rises and backlogs == sorted(backlogs) and 2 * rises >= len(backlogs) else 0


def _all_full(slots: Sequence[int], why: Mapping[int, str]) -> str:
    """One sentence for all: that of the first, and the numbers of the others."""
    others = sorted(slots[1:])
    if not others:
        return why[slots[0]]
    return (
        f"{why[slots[0]]}, and so {'has slot' if len(others) == 1 else 'have slots'} {' and '.join(map(str, others))}"
    )
