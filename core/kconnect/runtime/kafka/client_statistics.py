"""What a client of librdkafka counts of itself: bytes, request latency and throttling, each 10 s."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
