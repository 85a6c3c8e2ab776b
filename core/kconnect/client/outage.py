"""Outage: Kafka does not answer a worker: since when, at which address and why, as text and as JSON for a header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kconnect.errors import ConnectError
from kconnect.logs.wording import length_text

OUTAGE_HEADER: Final = "x-kconnect-kafka-away"
"""On every REST response of a worker while Kafka is away: the outage as JSON. Java workers have no such header."""

NO_ANSWER: Final = "Kafka gave no answer within"
"""What a worker says of a request whose time is over while it waits for Kafka."""
_AWAY: Final = "Kafka is away"
NOTHING_CHANGED: Final = "Nothing was changed"
"""What a worker says of a change that it did not begin, and will not."""
UNKNOWN_END: Final = "it is not known whether this was done, and it may still be done"
"""What is said of a change that was begun, or sent, and whose end nobody has reported."""


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage at the time of reading."""

    since_ms: int
    """When Kafka answered last, in ms since 1970; for a worker that starts, when it asked first."""
    lasted_s: float
    """By the worker's clock: clocks of other machines may differ."""
    servers: str
    """The worker's `bootstrap.servers`."""
    problem: str
    """Why the last attempt failed, with the address."""
    attempts: int

    @property
    def since(self) -> str:
        """ISO time in UTC, to the second: it is known no better than to one heartbeat interval."""
        return datetime.fromtimestamp(self.since_ms // 1000, UTC).isoformat().replace("+00:00", "Z")

    def sentence(self) -> str:
        """For logs and `/health`, which adds how long. A single broker is named once."""
        name = f"the broker at {self.servers}"
        why = self.problem.removeprefix(f"{name}: ").replace(name, "the broker")
        return f"{_AWAY}: no broker of bootstrap.servers={self.servers} has answered since {self.since} ({why})"

    def is_in(self, sentence: str) -> bool:
        """Whether an error says it already."""
        return _AWAY in sentence

    def banner(self) -> str:
        """For screens that show states: in the reader's time zone, with a note that the states may be stale."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).astimezone()
        return (
            f"Kafka has been away since {since:%H:%M:%S} ({length_text(self.lasted_s)}): {self.problem}. "
            "States are the last known."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "since_ms": self.since_ms,
            "lasted_s": round(self.lasted_s, 1),
            "servers": self.servers,
            "problem": self.problem,
            "attempts": self.attempts,
        }

    def to_header(self) -> str:
        """JSON in ASCII, as headers require."""
        return json.dumps(self.to_json())

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> Outage | None:
        """The outage in a response's headers (lower-case names), None if there is none.

        Errors: ConnectError if the header is malformed.
        """
        text = headers.get(OUTAGE_HEADER)
        if text is None:
            return None
        try:
            kept = json.loads(text)
            return cls(
                int(kept["since_ms"]),
                float(kept["lasted_s"]),
                str(kept["servers"]),
                str(kept["problem"]),
                int(kept["attempts"]),
            )
        except (ValueError, KeyError, TypeError) as err:
            raise ConnectError(f"The header {OUTAGE_HEADER} is not readable: {text}") from err


def away_reason(problem: str) -> str:
    """Why what is UNASSIGNED does not run while Kafka is away. `problem`: that of the outage."""
    return f"{_AWAY}: {problem}"
