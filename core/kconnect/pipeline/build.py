"""Configs and plugins -> a loop that is ready to start."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kconnect.api import SinkTask, SourceTask
from kconnect.config.client_config import consumer_config, max_poll_records, producer_config
from kconnect.config.connector_config import (
    ConnectorConfig,
    SinkConnectorConfig,
    SourceConnectorConfig,
)
from kconnect.errors import ConfigError
from kconnect.kafka import RecordConsumer, RecordProducer, topic_pattern
from kconnect.model import ConnectorType
from kconnect.pipeline.inflight import InFlight
from kconnect.pipeline.plugin_parts import make_converters, make_steps, make_task, worker_value
from kconnect.pipeline.ports import TaskControl, TaskPorts
from kconnect.pipeline.sink import SinkLoop, SinkParts
from kconnect.pipeline.sink_context import ErrantRecords, SinkContext
from kconnect.pipeline.sink_offsets import SinkOffsets
from kconnect.pipeline.source import SourceContext, SourceLoop, SourceParts, reports_each_record
from kconnect.pipeline.source_offsets import SourceOffsetCommitter
from kconnect.pipeline.stages import TransformChain
from kconnect.pipeline.tolerance import LogReporter, Tolerance, ToleranceSettings

if TYPE_CHECKING:
    from kconnect.pipeline.lifecycle import TaskLoop

__all__ = ["build_loop"]

log = logging.getLogger(__name__)

# Records in one fetch of a columnar sink, unless max.poll.records says otherwise: between 2000 and 10000 it makes no
# difference (2.0 M records/s), with 50000 the fetched messages leave the CPU's cache (1.0 M/s).
_COLUMNAR_FETCH = 5_000


def build_loop(control: TaskControl, ports: TaskPorts) -> TaskLoop:
    """The loop of a task, not started. Errors: ConfigError, NotFoundError of what its configs name."""
    if control.spec.type is ConnectorType.SOURCE:
        return _source_loop(control, ports)
    if control.spec.type is ConnectorType.SINK:
        return _sink_loop(control, ports)
    raise ConfigError(f"Task {control.spec.id} is of type {control.spec.type}, which no loop can run")


def _source_loop(control: TaskControl, ports: TaskPorts) -> SourceLoop:
    spec = control.spec
    config = SourceConnectorConfig.parse(spec.connector_config)
    task = make_task(spec.connector_config, ports.plugins, SourceTask)  # type: ignore[type-abstract]  # looks for a subclass
    tolerance = _tolerance(control, config, ports)
    settings, warnings = producer_config(
        spec.worker_config,
        spec.connector_config,
        client_id=f"connector-producer-{spec.id.connector}-{spec.id.task}",
    )
    _warn(warnings)
    transforms = TransformChain(make_steps(config, ports.plugins), tolerance)
    converters = make_converters(config, spec.worker_config, ports.plugins, tolerance)
    producer = RecordProducer(settings, str(spec.id), report_each=reports_each_record(type(task)))
    inflight = InFlight()
    return SourceLoop(
        control,
        SourceParts(
            task=task,
            task_config=spec.task_config,
            transforms=transforms,
            converters=converters,
            producer=producer,
            inflight=inflight,
            committer=SourceOffsetCommitter(control, ports, inflight, producer.serve),
            context=SourceContext(control, ports.offsets, lambda: spec.task_config),
            tolerates_all=config.tolerates_errors,
            flush_interval_s=_seconds(spec.worker_config, "offset.flush.interval.ms"),
            stop_budget_s=_stop_budget_s(spec.worker_config),
        ),
    )


def _sink_loop(control: TaskControl, ports: TaskPorts) -> SinkLoop:
    spec = control.spec
    config = SinkConnectorConfig.parse(spec.connector_config)
    task = make_task(spec.connector_config, ports.plugins, SinkTask)  # type: ignore[type-abstract]  # looks for a subclass
    tolerance = _tolerance(control, config, ports)
    settings, warnings = consumer_config(
        spec.worker_config,
        spec.connector_config,
        client_id=f"connector-consumer-{spec.id.connector}-{spec.id.task}",
        group_id=f"connect-{spec.id.connector}",
    )
    _warn(warnings)
    transforms = TransformChain(make_steps(config, ports.plugins), tolerance)
    converters = make_converters(config, spec.worker_config, ports.plugins, tolerance)
    consumer = RecordConsumer(settings, str(spec.id))
    reporter = ErrantRecords(tolerance, type(task)) if config.errors_log_enable or config.dlq_topic_name else None
    context = SinkContext(consumer, lambda: spec.task_config, reporter)
    return SinkLoop(
        control,
        SinkParts(
            task=task,
            task_config=spec.task_config,
            transforms=transforms,
            converters=converters,
            consumer=consumer,
            context=context,
            offsets=SinkOffsets(
                control,
                task,
                consumer,
                ports.clock,
                interval_s=_seconds(spec.worker_config, "offset.flush.interval.ms"),
                timeout_s=_seconds(spec.worker_config, "offset.flush.timeout.ms"),
                end_timeout_s=_stop_budget_s(spec.worker_config),
                is_commit_requested=context.take_commit_request,
            ),
            topics=config.topics or [topic_pattern(config.topics_regex or "")],
            max_records=_fetch_size(spec.worker_config, spec.connector_config, task),
        ),
    )


def _tolerance(control: TaskControl, config: ConnectorConfig, ports: TaskPorts) -> Tolerance:
    settings = ToleranceSettings(
        tolerate_all=config.tolerates_errors,
        retry_timeout_ms=config.errors_retry_timeout_ms,
        retry_delay_max_ms=config.errors_retry_delay_max_ms,
        log_enable=config.errors_log_enable,
        log_include_messages=config.errors_log_include_messages,
    )
    reporters = (
        [LogReporter(control.spec.id, include_messages=settings.log_include_messages)] if settings.log_enable else []
    )
    return Tolerance(settings, control.wait, reporters, ports.clock)


def _seconds(worker: Mapping[str, str], name: str) -> float:
    return float(worker_value(worker, name)) / 1000


def _stop_budget_s(worker: Mapping[str, str]) -> float:
    """How long the end of a task may take: its host's patience less the time to stop the plugin and the clients."""
    return min(_seconds(worker, "offset.flush.timeout.ms"), _seconds(worker, "task.shutdown.graceful.timeout.ms") * 0.6)


def _fetch_size(worker: Mapping[str, str], connector: Mapping[str, str], task: SinkTask) -> int:
    is_set = "consumer.max.poll.records" in worker or "consumer.override.max.poll.records" in connector
    return _COLUMNAR_FETCH if task.supports_batches and not is_set else max_poll_records(worker, connector)


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        log.warning("%s", warning)
