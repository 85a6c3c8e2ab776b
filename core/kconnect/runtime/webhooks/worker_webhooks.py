"""A worker's webhooks, if it has any: what they get from the herder, and what they show of themselves.

WebhookWatch looks for what nobody announces: rebalances that this worker led, sinks that are behind, outages of Kafka.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.client.outage import Outage
from kconnect.errors import NotFoundError
from kconnect.logs import redaction
from kconnect.runtime.config.webhook_keys import LAG_ABOVE
from kconnect.runtime.config.worker_config import KConnectSettings
from kconnect.runtime.herder.decisions.auto_restarts import Notice
from kconnect.runtime.herder.health.watch_thread import WatchThread
from kconnect.runtime.herder.offsets.sink_lags import SinkLags
from kconnect.runtime.metrics import Reading
from kconnect.runtime.webhooks.documents import Document, of_lag, of_notice, of_outage, of_rebalance
from kconnect.runtime.webhooks.sender import WebhookSender, WebhookSettings

if TYPE_CHECKING:
    from kconnect.runtime.herder.decisions.rebalances import Rebalance

log = logging.getLogger(__name__)

# A round trip to a target that answers; what it does not take in this time is dropped
_STOP_S = 2.0


class WatchedHerder(Protocol):
    """What webhooks look at."""

    @property
    def worker_id(self) -> str: ...
    def rebalances(self) -> Sequence[Rebalance]: ...
    def outage(self) -> Outage | None: ...
    def connector_config(self, name: str) -> Mapping[str, str]: ...


class WorkerWebhooks:
    """States: new -> start() -> stop(). Without a URL it does nothing. Threads: any; nothing blocks but stop."""

    def __init__(self, settings: KConnectSettings, group_id: str | None) -> None:
        """Errors: ConfigError for a URL that is none."""
        self._settings = WebhookSettings.of_worker(settings)
        self._herder: WatchedHerder | None = None
        self._group_id = group_id
        self._sender: WebhookSender | None = None
        self._watch: WebhookWatch | None = None
        if self._settings is not None:
            redaction.remember("webhook", {self._settings.url, *filter(None, [self._settings.secret])})
            self._sender = WebhookSender(self._settings, self._identity)

    def start(self, herder: WatchedHerder, lags: SinkLags) -> None:
        """From now on events are found and sent."""
        self._herder = herder
        if self._sender is None:
            return
        self._watch = WebhookWatch(
            Sights(
                is_leader=lambda: bool(getattr(herder, "is_leader", True)),  # a standalone worker is its own
                rebalances=herder.rebalances,
                outage=herder.outage,
                lags=lags.most,
                bound=self._bound_of,
            ),
            self._sender.send,
        )
        self._sender.start()
        self._watch.start()
        log.info("Events are posted to %s", self._sender.shown_url)

    def stop(self) -> None:
        """Idempotent."""
        if self._watch is not None:
            self._watch.stop(_STOP_S)
        if self._sender is not None:
            self._sender.stop(_STOP_S)
        redaction.forget("webhook")

    def has_lag_bound(self, config: Mapping[str, str]) -> bool:
        """Whether an event is posted when a sink of this config falls far behind."""
        return self._bound(config) is not None

    def announce(self, notice: Notice) -> None:
        """A herder's notice."""
        if self._sender is not None:
            self._sender.send(of_notice(notice))

    def documents(self) -> list[dict[str, Any]]:
        """How each fares."""
        return [] if self._sender is None else [self._sender.document()]

    def readings(self) -> list[Reading]:
        """For `/metrics`; none without a URL."""
        return [] if self._sender is None else self._sender.readings()

    def _identity(self) -> tuple[str, str | None]:
        return ("" if self._herder is None else self._herder.worker_id), self._group_id

    def _bound_of(self, connector: str) -> int | None:
        if self._herder is None:
            return None
        try:
            return self._bound(self._herder.connector_config(connector))
        except NotFoundError:
            return None

    def _bound(self, config: Mapping[str, str]) -> int | None:
        """A connector's own, else the worker's; an invalid value counts as none."""
        if self._settings is None or "lag" not in self._settings.events:
            return None
        own = config.get(LAG_ABOVE, "").strip()
        return int(own) if own.isdigit() and int(own) > 0 else self._settings.lag_above


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
