"""Settings of the worker's webhooks."""

from __future__ import annotations

from typing import Any, Final

from kconnect.api.config_key import Importance
from kconnect.api.configdef import ConfigDef
from kconnect.runtime.config.former_names import FORMER_EVENTS
from kconnect.runtime.config.key_table import Rows

EVENTS: Final = ("failed", "recovered", "given-up", "rebalance", "lag", "outage")
_T, _LOW, _MEDIUM = ConfigDef.Type, Importance.LOW, Importance.MEDIUM
_AT_LEAST_1: Final = ConfigDef.Range.at_least(1)


class _Events:
    """Accepts any selection of the events, by their former names too."""

    _named: Final = ConfigDef.ValidList.in_(*EVENTS)

    def ensure_valid(self, name: str, value: Any) -> None:
        self._named.ensure_valid(name, value and [FORMER_EVENTS.get(event, event) for event in value])

    def __str__(self) -> str:
        return str(self._named)


def _check_lag(name: str, value: Any) -> None:
    if value is not None:
        _AT_LEAST_1.ensure_valid(name, value)


OF_WORKER: Final[Rows] = (
    (
        "kconnect.webhook.url",
        _T.PASSWORD,
        None,
        None,
        _MEDIUM,
        "URL that gets a JSON document for each event; none if it is not set. It is never shown, as its path is often "
        "a secret.",
    ),
    (
        "kconnect.webhook.secret",
        _T.PASSWORD,
        None,
        None,
        _MEDIUM,
        "Signs each document: the header X-Kconnect-Signature has its HMAC-SHA256.",
    ),
    (
        "kconnect.webhook.events",
        _T.LIST,
        list(EVENTS),
        _Events(),
        _MEDIUM,
        "Which events are posted.",
    ),
    (
        "kconnect.webhook.connect.timeout.ms",
        _T.LONG,
        2_000,
        _AT_LEAST_1,
        _LOW,
        "How long a connection to the URL may take.",
    ),
    (
        "kconnect.webhook.timeout.ms",
        _T.LONG,
        5_000,
        _AT_LEAST_1,
        _LOW,
        "How long its answer may take.",
    ),
    (
        "kconnect.webhook.retries",
        _T.INT,
        5,
        ConfigDef.Range.at_least(0),
        _LOW,
        "How often a document is sent again that was not taken, after 1 s, 2 s, 4 s .. up to a minute; then it is "
        "dropped.",
    ),
    (
        "kconnect.webhook.queue.size",
        _T.INT,
        1_000,
        _AT_LEAST_1,
        _LOW,
        "How many documents may wait; beyond that, new ones are dropped, and counted.",
    ),
    (
        "kconnect.webhook.lag.above",
        _T.LONG,
        None,
        ConfigDef.LambdaValidator(_check_lag, "[1,...]"),
        _MEDIUM,
        "How many records behind the end of a partition a sink must be for the event lag; never if it is not set. A "
        "connector may have its own.",
    ),
)
LAG_ABOVE: Final = "kconnect.webhook.lag.above"
