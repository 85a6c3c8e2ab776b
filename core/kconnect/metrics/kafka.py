"""What a worker measures of Kafka as a whole: whether it answers. Java has nothing like it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kconnect.metrics.catalogue import BY_NAME
from kconnect.metrics.readings import Reading

__all__ = ["KafkaView", "kafka_readings"]

_GROUP = "connect-worker-kafka-metrics"


@dataclass(frozen=True, slots=True)
class KafkaView:
    """What is known at one moment."""

    is_available: bool
    since_answer_s: float
    """Infinite before the first answer."""
    outages: int


def kafka_readings(view: KafkaView) -> Iterator[Reading]:
    """The readings, there from the start of a worker on: an alert needs a series that does not vanish."""
    values: list[tuple[str, float | int]] = [
        ("available", int(view.is_available)),
        ("last-answer-seconds-ago", round(view.since_answer_s, 1)),
        ("outages-total", view.outages),
    ]
    yield from (Reading(BY_NAME[_GROUP, name], (), value) for name, value in values)
