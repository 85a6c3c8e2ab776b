"""Every metric of a Connect worker as data: its group, name and description.

Names, groups and tags are those of Java, so that dashboards keep working; the descriptions are ours.
Source: ConnectMetricsRegistry, WorkerMetricsGroup (Kafka 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MBEANS: Final = "mbeans"
"""The group of what MBeans of Java's plugins show, which come with the names that Prometheus gets."""


class Kind(StrEnum):
    """How to read a value."""

    GAUGE = "gauge"
    COUNTER = "counter"
    TEXT = "text"
    """A word: Prometheus gets 1 with the word as label `value`."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue. `unit` is empty for plain counts and words."""

    group: str
    name: str
    tags: tuple[str, ...]
    kind: Kind
    unit: str
    text: str

    @property
    def prometheus(self) -> str:
        return prometheus_name(self.group, self.name)


def prometheus_name(group: str, name: str) -> str:
    """`kafka_connect_<group>_<metric>`; a group that begins with `connect-` does not say it twice.

    Those of MBEANS have their own.
    """
    if group == MBEANS:
        return name
    return f"kafka_{'' if group.startswith('connect-') else 'connect_'}{group}_{name}".replace("-", "_")


_G, _C, _T = Kind.GAUGE, Kind.COUNTER, Kind.TEXT
_TASK: Final = ("connector", "task")


def _group(group: str, tags: tuple[str, ...], *rows: tuple[str, Kind, str, str]) -> tuple[Metric, ...]:
    return tuple(Metric(group, name, tags, kind, unit, text) for name, kind, unit, text in rows)


