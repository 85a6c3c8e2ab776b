"""Turns a worker's state into readings, each a metric of the catalogue, its labels and its value; and into text. Pure.

The text is that of Prometheus (exposition format 0.0.4), written by hand: the format is three kinds of lines, while the
client library needs its own registry of counters in this process; ours come from other processes and live as long as
their task.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kconnect.model import (
    AutoRestart,
    Condition,
    ConnectorStatus,
    ConnectorType,
    Restarts,
    RunState,
    SinkLag,
    TaskCondition,
    TaskId,
    TaskState,
)
from kconnect.runtime.metrics.catalogue import BY_NAME, MBEANS, Kind, Metric
from kconnect.runtime.metrics.plugin_values import PluginValue
from kconnect.runtime.metrics.sensors import TaskMeter
from kconnect.runtime.metrics.startups import StartupCount

# Prometheus has letters, digits and _ in names
_NOT_IN_NAMES: Final = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one metric; `value` is a text for words."""

    metric: Metric
    labels: tuple[str, ...]
    """The values of the metric's tags, in their order."""
    value: float | int | str


@dataclass(frozen=True, slots=True)
class PluginUse:
    """A plugin a task uses: `role` is connector, task, key-converter .. or transform, predicate with its `alias`."""

    role: str
    class_name: str
    version: str | None
    alias: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker's state at one moment."""

    now_s: float
    statuses: Sequence[ConnectorStatus]
    plugins: Mapping[str, Sequence[PluginUse]]
    """By connector."""
    meters: Mapping[TaskId, TaskMeter]
    conditions: Mapping[TaskId, TaskCondition] = field(default_factory=dict)
    """The conditions of tasks that fare worse than their meters know: each failure ends the meters."""
    connector_conditions: Mapping[str, TaskCondition] = field(default_factory=dict)
    """The conditions of connectors with which something is wrong."""
    guests: Sequence[ConnectorStatus] = ()
    """Connectors of other workers, each with those of its tasks that run here."""
    task_count: int | None = None
    """Tasks that run here, where those of `statuses` may run elsewhere."""
    connector_plugins: Sequence[PluginValue] = ()
    """The metrics that connectors here keep of themselves."""
    connector_starts: StartupCount = field(default_factory=StartupCount)
    task_starts: StartupCount = field(default_factory=StartupCount)
    slots: SlotCount | None = None
    """Is None before the first begins."""


@dataclass(frozen=True, slots=True)
class SlotCount:
    """How many slots connectors share: now, at least, at most. Java has nothing comparable."""

    now: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class KafkaView:
    """A worker's view of Kafka as a whole at one moment. Java has nothing comparable."""

    is_available: bool
    since_answer_s: float
    """Infinite before the first answer."""
    outages: int
    replaced_clients: int = 0


def readings_of(view: WorkerView) -> Iterator[Reading]:
    """All readings, those of one metric not side by side."""
    yield from _worker(view)
    for status in view.statuses:
        yield from _connector(status, view.plugins.get(status.name, ()))
        if status.connector.state == RunState.RUNNING:
            yield from _connector_condition(status.name, view.connector_conditions.get(status.name))
    for status in (*view.statuses, *view.guests):
        for task in status.tasks:
            labels = (status.name, str(task.id))
            yield from _task_state(labels, task, view.plugins.get(status.name, ()), status)
            meter = view.meters.get(TaskId(status.name, task.id))
            if meter is not None:
                yield from _task(labels, meter, view.now_s)
                if meter.condition is not None:
                    known = view.conditions.get(TaskId(status.name, task.id), meter.condition)
                    yield from _condition(labels, known)
                yield from _COUNTS[status.type](labels, meter, view.now_s)
                yield from _of_plugins(meter.latest.plugins)
    yield from _of_plugins(view.connector_plugins)


