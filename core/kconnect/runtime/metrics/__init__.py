"""A worker's metrics: the catalogue as data, counters and their windows, and the text for Prometheus.

Imports only the lowest packages: pipeline counts with it; herder, spark and rest forward the results.
"""

from kconnect.runtime.metrics.catalogue import CATALOGUE, CLIENTS, COORDINATOR, NOT_COLLECTED, OWN, Kind, Metric
from kconnect.runtime.metrics.group import GroupMeter, GroupView, SettleMeter, group_readings
from kconnect.runtime.metrics.plugin_metrics import PluginMetricsRegistry
from kconnect.runtime.metrics.plugin_values import PluginValue
from kconnect.runtime.metrics.readings import (
    CONTENT_TYPE,
    KafkaView,
    PluginUse,
    Reading,
    SlotCount,
    WorkerView,
    kafka_readings,
    lag_readings,
    prometheus_text,
    readings_of,
)
from kconnect.runtime.metrics.sensors import Moves, Spread, TaskCounters, TaskMeter, TaskMeters
from kconnect.runtime.metrics.startups import StartupCount, Startups

__all__ = [
    "CATALOGUE",
    "CLIENTS",
    "CONTENT_TYPE",
    "COORDINATOR",
    "NOT_COLLECTED",
    "OWN",
    "GroupMeter",
    "GroupView",
    "KafkaView",
    "Kind",
    "Metric",
    "Moves",
    "PluginMetricsRegistry",
    "PluginUse",
    "PluginValue",
    "Reading",
    "SettleMeter",
    "SlotCount",
    "Spread",
    "StartupCount",
    "Startups",
    "TaskCounters",
    "TaskMeter",
    "TaskMeters",
    "WorkerView",
    "group_readings",
    "kafka_readings",
    "lag_readings",
    "prometheus_text",
    "readings_of",
]
