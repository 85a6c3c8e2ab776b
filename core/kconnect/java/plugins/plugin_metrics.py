"""The metrics that a Java plugin keeps of itself (KIP-877), shown among those of its task or connector."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kconnect.api import MetricName, PluginMetrics


class JavaMetrics:
    """Adds to PluginMetrics what Java tells, and takes away what it tells no more.

    Threads: any. What is told after `close` is too late.
    """

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()  # guards the two below
        self._values: dict[MetricName, Any] = {}
        self._is_closed = False

    @property
    def tags(self) -> Mapping[str, str]:
        """Those of the plugin."""
        return dict(self._metrics.metric_name("", "").tags)

    def told(self, rows: Iterable[Any]) -> None:
        """All metrics of the plugin: name, description, tags, value each."""
        now = {_name(*row[:3]): _value(row[3]) for row in rows}
        with self._lock:
            if not self._is_closed:
                self._show(now)

    def close(self) -> None:
        """Take away all of them."""
        with self._lock:
            self._is_closed = True
            self._show({})

    def _show(self, now: Mapping[MetricName, Any]) -> None:
        gone, new = self._values.keys() - now.keys(), now.keys() - self._values.keys()
        self._values.update(now)
        for metric in gone:
            self._metrics.remove_metric(metric)
            del self._values[metric]
        for metric in new:
            self._metrics.add_metric(metric, partial(self._values.__getitem__, metric))


def _name(name: str, description: str, tags: Iterable[Iterable[str]]) -> MetricName:
    return MetricName(name, description, tuple((tag, text) for tag, text in tags))


def _value(told: Any) -> Any:
    """JSON has no NaN."""
    return float(told["float"]) if isinstance(told, Mapping) else told
