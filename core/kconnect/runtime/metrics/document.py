"""Prints docs/metrics.md: `python -m kconnect.runtime.metrics.document > docs/metrics.md`."""

from __future__ import annotations

import sys
from itertools import groupby

from kconnect.runtime.metrics.catalogue import CATALOGUE, CLIENTS, COORDINATOR, NOT_COLLECTED, OWN, Kind, Metric

_HEAD = """\
# Metrics

`GET /metrics` on every listener of a worker answers with all of its metrics as text for Prometheus. Groups, names and
tags are those of Java's JMX metrics: `kafka.connect:type=source-task-metrics,connector=..,task=..` with the attribute
`source-record-poll-rate` is `kafka_connect_source_task_metrics_source_record_poll_rate{connector="..",task=".."}`.

```yaml
scrape_configs:
  - job_name: connect
    static_configs: [{targets: ["localhost:8083"]}]
```

- Tasks count in their slots; what has changed reaches the worker once a second.
- Rates, means and maxima go over the last minute. A mean of nothing is NaN, as in Java.
- Totals begin at 0 with each start of a task, also when its slot was lost or it has moved to another.
- A word such as a status is a line with the value 1 and the word as label `value`.
- Parts such as `..-percentage` and `..-ratio` go from 0 to 1, as in Java.
- A standalone worker has no group of workers, and so neither `connect-worker-rebalance-metrics` nor
  `connect-coordinator-metrics`, as in Java. There the tag of the latter is `client-id`.
- `connect-worker-kafka-metrics` is our own: whether Kafka answers. While it does not, what a worker of a cluster has
  had to give up counts as unassigned; the counters of these tasks end, as their tasks do.
- `producer-metrics`, `consumer-metrics` and `consumer-fetch-manager-metrics` are what the client of a task counts of
  itself, each 30 s; Java's have the tag `client-id`. A source with nothing to send has no producer: nothing new then.
- Metrics that plugins keep of themselves (KIP-877) are `kafka_connect_plugins_X`, with Java's tags: `connector`; for
  those of a task `connector` and `task`, and `transformation`, `predicate` or `converter`; for an interceptor
  `client_id`, `config` and `class`. A name gets `_` for what Prometheus does not allow.
- MBeans of Java's plugins that `kconnect.java.mbeans` chooses, Debezium's by default, have the names that the JMX
  exporter gives them with Debezium's rules, `debezium_metrics_X`, and the labels `connector` and `task`
  ([java-plugins.md](java-plugins.md)).
- Differs: means and maxima of times leave out polls and puts without records; an offset commit counts when there was
  something to commit. Java counts the first answer to a newcomer, which only gives it a member id, as a failed
  rebalance.

This page is made from the catalogue: `python -m kconnect.runtime.metrics.document > docs/metrics.md`.
"""


def metrics_document() -> str:
    parts = [_HEAD]
    for (group, tags), metrics in groupby(
        (*CATALOGUE, *COORDINATOR, *CLIENTS, *OWN), lambda metric: (metric.group, metric.tags)
    ):
        labels = ", ".join(f"`{tag}`" for tag in tags)
        parts.append(f"## {group}{' by ' + labels if labels else ''}\n")
        parts.append("| in Prometheus | unit | what it says |\n|---|---|---|")
        parts += [_row(metric) for metric in metrics]
        parts.append("")
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    reason = NOT_COLLECTED.get((metric.group, metric.name))
    text = f"{metric.text} Not shown: {reason}." if reason else metric.text
    unit = "text" if metric.kind is Kind.TEXT else metric.unit
    return f"| `{metric.prometheus}` | {unit} | {text} |"


if __name__ == "__main__":
    sys.stdout.write(metrics_document())
