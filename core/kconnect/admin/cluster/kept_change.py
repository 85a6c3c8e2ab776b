"""A change of offsets that is kept in the history once it is made, by a command or a page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kconnect.admin.cluster.port import PreparedChange
from kconnect.client.offset_history import MovedOffset, OffsetEntries, OffsetEntry
from kconnect.errors import ConnectError


@dataclass(frozen=True, slots=True)
class KeptChange:
    """A change of offsets that is written into the history once it is made."""

    change: PreparedChange
    history: OffsetEntries
    name: str
    action: str
    place: str
    moved: tuple[MovedOffset, ...]

    @property
    def is_empty(self) -> bool:
        return self.change.is_empty

    @property
    def needs_consent(self) -> bool:
        return self.change.needs_consent

    def description(self) -> Sequence[str]:
        return self.change.description()

    def check(self) -> Sequence[str]:
        return self.change.check()

    def make(self) -> Sequence[str]:
        lines = list(self.change.make())
        if self.moved:
            entry = OffsetEntry(round(time.time() * 1000), self.action, self.place, self.moved)
            try:
                self.history.add(self.name, entry)
            except ConnectError as err:  # the offsets are changed: only taking them back by `undo` is not possible
                lines.append(f"Warning: it cannot be taken back by `connect offsets undo`: {err}")
        return lines
