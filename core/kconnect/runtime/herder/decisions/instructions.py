"""The instructions that `HerderState.step` of a distributed herder returns. Frozen; the shell performs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.errors import ConnectError
from kconnect.model import ConnectorOffset, TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.decisions.auto_restarts import Notice
from kconnect.runtime.herder.decisions.mismatches import Mismatch
from kconnect.runtime.herder.decisions.writes import ConfigWrite, WriteFor
from kconnect.runtime.storage.config_topic import RestartRequested
from kconnect.runtime.storage.snapshot import NO_OFFSET, ClusterSnapshot

StringMap = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TakeGeneration:
    """Statuses written from now on are of this generation."""

    generation: int
    is_leader: bool


@dataclass(frozen=True, slots=True)
class WithholdStops:
    """The group is unreachable: work that stops now may already run elsewhere, and its statuses wait until it is
    back.
    """


@dataclass(frozen=True, slots=True)
class RequestRejoin:
    """Have the group rebalance."""

    why: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Report a problem to the operator that the worker cannot fix."""

    finding: Mismatch


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell the operator what has become of a connector or task."""

    notice: Notice


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Leave the group, so that the others need not wait for this worker: sends Kafka's request of the same name."""

    why: str


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Read the config topic to its end, and on to `offset` if it gets there in time; results in CaughtUp."""

    timeout_ms: int
    offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class Claim:
    """Become the only worker that may write to the config topic; results in Claimed."""


@dataclass(frozen=True, slots=True)
class StartWork:
    """Start connectors and tasks with the configs of this snapshot. A started connector results in Reconfigure."""

    work: Work
    snapshot: ClusterSnapshot = field(repr=False)


@dataclass(frozen=True, slots=True)
class StopWork:
    """Stop connectors and tasks, all at once, and wait; their last statuses are written before it is done."""

    work: Work
    why: str
    is_cut_off: bool = False
    """It may soon run elsewhere: plugins stop first, and what is left to commit is committed after that."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Stop and start one connector or task that runs here, then answer."""

    id: int
    subject: str | TaskId
    snapshot: ClusterSnapshot = field(repr=False)


@dataclass(frozen=True, slots=True)
class RestartByPlan:
    """Restart the parts of a connector that a request selects, as far as they run here."""

    request: RestartRequested
    here: Work
    snapshot: ClusterSnapshot = field(repr=False)


@dataclass(frozen=True, slots=True)
class RestartHere:
    """Restart all parts of a connector here, because values that its config refers to have changed."""

    connector: str
    why: str
    """What `ValuesChanged` says has changed."""
    here: Work
    snapshot: ClusterSnapshot = field(repr=False)


@dataclass(frozen=True, slots=True)
class SetTarget:
    """Bring the parts of a connector here to another state."""

    connector: str
    state: TargetState
    here: Work


@dataclass(frozen=True, slots=True)
class ApplyLogLevel:
    """Give a logger of this worker a level (KIP-976)."""

    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Remove statuses and topics of connectors and tasks that are not in this snapshot."""

    snapshot: ClusterSnapshot = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskTaskConfigs:
    """Get task configs from a connector here; results in TaskConfigsGiven or TaskConfigsFailed."""

    connector: str
    config: StringMap = field(repr=False)


@dataclass(frozen=True, slots=True)
class ForwardTaskConfigs:
    """Send task configs to the leader; results in TaskConfigsForwarded."""

    connector: str
    configs: Sequence[StringMap] = field(repr=False)
    leader_url: str


@dataclass(frozen=True, slots=True)
class Write:
    """Write to the config topic and read it back; results in Written."""

    target: WriteFor
    write: ConfigWrite


@dataclass(frozen=True, slots=True)
class ModifyOffsets:
    """Alter (offsets given) or reset the offsets of a stopped connector, then answer."""

    id: int
    connector: str
    offsets: Sequence[ConnectorOffset] | None = field(repr=False)
    expected: Collection[str] | None = None
    """Entity tags of which the current offsets must have one."""


@dataclass(frozen=True, slots=True)
class WriteFirstOffsets:
    """Set the offsets of a connector that is about to be created; gives FirstOffsetsWritten."""

    id: int
    connector: str
    config: StringMap = field(repr=False)
    offsets: Sequence[ConnectorOffset] = field(repr=False)


@dataclass(frozen=True, slots=True)
class FenceZombies:
    """Fence off producers of a connector's former tasks, write its task count record, then answer (KIP-618)."""

    id: int
    connector: str


@dataclass(frozen=True, slots=True)
class Complete:
    """A request is done."""

    id: int
    value: bool | str | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """A request cannot be done."""

    id: int
    error: ConnectError


@dataclass(frozen=True, slots=True)
class Redirect:
    """The worker that runs the connector or task, which the group's leader knows, must handle the request."""

    id: int
    subject: str | TaskId


Instruction = (
    TakeGeneration
    | WithholdStops
    | RequestRejoin
    | Tell
    | Announce
    | LeaveGroup
    | CatchUp
    | Claim
    | StartWork
    | StopWork
    | Restart
    | RestartByPlan
    | RestartHere
    | SetTarget
    | ApplyLogLevel
    | CleanUp
    | AskTaskConfigs
    | ForwardTaskConfigs
    | Write
    | ModifyOffsets
    | WriteFirstOffsets
    | FenceZombies
    | Complete
    | Refuse
    | Redirect
)
