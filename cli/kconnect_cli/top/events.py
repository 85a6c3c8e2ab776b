"""What happens to the screen (events), and what it asks of the program around it (requests). Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from kconnect_cli.top.facts import StatusLook, WorkerLook


class Part(StrEnum):
    """What there is to see of one connector, in the order of its keys."""

    TASKS = "Tasks"
    TRACE = "Trace"
    CONFIG = "Config"
    OFFSETS = "Offsets"
    LOG = "Log"


FETCHED = frozenset({Part.CONFIG, Part.OFFSETS, Part.LOG})
"""Parts that are asked for when they are looked at; the others are in every look."""

LIVE = frozenset({Part.OFFSETS, Part.LOG})
"""The parts that are asked for again with every look."""


class Verb(StrEnum):
    """What may be done to a connector."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RESTART_TASK = "restart task"
    RESTART_FAILED = "restart failed"
    RESTART_CONNECTOR = "restart connector"
    RESTART_ALL = "restart all"


@dataclass(frozen=True, slots=True)
class Action:
    """One change that a key asks for."""

    verb: Verb
    connector: str
    task: int | None = None

    def words(self) -> str:
        """`Restart what has FAILED of orders`: the question without its mark."""
        match self.verb:
            case Verb.RESTART_TASK:
                return f"Restart task {self.task} of {self.connector}"
            case Verb.RESTART_FAILED:
                return f"Restart what has FAILED of {self.connector}"
            case Verb.RESTART_CONNECTOR:
                return f"Restart {self.connector} without its tasks"
            case Verb.RESTART_ALL:
                return f"Restart {self.connector} and all its tasks"
            case _:
                return f"{self.verb.capitalize()} {self.connector}"


# Events


@dataclass(frozen=True, slots=True)
class Key:
    """A key was pressed: its name as Textual has it (`up`, `enter`), and the character if it is one."""

    name: str
    character: str | None = None


@dataclass(frozen=True, slots=True)
class Resized:
    columns: int
    lines: int


@dataclass(frozen=True, slots=True)
class Ticked:
    """A second has passed: ages grow."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A part of a connector, as lines of text; or why there is none."""

    connector: str
    part: Part
    lines: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change is ready to be made: what will be written, and what to know before."""

    action: Action
    lines: Sequence[str] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A change was made."""

    action: Action
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """A change cannot be made, or failed."""

    action: Action
    sentence: str
    hint: str = ""


Event: TypeAlias = Key | Resized | Ticked | Fetched | Prepared | Made | Refused | StatusLook | WorkerLook


# Requests


@dataclass(frozen=True, slots=True)
class Fetch:
    connector: str
    part: Part


@dataclass(frozen=True, slots=True)
class Prepare:
    action: Action


@dataclass(frozen=True, slots=True)
class Make:
    """Make what was prepared last for this action."""

    action: Action


@dataclass(frozen=True, slots=True)
class LookNow:
    """Look at the cluster again, without waiting for the next time."""


@dataclass(frozen=True, slots=True)
class Quit:
    pass


Request: TypeAlias = Fetch | Prepare | Make | LookNow | Quit
