"""Which dead letters are meant, and how many there are of each kind. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kconnect.admin.dead_letters.letter import DeadLetter
from kconnect.admin.dead_letters.marks import Marks
from kconnect.errors import BadRequestError


class Owner(StrEnum):
    """Whose a dead letter is, as far as its headers tell."""

    OURS = "ours"
    OTHERS = "others"
    """Means records of another connector that shares the topic."""
    UNKNOWN = "unknown"
    """Nothing in it names a connector: no context headers, or a record that is no dead letter at all."""


_RANGE: Final = re.compile(r"(?:(\d+):)?(\d+)(?:(-)(\d+)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Letters of one partition from `first` to `last`, both included; None: to the end."""

    partition: int
    first: int = 0
    last: int | None = None

    @classmethod
    def parse(cls, text: str) -> OffsetRange:
        """Reads 7, 7-12, 7- or, of partition 3, 3:7-12. Errors: BadRequestError."""
        form = _RANGE.fullmatch(text.strip())
        if form is None:
            raise BadRequestError(f"{text} is not a range of offsets", hint="Examples: 7, 7-12, 7-, 3:7-12.")
        first = int(form[2])
        last = first if form[3] is None else None if form[4] is None else int(form[4])
        if last is not None and last < first:
            raise BadRequestError(f"{text} ends before it begins")
        return cls(int(form[1] or 0), first, last)

    def __contains__(self, place: tuple[int, int]) -> bool:
        partition, offset = place
        return partition == self.partition and self.first <= offset and (self.last is None or offset <= self.last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What dead letters are meant. Everything that is given must hold; of several stages (and so on), one.

    `connector`: its dead letters are meant. Those that name no connector count as its own when `takes_unknown`, as they
    do where it writes no context headers; `takes_all` means every record of the topic.
    `exceptions` match the class, or that of the root cause, with or without its package, or the start of the message.
    Times are ms of the dead letter, which are those of its record: Connect keeps them.
    """

    connector: str
    takes_unknown: bool = False
    takes_all: bool = False
    stages: frozenset[str] = frozenset()
    exceptions: tuple[str, ...] = ()
    topics: frozenset[str] = frozenset()
    from_ms: int | None = None
    to_ms: int | None = None
    offsets: tuple[OffsetRange, ...] = ()

    def owner(self, letter: DeadLetter) -> Owner:
        if letter.connector is None:
            return Owner.UNKNOWN
        return Owner.OURS if letter.connector == self.connector else Owner.OTHERS

    def owns(self, letter: DeadLetter) -> bool:
        """Whether it is one of this connector's."""
        owner = self.owner(letter)
        return self.takes_all or owner is Owner.OURS or (self.takes_unknown and owner is Owner.UNKNOWN)

    def __contains__(self, letter: DeadLetter) -> bool:
        raw = letter.raw
        return (
            self.owns(letter)
            and (not self.stages or (letter.stage or "").upper() in self.stages)
            and (not self.exceptions or any(_is_exception(letter, wanted) for wanted in self.exceptions))
            and (not self.topics or letter.original_topic in self.topics)
            and (self.from_ms is None or (raw.timestamp is not None and raw.timestamp >= self.from_ms))
            and (self.to_ms is None or (raw.timestamp is not None and raw.timestamp < self.to_ms))
            and (not self.offsets or any((raw.partition, raw.offset) in each for each in self.offsets))
        )


@dataclass(slots=True)
class Group:
    """Letters that failed alike."""

    stage: str | None
    exception: str | None
    topic: str | None
    count: int = 0
    replayed: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    example: DeadLetter | None = None
    """The newest of them."""


@dataclass(slots=True)
class Summary:
    """What is in a dead letter topic, for one connector. `groups` are sorted by count, most first."""

    groups: list[Group] = field(default_factory=list)
    count: int = 0
    replayed: int = 0
    skipped: Mapping[Owner, int] = field(default_factory=dict)
    """Records of the topic that are not this connector's."""
    broken: int = 0
    """Letters with headers that cannot be read."""


def summary(letters: Iterable[DeadLetter], selection: Selection, marks: Marks) -> Summary:
    """Count what is meant, by stage, exception class and original topic."""
    found = Summary()
    groups: dict[tuple[str | None, str | None, str | None], Group] = {}
    skipped: Counter[Owner] = Counter()
    for letter in letters:
        if not selection.owns(letter):
            skipped[selection.owner(letter)] += 1
            continue
        if letter not in selection:
            continue
        key = (letter.stage, letter.context.exception, letter.original_topic)
        group = groups.setdefault(key, Group(*key))
        is_replayed = marks.is_replayed(letter)
        _add(group, letter, is_replayed=is_replayed)
        found.count += 1
        found.replayed += is_replayed
        found.broken += bool(letter.problems)
    found.groups = sorted(groups.values(), key=lambda each: (-each.count, each.stage or "", each.exception or ""))
    found.skipped = dict(skipped)
    return found


def selected(letters: Iterable[DeadLetter], selection: Selection) -> Iterator[DeadLetter]:
    """The dead letters that the selection chooses, in the order they came."""
    return (letter for letter in letters if letter in selection)


def _add(group: Group, letter: DeadLetter, *, is_replayed: bool) -> None:
    time_ms = letter.raw.timestamp
    group.count += 1
    group.replayed += is_replayed
    if time_ms is not None:
        group.first_ms = time_ms if group.first_ms is None else min(group.first_ms, time_ms)
        if group.last_ms is None or time_ms >= group.last_ms:
            group.last_ms, group.example = time_ms, letter
    group.example = group.example or letter


def _is_exception(letter: DeadLetter, wanted: str) -> bool:
    context = letter.context
    names = {context.exception or "", (context.root_cause or "").partition(":")[0]}
    short = {name.rpartition(".")[2].lower() for name in names}
    return wanted in names or wanted.lower() in short or (context.message or "").startswith(wanted)
