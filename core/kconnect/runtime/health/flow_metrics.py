"""What tasks move, in numbers: of one, of several together, of a connector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kconnect.model import BatchShare


@dataclass(frozen=True, slots=True)
class FlowMetrics:
    """What a task, or all tasks of a connector, move; None where nobody says."""

    rate: float | None = None
    """Records per second, over the ten seconds of `runtime.metrics.sensors.RECENT_S`."""
    records: int | None = None
    """Records since the start of the task."""
    errors: int | None = None
    lag: int | None = None
    """Counts, for a sink, records behind the ends of its topics. It is known of whole connectors only."""
    forms: BatchShare | None = None
    """How its batches went; of single tasks alone."""


NO_METRICS = FlowMetrics()


def summed(metrics: Sequence[FlowMetrics]) -> FlowMetrics:
    """Sums up several; a metric that none of them has stays unknown."""
    return FlowMetrics(
        _sum([each.rate for each in metrics]),
        _sum([each.records for each in metrics]),
        _sum([each.errors for each in metrics]),
        _sum([each.lag for each in metrics]),
    )


def _sum(values: Sequence[Any]) -> Any:  # ints stay ints, floats floats
    known = [value for value in values if value is not None]
    return sum(known) if known else None
