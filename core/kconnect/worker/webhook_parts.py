"""A worker's webhooks, if it has any: what they get from the herder, and what they show of themselves."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.client.outage import Outage
from kconnect.errors import NotFoundError
from kconnect.logs import redaction
from kconnect.runtime.config.webhook_keys import LAG_ABOVE
from kconnect.runtime.config.worker_config import KConnectSettings
from kconnect.runtime.herder.decisions.auto_restarts import Notice
from kconnect.runtime.herder.offsets.sink_lags import SinkLags
from kconnect.runtime.metrics import Reading
from kconnect.runtime.webhooks.documents import of_notice
from kconnect.runtime.webhooks.sender import WebhookSender, WebhookSettings
from kconnect.runtime.webhooks.watch import Sights, WebhookWatch

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
