"""What a source of objects has read, what comes next, and what is done: decisions alone, no store and no clock."""

from __future__ import annotations

import math
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kconnect.api import ConnectError, DataError
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.objects.object_config import FAIL, READ
from kconnect.builtin.stores.file_store import Found

OBJECT_FIELD = "object"
# How many times longer an object that cannot be read may still be written: Parquet gets its footer at the very end
_PATIENCE = 12


@dataclass(frozen=True, slots=True)
class Place:
    """How far an object has been read: `row` rows of it, to the byte `position` of its content (-1: unknown)."""

    path: str
    etag: str
    size: int
    row: int = 0
    position: int = -1
    done: bool = False

    def offset(self) -> dict[str, Any]:
        found: dict[str, Any] = {"row": self.row, "etag": self.etag, "size": self.size, "done": self.done}
        return {**found, "position": self.position} if self.position >= 0 else found

    @classmethod
    def of(cls, path: str, offset: Mapping[str, Any]) -> Place:
        return cls(
            path,
            str(offset.get("etag") or ""),
            int(offset.get("size") or 0),
            int(offset.get("row") or 0),
            int(offset.get("position", -1)),
            bool(offset.get("done")),
        )


def partition_of(path: str) -> dict[str, str]:
    return {OBJECT_FIELD: path}


_OFFSET_TYPES: dict[str, type] = {"row": int, "etag": str, "size": int, "done": bool, "position": int}


def check_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any]) -> None:
    """Errors: DataError for an offset that nothing can begin at."""
    if not partition or not isinstance(partition.get(OBJECT_FIELD), str):
        raise DataError(f"Partition objects should contain the key '{OBJECT_FIELD}'")
    for name, value in offset.items():
        if name not in _OFFSET_TYPES:
            raise DataError(f"An offset of an object has no field '{name}'; it has {', '.join(_OFFSET_TYPES)}")
        kind = _OFFSET_TYPES[name]
        if name != "row" and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            wanted = {str: "a text", int: "a whole number", bool: "true or false"}[kind]
            raise DataError(f"The value for the '{name}' key in the offset of an object is {wanted}, not {value!r}")
    row = offset.get("row")
    if not isinstance(row, int) or isinstance(row, bool) or row < 0:
        raise DataError("The value for the 'row' key in the offset is expected to be a number of rows from 0 on")


