"""The position of a query in its topics: read from, and written to, the offsets of its consumer group. Pure.

The group is the only truth. An offset says what is done; the text committed with it names the batch, and while a batch
is under way its end. Whoever else sets an offset commits it without such text, so an altered position is known as one.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from kconnect.model import TopicPartition
from kconnect.runtime.kafka.fenced_offsets import CommittedOffset

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """The position of a sink's query. Batches are numbered from 1; `batch` is the last one that was begun and ended."""

    id: str
    """Names all batches since the offsets were reset or altered, or the topics became others; tables remember it with
    the number of the batch.
    """
    batch: int
    done: Offsets
    """The next record of each partition that has a committed offset."""
    planned: Offsets = field(default_factory=dict)
    """The end of each partition in batch + 1, which was begun and not ended; empty if none was."""
    is_altered: bool = False
    """Somebody else has set or removed offsets since."""

    @classmethod
    def of(cls, committed: Mapping[TopicPartition, CommittedOffset], topics: Collection[str]) -> TopicPosition:
        """What the group says of partitions of these topics, all that there are of the query's.

        A new id where an offset that is gone, or is of a topic that is, may alone have had the last number: tables know
        it, and would skip other records that were given it again.
        """
        done = {at: found.offset for at, found in committed.items()}
        notes = {at: note for at, found in committed.items() if (note := _Note.parse(found.metadata)) is not None}
        if not notes:
            return cls(uuid.uuid4().hex, 0, done, is_altered=bool(done))
        last = max(note.batch for note in notes.values())
        newest = [note for note in notes.values() if note.batch == last]
        is_altered = len(notes) < len(done) or len(newest) < newest[0].count
        begun = {at: note for at, note in notes.items() if note.planned is not None}
        if begun and not is_altered:
            note = next(iter(begun.values()))
            planned = {at: found.planned for at, found in begun.items() if found.planned is not None}
            if len({(found.id, found.batch) for found in begun.values()}) == 1 and len(begun) == note.count:
                return cls(note.id, note.batch - 1, done, planned)
        is_same = {(note.id, note.topics) for note in newest} == {(newest[0].id, _digest(topics))}
        if begun or is_altered or not is_same:
            return cls(uuid.uuid4().hex, last, done, is_altered=is_altered or bool(begun))
        return cls(newest[0].id, last, done)

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
        note = _Note(self.id, self.batch + 1, len(self.planned), self._topics())
        return {
            at: CommittedOffset(self.done.get(at, 0), replace(note, planned=end).text())
            for at, end in self.planned.items()
        }

    def to_commit_as_ended(self, of: Offsets) -> dict[TopicPartition, CommittedOffset]:
        """What to commit when these partitions were in the batch that has just ended."""
        note = _Note(self.id, self.batch, len(of), self._topics())
        return {at: CommittedOffset(self.done[at], note.text()) for at in of}

    def _topics(self) -> str:
        return _digest({at.topic for at in (*self.done, *self.planned)})


def _digest(topics: Collection[str]) -> str:
    """Shortens the names: they may be many, and the text beside an offset must be short."""
    return hashlib.sha256("\n".join(sorted(set(topics))).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Note:
    """The text beside a committed offset."""

    id: str
    batch: int
    count: int
    """Partitions in the batch."""
    topics: str
    """Which topics the query had then."""
    planned: int | None = None

    @classmethod
    def parse(cls, text: str) -> _Note | None:
        """Returns None if no query has written it."""
        try:
            body = json.loads(text)["kconnect"]
            planned = body.get("planned")
            plan = None if planned is None else int(planned)
            return cls(str(body["id"]), int(body["batch"]), int(body["of"]), str(body.get("topics")), plan)
        except (ValueError, TypeError, KeyError):
            return None

    def text(self) -> str:
        body = {"id": self.id, "batch": self.batch, "of": self.count, "topics": self.topics}
        if self.planned is not None:
            body["planned"] = self.planned
        return json.dumps({"kconnect": body}, separators=(",", ":"))
