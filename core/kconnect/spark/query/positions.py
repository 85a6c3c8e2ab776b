"""The position of a query in its topics: read from, and written to, the offsets of its consumer group. Pure.

The group is the only truth. An offset says what is done; the text committed with it names the batch, and while a batch
is under way its end. Whoever else sets an offset commits it without such text, so an altered position is known as one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kconnect.kafka.fenced_offsets import CommittedOffset
from kconnect.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """The position of a sink's query. Batches are numbered from 1; `batch` is the last one that was begun and ended."""

    id: str
    """Of all batches since the offsets were reset or altered; tables remember it with the number of the batch."""
    batch: int
    done: Offsets
    """The next record of each partition that has a committed offset."""
    planned: Offsets = field(default_factory=dict)
    """The end of each partition in batch + 1, which was begun and not ended; empty if none was."""
    is_altered: bool = False
    """Somebody else has set or removed offsets since."""

    @classmethod
    def of(cls, committed: Mapping[TopicPartition, CommittedOffset]) -> TopicPosition:
        """What the group says. A new id if no offset in it is from a query, or the last one may not be."""
        done = {at: found.offset for at, found in committed.items()}
        notes = {at: note for at, found in committed.items() if (note := _Note.parse(found.metadata)) is not None}
        if not notes:
            return cls(uuid.uuid4().hex, 0, done, is_altered=bool(done))
        last = max(note.batch for note in notes.values())
        newest = {at: note for at, note in notes.items() if note.batch == last}
        first = next(iter(newest.values()))
        is_altered = len(notes) < len(done) or len(newest) < first.count
        planned = {at: note.planned for at, note in newest.items() if note.planned is not None}
        if not planned and is_altered:
            # What is gone may alone have had the last number, which tables know: it is not given again under this id
            return cls(uuid.uuid4().hex, 0, done, is_altered=True)
        if not planned:
            return cls(first.id, last, done)
        if is_altered:
            # The table may have the batch that was planned: its number is not used again
            return cls(first.id, last, done, is_altered=True)
        return cls(first.id, last - 1, done, planned)

    def ahead(self, end: Offsets) -> Offsets:
        """The part of `end` that the next batch brings, to be planned.

        Never empty for a batch that Spark runs because partitions have changed: the group has a batch's number beside
        these partitions, and one that is not there is given again, to other records. So a new partition without records
        is among them. The replay of a batch that had nothing else brings what was planned.
        """
        return {at: to for at, to in end.items() if at not in self.done or to > self.done[at]} or self.planned

    def plan(self, end: Offsets) -> TopicPosition:
        """Batch + 1 is to go up to `end`."""
        return replace(self, planned=dict(end), is_altered=False)

    def ended(self) -> TopicPosition:
        """The planned batch is written."""
        return replace(self, batch=self.batch + 1, done={**self.done, **self.planned}, planned={}, is_altered=False)

    def from_first(self, first: Offsets) -> TopicPosition:
        """The same with a beginning for partitions that have no offset yet."""
        return replace(self, done={**first, **self.done})

    def to_commit(self) -> dict[TopicPartition, CommittedOffset]:
        """What to commit for the batch that is planned."""
        note = _Note(self.id, self.batch + 1, len(self.planned))
        return {
            at: CommittedOffset(self.done.get(at, 0), replace(note, planned=end).text())
            for at, end in self.planned.items()
        }

    def to_commit_as_ended(self, of: Offsets) -> dict[TopicPartition, CommittedOffset]:
        """What to commit when these partitions were in the batch that has just ended."""
        note = _Note(self.id, self.batch, len(of))
        return {at: CommittedOffset(self.done[at], note.text()) for at in of}


@dataclass(frozen=True, slots=True)
class _Note:
    """The text beside a committed offset."""

    id: str
    batch: int
    count: int
    """Partitions in the batch."""
    planned: int | None = None

    @classmethod
    def parse(cls, text: str) -> _Note | None:
        """None for what no query has written."""
        try:
            body = json.loads(text)["kconnect"]
            planned = body.get("planned")
            return cls(str(body["id"]), int(body["batch"]), int(body["of"]), None if planned is None else int(planned))
        except (ValueError, TypeError, KeyError):
            return None

    def text(self) -> str:
        body = {"id": self.id, "batch": self.batch, "of": self.count}
        if self.planned is not None:
            body["planned"] = self.planned
        return json.dumps({"kconnect": body}, separators=(",", ":"))
