"""The version that shipped plugins report: that of the Apache Kafka release whose behaviour they keep."""

from __future__ import annotations

# Equal to kconnect.model.CONNECT_VERSION (a test compares them); plugins may import kconnect.api only.
KAFKA_VERSION = "4.3.0"
