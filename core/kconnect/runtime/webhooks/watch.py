"""Looks for what nobody announces: rebalances that this worker led, sinks that are behind, outages of Kafka."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kconnect.client.outage import Outage
from kconnect.runtime.herder.health.watch_thread import WatchThread
from kconnect.runtime.webhooks.documents import Document, of_lag, of_outage, of_rebalance

if TYPE_CHECKING:
    from kconnect.runtime.herder.decisions.rebalances import Rebalance

log = logging.getLogger(__name__)

# A look reads memory; a message to people may be a second late
_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sights:
    """What is looked at. Each answers at once."""

    is_leader: Callable[[], bool]
    rebalances: Callable[[], Sequence[Rebalance]]
    """In order, the newest last."""
    outage: Callable[[], Outage | None]
    lags: Callable[[], Mapping[str, int]]
    """How far sinks are behind the end of a partition, at most, as far as it is known."""
    bound: Callable[[str], int | None]
    """How far a connector may be behind."""


@dataclass(slots=True)
class EventFinder:
    """Compares each look with the one before. Threads: one."""

    sights: Sights
    _has_looked: bool = False
    _newest: tuple[int, int] | None = None
    _led: bool = False
    _outage: Outage | None = None
    _lagging: set[str] = field(default_factory=set)

    def look(self) -> list[Document]:
        """What is new. The first look only remembers: what happened before the start is no news."""
        return [*self._rebalanced(), *self._out(), *self._late()]

    def _rebalanced(self) -> list[Document]:
        """Known by their ends too: a group that began again counts its generations from 1, beside those of before."""
        seen = list(self.sights.rebalances())
        marks = [(each.generation, each.ended_ms) for each in seen]
        is_first, newest = not self._has_looked, self._newest
        self._has_looked, self._newest = True, marks[-1] if marks else newest
        if is_first:
            return []
        reported = max((number for number, mark in enumerate(marks, 1) if mark == newest), default=0)
        return [of_rebalance(each) for each in seen[reported:] if each.is_leader]

    def _out(self) -> list[Document]:
        """From the worker that led when it began: the others see it too."""
        outage, before = self.sights.outage(), self._outage
        self._outage = outage
        if outage is None and before is None:
            self._led = self.sights.is_leader()
        if not self._led or (outage is None) == (before is None):
            return []
        found = outage or before
        return [] if found is None else [of_outage(found, is_over=outage is None)]

    def _late(self) -> list[Document]:
        """From the leader alone, whose worker looks at the sinks of all. A new leader reports what it finds behind."""
        if not self.sights.is_leader():
            self._lagging.clear()
            return []
        found, lags = [], self.sights.lags()
        for name in sorted({*lags, *self._lagging}):
            bound, lag = self.sights.bound(name), lags.get(name)
            if bound is None:  # it is gone, or may be behind now
                self._lagging.discard(name)
            elif lag is None:  # not known at the moment
                continue
            elif lag > bound and name not in self._lagging:
                self._lagging.add(name)
                found.append(of_lag(name, lag, bound, is_over=False))
            elif lag <= bound // 2 and name in self._lagging:  # half of it, so that it does not go to and fro
                self._lagging.discard(name)
                found.append(of_lag(name, lag, bound, is_over=True))
        return found


class WebhookWatch:
    """States: new -> start() -> stop()."""

    def __init__(self, sights: Sights, send: Callable[[Document], None]) -> None:
        self._finder = EventFinder(sights)
        self._send = send
        self._thread = WatchThread("webhook-watch", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Idempotent."""
        self._thread.stop(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        while True:
            try:
                for document in self._finder.look():
                    self._send(document)
            except Exception:  # thread top; a worker does not end for want of a message
                log.exception("Events for webhooks could not be looked for")
            if stop.wait(_EVERY_S):
                return
