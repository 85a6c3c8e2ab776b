"""What a worker measures: the catalogue of metrics as data, counters and their windows, and the text for Prometheus.

Imports only the ground rooms: pipeline counts with it, herder, spark and rest hand it on.
"""

from kconnect.metrics.catalogue import CATALOGUE, NOT_COLLECTED, Kind, Metric
from kconnect.metrics.prometheus import CONTENT_TYPE, prometheus_text
from kconnect.metrics.readings import PluginUse, Reading, WorkerView, readings_of
from kconnect.metrics.sensors import Spread, TaskCounters, TaskMeter, TaskMeters
from kconnect.metrics.startups import StartupCount, Startups

__all__ = [
    "CATALOGUE",
    "CONTENT_TYPE",
    "NOT_COLLECTED",
    "Kind",
    "Metric",
    "PluginUse",
    "Reading",
    "Spread",
    "StartupCount",
    "Startups",
    "TaskCounters",
    "TaskMeter",
    "TaskMeters",
    "WorkerView",
    "prometheus_text",
    "readings_of",
]