CATALOGUE: Final[tuple[Metric, ...]] = (
    *_group(
        "connect-worker-metrics",
        (),
        ("connector-count", _G, "", "Connectors this worker runs."),
        ("task-count", _G, "", "Tasks this worker runs."),
        ("connector-startup-attempts-total", _C, "", "Starts of connectors that have ended, well or not."),
        ("connector-startup-success-total", _C, "", "Starts of connectors that went well."),
        ("connector-startup-success-percentage", _G, "ratio", "Part of the starts of connectors that went well."),
        ("connector-startup-failure-total", _C, "", "Starts of connectors that failed."),
        ("connector-startup-failure-percentage", _G, "ratio", "Part of the starts of connectors that failed."),
        ("task-startup-attempts-total", _C, "", "Starts of tasks that have ended, well or not."),
        ("task-startup-success-total", _C, "", "Starts of tasks that went well."),
        ("task-startup-success-percentage", _G, "ratio", "Part of the starts of tasks that went well."),
        ("task-startup-failure-total", _C, "", "Starts of tasks that failed."),
        ("task-startup-failure-percentage", _G, "ratio", "Part of the starts of tasks that failed."),
    ),
    *_group(
        "connect-worker-metrics",
        ("connector",),
        ("connector-total-task-count", _G, "", "Tasks of the connector."),
        ("connector-running-task-count", _G, "", "Tasks of the connector that are RUNNING."),
        ("connector-paused-task-count", _G, "", "Tasks of the connector that are PAUSED."),
        ("connector-failed-task-count", _G, "", "Tasks of the connector that are FAILED."),
        ("connector-unassigned-task-count", _G, "", "Tasks of the connector that wait for a slot."),
        ("connector-destroyed-task-count", _G, "", "Tasks of the connector that are being removed."),
        ("connector-restarting-task-count", _G, "", "Tasks of the connector that are RESTARTING."),
    ),
    *_group(
        "connector-metrics",
        ("connector",),
        ("connector-class", _T, "", "Class of the connector."),
        ("connector-type", _T, "", "source or sink."),
        ("connector-version", _T, "", "Version that the connector tells."),
        ("status", _T, "", "State of the connector, in small letters."),
    ),
    *_group(
        "connector-task-metrics",
        _TASK,
        ("status", _T, "", "State of the task, in small letters."),
        ("running-ratio", _G, "ratio", "Part of its life that the task was RUNNING."),
        ("pause-ratio", _G, "ratio", "Part of its life that the task was PAUSED."),
        ("batch-size-avg", _G, "records", "Records of a poll (source) or a put (sink), the mean of a minute."),
        ("batch-size-max", _G, "records", "The largest such batch of the last minute."),
        ("offset-commit-avg-time-ms", _G, "ms", "How long a commit of offsets takes, the mean of a minute."),
        ("offset-commit-max-time-ms", _G, "ms", "The longest commit of offsets in the last minute."),
        ("offset-commit-success-percentage", _G, "ratio", "Part of the commits of the last minute that went well."),
        ("offset-commit-failure-percentage", _G, "ratio", "Part of the commits of the last minute that failed."),
        ("connector-class", _T, "", "Class of the task's connector."),
        ("connector-type", _T, "", "source or sink."),
        ("connector-version", _T, "", "Version of the task's connector."),
        ("task-class", _T, "", "Class of the task."),
        ("task-version", _T, "", "Version that the task tells."),
        ("key-converter-class", _T, "", "Class of the converter of keys."),
        ("key-converter-version", _T, "", "Version of the converter of keys."),
        ("value-converter-class", _T, "", "Class of the converter of values."),
        ("value-converter-version", _T, "", "Version of the converter of values."),
        ("header-converter-class", _T, "", "Class of the converter of headers."),
        ("header-converter-version", _T, "", "Version of the converter of headers."),
    ),
    *_group(
        "connector-transform-metrics",
        (*_TASK, "transform"),
        ("transform-class", _T, "", "Class of a transformation of the task."),
        ("transform-version", _T, "", "Version of a transformation of the task."),
    ),
    *_group(
        "connector-predicate-metrics",
        (*_TASK, "predicate"),
        ("predicate-class", _T, "", "Class of a predicate of the task."),
        ("predicate-version", _T, "", "Version of a predicate of the task."),
    ),
    *_group(
        "source-task-metrics",
        _TASK,
        ("poll-batch-avg-time-ms", _G, "ms", "How long a poll that gave records took, the mean of a minute."),
        ("poll-batch-max-time-ms", _G, "ms", "The longest such poll of the last minute."),
        ("source-record-poll-rate", _G, "records/s", "Records polled each second, over a minute."),
        ("source-record-poll-total", _C, "records", "Records polled since the task began."),
        ("source-record-write-rate", _G, "records/s", "Records the broker acknowledged each second, over a minute."),
        ("source-record-write-total", _C, "records", "Records the broker acknowledged since the task began."),
        ("source-record-active-count", _G, "records", "Records polled and not acknowledged yet."),
        ("source-record-active-count-avg", _G, "records", "The mean of these over the last minute."),
        ("source-record-active-count-max", _G, "records", "The most of these in the last minute."),
        ("transaction-size-avg", _G, "records", "Records of an exactly-once transaction, the mean of a minute."),
        ("transaction-size-max", _G, "records", "Records of the largest transaction."),
        ("transaction-size-min", _G, "records", "Records of the smallest transaction."),
    ),
    *_group(
        "sink-task-metrics",
        _TASK,
        ("sink-record-read-rate", _G, "records/s", "Records read from Kafka each second, over a minute."),
        ("sink-record-read-total", _C, "records", "Records read from Kafka since the task began."),
        ("sink-record-send-rate", _G, "records/s", "Records the task took in put each second, over a minute."),
        ("sink-record-send-total", _C, "records", "Records the task took in put since it began."),
        ("sink-record-lag-max", _G, "records", "How far the task is behind the end of its partitions."),
        ("sink-record-active-count", _G, "records", "Records read and not committed yet."),
        ("sink-record-active-count-avg", _G, "records", "The mean of these over the last minute."),
        ("sink-record-active-count-max", _G, "records", "The most of these in the last minute."),
        ("partition-count", _G, "partitions", "Partitions the task holds."),
        ("offset-commit-seq-no", _G, "", "Number of the commit of offsets begun last."),
        ("offset-commit-completion-rate", _G, "1/s", "Commits of offsets that went well each second, over a minute."),
        ("offset-commit-completion-total", _C, "", "Commits of offsets that went well since the task began."),
        ("offset-commit-skip-rate", _G, "1/s", "Commits answered too late each second, over a minute."),
        ("offset-commit-skip-total", _C, "", "Commits answered after the next one had begun, since the task began."),
        ("put-batch-avg-time-ms", _G, "ms", "How long a put with records took, the mean of a minute."),
        ("put-batch-max-time-ms", _G, "ms", "The longest such put of the last minute."),
    ),
    *_group(
        "task-error-metrics",
        _TASK,
        ("total-record-failures", _C, "", "Attempts of a stage that failed, repeated ones too."),
        ("total-record-errors", _C, "records", "Records that failed for good."),
        ("total-records-skipped", _C, "records", "Records dropped as errors.tolerance=all says."),
        ("total-retries", _C, "", "Attempts made again."),
        ("total-errors-logged", _C, "", "Failures written to the log, as errors.log.enable says."),
        ("deadletterqueue-produce-requests", _C, "records", "Records handed to the dead letter queue."),
        ("deadletterqueue-produce-failures", _C, "records", "Records the dead letter queue refused."),
        ("last-error-timestamp", _G, "ms", "When a record failed last, in ms since 1970; 0 for never."),
    ),
    *_group(
        "connect-worker-rebalance-metrics",
        (),
        ("connect-protocol", _T, "", "Protocol of the group of workers: EAGER, COMPATIBLE or SESSIONED."),
        ("leader-name", _T, "", "URL of the worker that leads the group."),
        ("epoch", _G, "", "Generation of the group; -1 before the first."),
        ("completed-rebalances-total", _C, "", "Rebalances after which this worker has begun its work."),
        ("rebalancing", _G, "", "1 while this worker has an assignment whose work it has not begun."),
        ("rebalance-avg-time-ms", _G, "ms", "From an assignment until its work is begun, the mean of a minute."),
        ("rebalance-max-time-ms", _G, "ms", "The longest such time of the last minute."),
        ("time-since-last-rebalance-ms", _G, "ms", "Time since the work of the last rebalance began; +Inf for never."),
    ),
)

