"""Connectors of Kafka's own jars that have no twin of ours: they run with Java's class path alone, without a folder."""

from __future__ import annotations

from typing import Final

_MIRROR: Final = "org.apache.kafka.connect.mirror"

KAFKAS_OWN: Final = tuple(f"{_MIRROR}.Mirror{what}Connector" for what in ("Checkpoint", "Heartbeat", "Source"))
"""Class names; all are source connectors. Source: META-INF/services of connect-mirror (Kafka 4.3)."""
