"""What a client of librdkafka counts of itself, each 10 s: bytes, request latency and throttling; and `Throttles`, who
is being held back by quotas at this moment.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kconnect.clock import Clock, SystemClock

log = logging.getLogger(__name__)

# That of the history's samples, so that each has a report: with one in three the bytes of 30 s stood in one of them.
# Measured with 60 idle consumers: a report takes 0.33 ms of processor time, so 0.003 % of a core each where an idle
# consumer takes 0.037 %.
_INTERVAL_MS = 10_000


@dataclass(frozen=True, slots=True)
class Window:
    """Sums up some values of the last interval: how many, their sum, the largest."""

    count: int
    total: float
    most: float


@dataclass(frozen=True, slots=True)
class ClientUsage:
    """What a client has done since its last report."""

    bytes_sent: int
    """To brokers, as they went over the wire."""
    bytes_received: int
    request_ms: Window
    """From a request to its answer; of a consumer also the time that a fetch waits for records."""
    throttle_ms: Window
    """How long brokers asked the client to wait, quotas being exceeded."""


Throttled: TypeAlias = Callable[[str, float], None]
"""Takes the id of a client and how long its next request waits for a quota (s); zero: no longer."""

# What is shorter, nobody notices
_LEAST_THROTTLE_S: Final = 0.1
# Until an answer comes to the request that had to wait
_ANSWERED_S: Final = 5.0


class Throttles:
    """Whom the brokers hold back, as quotas are exceeded: for the clients by which a worker does its own work.

    Differs: Java's worker says nothing of it; its requests just take longer. Threads: any.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards all below
        self._held: dict[str, tuple[float, float]] = {}  # client id -> until when, and how long a request waits

    def note(self, client_id: str, wait_s: float) -> None:
        """Implements Throttled. An answer without a wait says nothing of the next one: what was said ends by itself."""
        if wait_s < _LEAST_THROTTLE_S:
            return
        now_s = self._clock.monotonic()
        with self._lock:
            is_known = client_id in self._held and self._held[client_id][0] > now_s
            self._held[client_id] = (now_s + wait_s + _ANSWERED_S, wait_s)
        if not is_known:
            log.warning("A quota of the brokers holds client %s back: its next request waits %.1f s", client_id, wait_s)

    def notices(self) -> list[str]:
        """For `/health`: a sentence while anybody is held back."""
        now_s = self._clock.monotonic()
        with self._lock:
            held = {client: wait_s for client, (until_s, wait_s) in self._held.items() if until_s > now_s}
        if not held:
            return []
        clients = ", ".join(f"{client} ({wait_s:.1f} s)" for client, wait_s in sorted(held.items()))
        return [
            "Quotas of the brokers delay each request of this worker's own clients, and so every change: "
            f"{clients}. kafka-configs --describe with --entity-type clients or users shows the quotas"
        ]


class ClientStatistics:
    """Turns a client's reports into what came since the last. Threads: whichever serves the client, one at a time."""

    def __init__(self, note: Callable[[ClientUsage], None]) -> None:
        self._note = note
        self._sent = 0
        self._received = 0

    def settings(self) -> dict[str, Any]:
        """The client settings that make it report here."""
        return {"statistics.interval.ms": _INTERVAL_MS, "stats_cb": self.take}

    def take(self, text: str) -> None:
        """Called by the client with its report. Never raises: that would come out of a poll or a fetch."""
        try:
            report = json.loads(text)
            sent, received = int(report["tx_bytes"]), int(report["rx_bytes"])
            brokers = list(report["brokers"].values())
            request_ms, throttle_ms = _window(brokers, "rtt", 1000), _window(brokers, "throttle", 1)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.debug("A client's statistics cannot be read: %r", error)
            return
        usage = ClientUsage(sent - self._sent, received - self._received, request_ms, throttle_ms)
        self._sent, self._received = sent, received
        self._note(usage)


def _window(brokers: list[Mapping[str, Any]], name: str, per_ms: int) -> Window:
    """All brokers' values together; `per_ms`: how many of their units a millisecond has."""
    found = [broker[name] for broker in brokers if broker[name]["cnt"]]
    return Window(
        sum(each["cnt"] for each in found),
        sum(each["sum"] for each in found) / per_ms,
        max((each["max"] for each in found), default=0) / per_ms,
    )
