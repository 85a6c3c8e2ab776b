"""The metrics that plugins add: kept in the process of the plugin, and read there as values (KIP-877)."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kconnect.api.plugin_metrics import MetricName, MetricValue, Stat
from kconnect.runtime.metrics.plugin_values import PluginValue
from kconnect.runtime.metrics.sensors import WINDOW_S

log = logging.getLogger(__name__)

# Of the window; the window's begin is exact to this.
_SLICE_S: Final = 5.0


class PluginMetricsRegistry:
    """The metrics of all plugins of one task, or of one connector. Threads: any."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards _metrics
        self._metrics: dict[MetricName, Callable[[], MetricValue]] = {}
        self._failing: set[MetricName] = set()

    def of_plugin(self, **tags: str) -> PluginMetricsGroup:
        """Where a plugin with these tags adds its metrics."""
        return PluginMetricsGroup(self, tuple(tags.items()), self._monotonic)

    def add(self, metric: MetricName, value: Callable[[], MetricValue]) -> None:
        with self._lock:
            if metric in self._metrics:
                raise ValueError(f"Metric {metric.name} with these tags already exists")
            self._metrics[metric] = value

    def remove(self, metric: MetricName) -> None:
        with self._lock:
            self._metrics.pop(metric, None)

    def values(self) -> tuple[PluginValue, ...]:
        """All current values. Calls the plugins' functions; one that raises is left out and logged once."""
        if not self._metrics:
            return ()
        with self._lock:
            metrics = list(self._metrics.items())
        return tuple(self._read(metrics))

    def _read(self, metrics: Iterable[tuple[MetricName, Callable[[], MetricValue]]]) -> Iterator[PluginValue]:
        for metric, read in metrics:
            try:
                value = _plain(read())
            except Exception as error:  # the plugin's
                if metric not in self._failing:
                    self._failing.add(metric)
                    log.warning("Metric %s of a plugin is not shown: %s: %s", metric.name, type(error).__name__, error)
            else:
                yield PluginValue(metric.name, metric.description, metric.tags, value, metric.group)


def _plain(value: MetricValue) -> MetricValue:
    """Without a type of its own, such as bool or numpy's. Errors: TypeError."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"its value is of type {type(value).__name__}, not a number or a text")


class PluginMetricsGroup:
    """Implements PluginMetrics for one plugin. Source: PluginMetricsImpl (Kafka 4.3)."""

    def __init__(
        self, registry: PluginMetricsRegistry, tags: tuple[tuple[str, str], ...], monotonic: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._tags = tags
        self._monotonic = monotonic
        self._own: set[MetricName] = set()
        self._sensors: dict[str, PluginSensor] = {}

    def metric_name(self, name: str, description: str, tags: Mapping[str, str] | None = None) -> MetricName:
        for tag in tags or {}:
            if tag in dict(self._tags):
                raise ValueError(f"Cannot use {tag} as a tag name: the plugin has it already")
        return MetricName(name, description, (*self._tags, *(tags or {}).items()))

    def add_metric(self, metric: MetricName, value: Callable[[], MetricValue]) -> None:
        self._registry.add(metric, value)
        self._own.add(metric)

    def remove_metric(self, metric: MetricName) -> None:
        if metric not in self._own:
            raise ValueError(f"Unknown metric {metric.name}")
        self._own.discard(metric)
        self._registry.remove(metric)

    def add_sensor(self, name: str) -> PluginSensor:
        if name in self._sensors:
            raise ValueError(f"Sensor {name} already exists")
        sensor = self._sensors[name] = PluginSensor(name, self._registry, self._monotonic)
        return sensor

    def remove_sensor(self, name: str) -> None:
        if name not in self._sensors:
            raise ValueError(f"Unknown sensor {name}")
        self._sensors.pop(name).remove()


@dataclass(slots=True)
class _Slice:
    """The values of some seconds."""

    began_s: float
    count: int = 0
    total: float = 0.0
    most: float = -math.inf
    least: float = math.inf

    def note(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.most, self.least = max(self.most, value), min(self.least, value)


class PluginSensor:
    """Implements Sensor: totals, and slices of the last minute. Threads: any."""

    def __init__(self, name: str, registry: PluginMetricsRegistry, monotonic: Callable[[], float]) -> None:
        self.name = name
        self._registry = registry
        self._monotonic = monotonic
        self._born_s = monotonic()
        self._lock = threading.Lock()  # guards the four below
        self._last = math.nan
        self._all = _Slice(self._born_s)
        self._slices: deque[_Slice] = deque()
        self._metrics: list[MetricName] = []

    def add(self, metric: MetricName, stat: Stat) -> None:
        self._registry.add(metric, lambda: self.value(stat))
        with self._lock:
            self._metrics.append(metric)

    def record(self, value: float = 1.0) -> None:
        now_s = self._monotonic()
        with self._lock:
            self._last = value
            self._all.note(value)
            if not self._slices or now_s - self._slices[-1].began_s >= _SLICE_S:
                self._slices.append(_Slice(now_s))
                self._drop_old(now_s)
            self._slices[-1].note(value)

    def value(self, stat: Stat) -> float:
        """The statistic as of now."""
        now_s = self._monotonic()
        with self._lock:
            self._drop_old(now_s)
            count, total = sum(each.count for each in self._slices), sum(each.total for each in self._slices)
            match stat:
                case Stat.VALUE:
                    return self._last
                case Stat.COUNT:
                    return self._all.count
                case Stat.TOTAL:
                    return self._all.total
                case Stat.AVG:
                    return total / count if count else math.nan
                case Stat.MAX:
                    return max((each.most for each in self._slices), default=math.nan)
                case Stat.MIN:
                    return min((each.least for each in self._slices), default=math.nan)
                case Stat.RATE:
                    passed_s = min(WINDOW_S, now_s - self._born_s)
                    return total / passed_s if passed_s > 0 else 0.0

    def remove(self) -> None:
        """Remove its metrics."""
        with self._lock:
            metrics, self._metrics = self._metrics, []
        for metric in metrics:
            self._registry.remove(metric)

    def _drop_old(self, now_s: float) -> None:
        while self._slices and self._slices[0].began_s <= now_s - WINDOW_S:
            self._slices.popleft()
