"""What does not fit between a member and its group, as values that an operator must know of, and as sentences.

A sentence says what is wrong, because of which setting, and what to do. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from kconnect.runtime.herder.assignment.protocol import Work


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


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Workers have left the group, which waits for them before others run their work."""

    work: Work
    for_ms: int


Mismatch = (
    ConfigTopicEnds
    | ConfigTopicUnread
    | WrittenByOther
    | KeyFromFuture
    | ExactlyOnceElsewhere
    | ProtocolDowngraded
    | HeldBack
)


_MOST_NAMES = 10
_SETTINGS = {0: "eager", 1: "compatible", 2: "sessioned"}


@dataclass(frozen=True, slots=True)
class ClusterNames:
    """How a worker's settings call its cluster."""

    group_id: str
    config_topic: str
    exactly_once: str = "disabled"
    """exactly.once.source.support"""


def _named(parts: list[str]) -> str:
    shown = ", ".join(parts[:_MOST_NAMES])
    return shown if len(parts) <= _MOST_NAMES else f"{shown} and {len(parts) - _MOST_NAMES} more"


def utc_time(time_ms: int) -> str:
    """Milliseconds since the epoch, to be read by people."""
    text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
    return text.replace("+00:00", "Z")


def sentence(finding: Mismatch, names: ClusterNames, leader_url: str) -> str:
    """`leader_url`: of the worker that leads the group now; empty while it is not known."""
    topic, group = f"config.storage.topic={names.config_topic}", f"group.id={names.group_id}"
    match finding:
        case ConfigTopicEnds(read_to, assigned):
            return (
                f"{topic} was read to its end at offset {read_to}, but the workers of {group} have read configs up to "
                f"offset {assigned}: their config.storage.topic is another one, or this one has lost its end. This "
                "worker has left the group and stopped its work; it tries again after worker.unsync.backoff.ms. Give "
                "all workers of a group the same config.storage.topic"
            )
        case ConfigTopicUnread(problem):
            return (
                f"{topic} was not read to its end within worker.sync.timeout.ms ({problem}): this worker has left "
                f"{group} and tries again, with connect.protocol=eager after worker.unsync.backoff.ms, else soon"
            )
        case WrittenByOther(key, offset):
            return (
                f"The record {key} at offset {offset} of {topic} was written by another process while this worker led "
                f"{group}: workers with another group.id use the same config.storage.topic, or it is edited by hand. "
                "Two clusters on one topic both run all its connectors: give each a config.storage.topic, "
                "offset.storage.topic and status.storage.topic of its own"
            )
        case KeyFromFuture(created_ms, now_ms):
            led_by = f", led by {leader_url} now," if leader_url else ""
            return (
                f"The session key of {group}{led_by} was made at {utc_time(created_ms)}, and here it is "
                f"{utc_time(now_ms)}: the clock of the worker that made it is {(created_ms - now_ms) / 1000:.1f} s "
                "ahead of this one's. Requests between workers still pass, but the key may be replaced that much later "
                "than inter.worker.key.ttl.ms says. Set the clocks of all workers by the same time server"
            )
        case ExactlyOnceElsewhere(connectors):
            return (
                f"Workers with exactly.once.source.support=enabled have run tasks of {', '.join(connectors)} ({topic} "
                f"has their counts), but this worker has exactly.once.source.support={names.exactly_once}: tasks that "
                "it runs of them are not fenced off, and may write records twice. Set it to the same value on all "
                f"workers of {group}: first to preparing on each of them, then to enabled"
            )
        case HeldBack(work, for_ms):
            return (
                f"Work of workers that left {group} is held back for {for_ms / 1000:.0f} s, in case they come back "
                f"(scheduled.rebalance.max.delay.ms): {_named([*work.connectors, *map(str, work.tasks)])}"
            )
        case ProtocolDowngraded(before, now):
            return (
                f"The workers of {group} now speak {_SETTINGS[now]} instead of {_SETTINGS[before]}, so requests "
                "between them are not signed: a worker with an older connect.protocol has joined. Set "
                "connect.protocol=sessioned on that worker, or leave it out (KIP-507)"
            )
