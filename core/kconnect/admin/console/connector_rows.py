"""The overview as values: one row for each connector, what is wrong first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kconnect.admin.cluster.activity import NO_ACTIVITY, Activity
from kconnect.client.outage import Outage, away_reason
from kconnect.clock import now_ms
from kconnect.model import ConnectorStatus
from kconnect.runtime.config.labels import Labels
from kconnect.runtime.health.views import ConnectorHealth, ConnectorView, connector_view, worst_first

# Points of a sparkline, and its height, in the units of its viewBox
_LINE_WIDTH, _LINE_HEIGHT = 60, 16


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """One line of the overview. `why`: what is wrong, in one line; empty when nothing is."""

    name: str
    type: str
    health: ConnectorHealth
    tasks: str
    """`4/4`: running of all."""
    why: str
    per_s: str
    line: str
    """Points of the sparkline; empty without any."""
    lag: str
    lag_at: str
    """When the brokers said so: they are asked now and then; empty where that is not known."""
    errors: str
    labels: tuple[tuple[str, str], ...] | None = ()
    """Key and value, by key; None if they cannot be read."""


def connector_rows(
    statuses: Mapping[str, ConnectorStatus],
    activities: Mapping[str, Activity],
    labels: Mapping[str, Labels | None],
    outage: Outage | None = None,
) -> tuple[ConnectorRow, ...]:
    """The worst first. `labels`: by connector; None where they cannot be read. `outage`: Kafka is away."""
    waits_for = "" if outage is None else away_reason(outage.problem)
    views = worst_first(
        connector_view(status, activities.get(name, NO_ACTIVITY).metrics) for name, status in statuses.items()
    )
    return tuple(_row(view, activities.get(view.name), labels.get(view.name, {}), waits_for) for view in views)


def _row(view: ConnectorView, activity: Activity | None, labels: Labels | None, waits_for: str) -> ConnectorRow:
    metrics = view.metrics
    return ConnectorRow(
        name=view.name,
        type=str(view.type),
        health=view.health,
        tasks=f"{view.running}/{len(view.tasks)}" if view.tasks else "0",
        why=view.why(now_ms(), lasted=False, waits_for=waits_for),
        per_s="" if metrics.rate is None else number_text(metrics.rate),
        line="" if activity is None else sparkline(activity.per_s),
        lag=number_text(metrics.lag) if metrics.lag else "",
        lag_at=_clock(activity.lag_at_ms) if activity is not None and metrics.lag else "",
        errors=number_text(metrics.errors) if metrics.errors else "",
        labels=None if labels is None else tuple(sorted(labels.items())),
    )


def _clock(at_ms: int | None) -> str:
    return "" if at_ms is None else f"As of {datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S} UTC"


def number_text(value: float) -> str:
    """Three digits at most, so that a table stays calm: 0, 0.4, 12, 3.4k, 2.1M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            scaled = value / size
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.1f}".rstrip("0").rstrip(".") + unit
    if value >= 10 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}"


def sparkline(values: Iterable[float]) -> str:
    """Points of an SVG polyline, each series as high as its own largest value; empty when all are zero.

    It begins where something first moved, and takes the whole width: what was before, perhaps no worker at all, would
    press the minutes of a new one into a corner.
    """
    found = list(values)
    top = max(found, default=0.0)
    if top <= 0 or len(found) < 2:
        return ""
    begin = max(0, next(place for place, value in enumerate(found) if value > 0) - 1)
    seen = found[begin:]
    step, room = _LINE_WIDTH / (len(seen) - 1), _LINE_HEIGHT - 2
    points = ((place * step, _LINE_HEIGHT - 1 - room * value / top) for place, value in enumerate(seen))
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
