"""What a Java plugin reports of itself, shown among the metrics of its task or connector: KIP-877's, and its MBeans."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from kconnect.api import MetricName, PluginMetrics
from kconnect.java.compat.mbean_names import exported_name

METRICS: Final = "metrics"
MBEANS: Final = "mbeans"
"""Events of a session, and the groups of what they bring."""


class JavaMetrics:
    """Adds to PluginMetrics what Java tells, and takes away what it tells no more.

    Threads: any. What is reported after `close` is too late.
    """

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()  # guards the two below
        self._values: dict[str, dict[MetricName, Any]] = {METRICS: {}, MBEANS: {}}
        self._is_closed = False

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of the plugin."""
        return dict(self._metrics.metric_name("", "").tags)

    def reported(self, what: str, rows: Iterable[Any]) -> None:
        """All that the plugin has of METRICS (name, description, tags, value each), or of MBEANS (BeanReader.java).

        Any other event is nothing to us.
        """
        if what == METRICS:
            now = {_name(*row[:3]): _value(row[3]) for row in rows}
        elif what == MBEANS:
            now = self._of_mbeans(rows)
        else:
            return
        with self._lock:
            if not self._is_closed:
                self._show(what, now)

    def close(self) -> None:
        """Take away all of them."""
        with self._lock:
            self._is_closed = True
            for what in self._values:
                self._show(what, {})

    def _of_mbeans(self, rows: Iterable[Any]) -> dict[MetricName, Any]:
        """A label that has one of the plugin's names keeps its value under exported_.., as Prometheus does it."""
        own, found = self.tags, dict[tuple[str, tuple[tuple[str, str], ...]], tuple[str, Any]]()
        for domain, properties, path, attribute, text, value in rows:
            name, labels = exported_name(domain, properties, path, attribute)
            more = [(f"exported_{key}" if key in own else key, label) for key, label in labels if own.get(key) != label]
            found.setdefault((name, (*own.items(), *more)), (text, _value(value)))
        return {MetricName(name, text, tags, MBEANS): value for (name, tags), (text, value) in found.items()}

    def _show(self, what: str, now: Mapping[MetricName, Any]) -> None:
        values = self._values[what]
        gone, new = values.keys() - now.keys(), now.keys() - values.keys()
        values.update(now)
        for metric in gone:
            self._metrics.remove_metric(metric)
            del values[metric]
        for metric in new:
            self._metrics.add_metric(metric, partial(values.__getitem__, metric))


def _name(name: str, description: str, tags: Iterable[Iterable[str]]) -> MetricName:
    return MetricName(name, description, tuple((tag, text) for tag, text in tags))


def _value(reported: Any) -> Any:
    """JSON has no NaN."""
    return float(reported["float"]) if isinstance(reported, Mapping) else reported
