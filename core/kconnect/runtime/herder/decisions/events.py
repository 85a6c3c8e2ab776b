"""The events that `HerderState.step` of a distributed herder takes in. Frozen; time is one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.errors import ConnectError
from kconnect.model import RunState
from kconnect.runtime.herder.assignment.protocol import Assignment
from kconnect.runtime.herder.decisions.failures import Failure
from kconnect.runtime.herder.decisions.requests import Request
from kconnect.runtime.herder.decisions.writes import WriteFor
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.config_topic import ForeignRecord
from kconnect.runtime.storage.snapshot import Change, ClusterSnapshot
from kconnect.runtime.storage.status_topic import Subject

StringMap = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Tick:
    """The time, in milliseconds since the epoch. Precedes what happened then."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Started:
    """The stores are read; the worker may join."""

    snapshot: ClusterSnapshot = field(repr=False)


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The worker is to stop."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A rebalance assigned work; `snapshot` is the one that the member reported when it joined."""

    assignment: Assignment
    generation: int
    member_id: str
    snapshot: ClusterSnapshot = field(repr=False)
    workers: Sequence[str] = ()
    """The ids (host:port) of all members, if this one leads."""
    javas: Sequence[str] = ()
    """The ids of the members that are Java's."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """All work here was stopped, because the group was out of reach while the herder's thread was busy."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The config topic was read to its end, or (`problem`) not in time."""

    snapshot: ClusterSnapshot = field(repr=False)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """The right to write to the config topic was claimed, or not."""

    problem: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigsChanged:
    """Records of the config topic were read: each change with the offset after it, and the state after all of them."""

    changes: Sequence[tuple[Change, int]]
    snapshot: ClusterSnapshot = field(repr=False)
    foreign: ForeignRecord | None = None
    """The last record of a leader's that was not written by this worker, however old."""


@dataclass(frozen=True, slots=True)
class Written:
    """A write to the config topic has ended, read back; `snapshot` is the state after it."""

    target: WriteFor
    snapshot: ClusterSnapshot = field(repr=False)
    error: ConnectError | None = None


@dataclass(frozen=True, slots=True)
class FirstOffsetsWritten:
    """The offsets of a connector that is about to be created are written, as `status` tells, or cannot be."""

    id: int
    status: str = ""
    error: ConnectError | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody waits for an answer to a request."""

    id: int
    request: Request


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The caller no longer waits for the answer."""

    id: int


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """A connector that runs here must be asked for task configs: it started, or it or one of its tasks requested it."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsGiven:
    """A connector here gave these configs for its tasks, complete as they are stored."""

    connector: str
    configs: Sequence[StringMap] = field(repr=False)
    made_from: StringMap = field(repr=False)
    """The connector's own config, as written, that it was started with."""


@dataclass(frozen=True, slots=True)
class TaskConfigsFailed:
    """It returned none; `is_final`: a retry will not help."""

    connector: str
    why: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class TaskConfigsForwarded:
    """The leader took task configs from here, or (`problem`) did not."""

    connector: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ValuesChanged:
    """Values that a connector's config refers to have changed since it, or its tasks, were started here."""

    connector: str
    why: str
    """What has changed, for the log: a part of a sentence."""


@dataclass(frozen=True, slots=True)
class StatusesRead:
    """Statuses were read: those that are FAILED, then others of what was FAILED before; None: deleted."""

    failed: Sequence[tuple[Subject, Failure]]
    others: Sequence[tuple[Subject, RunState | None]] = ()
    is_all: bool = False
    """Nothing else is FAILED."""


Event = (
    Tick
    | Started
    | StopAsked
    | Joining
    | Placed
    | Lost
    | CutOff
    | CaughtUp
    | Claimed
    | ConfigsChanged
    | Written
    | FirstOffsetsWritten
    | Asked
    | GivenUp
    | Reconfigure
    | TaskConfigsGiven
    | TaskConfigsFailed
    | TaskConfigsForwarded
    | ValuesChanged
    | StatusesRead
)
