"""SharedOffsets: what changed offsets as the cluster knows it, whoever did it and from where.

A worker of ours writes each change down that it makes, in a topic of the cluster; so do commands on the topics. Where
nobody keeps that, as with Java's workers, this machine's own history does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.client.offset_history import OffsetEntry, OffsetHistory, offset_text
from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError

# The worker writes it behind its answer: some ten milliseconds, a second where it has to make the topic
_WRITTEN_S: Final = 3.0
_LOOK_EVERY_S: Final = 0.05
# Two clocks may differ by it
_SAME_MS: Final = 600_000


@dataclass(frozen=True, slots=True)
class SharedOffsets:
    """Implements OffsetEntries. `read`: a connector's changes; None where nobody keeps them. Threads: one.

    `write`: adds one, for who changes the topics; None: the worker does.
    """

    read: Callable[[str], list[dict[str, Any]] | None]
    own: OffsetHistory
    write: Callable[[str, Mapping[str, Any]], None] | None = None
    clock: Clock = field(default_factory=SystemClock)

    def entries(self, name: str) -> list[OffsetEntry]:
        """With what only this machine knows."""
        shared, own = self._shared(name), self.own.entries(name)
        if shared is None:
            return own
        missing = [one for one in own if not any(_is_same(one, other) for other in shared)]
        return sorted([*shared, *missing], key=lambda entry: entry.time_ms)

    def add(self, name: str, entry: OffsetEntry) -> None:
        """Kept on this machine where the cluster does not keep it, or has not yet."""
        if self.write is not None:
            try:
                self.write(name, {**entry.to_json(), "kind": "offsets", "connector": name})
            except ConnectError:
                self.own.add(name, entry)
                raise
        elif not self._is_written(name, entry):
            self.own.add(name, entry)

    def _is_written(self, name: str, entry: OffsetEntry) -> bool:
        deadline = self.clock.monotonic() + _WRITTEN_S
        while (shared := self._shared(name)) is not None:
            if any(_is_same(entry, one) for one in shared):
                return True
            if self.clock.monotonic() > deadline:
                return False
            self.clock.wait(threading.Event(), _LOOK_EVERY_S)
        return False

    def _shared(self, name: str) -> list[OffsetEntry] | None:
        found = self.read(name)
        return None if found is None else [OffsetEntry.from_json(one) for one in found if one.get("offsets")]


def _is_same(entry: OffsetEntry, other: OffsetEntry) -> bool:
    """Whether two are about one change: of the same partitions, to the same offsets, at about the same time."""
    if abs(entry.time_ms - other.time_ms) >= _SAME_MS:
        return False
    return {offset_text(one.to_json()) for one in entry.moved} == {offset_text(one.to_json()) for one in other.moved}
