"""A leader whose tasks fail, and what it decides then."""

from __future__ import annotations

from kconnect.model import (
    RunState,
    TaskId,
    TaskState,
)
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.decisions.events import StatusesRead
from kconnect.runtime.herder.decisions.failures import Failure
from kconnect.runtime.herder.decisions.instructions import Instruction, Write
from kconnect.runtime.herder.decisions.writes import PutRestart
from kconnect.runtime.storage.config_topic import (
    RestartRequested,
)
from kit.herder_state import Member

__all__ = ["FAILED_TASK", "GONE", "KEYS", "LONG_MS", "SETTINGS", "T0", "fail", "leader", "restarts", "stands"]

T0 = TaskId("c", 0)
FAILED_TASK = TaskState(0, RunState.FAILED, "w:1", "the shop has burnt down")
SETTINGS = RestartSettings(max_restarts=2, backoff_ms=1_000, window_ms=600_000)
GONE = Failure("w:1", "the shop has burnt down")
KEYS = {"errors.restart.max": "2", "errors.restart.backoff.ms": "1000", "errors.restart.window.ms": "600000"}
LONG_MS = 1_300
"""After the first back-off, with its spread."""


def leader(tasks: int = 1, **config: str) -> Member:
    member = Member()
    member.connector("c", tasks, **{**KEYS, **{key.replace("_", "."): value for key, value in config.items()}})
    return member.settled(["c"], [TaskId("c", number) for number in range(tasks)])


def fail(member: Member, failure: Failure = GONE, *tasks: TaskId) -> list[Instruction]:
    return member.step(StatusesRead(tuple((task, failure) for task in tasks or (T0,))))


def stands(member: Member, state: RunState, task: TaskId = T0) -> list[Instruction]:
    return member.step(StatusesRead((), ((task, state),)))


def restarts(reported: list[Instruction]) -> list[RestartRequested]:
    return [each.write.request for each in reported if isinstance(each, Write) and isinstance(each.write, PutRestart)]
