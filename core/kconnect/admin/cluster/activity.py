"""What connectors and their tasks move, as their workers tell it: one rate for every screen, over the same ten seconds.

Any worker of ours answers for all of the cluster (`GET /admin/history?cluster=true`), as far as they answer it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kconnect.errors import NotFoundError
from kconnect.model import BatchShare, ConnectorStatus, ConnectorType, TaskId
from kconnect.runtime.health.flow_metrics import NO_METRICS, FlowMetrics, summed

if TYPE_CHECKING:
    from kconnect.client import ConnectClient


@dataclass(frozen=True, slots=True)
class Activity:
    """What a connector does."""

    metrics: FlowMetrics = NO_METRICS
    """Holds the metrics of all its tasks; `errors` are those of the last hour."""
    tasks: Mapping[int, FlowMetrics] = field(default_factory=dict)
    """By task; `errors` since it started."""
    per_s: tuple[float, ...] = ()
    """Records a second over the last hour, a value a minute, the oldest first."""
    restarts: int = 0
    """Within the last hour."""
    lag_at_ms: int | None = None
    """When the brokers were asked for the lag, by a worker or by this program, since the epoch; None: not known."""


NO_ACTIVITY = Activity()


def activities(client: ConnectClient, *, cluster: bool = True) -> dict[str, Activity] | None:
    """By connector; of the worker that is asked alone without `cluster`.

    None of Java's workers, and where only admin listeners tell it. Errors: ConnectError.
    """
    try:
        return activities_of(client.history(cluster=cluster))
    except NotFoundError:
        return None


def activities_of(body: Mapping[str, Any]) -> dict[str, Activity]:
    """Gives the activities of an answer to `GET /admin/history` without a connector."""
    return {name: _activity(line) for name, line in body["connectors"].items()}


def together(workers: Iterable[Mapping[str, Activity]]) -> dict[str, Activity]:
    """Activity that several workers report, by connector; without the last hour's line."""
    parts: dict[str, list[Activity]] = {}
    for each in workers:
        for name, activity in each.items():
            parts.setdefault(name, []).append(activity)
    return {name: _joined(found) for name, found in parts.items()}


def _joined(parts: Sequence[Activity]) -> Activity:
    # Each looks at its own time, and of a connector that moved two know it for a while
    newest = max(parts, key=lambda each: (each.metrics.lag is not None, each.lag_at_ms or 0, each.metrics.lag or 0))
    metrics = replace(summed([each.metrics for each in parts]), lag=newest.metrics.lag)
    tasks = {task: found for each in parts for task, found in each.tasks.items()}
    return Activity(metrics, tasks, (), sum(each.restarts for each in parts), newest.lag_at_ms)


def with_lags(reported: Mapping[str, Activity], lags: Mapping[str, Activity]) -> dict[str, Activity]:
    """Gives what workers tell, with the lags that none of them does."""
    found = dict(reported)
    for name, each in lags.items():
        known = found.get(name, NO_ACTIVITY)
        if known.metrics.lag is None and each.metrics.lag is not None:
            metrics = replace(known.metrics, lag=each.metrics.lag)
            found[name] = replace(known, metrics=metrics, lag_at_ms=each.lag_at_ms)
    return found


def sinks_without_lag(statuses: Mapping[str, ConnectorStatus], reported: Mapping[str, Activity]) -> list[str]:
    """Names the sinks whose lag nobody tells."""
    return [
        name
        for name, status in statuses.items()
        if status.type is ConnectorType.SINK and reported.get(name, NO_ACTIVITY).metrics.lag is None
    ]


def task_metrics(found: Mapping[str, Activity]) -> dict[TaskId, FlowMetrics]:
    """Gives the metrics of all tasks of all connectors."""
    return {TaskId(name, task): metrics for name, each in found.items() for task, metrics in each.tasks.items()}


def _activity(line: Mapping[str, Any]) -> Activity:
    tasks = {
        int(task["task"]): FlowMetrics(
            float(task["records_per_s"]),
            int(task["records"]),
            int(task["errors"]),
            forms=BatchShare.from_json(task["forms"]) if task.get("forms") else None,
        )
        for task in line.get("tasks", ())
    }
    records = sum(metrics.records or 0 for metrics in tasks.values()) if tasks else None
    lag = None if line["lag"] is None else int(line["lag"])
    whole = FlowMetrics(float(line["now_per_s"]), records, int(line["errors"]), lag)
    restarts, at_ms = int(line["restarts"]), line.get("lag_at_ms")
    return Activity(whole, tasks, tuple(line["records_per_s"]), restarts, at_ms)
