"""What has been replayed: records of a compacted topic of ours beside the dead letter topic. Pure.

A mark is written in the transaction in which its dead letter is sent, so that both are there or neither. Before the
first dead letter a run writes what it begins, with the ends of the topics it sends to: after a crash the next run knows
where to look for records of transactions that were aborted, which readers of uncommitted records have seen all the
same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.admin.dead_letters.letter import DeadLetter

_SUFFIX: Final = ".replayed"
_RUN: Final = "run"
# A file of `dlq export` may be replayed when the topic no longer has its dead letters: then their marks alone say that
# they were sent. Whoever edits one by hand is done within a month; a mark is some 150 bytes, so that keeping it costs
# little
_KEPT_MS: Final = 30 * 24 * 3_600_000


class MarkState:
    """The states of a mark."""

    SENT: Final = "sent"
    """The dead letter is in its original topic, committed with the mark."""
    PUT: Final = "put"
    """The connector's own put() has taken it, and its flush succeeded."""
    PUTTING: Final = "putting"
    """put() was about to be called: without a later mark nobody knows whether it took the record."""


def marks_topic(dead_letter_topic: str) -> str:
    """The topic with the marks of a dead letter topic."""
    return dead_letter_topic + _SUFFIX


@dataclass(frozen=True, slots=True)
class Mark:
    """What was done with one dead letter."""

    state: str
    fingerprint: int
    at_ms: int
    target: str | None = None
    """Where it was sent: a topic, or the connector whose put() took it."""


@dataclass(frozen=True, slots=True)
class Run:
    """A replay that has begun: `ends` are the ends of the partitions of its targets, before it sent anything."""

    connector: str
    at_ms: int
    ends: Mapping[str, Mapping[int, int]]


@dataclass(slots=True)
class Marks:
    """All marks of a dead letter topic: what its compacted neighbour says. `take` its records in their order."""

    letters: dict[tuple[int, int], Mark] = field(default_factory=dict)
    """Partition and offset in the dead letter topic -> its mark."""
    runs: dict[str, Run] = field(default_factory=dict)
    """Connector -> the run of its that has not ended; after a crash, or while it runs."""
    unread: int = 0
    """Records that are none of ours."""

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """One record of the topic. Never raises for what is in it."""
        try:
            name = json.loads(key or b"")
            found = None if value is None else json.loads(value)
            if _RUN in name:
                self._take_run(str(name[_RUN]), found)
            else:
                self._take_letter((int(name["partition"]), int(name["offset"])), found)
        except (ValueError, KeyError, TypeError, AttributeError):
            self.unread += 1

    def mark_of(self, letter: DeadLetter) -> Mark | None:
        """The dead letter's mark; None also when it was another letter's at this place, in a topic of this name."""
        mark = self.letters.get((letter.raw.partition, letter.raw.offset))
        return mark if mark is not None and mark.fingerprint == letter.fingerprint else None

    def is_replayed(self, letter: DeadLetter) -> bool:
        mark = self.mark_of(letter)
        return mark is not None and mark.state != MarkState.PUTTING

    def is_doubtful(self, letter: DeadLetter) -> bool:
        """put() may have taken it: the process ended before it could say."""
        mark = self.mark_of(letter)
        return mark is not None and mark.state == MarkState.PUTTING

    def _take_letter(self, place: tuple[int, int], found: Any) -> None:
        if found is None:
            self.letters.pop(place, None)
        else:
            self.letters[place] = Mark(found["state"], found["fingerprint"], found["at"], found.get("target"))

    def _take_run(self, connector: str, found: Any) -> None:
        if found is None:
            self.runs.pop(connector, None)
            return
        ends = {topic: {int(number): end for number, end in parts.items()} for topic, parts in found["ends"].items()}
        self.runs[connector] = Run(connector, found["at"], ends)


def marks_of(records: Iterable[tuple[bytes | None, bytes | None]]) -> Marks:
    """The marks of keys and values, in their order."""
    marks = Marks()
    for key, value in records:
        marks.take(key, value)
    return marks


Entry = tuple[bytes, bytes | None]
"""Key and value of a record of the topic."""


def mark_entry(letter: DeadLetter, state: str, at_ms: int, target: str | None) -> Entry:
    """The record that says what was done with a dead letter."""
    place = {"partition": letter.raw.partition, "offset": letter.raw.offset}
    said = {"state": state, "at": at_ms, "target": target, "fingerprint": letter.fingerprint}
    return _json(place), _json(said)


def removal_entry(letter: DeadLetter) -> Entry:
    """The record that takes a dead letter's mark back."""
    return _json({"partition": letter.raw.partition, "offset": letter.raw.offset}), None


def run_entry(run: Run) -> Entry:
    """The record that says what a run is about to begin."""
    ends = {topic: {str(number): end for number, end in parts.items()} for topic, parts in run.ends.items()}
    return _json({_RUN: run.connector}), _json({"at": run.at_ms, "ends": ends})


def run_end_entry(connector: str) -> Entry:
    """The record that says that the run of a connector has ended well."""
    return _json({_RUN: connector}), None


def outdated_entries(marks: Marks, begins: Mapping[int, int], now_ms: int) -> list[Entry]:
    """Tombstones for marks older than a month, of letters that the topic no longer has; `begins`: its first offsets."""
    gone = [
        (number, offset)
        for (number, offset), mark in marks.letters.items()
        if offset < begins.get(number, 0) and mark.at_ms < now_ms - _KEPT_MS
    ]
    return [(_json({"partition": number, "offset": offset}), None) for number, offset in sorted(gone)]


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
