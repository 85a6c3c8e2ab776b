"""Metrics of a worker's webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kconnect.runtime.metrics.catalogue import BY_NAME
from kconnect.runtime.metrics.readings import Reading


@dataclass(frozen=True, slots=True)
class WebhookView:
    """Deliveries so far."""

    delivered: int
    failed: int
    dropped: int
    waiting: int
    is_failing: bool


def webhook_readings(view: WebhookView) -> Iterator[Reading]:
    """All readings of it."""
    for name, value in (
        ("delivered-total", view.delivered),
        ("failed-attempts-total", view.failed),
        ("dropped-total", view.dropped),
        ("waiting", view.waiting),
        ("failing", int(view.is_failing)),
    ):
        yield Reading(BY_NAME["connect-webhook-metrics", name], (), value)
