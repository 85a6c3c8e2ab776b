"""A leader's writes to the config topic, as values, and the purpose of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.model import TargetState
from kconnect.runtime.storage.config_topic import RestartRequested

StringMap = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PutConfig:
    """Create or change a connector."""

    connector: str
    config: StringMap = field(repr=False)
    target_state: TargetState | None = None


@dataclass(frozen=True, slots=True)
class RemoveConfig:
    """Delete a connector."""

    connector: str


@dataclass(frozen=True, slots=True)
class PutTasks:
    """Give a connector this set of tasks."""

    connector: str
    configs: Sequence[StringMap] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PutTaskCount:
    """Record that the former tasks of a connector are fenced off, and how many it has now (KIP-618).

    Not written when its task configs are of another generation by then: the record would follow the newer ones,
    and say of them that their former tasks are fenced off.
    """

    connector: str
    count: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class PutStopped:
    """Remove a connector's tasks, then set its target state to STOPPED: in this order, as Java does (KIP-875)."""

    connector: str


@dataclass(frozen=True, slots=True)
class PutRestart:
    """Have every worker restart its part of a connector (KIP-745)."""

    request: RestartRequested


@dataclass(frozen=True, slots=True)
class NewSessionKey:
    """Make and spread a key of this age."""

    created_ms: int


ConfigWrite = PutConfig | RemoveConfig | PutTasks | PutTaskCount | PutStopped | PutRestart | NewSessionKey


@dataclass(frozen=True, slots=True)
class ForRequest:
    """For a request, which gets `answer` once it is written."""

    id: int
    answer: bool | str = False


@dataclass(frozen=True, slots=True)
class ForTasks:
    """A connector here gave other task configs."""

    connector: str


@dataclass(frozen=True, slots=True)
class ForKey:
    """The session key is missing or old."""


@dataclass(frozen=True, slots=True)
class ForAutoRestart:
    """Parts of a connector are FAILED, and their restart is due."""

    connector: str


WriteFor = ForRequest | ForTasks | ForKey | ForAutoRestart
