"""Checks that a sink's new offsets exist in its topics: brokers accept offsets that cannot be read. Pure.

Differs: Java's worker accepts any offset for a sink. Tasks that find nothing at an offset silently start where
auto.offset.reset says, by default at the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kconnect.logs.wording import pluralize
from kconnect.model import TopicPartition


@dataclass(frozen=True, slots=True)
class LogRanges:
    """What a cluster knows of some topics. A topic that does not exist is in neither."""

    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many partitions each topic has."""
    ranges: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The first offset that can be read, and that of the next record."""


def not_in_log(offsets: Mapping[TopicPartition, int | None], known: LogRanges) -> list[str]:
    """The problem of each offset at which nothing can be read, now or later; the end itself is fine."""
    found = ((at, offset, _problem(at, offset, known)) for at, offset in sorted(offsets.items()) if offset is not None)
    return [problem for _, _, problem in found if problem is not None]


def _problem(at: TopicPartition, offset: int, known: LogRanges) -> str | None:
    count = known.partitions.get(at.topic)
    if count is None:
        return f"topic {at.topic} does not exist"
    if not 0 <= at.partition < count:
        return (
            f"topic {at.topic} has no partition {at.partition}: it has {pluralize(count, 'partition')}, numbered from 0"
        )
    if at not in known.ranges:
        return None
    begin, end = known.ranges[at]
    if offset > end:
        return f"offset {offset} of {at} is beyond its end, {end}"
    if offset < begin:
        return f"offset {offset} of {at} is before its first record, {begin}"
    return None
