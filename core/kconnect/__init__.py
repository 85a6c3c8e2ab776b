"""Kafka Connect for Python teams, with Spark beneath."""

from __future__ import annotations

__version__ = "0.1.0"
