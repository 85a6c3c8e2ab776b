"""What an operation needs of its caller: every route declares one of these, and a server without does not start."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final


class Role(IntEnum):
    """What a caller may do; each includes the ones before it."""

    READER = 1
    """See connectors: configs, statuses, offsets."""
    OPERATOR = 2
    """Pause, resume, stop, restart."""
    EDITOR = 3
    """Create, change and delete connectors, and their offsets."""
    ADMIN = 4
    """Everything of the worker too: loggers, the herder's trace."""

    def __str__(self) -> str:
        return self.name.lower()


class Of(Enum):
    """What the role must be for."""

    CONNECTOR = "the connector in the path"
    NAMED = "the connector in the body"
    ANY = "at least one connector"
    WORKER = "the worker"
    PEERS = "the workers of the cluster"


@dataclass(frozen=True, slots=True)
class Needs:
    """A role, and what for. `role` None: none is needed."""

    role: Role | None
    of: Of

    def __str__(self) -> str:
        if self.of is Of.PEERS:
            return "the signature of another worker"
        return "no role" if self.role is None else f"{self.role} of {self.of.value}"


NOTHING: Final = Needs(None, Of.WORKER)
"""Every authenticated user: no answer differs by the caller."""
SEES_SOME: Final = Needs(Role.READER, Of.ANY)
"""A reader of any connector; the handler leaves out what the caller may not see."""
READS: Final = Needs(Role.READER, Of.CONNECTOR)
OPERATES: Final = Needs(Role.OPERATOR, Of.CONNECTOR)
EDITS: Final = Needs(Role.EDITOR, Of.CONNECTOR)
CREATES: Final = Needs(Role.EDITOR, Of.NAMED)
"""An editor of the connector that the body names; the handler asks, once it has read it."""
ADMINISTERS: Final = Needs(Role.ADMIN, Of.WORKER)
FROM_PEERS: Final = Needs(None, Of.PEERS)
"""Another worker of the cluster; the handler checks its signature."""
