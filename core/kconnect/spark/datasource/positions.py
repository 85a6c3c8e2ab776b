"""Source offsets by source partition, as they stand in Spark's offsets. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kconnect.api import RecordBatch, SourceRecord
from kconnect.model import ConnectorOffset
from kconnect.runtime.pipeline.polled_lists import positions_of
from kconnect.runtime.storage.offset_topic import check_format

if TYPE_CHECKING:
    import pyarrow as pa

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]


class Positions:
    """The offset of each source partition; an OffsetStorageReader. Treat as immutable, except for `advance`."""

    def __init__(self, entries: Iterable[tuple[Partition, Offset]] = ()) -> None:
        self._by_key = {_key(partition): (dict(partition), dict(offset)) for partition, offset in entries}
        self._removed: set[str] = set()

    @classmethod
    def from_json(cls, entries: Sequence[Sequence[Any]]) -> Positions:
        """Reads `[[partition, offset], ..]`."""
        return cls((partition, offset) for partition, offset in entries)

    @classmethod
    def of(cls, offsets: Iterable[ConnectorOffset]) -> Positions:
        """Takes what a task wants to be committed; no offset removes one."""
        made = cls()
        for item in offsets:
            made._set(item.partition, item.offset)
        return made

    def to_json(self) -> list[list[Any]]:
        return [[partition, offset] for partition, offset in self._by_key.values()]

    def advance(self, polled: Sequence[SourceRecord] | RecordBatch) -> None:
        """Move on to the last offsets of one poll. Errors: DataError for an offset that JSON cannot hold."""
        for partition, offset in positions_of(polled):
            check_format(partition)
            check_format(offset)
            self._set(partition, offset)

    def take(self, newer: Positions) -> None:
        """Move on to these."""
        for partition, offset in newer:
            self._set(partition, offset)
        for key in newer._removed:
            self._by_key.pop(key, None)
        self._removed |= newer._removed

    def merged(self, others: Iterable[Positions]) -> Positions:
        """These with what others have newer: each source partition belongs to one task."""
        made = self.copy()
        for other in others:
            for key, entry in other._by_key.items():
                if self._by_key.get(key) != entry:
                    made._by_key[key] = entry
            for key in other._removed:
                made._by_key.pop(key, None)
        return made

    def copy(self) -> Positions:
        made = Positions()
        made._by_key, made._removed = dict(self._by_key), set(self._removed)
        return made

    def moved_to(self, later: Positions) -> Positions:
        """The positions of `later` that differ from these."""
        made = Positions()
        made._by_key = {key: entry for key, entry in later._by_key.items() if self._by_key.get(key) != entry}
        return made

    def _set(self, partition: Partition, offset: Offset | None) -> None:
        key = _key(partition)
        if offset is None:
            self._by_key.pop(key, None)
            self._removed.add(key)
        else:
            self._by_key[key] = (dict(partition), dict(offset))
            self._removed.discard(key)

    # --- OffsetStorageReader ---

    def offset(self, partition: Partition) -> Offset | None:
        found = self._by_key.get(_key(partition))
        return None if found is None else dict(found[1])

    def offsets(self, partitions: Collection[Partition]) -> list[Offset | None]:
        return [self.offset(partition) for partition in partitions]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and self._by_key == other._by_key

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[tuple[Partition, Offset]]:
        return iter(self._by_key.values())


class Replay:
    """Cuts polls that are read a second time at the offsets where they ended the first time."""

    def __init__(self, targets: Positions) -> None:
        self._left = {_key(partition): dict(offset) for partition, offset in targets}

    @property
    def is_done(self) -> bool:
        return not self._left

    @property
    def missing(self) -> str:
        """What was not met, for people."""
        return ", ".join(f"{key} to {json.dumps(offset)}" for key, offset in list(self._left.items())[:3])

    def cut(self, polled: Sequence[SourceRecord] | RecordBatch) -> Sequence[SourceRecord] | RecordBatch:
        """The records up to the targets; those behind them belong to a later batch."""
        if isinstance(polled, RecordBatch):
            return self._cut_batch(polled)
        return self._cut_list(polled)

    def _cut_batch(self, batch: RecordBatch) -> RecordBatch:
        key = _key(batch.source_partition or {})
        target = self._left.get(key)
        if target is None:
            return batch.slice(0, 0)
        end = _end_of(batch.source_offsets or {}, target, len(batch))
        if end is None:
            return batch
        del self._left[key]
        return batch.slice(0, end)

    def _cut_list(self, records: Sequence[SourceRecord]) -> list[SourceRecord]:
        ends: dict[str, int] = {}
        keys = [_key(record.source_partition or {}) for record in records]
        for index, (key, record) in enumerate(zip(keys, records, strict=True)):
            if key in self._left and record.source_offset == self._left[key]:
                ends[key] = index
        kept = [
            record
            for index, (key, record) in enumerate(zip(keys, records, strict=True))
            if key in self._left and index <= ends.get(key, index)
        ]
        for key in ends:
            del self._left[key]
        return kept


def _end_of(columns: Mapping[str, pa.Array], target: Mapping[str, Any], length: int) -> int | None:
    """The index behind the last row with this offset; None if no row has it."""
    if set(columns) != set(target):
        return None
    rows = {name: column.to_pylist() for name, column in columns.items()}
    for index in range(length - 1, -1, -1):
        if all(rows[name][index] == value for name, value in target.items()):
            return index + 1
    return None


def _key(partition: Partition) -> str:
    return json.dumps(dict(partition), sort_keys=True)
