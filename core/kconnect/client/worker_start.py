"""What a worker waits for while it starts, as all who ask a cluster know it: `Spark is starting (3 s).`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kconnect.errors import NotFoundError

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


def start_of(client: ConnectClient) -> WorkerStart | None:
    """What a worker says of its start; None once that is over, and of workers before Kafka 3.9, which cannot say it.

    Errors: ConnectError.
    """
    try:
        body = client.health()
    except NotFoundError:
        return None
    if body.get("status") != "starting":
        return None
    return WorkerStart(str(body.get("message", "")), body.get("answers_requests", True) is not False)
