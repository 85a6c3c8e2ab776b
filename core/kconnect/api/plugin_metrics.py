"""Metrics that plugins keep of themselves (KIP-877); the worker shows them in `GET /metrics`, in the group `plugins`.

A connector and a task get a PluginMetrics from their context; other plugins implement Monitorable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from kconnect.api.configdef import ConfigDef

MetricValue: TypeAlias = float | int | str
"""A number, or a word."""


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric's name with its tags, those of the plugin first. Source: o.a.k.common.MetricName."""

    name: str
    description: str
    tags: tuple[tuple[str, str], ...]
    group: str = "plugins"
    """Is the same as in Java, where all metrics that plugins add have this one."""


class Stat(StrEnum):
    """What a sensor makes of the values that it records. Source: the classes of o.a.k.common.metrics.stats."""

    VALUE = "value"
    """The last one."""
    COUNT = "count"
    """How many since the plugin began (CumulativeCount)."""
    TOTAL = "total"
    """Their sum since the plugin began (CumulativeSum)."""
    AVG = "avg"
    """The mean of the last minute; NaN for none."""
    MAX = "max"
    """The largest of the last minute; NaN for none."""
    MIN = "min"
    """The smallest of the last minute; NaN for none."""
    RATE = "rate"
    """Their sum each second, over the last minute."""


class Sensor(Protocol):
    """Records values, from which its metrics are computed. Threads: any. Source: o.a.k.common.metrics.Sensor."""

    @property
    def name(self) -> str: ...

    def add(self, metric: MetricName, stat: Stat) -> None:
        """Show a statistic of the values. Errors: ValueError if there is such a metric already."""
        ...

    def record(self, value: float = 1.0) -> None:
        """Note a value. Costs about a microsecond: call it once for each batch rather than for each record."""
        ...


class PluginMetrics(Protocol):
    """Adds metrics of one plugin; they end with it. Threads: any. Source: o.a.k.common.metrics.PluginMetrics (KIP-877).

    Errors: ValueError for a metric or sensor that is there already, or for removing one that is not.
    """

    def metric_name(self, name: str, description: str, tags: Mapping[str, str] | None = None) -> MetricName:
        """A name with the tags of the plugin and then these, which must be others."""
        ...

    def add_metric(self, metric: MetricName, value: Callable[[], MetricValue]) -> None:
        """Show what `value` returns. It is called about once a second on another thread: be quick, do not block.

        When it raises, the metric is not shown for that time.
        """
        ...

    def remove_metric(self, metric: MetricName) -> None: ...

    def add_sensor(self, name: str) -> Sensor: ...

    def remove_sensor(self, name: str) -> None:
        """Remove the sensor and its metrics."""
        ...


class Monitorable(ABC):
    """A converter, transformation, predicate or interceptor that keeps metrics. Source: Monitorable (KIP-877)."""

    @abstractmethod
    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        """Keep `metrics` and add to it. Called once, after configure() and before the plugin is used."""


@runtime_checkable
class ConnectPlugin(Protocol):
    """What all plugins of Connect have in common: a version and settings. Source: ConnectPlugin (KIP-1273)."""

    def version(self) -> str: ...

    def config(self) -> ConfigDef: ...