COORDINATOR: Final[tuple[Metric, ...]] = _group(
    "connect-coordinator-metrics",
    ("client_id",),
    ("assigned-connectors", _G, "", "Connectors the group has given this worker."),
    ("assigned-tasks", _G, "", "Tasks the group has given this worker."),
    ("heartbeat-rate", _G, "1/s", "Answered heartbeats each second, over a minute."),
    ("heartbeat-total", _C, "", "Answered heartbeats."),
    ("heartbeat-response-time-max", _G, "ms", "The longest time to the answer of a heartbeat in the last minute."),
    ("last-heartbeat-seconds-ago", _G, "s", "Time since the last heartbeat was sent; -1 for never."),
    ("join-rate", _G, "1/s", "Joins of the group each second, over a minute."),
    ("join-total", _C, "", "Joins of the group."),
    ("join-time-avg", _G, "ms", "How long a join takes until all have joined, the mean of a minute."),
    ("join-time-max", _G, "ms", "The longest join of the last minute."),
    ("sync-rate", _G, "1/s", "Assignments fetched each second, over a minute."),
    ("sync-total", _C, "", "Assignments fetched."),
    ("sync-time-avg", _G, "ms", "How long it takes to fetch an assignment, the mean of a minute."),
    ("sync-time-max", _G, "ms", "The longest such time of the last minute."),
    ("rebalance-total", _C, "", "Rebalances that gave this worker an assignment."),
    ("rebalance-rate-per-hour", _G, "1/h", "These rebalances, each hour, over a minute."),
    ("rebalance-latency-avg", _G, "ms", "From the wish to join to the assignment, retries included, the mean."),
    ("rebalance-latency-max", _G, "ms", "The longest such time of the last minute."),
    ("rebalance-latency-total", _C, "ms", "The sum of these times."),
    ("failed-rebalance-total", _C, "", "Attempts to join or to fetch an assignment that came to nothing."),
    ("failed-rebalance-rate-per-hour", _G, "1/h", "These attempts, each hour, over a minute."),
    ("last-rebalance-seconds-ago", _G, "s", "Time since the last rebalance gave an assignment; -1 for never."),
)
"""Metrics of the worker group by Java's clients: not in Connect's own list of metrics."""

_CLIENT: Final = (
    ("outgoing-byte-rate", _G, "B/s", "Bytes the task's {0} sent to brokers each second, over a minute."),
    ("outgoing-byte-total", _C, "B", "Bytes it sent since the task began."),
    ("incoming-byte-rate", _G, "B/s", "Bytes it received from brokers each second, over a minute."),
    ("incoming-byte-total", _C, "B", "Bytes it received since the task began."),
)


def _client(kind: str) -> tuple[tuple[str, Kind, str, str], ...]:
    return tuple((name, what, unit, text.format(kind)) for name, what, unit, text in _CLIENT)


CLIENTS: Final[tuple[Metric, ...]] = (
    *_group(
        "producer-metrics",
        _TASK,
        *_client("producer"),
        ("request-latency-avg", _G, "ms", "From a request to its answer, the mean of a minute."),
        ("request-latency-max", _G, "ms", "The longest such time of the last minute."),
        ("produce-throttle-time-avg", _G, "ms", "How long brokers asked it to wait (quotas), the mean of a minute."),
        ("produce-throttle-time-max", _G, "ms", "The longest such time of the last minute."),
    ),
    *_group("consumer-metrics", _TASK, *_client("consumer")),
    *_group(
        "consumer-fetch-manager-metrics",
        _TASK,
        ("records-lag-max", _G, "records", "Records to the end of the partition with the most, the most of a minute."),
        ("fetch-latency-avg", _G, "ms", "From a request to its answer, waits for records included, the mean."),
        ("fetch-latency-max", _G, "ms", "The longest such time of the last minute."),
        ("fetch-throttle-time-avg", _G, "ms", "How long brokers asked it to wait (quotas), the mean of a minute."),
        ("fetch-throttle-time-max", _G, "ms", "The longest such time of the last minute."),
    ),
)
"""What Java's clients measure of themselves, of a task's producer or consumer; there the tag is `client-id`."""

