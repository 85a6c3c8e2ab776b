"""What a worker says of its own health: what its start waits for, as `Spark is starting (3 s).`, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kconnect.errors import NotFoundError, TimedOutError

if TYPE_CHECKING:
    from kconnect.client.connect_client import ConnectClient

_JAVAS_WORDS: Final = "Worker is still starting up."


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """The start of a worker that is not over."""

    message: str
    """What it says of it; Java's workers say no more than that it starts."""
    answers_requests: bool = True
    """Whether it takes requests already, as one whose Spark is starting."""

    @property
    def text(self) -> str:
        """`starting: Spark is starting (3 s).`"""
        waits_for = self.message.removeprefix(_JAVAS_WORDS).strip()
        return f"starting: {waits_for}" if waits_for else "starting"


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """What `/health` says; nothing of workers before Kafka 3.9, which do not have it."""

    start: WorkerStart | None = None
    """Is None once the start is over."""
    problem: str | None = None
    """A sentence, if the worker is unhealthy or does not answer this."""
    notices: tuple[str, ...] = ()
    """What it has to say though it is healthy, without a full stop; Java's workers say nothing."""


def health_of(client: ConnectClient) -> WorkerHealth:
    """A worker of Java's whose Kafka does not answer has no answer here, and answers what it has in memory.

    Errors: ConnectError.
    """
    try:
        body = client.health()
    except NotFoundError:
        return WorkerHealth()
    except TimedOutError as err:
        return WorkerHealth(problem=f"{err}. {err.hint}" if err.hint else str(err))
    message = str(body.get("message", ""))
    if body.get("status") == "starting":
        return WorkerHealth(WorkerStart(message, body.get("answers_requests", True) is not False))
    if body.get("status") == "healthy":
        return WorkerHealth(notices=tuple(str(each) for each in body.get("notices") or ()))
    return WorkerHealth(problem=f"{client.url} says that it is unhealthy: {message}".rstrip(": "))


def start_of(client: ConnectClient) -> WorkerStart | None:
    """What a worker says of its start; None once that is over, and where it does not say. Errors: as `health_of`."""
    return health_of(client).start
