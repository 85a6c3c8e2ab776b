"""What a leader may write to the config topic, as values, and what each write is made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kconnect.model import TargetState
from kconnect.storage.config_topic import RestartRequested

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
class PutStopped:
    """Leave a connector without tasks, and wish it STOPPED: in this order, as Java does (KIP-875)."""

    connector: str


@dataclass(frozen=True, slots=True)
class PutRestart:
    """Have every worker restart its part of a connector (KIP-745)."""

    request: RestartRequested


@dataclass(frozen=True, slots=True)
class NewSessionKey:
    """Make and spread a key of this age."""

    created_ms: int


ConfigWrite = PutConfig | RemoveConfig | PutTasks | PutStopped | PutRestart | NewSessionKey


@dataclass(frozen=True, slots=True)
class ForRequest:
    """Somebody asked; `answer` is what they get when it is written."""

    id: int
    answer: bool = False


@dataclass(frozen=True, slots=True)
class ForTasks:
    """A connector here gave other task configs."""

    connector: str


@dataclass(frozen=True, slots=True)
class ForKey:
    """The session key is missing or old."""


WriteFor = ForRequest | ForTasks | ForKey
