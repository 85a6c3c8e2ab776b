"""Producers of tests."""

from __future__ import annotations

from kconnect.runtime.kafka import BulkProducer

__all__ = ["queued"]


def queued(producer: BulkProducer) -> int:
    """How many records wait in it. Errors of the connection count among them until they are served."""
    producer.serve()
    return len(producer)
