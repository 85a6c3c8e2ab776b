"""Where a query that reads tables has got to, as source offsets. Pure.

Source partition `{"query": connector, "source": 0}` has the position. Files are too many for one record: those that
were read are in chunks, with the source partition `{"query": connector, "source": 0, "id": id, "files": number}`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kconnect.model import ConnectorOffset
from kconnect.spark.query.checkpoint import SeenFile

# Files in one chunk, which is written again with each batch until it is full
_CHUNK: Final = 200


@dataclass(frozen=True, slots=True)
class RowPosition:
    """The position. `done` and `planned` are what the source says of itself: offsets of Spark, or of a cursor."""

    id: str
    """Names all batches since the offsets were reset."""
    batch: int = 0
    """The last one that was begun and ended; they are numbered from 1."""
    done: Any = None
    """What JSON can hold; None: nothing yet."""
    planned: Any = None
    """The end of batch + 1, which was begun and not ended; None if none was."""

    @classmethod
    def of(cls, offset: Mapping[str, Any] | None) -> RowPosition:
        """What is committed; a new id if nothing is. Errors: ValueError."""
        if offset is None:
            return cls(uuid.uuid4().hex)
        try:
            batch = int(offset.get("batch", 0))
            done, planned = (
                None if offset.get(name) is None else json.loads(offset[name]) for name in ("done", "planned")
            )
        except TypeError as error:
            raise ValueError(f"done and planned are texts with JSON: {error}") from error
        return cls(str(offset.get("id") or uuid.uuid4().hex), batch, done, planned)

    @property
    def highest(self) -> int:
        """The number of the last batch that this position knows of, begun or ended."""
        return self.batch + (self.planned is not None)

    def after(self, batch: int) -> RowPosition:
        """The same place, with numbers that come after another batch; nothing is planned."""
        return replace(self, batch=batch, planned=None)

    def plan(self, end: Any) -> RowPosition:
        """Batch + 1 is to go up to `end`."""
        return replace(self, planned=end)

    def ended(self, done: Any) -> RowPosition:
        """The planned batch is sent; `done`: where that is."""
        return replace(self, batch=self.batch + 1, done=done, planned=None)

    def to_commit(self, connector: str) -> ConnectorOffset:
        body: dict[str, Any] = {"id": self.id, "batch": self.batch}
        for name, value in (("done", self.done), ("planned", self.planned)):
            if value is not None:
                body[name] = text_of(value)
        return ConnectorOffset(partition_of(connector), body)


def partition_of(connector: str) -> dict[str, Any]:
    """The source partition of the position."""
    return {"query": connector, "source": 0}


def text_of(value: Any) -> str:
    """A value as text, always the same."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class ReadFiles:
    """The files that a query has read, in chunks. Pure state; one owner."""

    def __init__(
        self, connector: str, query_id: str, chunks: Sequence[Mapping[str, Any] | None] = (), done: Any = None
    ) -> None:
        """`chunks`: those committed, by number. `done`: what the position says of them: any after these are not done.

        They belong to a batch that did not end, or offsets were set back since.
        """
        self._connector = connector
        self._id = query_id
        files = [file for chunk in chunks for file in _files_of(chunk)]
        if isinstance(done, dict) and "files" in done:
            del files[int(done["files"]) :]
        self._chunks = [files[begin : begin + _CHUNK] for begin in range(0, len(files), _CHUNK)]

    @classmethod
    def partitions(cls, connector: str, position: RowPosition) -> list[dict[str, Any]]:
        """Where the chunks are: those that the position counts, and the one that may have been begun after it."""
        done = position.done
        count = int(done.get("chunks", 0)) if isinstance(done, dict) else 0
        return [_chunk_partition(connector, position.id, number) for number in range(count + 1)]

    def files(self) -> list[SeenFile]:
        """All of them."""
        return [file for chunk in self._chunks for file in chunk]

    def done(self) -> dict[str, int]:
        """What the position says of them."""
        return {"files": sum(map(len, self._chunks)), "chunks": len(self._chunks)}

    def add(self, files: Iterable[SeenFile]) -> list[ConnectorOffset]:
        """Add files that were read; gives what to commit. Files that are in it already are not added."""
        known, changed = set(self.files()), set[int]()
        for file in files:
            if file in known:
                continue
            if not self._chunks or len(self._chunks[-1]) >= _CHUNK:
                self._chunks.append([])
            self._chunks[-1].append(file)
            changed.add(len(self._chunks) - 1)
        return [
            ConnectorOffset(
                _chunk_partition(self._connector, self._id, number),
                {"list": text_of([[file.path, file.time_ms] for file in self._chunks[number]])},
            )
            for number in sorted(changed)
        ]


def _chunk_partition(connector: str, query_id: str, number: int) -> dict[str, Any]:
    return {**partition_of(connector), "id": query_id, "files": number}


def _files_of(chunk: Mapping[str, Any] | None) -> list[SeenFile]:
    return [] if chunk is None else files_from(json.loads(chunk["list"]))


def files_from(listed: Iterable[Sequence[Any]]) -> list[SeenFile]:
    """Files as they are in a planned batch."""
    return [SeenFile(str(path), int(time_ms)) for path, time_ms in listed]
