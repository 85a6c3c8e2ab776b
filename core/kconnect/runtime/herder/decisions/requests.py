"""Requests to a distributed herder, as values. `request_rules` decides about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.model import ConnectorOffset, TargetState, TaskId
from kconnect.runtime.storage.config_topic import RestartRequested

StringMap = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AskPut:
    """Create or change a connector, with a validated config. Returns whether it is new."""

    connector: str
    config: StringMap = field(repr=False)
    target_state: TargetState | None
    replace: bool
    patch_of: StringMap | None = field(default=None, repr=False)
    """The config that must still be current, if the new one was made by changing it."""
    offsets: Sequence[ConnectorOffset] | None = field(default=None, repr=False)
    """Written before the config of a new connector (KIP-995); then the message about them is the answer."""
    offsets_status: str | None = None
    """That message, once they are written."""
    expected: Collection[str] | None = None
    """Entity tags of which the current config must have one (If-Match)."""


@dataclass(frozen=True, slots=True)
class AskRemove:
    """Delete a connector. `expected`: as of AskPut."""

    connector: str
    expected: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class AskStop:
    """Stop a connector and its tasks for good (KIP-875)."""

    connector: str


@dataclass(frozen=True, slots=True)
class AskRestart:
    """Restart one connector (by its name) or one task, without the rest."""

    subject: str | TaskId


@dataclass(frozen=True, slots=True)
class AskRestartByPlan:
    """Restart a connector and tasks of it, wherever they run (KIP-745)."""

    request: RestartRequested


@dataclass(frozen=True, slots=True)
class AskTasks:
    """Another worker has these configs for the tasks of a connector it runs."""

    connector: str
    configs: Sequence[StringMap] = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskFence:
    """Another worker wants a connector's earlier exactly-once tasks fenced off."""

    connector: str


@dataclass(frozen=True, slots=True)
class AskTaskCount:
    """A round of fencing is done: record how many tasks the next one must fence off.

    `generation`: of the task configs that the round was for.
    """

    connector: str
    count: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class AskOffsets:
    """Alter the offsets of a stopped connector, or (None) reset them. `expected`: tags of its config or its offsets."""

    connector: str
    offsets: Sequence[ConnectorOffset] | None = field(repr=False)
    expected: Collection[str] | None = None


Request = AskPut | AskRemove | AskStop | AskRestart | AskRestartByPlan | AskTasks | AskFence | AskTaskCount | AskOffsets
