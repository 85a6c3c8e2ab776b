"""A member's findings about its group that an operator must fix, as values; `finding_messages` has the messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigTopicEnds:
    """The config topic of this worker ends before the offset at which its group works: it is a different topic."""

    read_to: int
    assigned: int


@dataclass(frozen=True, slots=True)
class ConfigTopicUnread:
    """The config topic could not be read to its end in time."""

    problem: str


@dataclass(frozen=True, slots=True)
class WrittenByOther:
    """While this worker led its group, somebody else wrote a record that only leaders write."""

    key: str
    offset: int


@dataclass(frozen=True, slots=True)
class KeyFromFuture:
    """The session key was made later than it is here: the clock of the worker that made it is ahead of this one's."""

    created_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class ExactlyOnceElsewhere:
    """These connectors have, or had, workers with exactly-once support enabled; this worker has it disabled."""

    connectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProtocolDowngraded:
    """A member joined that supports no sub-protocol with signed requests: workers no longer sign or check them."""

    before: int
    now: int


Finding = (
    ConfigTopicEnds | ConfigTopicUnread | WrittenByOther | KeyFromFuture | ExactlyOnceElsewhere | ProtocolDowngraded
)