class Progress:
    """The objects of one task. `finished` are those to delete or move now, in order."""

    def __init__(
        self,
        *,
        number: int,
        tasks: int,
        order: str,
        changed: str,
        min_age_s: float,
        settle_s: float = 0.0,
        keeps: bool = True,
    ) -> None:
        """`keeps`: objects stay when they are done; if not, another content under the same name is a new object.

        `settle_s`: how long an object must not have changed until its end is its end; 0: objects appear as a whole.
        """
        self._number, self._tasks, self._keeps = number, tasks, keeps
        self._order, self._changed, self._min_age_s = order, changed, min_age_s
        self._known: dict[str, Place] = {}
        self._queue: deque[Place] = deque()
        self._reported: dict[str, str] = {}  # the etag of an object that a warning was about
        self._committing: dict[str, Place] = {}
        self._committed: dict[str, Place] = {}  # what a committed offset says is done
        self._gone: set[str] = set()
        self._settle_s = settle_s
        self._seen: dict[str, tuple[str, float]] = {}  # what has changed of late: the etag, and when it was first seen
        self._quiet: dict[str, float] = {}  # of objects in the queue: how long they had not changed
        self._paused: dict[str, float] = {}  # for how long these must not have changed until they are opened again
        self.finished: deque[Place] = deque()

    def mine(self, found: Iterable[Found]) -> list[Found]:
        """The objects that fall to this task, by a hash of their path that all tasks agree on."""
        return [one for one in found if zlib.crc32(one.path.encode()) % self._tasks == self._number]

    def unknown(self, found: Iterable[Found]) -> list[Found]:
        """The objects whose committed offset has not been read."""
        return [one for one in found if one.path not in self._known]

    def learn(self, offsets: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Committed offsets by path."""
        for path, offset in offsets.items():
            if offset:
                place = self._known[path] = Place.of(path, offset)
                if place.done:
                    self._committed[path] = place

    def plan(self, found: Sequence[Found], now_s: float) -> list[str]:
        """Queue what must be read, in order; gives warnings. Errors: ConnectError with object.changed=fail."""
        listed = {one.path for one in found}
        for path in [path for path in self._known if path not in listed]:
            del self._known[path]  # it is gone: another one of this name is new
            self._committed.pop(path, None)
            self._paused.pop(path, None)
        self._seen = {path: seen for path, seen in self._seen.items() if path in listed}
        warnings: list[str] = []
        waiting = {place.path for place in (*self._queue, *self.finished, *self._committing.values())}
        places = []
        for one in found:
            if one.path in waiting or now_s - one.time_s < self._min_age_s:
                continue
            self._quiet[one.path] = quiet_s = self._quiet_s(one, now_s)
            known = self._known.get(one.path)
            if quiet_s < self._paused.get(one.path, 0.0) and known is not None and known.etag == one.etag:
                continue
            place = self._place(one, warnings)
            if place is not None:
                places.append((one, place))
        places.sort(key=lambda pair: (pair[0].time_s if self._order == "time" else 0.0, pair[0].path))
        self._queue.extend(place for _, place in places)
        return warnings

    def next(self) -> Place | None:
        """The next object to read; it counts as read from now on."""
        if not self._queue:
            return None
        place = self._queue.popleft()
        self.reached(place)
        self._committed.pop(place.path, None)
        self._paused.pop(place.path, None)
        self._gone.discard(place.path)
        return place

    def is_settled(self, path: str) -> bool:
        """Whether the end of this object is its end, as far as the last listing knows."""
        return self._quiet.get(path, self._settle_s) >= self._settle_s

    def is_cut_off(self, path: str) -> bool:
        """Whether what is wrong with this object may be that it is not complete yet."""
        return self._quiet.get(path, math.inf) < self._settle_s * _PATIENCE

    def pause(self, place: Place, *, is_cut_off: bool = False) -> None:
        """Read on from here once the object has grown, or has not changed for long enough to end here."""
        self._known[place.path] = place
        self._paused[place.path] = self._settle_s * (_PATIENCE if is_cut_off else 1)

    def paused(self) -> list[str]:
        """The objects that may not be complete."""
        return sorted(self._paused)

    def reached(self, place: Place) -> None:
        """An object has been read up to here."""
        self._known[place.path] = replace(place, done=True)

    def postpone(self, place: Place) -> None:
        """Read on from this place, before all others: the store failed."""
        self._known[place.path] = place
        self._queue.appendleft(place)

    def committing(self, offsets: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        """These offsets are about to be committed."""
        for partition, offset in offsets:
            if offset and offset.get("done"):
                path = str(partition[OBJECT_FIELD])
                self._committing[path] = Place.of(path, offset)

    def committed(self) -> None:
        """Notes that those are committed: what is done in them is finished."""
        self.finished.extend(self._committing.values())
        self._committed.update(self._committing)
        self._committing.clear()

    def gone(self, path: str) -> None:
        """An object was deleted or moved: its offset is not needed anymore."""
        self._gone.add(path)
        self._known.pop(path, None)
        self._committed.pop(path, None)

    def take_gone(self) -> list[str]:
        gone, self._gone = self._gone, set()
        return sorted(gone)

    def _quiet_s(self, found: Found, now_s: float) -> float:
        """How long an object has not changed, by its own time or, where the clocks differ, as seen from here."""
        age_s = now_s - found.time_s
        if age_s >= self._settle_s * _PATIENCE:
            self._seen.pop(found.path, None)
            return age_s
        etag, since_s = self._seen.get(found.path, ("", 0.0))
        if etag != found.etag:
            since_s = now_s
            self._seen[found.path] = found.etag, now_s
        return max(age_s, now_s - since_s)

    def _place(self, found: Found, warnings: list[str]) -> Place | None:
        """Where to read an object from; None if there is nothing to read of it."""
        known = self._known.get(found.path)
        fresh = Place(found.path, found.etag, found.size)
        if known is None:
            return fresh
        if known.etag == found.etag or not known.etag:
            if known.done:
                if found.path in self._committed:
                    self.finished.append(known)
                return None
            return replace(known, etag=found.etag, size=found.size)
        return self._changed_place(known, found, fresh, warnings)

    def _changed_place(self, known: Place, found: Found, fresh: Place, warnings: list[str]) -> Place | None:
        if known.done and not self._keeps:
            return fresh
        if not known.done and known.row == 0:
            return fresh
        was_at_end = known.position >= known.size < found.size and found.size >= known.position > 0
        if was_at_end and not known.done:  # it is written while it is read
            return replace(known, etag=found.etag, size=found.size)
        sizes = f"{pluralize(known.size, 'byte')}, now {found.size}"
        how = f"{found.path} has changed since it was read up to row {known.row}: {sizes}"
        if self._changed == FAIL:
            raise ConnectError(how, hint="object.changed=read reads it again; resetting its offset does so once.")
        if self._changed == READ:
            return replace(known, etag=found.etag, size=found.size, done=False) if was_at_end else fresh
        if not known.done:
            warnings.append(f"{how}. It is read again from its first row, as it had not been read to its end")
            return fresh
        if self._reported.get(found.path) != found.etag:
            self._reported[found.path] = found.etag
            warnings.append(f"{how}. It is not read again (object.changed=ignore)")
        return None
