"""What a worker measures: the catalogue of metrics as data, counters and their windows, and the text for Prometheus.

Imports only the ground rooms: pipeline counts with it, herder, spark and rest hand it on.
"""

from kconnect.metrics.sensors import Spread, TaskCounters, TaskMeter, TaskMeters

__all__ = ["Spread", "TaskCounters", "TaskMeter", "TaskMeters"]
