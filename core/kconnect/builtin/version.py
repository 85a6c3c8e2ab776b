"""The version that built-in plugins report: that of the Apache Kafka release whose behaviour they match."""

from __future__ import annotations

# Equal to kconnect.model.CONNECT_VERSION (a test compares them), which plugins may not import.
KAFKA_VERSION = "4.3.0"
