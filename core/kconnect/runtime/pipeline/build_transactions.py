"""Builds what an exactly-once source loop needs beyond the parts of every source loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from kconnect.api import TransactionBoundary
from kconnect.runtime.config.connector_config import SourceConnectorConfig
from kconnect.runtime.config.exactly_once_settings import (
    exactly_once_producer,
    is_exactly_once,
    offsets_topic,
    owns_offsets_topic,
)
from kconnect.runtime.config.worker_config import worker_value
from kconnect.runtime.kafka import ClientUsage, TransactionalProducer
from kconnect.runtime.pipeline.boundaries import TransactionRequests, boundary_of
from kconnect.runtime.pipeline.exactly_once import ExactlyOnceParts
from kconnect.runtime.pipeline.offset_copies import OffsetCopies
from kconnect.runtime.pipeline.offset_updates import OffsetUpdates
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts

log = logging.getLogger(__name__)

# An interval that ends while a poll waits is seen a quarter of it late; it is looked for 20 times a second at most
_LOOKS = 4
_SHORTEST_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class SourceTransactions:
    """A task's transactional producer and the rules by which its transactions end."""

    control: TaskControl
    producer: TransactionalProducer
    kind: TransactionBoundary
    interval_s: float
    requests: TransactionRequests | None
    """What the task asks of its transactions, with boundary `connector`."""

    def parts(self, ports: TaskPorts, stop_budget_s: float, updates: OffsetUpdates | None) -> ExactlyOnceParts:
        spec = self.control.spec
        flush_interval_s = seconds(spec.worker_config, "offset.flush.interval.ms")
        copies = None
        if owns_offsets_topic(spec.worker_config, spec.connector_config):
            copies = OffsetCopies(self.control, ports)
        return ExactlyOnceParts(
            producer=self.producer,
            boundary=boundary_of(self.kind, self.interval_s, self.requests),
            offsets_topic=offsets_topic(spec.worker_config, spec.connector_config),
            copies=copies,
            copies_every_s=flush_interval_s,
            verify=partial(ports.may_run, spec.id, spec.run),
            housekeeping=ports.housekeeping,
            updates=updates,
            updates_every_s=flush_interval_s,
            look_again_s=max(self.interval_s / _LOOKS, _SHORTEST_LOOK_S),
            stop_budget_s=stop_budget_s,
        )


def transactions_of(
    control: TaskControl, config: SourceConnectorConfig, *, report_each: bool
) -> SourceTransactions | None:
    """Returns None for tasks that deliver at least once. Source: Worker.ExactlyOnceSourceTaskBuilder (Kafka 4.3)."""
    spec = control.spec
    if not is_exactly_once(spec.worker_config):
        return None
    settings, warnings = exactly_once_producer(
        spec.worker_config, spec.connector_config, name=spec.id.connector, task=spec.id.task
    )
    warn(warnings)
    kind = TransactionBoundary(config.transaction_boundary)
    interval_ms = config.transaction_boundary_interval_ms
    return SourceTransactions(
        control,
        TransactionalProducer(settings, str(spec.id), report_each=report_each, note_usage=partial(note_usage, control)),
        kind,
        seconds(spec.worker_config, "offset.flush.interval.ms") if interval_ms is None else interval_ms / 1000,
        TransactionRequests() if kind is TransactionBoundary.CONNECTOR else None,
    )


def note_usage(control: TaskControl, usage: ClientUsage) -> None:
    """Count what a task's client has done since its last report."""
    counters = control.counters
    counters.bytes_sent += usage.bytes_sent
    counters.bytes_received += usage.bytes_received
    counters.request_ms.add(usage.request_ms.count, usage.request_ms.total, usage.request_ms.most)
    counters.throttle_ms.add(usage.throttle_ms.count, usage.throttle_ms.total, usage.throttle_ms.most)
    control.health.throttled(usage.throttle_ms.most, time.monotonic())


def seconds(worker: Mapping[str, str], name: str) -> float:
    """A setting of the worker in ms, as seconds."""
    return float(worker_value(worker, name)) / 1000


def warn(warnings: list[str]) -> None:
    """Log warnings from translating settings."""
    for warning in warnings:
        log.warning("%s", warning)
