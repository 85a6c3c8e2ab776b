"""Slots of one connector: when one begins, when it ends, and for how long its tasks may wait for it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kconnect.runtime.config.slot_keys import SLOT
from kconnect.spark.settings import SparkSettings

# A restart of a connector stops its tasks before it starts them again; a slot takes a second to start
_LINGER_S = 10.0


class Changes(NamedTuple):
    """What `OwnSlots.look` wants done: slots to begin, with their connectors, and slots to end."""

    begin: Mapping[int, str]
    end: Sequence[int]


@dataclass(slots=True)
class _Own:
    connector: str
    awaited_since_s: float | None
    """Since when it has no process that takes tasks; None while it has one."""
    spare_since_s: float | None = None
    """Since when it has no task and its connector no need of it; None while it has."""


class OwnSlots:
    """Pure state: tasks and time in, changes out; no thread, clock or link. Guarded by the launcher's lock."""

    def __init__(self) -> None:
        self._slots: dict[int, _Own] = {}

    def owners(self) -> dict[int, str]:
        """The connector of each slot that is a connector's own."""
        return {slot: own.connector for slot, own in self._slots.items()}

    def look(
        self, tasks: Mapping[str, Sequence[int | None]], most: int, taken: Collection[int], now_s: float
    ) -> Changes:
        """What is to begin and to end. `tasks`: by connector the slot of each of its tasks, None without one.

        A connector gets a slot for each task and at most `most`. `taken` are numbers that no new slot may have.
        """
        begin: dict[int, str] = {}
        end: list[int] = []
        for connector in sorted({*tasks, *self.owners().values()}):
            placed = tasks.get(connector, ())
            lacking = min(len(placed), most) - len(self._of(connector))
            for _ in range(lacking):
                slot = next(number for number in itertools.count() if number not in taken and number not in self._slots)
                self._slots[slot] = _Own(connector, now_s)
                begin[slot] = connector
            idle = [slot for slot in self._of(connector) if slot not in placed]
            end += self._over(connector, idle[len(idle) + min(lacking, 0) :], now_s)
        for slot in end:
            del self._slots[slot]
        return Changes(begin, end)

    def came_up(self, slot: int) -> None:
        """Its process takes tasks."""
        if own := self._slots.get(slot):
            own.awaited_since_s = None

    def lost(self, slot: int, now_s: float) -> None:
        """Its process is gone."""
        if own := self._slots.get(slot):
            own.awaited_since_s = now_s

    def late(self, patience_s: float, now_s: float) -> dict[int, str]:
        """The slots that have had no process for so long, and their connectors."""
        return {
            slot: own.connector
            for slot, own in self._slots.items()
            if own.awaited_since_s is not None and now_s - own.awaited_since_s >= patience_s
        }

    def _of(self, connector: str) -> list[int]:
        return sorted(slot for slot, own in self._slots.items() if own.connector == connector)

    def _over(self, connector: str, spare: Collection[int], now_s: float) -> list[int]:
        """Gives those of the spare slots that the connector has not needed for long."""
        over = []
        for slot in self._of(connector):
            own = self._slots[slot]
            if slot not in spare:
                own.spare_since_s = None
                continue
            own.spare_since_s = now_s if own.spare_since_s is None else own.spare_since_s
            if now_s - own.spare_since_s >= _LINGER_S:
                over.append(slot)
        return over


def not_started(connector: str, settings: SparkSettings, reason: str | None) -> str:
    """Says why a connector without its own slot fails. `reason`: what its process said when it could not start."""
    what = (
        f"No slot of its own has started for connector {connector} in {settings.start_timeout_s:g} s "
        "(kconnect.slot.start.timeout.ms): "
    )
    if reason is not None:
        return f"{what}{reason.rstrip('.')}."
    master = settings.spark.get("spark.master", "Spark")
    return f"{what}no core of {master} is free. Lower kconnect.slots, give Spark more cores, or set {SLOT}=shared."
