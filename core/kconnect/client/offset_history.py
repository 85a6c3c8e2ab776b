"""What changed the offsets of connectors, kept on this machine, so that a change can be taken back.

One file per Kafka cluster and connector in the user's state folder, a JSON object per line, the newest last. Only the
owner may read it. Kafka's own topics keep no earlier offset of a consumer group, and compaction removes a source's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kconnect.errors import ConflictError, ConnectError, DataError, NotFoundError
from kconnect.files.durable_file import replace_file
from kconnect.files.folders import state_folder
from kconnect.model import ConnectorOffset

_MOST_KEPT = 100


@dataclass(frozen=True, slots=True)
class MovedOffset:
    """One partition's offset before and after; None is no offset."""

    partition: Mapping[str, Any]
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        return {"partition": dict(self.partition), "old": self.old, "new": self.new}


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One change to a connector's offsets. `action`: the command's verb; `place`: the worker, or the topics.

    `user`, `address`: whose it was and from where, as far as that is known.
    """

    time_ms: int
    action: str
    place: str
    moved: tuple[MovedOffset, ...]
    user: str | None = None
    address: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "time_ms": self.time_ms,
            "action": self.action,
            "place": self.place,
            "user": self.user,
            "from": self.address,
            "offsets": [one.to_json() for one in self.moved],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OffsetEntry:
        """Errors: KeyError, TypeError for what is no entry."""
        moved = tuple(MovedOffset(dict(m["partition"]), m["old"], m["new"]) for m in data["offsets"])
        who = (data.get("user"), data.get("from"))
        return cls(int(data["time_ms"]), str(data["action"]), str(data["place"]), moved, *who)

    @property
    def who(self) -> str:
        """Whose it was and from where, in words; empty where that is not known."""
        return " from ".join(filter(None, (self.user, self.address)))

    @property
    def undone(self) -> list[ConnectorOffset]:
        """The offsets from before it."""
        return [ConnectorOffset(m.partition, m.old) for m in self.moved]

    def check(self, name: str, now: Sequence[ConnectorOffset], *, otherwise: str) -> None:
        """Whether the offsets are as this change left them. Errors: ConflictError, with `otherwise` as its advice."""
        if differences := self.differences(now):
            raise ConflictError(
                f"The offsets of {name} have changed since: {'; '.join(differences)}",
                hint=f"Its tasks ran, or somebody else changed them. {otherwise}",
            )

    def check_running(self, name: str, now: Sequence[ConnectorOffset], *, otherwise: str) -> None:
        """Works as `check`, for a sink that runs: it may have read on since. Errors: ConflictError."""
        current = {offset_text(item.partition): item.offset for item in now}
        if not all(_is_at_or_behind(m.new, current.get(offset_text(m.partition))) for m in self.moved):
            self.check(name, now, otherwise=otherwise)

    def differences(self, now: Sequence[ConnectorOffset]) -> list[str]:
        """What is no longer as this change left it, a sentence for each partition."""
        current = {offset_text(item.partition): item.offset for item in now}
        return [
            f"{offset_text(m.partition)} is at {offset_text(found)}, not at {offset_text(m.new)}"
            for m in self.moved
            if (found := current.get(offset_text(m.partition))) != m.new
        ]


def _is_at_or_behind(offset: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    """Whether a sink that continued at an offset can be where it is now."""
    if offset == now:
        return True
    was, found = ((each or {}).get("kafka_offset") for each in (offset, now))
    return isinstance(was, int) and isinstance(found, int) and was <= found


def moved_offsets(old: Sequence[ConnectorOffset], new: Sequence[ConnectorOffset]) -> tuple[MovedOffset, ...]:
    """The partitions in `new` whose offset differs."""
    before = {offset_text(item.partition): item.offset for item in old}
    return tuple(
        MovedOffset(item.partition, was, item.offset)
        for item in new
        if (was := before.get(offset_text(item.partition))) != item.offset
    )


class OffsetEntries(Protocol):
    """What changed offsets: as this machine knows it (`OffsetHistory`), or the cluster (`SharedOffsets`)."""

    def entries(self, name: str) -> list[OffsetEntry]:
        """The oldest first."""
        ...

    def add(self, name: str, entry: OffsetEntry) -> None:
        """See that a change is kept that was made just now. Errors: ConnectError."""
        ...


def last_of(entries: Sequence[OffsetEntry], name: str) -> OffsetEntry:
    """The change that an undo takes back. Errors: NotFoundError without one."""
    if not entries:
        raise NotFoundError(
            f"No change of {name}'s offsets is known",
            hint="`connect offsets history NAME` lists what `alter`, `reset`, `move` and `undo` changed.",
        )
    return entries[-1]


class OffsetHistory:
    """The changes of one Kafka cluster's connectors that were made from this machine, the last hundred of each."""

    def __init__(self, cluster_id: str, folder: Path | None = None) -> None:
        self._folder = (folder or state_folder() / "offset-history") / re.sub(r"[^\w-]", "_", cluster_id or "unknown")

    def entries(self, name: str) -> list[OffsetEntry]:
        """The oldest first. Errors: DataError that names the file and the line."""
        path = self._path(name)
        if not path.exists():
            return []
        found = []
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            try:
                found.append(OffsetEntry.from_json(json.loads(line)))
            except (ValueError, KeyError, TypeError) as err:
                raise DataError(f"{path}, line {number}, is not a change of offsets: {err!r}") from err
        return found

    def add(self, name: str, entry: OffsetEntry) -> None:
        """Errors: ConnectError if it cannot be written."""
        path = self._path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as err:
            raise ConnectError(f"{path.parent} cannot be created: {err.strerror}") from err
        kept = [*self.entries(name), entry][-_MOST_KEPT:]
        replace_file(path, "".join(json.dumps(one.to_json()) + "\n" for one in kept), is_secret=True)

    def _path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        return self._folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:100]}-{digest}.jsonl"


def offset_text(value: object) -> str:
    """A partition or an offset as JSON with sorted keys, so that equal ones read the same; a dash for none."""
    return "-" if value is None else json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
