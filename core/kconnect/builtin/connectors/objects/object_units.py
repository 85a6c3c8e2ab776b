"""The rows of one partition that are written together, and when they are: decisions alone, no store and no clock."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kconnect.api import Schema
from kconnect.builtin.connectors.objects.confluent_layout import ConfluentNames
from kconnect.builtin.connectors.objects.object_names import ObjectNames
from kconnect.builtin.connectors.objects.object_writers import Content
from kconnect.builtin.stores.flush_plan import FlushLimits


class Unit:
    """Rows from the offset `first` on. With `end`, a unit that was written before: it ends at that offset again.

    With `token`, rows of any offsets, which do not name it.
    """

    def __init__(
        self,
        first: int,
        content: Callable[[], Content],
        began_s: float,
        end: int | None = None,
        token: str | None = None,
    ) -> None:
        self.first, self.end, self.token = first, end, token
        self.last = first - 1
        self.contents: dict[str, Content] = {}
        self.starts: dict[str, int] = {}  # by folder: the offset of its first row
        self.mark: tuple[int, str, int] | None = None  # for rotation by times: the first, the last folder and time
        self.schemas: dict[str, Schema | None] = {}  # by folder: of its last rows
        self.is_due = False
        self._content, self._began_s = content, began_s
        self._rows = 0

    def room(self, limits: FlushLimits, offsets: Sequence[int]) -> int:
        """How many of the rows with these offsets can come in."""
        if self.is_due:
            return 0
        if self.end is not None:
            return bisect_right(offsets, self.end)
        room = max(limits.rows - self._rows, 0)
        while 0 < room < len(offsets) and offsets[room] == offsets[room - 1]:
            room += 1  # what a transformation made of one record is not parted: the next unit begins behind its offset
        return min(len(offsets), room)

    def fits(self, folder: str, piece: Any) -> bool:
        content = self.contents.get(folder)
        return content is None or content.fits(piece)

    @property
    def rows(self) -> int:
        return self._rows

    def add(self, folder: str, piece: Any, rows: int, last: int, first: int = 0, schema: Schema | None = None) -> None:
        """Rows from the offset `first` up to `last`."""
        content = self.contents.get(folder)
        if content is None:
            content = self.contents[folder] = self._content()
            self.starts[folder] = first
        self.schemas[folder] = schema
        content.add(piece)
        self._rows += rows
        self.last = last

    def is_full(self, limits: FlushLimits, following: int | None) -> bool:
        """Whether it must be written before the row with the offset `following`, None if that is not there yet."""
        if self.is_due:
            return True
        if self.end is not None:
            return self.last >= self.end or (following is not None and following > self.end)
        return limits.are_reached(self._rows, sum(part.size for part in self.contents.values()))

    def is_late(self, limits: FlushLimits, now_s: float) -> bool:
        return self.end is None and limits.due_in_s(self._began_s, now_s) == 0


def folder_runs(
    names: ObjectNames | ConfluentNames,
    topic: str,
    partition: int,
    times: Sequence[int | None],
    values: Sequence[Sequence[Any]] = (),
) -> Iterator[tuple[str, int, int]]:
    """Neighbouring rows of one folder: the folder, the first row, and the one behind the last.

    `values`: of the fields that the names are made of, a row each. Errors: DataError.
    """
    if not names.has_dates and not names.fields:
        yield names.folder(topic, partition, None), 0, len(times)
        return
    known: dict[Any, str] = {}
    start, folder = 0, ""
    for row, time_ms in enumerate(times):
        second = None if time_ms is None or not names.has_dates else time_ms // names.grain_ms
        held = values[row] if names.fields else ()
        key = second, repr(held) if held else held
        found = known.get(key)
        if found is None:
            found = known[key] = names.folder(topic, partition, time_ms, held)
        if row and found != folder:
            yield folder, start, row
            start = row
        folder = found
    if times:
        yield folder, start, len(times)
