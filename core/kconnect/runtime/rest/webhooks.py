"""`GET /admin/webhooks`: whether this worker's webhooks are delivered. Differs: Java has none."""

from __future__ import annotations

from typing import Final

from kconnect.runtime.rest.access.needs import SEES_SOME
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint
from kconnect.runtime.rest.operation import Operation, Schema, array_of, boolean, integer, object_of, text

_TIME: Final[Schema] = {"type": ["integer", "null"]}
_WEBHOOK: Final[Schema] = object_of(
    {
        "target": text,
        "events": array_of(text),
        "is_signed": boolean,
        **dict.fromkeys(("waiting", "delivered", "failed_attempts", "dropped"), integer),
        "last_delivered_ms": _TIME,
        "failing_since_ms": _TIME,
        "problem": {"type": ["string", "null"]},
    },
    required=("target", "events", "waiting", "delivered", "failed_attempts", "dropped"),
)


def show_webhooks(call: Call) -> Answer:
    """Counters, and what is wrong; of a URL only scheme, host and port."""
    return Answer([dict(each) for each in call.herder.webhooks()])


ENDPOINTS = (
    Endpoint(
        "/admin/webhooks",
        {
            "GET": Operation(
                show_webhooks,
                "Whether the webhooks of this worker are delivered",
                {200: array_of(_WEBHOOK)},
                needs=SEES_SOME,
            )
        },
        deadline_s=10,
        awaits_start=False,
    ),
)