def kafka_readings(view: KafkaView) -> Iterator[Reading]:
    """Whether Kafka answers. Present from the worker's start: an alert needs a series that does not vanish."""
    group = "connect-worker-kafka-metrics"
    values: list[tuple[str, float | int]] = [
        ("available", int(view.is_available)),
        ("last-answer-seconds-ago", round(view.since_answer_s, 1)),
        ("outages-total", view.outages),
        ("clients-replaced-total", view.replaced_clients),
    ]
    yield from (_reading(group, name, (), value) for name, value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestView:
    """What a worker's REST server has refused and written down. Java has nothing comparable."""

    denied: int
    limited: int
    has_current_roles: bool
    audit_written: int
    audit_lost: int
    is_audit_written: bool


def rest_readings(view: RestView) -> Iterator[Reading]:
    """Present from the worker's start, too."""
    group = "connect-worker-rest-metrics"
    values: list[tuple[str, int]] = [
        ("requests-denied-total", view.denied),
        ("requests-limited-total", view.limited),
        ("roles-current", int(view.has_current_roles)),
        ("audit-lines-total", view.audit_written),
        ("audit-lines-lost-total", view.audit_lost),
        ("audit-written", int(view.is_audit_written)),
    ]
    yield from (_reading(group, name, (), value) for name, value in values)


def lag_readings(lags: Mapping[str, SinkLag]) -> Iterator[Reading]:
    """Lag of sinks by topic. A sink whose lag is not known has none."""
    group = "sink-topic-metrics"
    for name, lag in lags.items():
        for topic, total in lag.by_topic.items():
            most = max(item.lag for item in lag.partitions if item.topic == topic)
            yield _reading(group, "lag-records", (name, topic), total)
            yield _reading(group, "lag-records-max", (name, topic), most)


def _worker(view: WorkerView) -> Iterator[Reading]:
    group = "connect-worker-metrics"
    yield _reading(group, "connector-count", (), len(view.statuses))
    tasks = sum(len(status.tasks) for status in view.statuses)
    yield _reading(group, "task-count", (), tasks if view.task_count is None else view.task_count)
    for what, starts in (("connector", view.connector_starts), ("task", view.task_starts)):
        yield _reading(group, f"{what}-startup-attempts-total", (), starts.attempts)
        yield _reading(group, f"{what}-startup-success-total", (), starts.successes)
        yield _reading(group, f"{what}-startup-success-percentage", (), _part(starts.successes, starts.failures))
        yield _reading(group, f"{what}-startup-failure-total", (), starts.failures)
        yield _reading(group, f"{what}-startup-failure-percentage", (), _part(starts.failures, starts.successes))
    if view.slots is not None:
        yield _reading("connect-worker-slot-metrics", "slot-count", (), view.slots.now)
        yield _reading("connect-worker-slot-metrics", "slot-count-min", (), view.slots.least)
        yield _reading("connect-worker-slot-metrics", "slot-count-max", (), view.slots.most)


_TASK_STATES: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")


def _connector(status: ConnectorStatus, plugins: Sequence[PluginUse]) -> Iterator[Reading]:
    labels = (status.name,)
    states = [task.state.lower() for task in status.tasks]
    group = "connect-worker-metrics"
    yield _reading(group, "connector-total-task-count", labels, len(states))
    for state in _TASK_STATES:
        yield _reading(group, f"connector-{state}-task-count", labels, states.count(state))
    yield _reading("connector-metrics", "status", labels, status.connector.state.lower())
    yield _reading("connector-metrics", "connector-type", labels, str(status.type))
    for plugin in plugins:
        if plugin.role == "connector":
            yield from _plugin("connector-metrics", labels, plugin)


def _task_state(
    labels: tuple[str, ...], task: TaskState, plugins: Sequence[PluginUse], status: ConnectorStatus
) -> Iterator[Reading]:
    group = "connector-task-metrics"
    yield _reading(group, "status", labels, task.state.lower())
    yield _reading(group, "connector-type", labels, str(status.type))
    for plugin in plugins:
        if plugin.alias:
            yield from _plugin(f"connector-{plugin.role}-metrics", (*labels, plugin.alias), plugin)
        else:
            yield from _plugin(group, labels, plugin)


def _plugin(group: str, labels: tuple[str, ...], plugin: PluginUse) -> Iterator[Reading]:
    yield _reading(group, f"{plugin.role}-class", labels, plugin.class_name)
    yield _reading(group, f"{plugin.role}-version", labels, plugin.version or "unknown")


def _task(labels: tuple[str, ...], meter: TaskMeter, now_s: float) -> Iterator[Reading]:
    """Readings common to sources and sinks."""
    group, counters = "connector-task-metrics", meter.latest
    yield _reading(group, "running-ratio", labels, meter.share(now_s, RunState.RUNNING))
    yield _reading(group, "pause-ratio", labels, meter.share(now_s, RunState.PAUSED))
    yield from _spread(group, "batch-size-avg", "batch-size-max", labels, meter, now_s, "batch_size")
    names = ("offset-commit-avg-time-ms", "offset-commit-max-time-ms")
    yield from _spread(group, *names, labels, meter, now_s, "commit_ms")
    good, bad = (meter.rate(now_s, counter) for counter in ("commits", "commit_failures"))
    yield _reading(group, "offset-commit-success-percentage", labels, _part(good, bad))
    yield _reading(group, "offset-commit-failure-percentage", labels, _part(bad, good))
    if counters.batches:
        yield _reading("task-batch-metrics", "batches-total", labels, counters.batches)
        yield _reading("task-batch-metrics", "batches-by-records-total", labels, counters.batches_by_records)
    for name, counter in _ERRORS.items():
        value: int = getattr(counters, counter)
        yield _reading("task-error-metrics", name, labels, value)


_OF_CONNECTORS: Final = (Condition.NO_TASK_CONFIGS, Condition.HEALTHY)
_OF_TASKS: Final = tuple(condition for condition in Condition if condition is not Condition.NO_TASK_CONFIGS)


def _connector_condition(name: str, found: TaskCondition | None) -> Iterator[Reading]:
    group = "connector-condition-metrics"
    for condition in _OF_CONNECTORS:
        is_in_it = condition is (Condition.HEALTHY if found is None else found.condition)
        yield _reading(group, "condition", (name, str(condition)), int(is_in_it))
    if found is not None:
        yield _reading(group, "condition-since-timestamp", (name,), found.since_ms)
    yield _reading(group, "condition-count", (name,), 0 if found is None else found.count)


def _condition(labels: tuple[str, ...], found: TaskCondition) -> Iterator[Reading]:
    group = "task-condition-metrics"
    for condition in _OF_TASKS:
        yield _reading(group, "condition", (*labels, str(condition)), int(condition is found.condition))
    yield _reading(group, "condition-since-timestamp", labels, found.since_ms)
    yield _reading(group, "condition-count", labels, found.count)


_ERRORS: Final = {
    "total-record-failures": "failures",
    "total-record-errors": "errors",
    "total-records-skipped": "skipped",
    "total-retries": "retries",
    "total-errors-logged": "errors_logged",
    "deadletterqueue-produce-requests": "dead_letters",
    "deadletterqueue-produce-failures": "dead_letter_failures",
    "last-error-timestamp": "last_error_ms",
}


def _source(labels: tuple[str, ...], meter: TaskMeter, now_s: float) -> Iterator[Reading]:
    group = "source-task-metrics"
    yield from _spread(group, "poll-batch-avg-time-ms", "poll-batch-max-time-ms", labels, meter, now_s, "poll_ms")
    yield from _counter(group, "source-record-poll", labels, meter, now_s, "records_polled")
    yield from _counter(group, "source-record-write", labels, meter, now_s, "records_written")
    yield from _active(group, "source-record-active-count", labels, meter, now_s)
    yield from _client("producer-metrics", labels, meter, now_s)
    names = ("request-latency-avg", "request-latency-max")
    yield from _spread("producer-metrics", *names, labels, meter, now_s, "request_ms")
    names = ("produce-throttle-time-avg", "produce-throttle-time-max")
    yield from _spread("producer-metrics", *names, labels, meter, now_s, "throttle_ms")
    if meter.latest.transaction_size.count:  # others do not write in transactions
        names = ("transaction-size-avg", "transaction-size-max")
        yield from _spread(group, *names, labels, meter, now_s, "transaction_size")
        least = meter.smallest_transaction(now_s)
        yield _reading(group, "transaction-size-min", labels, float("nan") if least is None else least)


def _sink(labels: tuple[str, ...], meter: TaskMeter, now_s: float) -> Iterator[Reading]:
    group = "sink-task-metrics"
    yield from _counter(group, "sink-record-read", labels, meter, now_s, "records_read")
    yield from _counter(group, "sink-record-send", labels, meter, now_s, "records_put")
    yield from _active(group, "sink-record-active-count", labels, meter, now_s)
    yield _reading(group, "partition-count", labels, meter.latest.partitions)
    yield _reading(group, "offset-commit-seq-no", labels, meter.latest.offset_seq)
    yield from _counter(group, "offset-commit-completion", labels, meter, now_s, "commits")
    yield from _counter(group, "offset-commit-skip", labels, meter, now_s, "commits_skipped")
    yield from _spread(group, "put-batch-avg-time-ms", "put-batch-max-time-ms", labels, meter, now_s, "put_ms")
    yield from _client("consumer-metrics", labels, meter, now_s)
    group = "consumer-fetch-manager-metrics"
    yield _reading(group, "records-lag-max", labels, meter.most_lag(now_s))
    yield from _spread(group, "fetch-latency-avg", "fetch-latency-max", labels, meter, now_s, "request_ms")
    names = ("fetch-throttle-time-avg", "fetch-throttle-time-max")
    yield from _spread(group, *names, labels, meter, now_s, "throttle_ms")


def _of_plugins(values: Iterable[PluginValue]) -> Iterator[Reading]:
    """Metrics of the group `plugins`, with Java's tags, and of MBeans. Source: ConnectMetrics, PluginMetricsImpl."""
    for value in values:
        tags = tuple(_NOT_IN_NAMES.sub("_", tag) for tag, _ in value.tags)
        name = value.name if value.group == MBEANS else _NOT_IN_NAMES.sub("_", value.name)
        metric = Metric(value.group, name, tags, Kind.GAUGE, "", value.description)
        yield Reading(metric, tuple(text for _, text in value.tags), value.value)


def _client(group: str, labels: tuple[str, ...], meter: TaskMeter, now_s: float) -> Iterator[Reading]:
    yield from _counter(group, "outgoing-byte", labels, meter, now_s, "bytes_sent")
    yield from _counter(group, "incoming-byte", labels, meter, now_s, "bytes_received")


def _neither(labels: tuple[str, ...], meter: TaskMeter, now_s: float) -> Iterator[Reading]:
    """The class cannot be found any more, so the type of its tasks is unknown."""
    yield from ()


_COUNTS: Final = {ConnectorType.SOURCE: _source, ConnectorType.SINK: _sink, ConnectorType.UNKNOWN: _neither}


def _counter(
    group: str, stem: str, labels: tuple[str, ...], meter: TaskMeter, now_s: float, counter: str
) -> Iterator[Reading]:
    total: int = getattr(meter.latest, counter)
    yield _reading(group, f"{stem}-rate", labels, meter.rate(now_s, counter))
    yield _reading(group, f"{stem}-total", labels, total)


def _active(group: str, stem: str, labels: tuple[str, ...], meter: TaskMeter, now_s: float) -> Iterator[Reading]:
    yield _reading(group, stem, labels, meter.latest.records_active)
    yield _reading(group, f"{stem}-avg", labels, meter.mean_active(now_s))
    yield _reading(group, f"{stem}-max", labels, meter.most_active(now_s))


def _spread(
    group: str, average: str, most: str, labels: tuple[str, ...], meter: TaskMeter, now_s: float, spread: str
) -> Iterator[Reading]:
    for name, value in ((average, meter.average(now_s, spread)), (most, meter.most(now_s, spread))):
        yield _reading(group, name, labels, float("nan") if value is None else value)


def _part(of: float, rest: float) -> float:
    return of / (of + rest) if of + rest else 0.0


def _reading(group: str, name: str, labels: tuple[str, ...], value: float | int | str) -> Reading:
    return Reading(BY_NAME[group, name], labels, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartsView:
    """The automatic restarts of a cluster at one moment."""

    total: int
    waiting: int
    given_up: int
    not_restarted: int
    parts: Mapping[tuple[str, str], Restarts]
    """By connector and number of the task; empty for the connector itself."""


def restart_readings(view: RestartsView) -> Iterator[Reading]:
    """All readings of it. Parts without a restart and without a failure have none."""
    worker, part = "connect-restart-metrics", "part-restart-metrics"
    for name, value in (
        ("automatic-restarts-total", view.total),
        ("waiting", view.waiting),
        ("given-up", view.given_up),
        ("not-restarted", view.not_restarted),
    ):
        yield Reading(BY_NAME[worker, name], (), value)
    for labels, restarts in view.parts.items():
        yield Reading(BY_NAME[part, "automatic-restarts"], labels, restarts.count)
        yield Reading(BY_NAME[part, "is-given-up"], labels, int(restarts.state is AutoRestart.GIVEN_UP))


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


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_text(readings: Iterable[Reading]) -> str:
    """All readings, by name; those of one name together, as the format requires."""
    by_name: dict[str, tuple[Metric, list[str]]] = {}
    # Names and labels are made once: a worker of 5,000 tasks has 300,000 readings
    names: dict[tuple[str, str], str] = {}
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
    for reading in readings:
        metric, labels = reading.metric, reading.labels
        name = names.get((metric.group, metric.name))
        if name is None:
            name = names[metric.group, metric.name] = metric.prometheus
            by_name.setdefault(name, (metric, []))
        text = known.get((metric.tags, labels))
        if text is None:
            text = known[metric.tags, labels] = _labels(zip(metric.tags, labels, strict=True))
        by_name[name][1].append(_line(name, text, reading.value))
    blocks = []
    for name in sorted(by_name):
        metric, lines = by_name[name]
        kind = "counter" if metric.kind is Kind.COUNTER else "gauge"
        blocks += [f"# HELP {name} {_escaped(metric.text, quotes=False)}", f"# TYPE {name} {kind}", *sorted(lines)]
    return "\n".join(blocks) + "\n" if blocks else ""


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)


def _line(name: str, labels: str, value: float | int | str) -> str:
    if isinstance(value, str):
        word = _labels((("value", value),))
        return f"{name}{{{labels},{word}}} 1" if labels else f"{name}{{{word}}} 1"
    return f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}"


def _number(value: float | int) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return repr(value)


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