OWN: Final[tuple[Metric, ...]] = (
    *_group(
        "task-batch-metrics",
        _TASK,
        ("batches-total", _C, "", "Batches of a hundred records or more for which columns were tried."),
        ("batches-by-records-total", _C, "", "Those of them that a converter or transformation took one by one."),
    ),
    *_group(
        "connect-restart-metrics",
        (),
        (
            "automatic-restarts-total",
            _C,
            "",
            "FAILED connectors and tasks restarted by this worker, as the leader.",
        ),
        (
            "waiting",
            _G,
            "",
            "FAILED connectors and tasks that will be restarted; from the leader alone.",
        ),
        ("given-up", _G, "", "Those that have used up their restarts; from the leader alone."),
        ("not-restarted", _G, "", "Those that a restart does not help, or must not have; from the leader alone."),
    ),
    *_group(
        "connect-webhook-metrics",
        (),
        ("delivered-total", _C, "", "Webhook documents that their target has taken."),
        ("failed-attempts-total", _C, "", "Attempts that it did not answer, or refused."),
        ("dropped-total", _C, "", "Documents given up: refused, their attempts used up, or too many in the queue."),
        ("waiting", _G, "", "Documents in the queue."),
        ("failing", _G, "", "1 while the last attempt has failed."),
    ),
    *_group(
        "part-restart-metrics",
        _TASK,
        (
            "automatic-restarts",
            _G,
            "",
            "Automatic restarts that count against its budget; a connector has no task.",
        ),
        ("is-given-up", _G, "", "1 if it is FAILED and its restarts are used up."),
    ),
    *_group(
        "connect-worker-slot-metrics",
        (),
        ("slot-count", _G, "", "Slots that are up and that connectors share."),
        ("slot-count-min", _G, "", "The least of them that kconnect.slots allows."),
        ("slot-count-max", _G, "", "The most of them that kconnect.slots allows."),
    ),
    *_group(
        "connect-worker-kafka-metrics",
        (),
        ("available", _G, "", "1 while Kafka answers this worker, 0 while it does not."),
        ("last-answer-seconds-ago", _G, "s", "Time since a broker last answered this worker; +Inf for never."),
        ("outages-total", _C, "", "Outages of Kafka as this worker saw them, the present one included."),
        ("clients-replaced-total", _C, "", "Clients that had no answers although Kafka answers, and were replaced."),
    ),
    *_group(
        "connect-worker-rest-metrics",
        (),
        ("requests-denied-total", _C, "", "REST requests refused with 401 or 403, for want of a login or a role."),
        ("requests-limited-total", _C, "", "REST requests refused with 429, as their caller asked too often."),
        (
            "roles-current",
            _G,
            "",
            "1 while the file of roles holds, 0 while it is broken and older roles hold.",
        ),
        ("audit-lines-total", _C, "", "Lines written to the audit log."),
        ("audit-lines-lost-total", _C, "", "Lines of the audit log that are lost, as too many waited."),
        ("audit-written", _G, "", "0 while the audit log cannot be written, else 1."),
    ),
    *_group(
        "task-condition-metrics",
        (*_TASK, "condition"),
        ("condition", _G, "", "1 for the condition that the task is in, 0 for the others."),
    ),
    *_group(
        "task-condition-metrics",
        _TASK,
        ("condition-since-timestamp", _G, "ms", "Since when the task is in its condition, in ms since 1970."),
        ("condition-count", _G, "", "Failed attempts (retrying), failed commits (not committing), records (lagging)."),
    ),
    *_group(
        "connector-condition-metrics",
        ("connector", "condition"),
        ("condition", _G, "", "1 for the condition that a running connector is in, 0 for the other."),
    ),
    *_group(
        "connector-condition-metrics",
        ("connector",),
        ("condition-since-timestamp", _G, "ms", "Since when it gives no task configs, in ms since 1970."),
        ("condition-count", _G, "", "Failed attempts to obtain task configs since then."),
    ),
    *_group(
        "sink-topic-metrics",
        ("connector", "topic"),
        ("lag-records", _G, "", "Records between the sink's committed offsets and the ends of the topic's partitions."),
        ("lag-records-max", _G, "", "The same in the partition where they are the most."),
    ),
)
"""Metrics that Java lacks."""

NOT_COLLECTED: Final[dict[tuple[str, str], str]] = {
    ("sink-task-metrics", "sink-record-lag-max"): "Java names it in its catalogue and never measures it",
}
"""Rows that no worker of ours shows, by group and name, with the reason."""

BY_NAME: Final[dict[tuple[str, str], Metric]] = {
    (metric.group, metric.name): metric for metric in (*CATALOGUE, *COORDINATOR, *CLIENTS, *OWN)
}
